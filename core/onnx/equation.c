#include "onnx/equation.h"

#include <string.h>

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool ends_term(const char *at)
{
    return !*at || *at == ',' || (at[0] == '-' && at[1] == '>');
}

static bool begins_dots(const char *at)
{
    return strncmp(at, "...", 3) == 0;
}

/* The axes that a term names by letters. */
static size_t count_letters(const char *at)
{
    size_t n = 0;
    for (; !ends_term(at); at++)
        n += is_letter(*at);
    return n;
}

/* Reads a term whose dots, if it has them, stand for so many axes.  *at is behind the term then. */
static bool read_term(const char **at, size_t dots, char *term)
{
    size_t n = 0;
    bool has_dots = false;
    for (; !ends_term(*at); ++*at) {
        if (**at == ' ') continue;
        const bool is_dots = begins_dots(*at);
        const size_t more = is_dots ? dots : 1;
        if ((is_dots ? has_dots : !is_letter(**at)) || n + more > DPTI_ONNX_MAX_RANK) return false;
        for (size_t k = 0; k < more; k++)
            term[n++] = is_dots ? (char)('8' - (int)(dots - k)) : **at;
        if (is_dots) *at += 2;
        has_dots = has_dots || is_dots;
    }
    return true;
}

static size_t count_uses(const dpti_onnx_equation *e, char letter)
{
    size_t n = 0;
    for (size_t i = 0; i < e->n; i++)
        for (const char *at = e->term[i]; *at; at++)
            n += *at == letter;
    return n;
}

static bool imply_result(dpti_onnx_equation *e)
{
    size_t n = 0;
    for (char c = '0'; c <= 'z'; c++) {
        const size_t uses = count_uses(e, c);
        if (is_letter(c) ? uses != 1 : uses == 0) continue;
        if (n == DPTI_ONNX_MAX_RANK) return false;
        e->term[e->n][n++] = c;
    }
    return true;
}

static bool read_result(const char *at, size_t dots, dpti_onnx_equation *e)
{
    const char *term = e->term[e->n];
    if (!*at) return imply_result(e);
    at += 2;
    if (!read_term(&at, dots, e->term[e->n]) || *at) return false;
    for (; *term; term++)
        if (count_uses(e, *term) == 0 || strchr(term + 1, *term)) return false;
    return true;
}

bool dpti_onnx_read_equation(const char *text, size_t n, const size_t *ranks,
                             dpti_onnx_equation *out)
{
    size_t most_dots = 0;
    memset(out, 0, sizeof *out);
    out->n = n;
    if (n < 1 || n > DPTI_ONNX_MAX_OPERANDS) return false;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && *text++ != ',') return false;
        const size_t letters = count_letters(text);
        if (letters > ranks[i]) return false;
        const size_t dots = ranks[i] - letters;
        if (dots > most_dots) most_dots = dots;
        if (!read_term(&text, dots, out->term[i]) || strlen(out->term[i]) != ranks[i]) return false;
    }
    return (!*text || *text == '-') && read_result(text, most_dots, out);
}
