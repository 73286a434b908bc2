/* Numbers in text. */
#include "base/parse.h"
#include "base/c_locale.h"
#include "base/size.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static double read_real(const char *text, char **end)
{
    const dpti_locales l = dpti_enter_c_locale();
    const double value = strtod(text, end);
    dpti_leave_c_locale(&l);
    return value;
}

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
        if (!unit || (end[1] && strcmp(end + 1, "iB") != 0)) return false;
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
