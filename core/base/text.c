/* Copies, formats, characters, spelling suggestions and strict number parsing. */
#include "base/base.h"
#include "dptrain.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

char *dpti_strndup(const char *text, size_t length)
{
    char *copy = malloc(length + 1);
    if (!copy) return NULL;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

char *dpti_strdup(const char *text)
{
    return dpti_strndup(text, strlen(text));
}

char *dpti_format(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0) return NULL;
    char *text = malloc((size_t)length + 1);
    if (!text) return NULL;
    va_start(args, format);
    vsnprintf(text, (size_t)length + 1, format, args);
    va_end(args);
    return text;
}

/* ---- The "C" locale ------------------------------------------------------------------------- */

/* The calling thread's locale, while it is in "C". */
typedef struct locales {
    locale_t plain, before;
} locales;

/* "C" is always there; without memory for it the thread stays where it is. */
static locales enter_plain(void)
{
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return (locales){.plain = plain, .before = uselocale(plain)};
}

static void leave_plain(const locales *l)
{
    uselocale(l->before);
    if (l->plain) freelocale(l->plain);
}

int dpti_print_args(char *out, size_t n_bytes, const char *format, va_list args)
{
    const locales l = enter_plain();
    const int length = vsnprintf(out, n_bytes, format, args);
    leave_plain(&l);
    return length;
}

int dpti_print(char *out, size_t n_bytes, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = dpti_print_args(out, n_bytes, format, args);
    va_end(args);
    return length;
}

static double read_real(const char *text, char **end)
{
    const locales l = enter_plain();
    const double value = strtod(text, end);
    leave_plain(&l);
    return value;
}

/* ---- Characters ------------------------------------------------------------------------------ */

size_t dpti_character(const char *text, uint32_t *code)
{
    static const uint32_t smallest[] = {[2] = 0x80, [3] = 0x800, [4] = 0x10000};
    const unsigned char *c = (const unsigned char *)text;
    *code = c[0];
    if (c[0] < 0x80) return c[0] ? 1 : 0;
    if (c[0] < 0xc2 || c[0] > 0xf4) return 0;
    const size_t n = c[0] >= 0xf0 ? 4 : c[0] >= 0xe0 ? 3 : 2;
    *code &= 0x7fu >> n;
    for (size_t i = 1; i < n; i++) {
        if ((c[i] & 0xc0) != 0x80) return 0;
        *code = *code << 6 | (c[i] & 0x3fu);
    }
    const bool surrogate = *code >= 0xd800 && *code <= 0xdfff;
    return *code < smallest[n] || *code > 0x10ffff || surrogate ? 0 : n;
}

static bool is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

size_t dpti_plain_bytes(const char *text)
{
    size_t n = 0;
    uint32_t code;
    for (size_t more; (more = dpti_character(text + n, &code)) > 0 && !is_control(code);)
        n += more;
    return n;
}

/* ---- Suggestions ----------------------------------------------------------------------------- */

enum { MAX_WORD = 40 };

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbours.
 */
static size_t edit_distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
    size_t d[MAX_WORD + 1][MAX_WORD + 1];
    for (size_t i = 0; i <= n_a; i++)
        d[i][0] = i;
    for (size_t j = 0; j <= n_b; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= n_a; i++) {
        for (size_t j = 1; j <= n_b; j++) {
            const size_t change = a[i - 1] != b[j - 1];
            d[i][j] = min_size(min_size(d[i - 1][j], d[i][j - 1]) + 1, d[i - 1][j - 1] + change);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = min_size(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[n_a][n_b];
}

static size_t common_prefix(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n])
        n++;
    return n;
}

const char *dpti_nearest(const char *word, const char *const *known)
{
    const size_t n_word = strlen(word);
    if (n_word == 0 || n_word > MAX_WORD) return NULL;
    const char *best = NULL;
    size_t best_distance = SIZE_MAX, best_prefix = 0;
    for (; *known; known++) {
        const size_t n_known = strlen(*known);
        if (n_known > MAX_WORD) continue;
        const size_t distance = edit_distance(word, n_word, *known, n_known);
        const size_t prefix = common_prefix(word, *known);
        if (distance < best_distance || (distance == best_distance && prefix > best_prefix)) {
            best_distance = distance;
            best_prefix = prefix;
            best = *known;
        }
    }
    /* A third of the letters may be wrong, and always one. */
    return best_distance <= (n_word > 3 ? (n_word + 2) / 3 : 1) ? best : NULL;
}

const char *dpt_nearest(const char *word, const char *const *known)
{
    return dpti_nearest(word, known);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static bool parse_digits(const char *text, const char **end, uint64_t *out)
{
    if (text[0] < '0' || text[0] > '9') return false;
    errno = 0;
    char *stop;
    const unsigned long long value = strtoull(text, &stop, 10);
    if (errno) return false;
    *end = stop;
    *out = value;
    return true;
}

bool dpti_parse_size(const char *text, size_t min, size_t max, size_t *out)
{
    const char *end;
    uint64_t value;
    if (!parse_digits(text, &end, &value) || *end || value < min || value > max) return false;
    *out = (size_t)value;
    return true;
}

bool dpti_parse_real(const char *text, double min, double max, double *out)
{
    /* strtod also reads white space, signs, hexadecimal, "inf" and "nan". */
    if (!(text[0] >= '0' && text[0] <= '9') && text[0] != '.') return false;
    if (strspn(text, "0123456789.eE+-") != strlen(text)) return false;
    char *end;
    const double value = read_real(text, &end);
    if (*end || end == text || !(value >= min && value <= max)) return false;
    *out = value;
    return true;
}

bool dpti_parse_bytes(const char *text, size_t *out)
{
    static const char units[] = "KMGT";
    const char *end;
    uint64_t value;
    if (!parse_digits(text, &end, &value)) return false;
    size_t bytes = (size_t)value;
    if (*end) {
        const char *unit = strchr(units, *end);
        if (!unit || end[1]) return false;
        for (const char *u = units; u <= unit; u++)
            if (!dpti_multiply(bytes, 1024, &bytes)) return false;
    }
    *out = bytes;
    return true;
}

bool dpti_parse_seconds(const char *text, double max, double *out)
{
    static const struct {
        const char *name;
        double per_second;
    } units[] = {{"us", 1e6}, {"ms", 1e3}, {"s", 1}};
    char number[32];
    double value;
    const size_t n = strspn(text, "0123456789.eE+-");
    if (n >= sizeof number) return false;
    memcpy(number, text, n);
    number[n] = '\0';
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(text + n, units[i].name) != 0) continue;
        if (!dpti_parse_real(number, 0, max * units[i].per_second, &value)) return false;
        *out = value / units[i].per_second;
        return true;
    }
    return false;
}
