/* Strings: copies, UTF-8 characters, spelling suggestions. */
#include "base/text.h"
#include "dptrain.h"

#include <stdlib.h>
#include <string.h>

/* ---- Copies ---------------------------------------------------------------------------------- */

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

enum { MAX_WORD = 80 };

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
    /* A third of the letters may be wrong, but at least one. */
    return best_distance <= (n_word > 3 ? (n_word + 2) / 3 : 1) ? best : NULL;
}

const char *dpt_nearest(const char *word, const char *const *known)
{
    return dpti_nearest(word, known);
}
