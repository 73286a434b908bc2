/* Characters of UTF-8 (unicode.h). */
#include "text/unicode.h"

#include <stdbool.h>

/* The code points first to last. */
typedef struct code_range {
    uint32_t first, last;
} code_range;

#include "text/unicode_table.h"

static bool is_in(const code_range *ranges, size_t n, uint32_t code)
{
    size_t low = 0, high = n; /* the range, if there is one, is in [low, high) */
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (ranges[middle].first <= code)
            low = middle;
        else
            high = middle;
    }
    return code >= ranges[low].first && code <= ranges[low].last;
}

static bool is_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

dpti_class dpti_class_of(uint32_t code)
{
    if (code < 0x80) {
        if ((code | 0x20) >= 'a' && (code | 0x20) <= 'z') return DPTI_LETTER;
        if (code >= '0' && code <= '9') return DPTI_NUMBER;
        return is_space(code) ? DPTI_SPACE : DPTI_OTHER;
    }
    if (is_space(code)) return DPTI_SPACE;
    if (is_in(letters, sizeof letters / sizeof *letters, code)) return DPTI_LETTER;
    if (is_in(numbers, sizeof numbers / sizeof *numbers, code)) return DPTI_NUMBER;
    return DPTI_OTHER;
}

/* The number of bytes that the first byte of a character says; 0: it begins none. */
static size_t length_of(uint8_t first)
{
    if (first < 0x80) return 1;
    if (first < 0xc2) return 0;
    if (first < 0xe0) return 2;
    if (first < 0xf0) return 3;
    return first < 0xf5 ? 4 : 0;
}

/* Reads a character of several bytes.  Returns false if it is not valid: cut off, longer than
   needed, a surrogate, or above 0x10ffff. */
static bool decode(const uint8_t *at, size_t n, uint32_t *out)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t code = at[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((at[i] & 0xc0) != 0x80) return false;
        code = code << 6 | (at[i] & 0x3f);
    }
    *out = code;
    return code >= least[n] && code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000);
}

dpti_char dpti_char_at(const uint8_t *text, size_t n_bytes, size_t at)
{
    if (at >= n_bytes) return (dpti_char){0, 0, DPTI_OTHER};
    const size_t n = length_of(text[at]);
    uint32_t code = text[at];
    if (n == 1) return (dpti_char){code, 1, (uint8_t)dpti_class_of(code)};
    if (n == 0 || n > n_bytes - at || !decode(text + at, n, &code))
        return (dpti_char){0xfffd, 1, DPTI_OTHER};
    return (dpti_char){code, (uint8_t)n, (uint8_t)dpti_class_of(code)};
}
