/* The words of the pre-tokenizers of GPT-2 and Llama 3 (words.h).  Each function below matches one
   alternative of a regular expression at a place, and returns the number of bytes, or 0. */
#include "text/words.h"

#include <stdbool.h>
#include <string.h>

#define CONTRACTIONS "'s|'t|'re|'ve|'m|'ll|'d"
#define AFTER_DIGITS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const char *const regexes[DPTI_N_PATTERNS] = {
    [DPTI_PATTERN_GPT2] =
        CONTRACTIONS "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    [DPTI_PATTERN_LLAMA3] =
        "(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" AFTER_DIGITS,
    [DPTI_PATTERN_QWEN2] =
        "(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" AFTER_DIGITS,
};

dpti_pattern dpti_pattern_of(const char *regex)
{
    size_t i = 1;
    while (i < DPTI_N_PATTERNS && strcmp(regex, regexes[i]) != 0)
        i++;
    return (dpti_pattern)i;
}

static dpti_char char_at(const dpti_cut *c, size_t at)
{
    return dpti_char_at(c->text, c->n_bytes, at);
}

static bool is(dpti_char c, dpti_class class)
{
    return c.n_bytes > 0 && c.class == class;
}

static bool ends_line(dpti_char c)
{
    return c.n_bytes > 0 && (c.code == '\r' || c.code == '\n');
}

/* The end of the run of characters of a class from `at` on, of at most `most` characters. */
static size_t run_end(const dpti_cut *c, size_t at, dpti_class class, size_t most)
{
    for (dpti_char next; most > 0 && is(next = char_at(c, at), class); most--)
        at += next.n_bytes;
    return at;
}

static size_t line_ends_end(const dpti_cut *c, size_t at)
{
    while (ends_line(char_at(c, at)))
        at++;
    return at;
}

/* 's 't 're 've 'm 'll 'd.  Without regard to case, the long s is an s. */
static size_t contraction(const dpti_cut *c, size_t at, bool any_case)
{
    static const char *const endings[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    const size_t left = c->n_bytes - at;
    const uint8_t *text = c->text + at;
    if (text[0] != '\'') return 0;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t n = strlen(endings[i]);
        size_t k = 0;
        while (k < n && k + 1 < left &&
               (text[k + 1] == endings[i][k] ||
                (any_case && text[k + 1] == (uint8_t)(endings[i][k] - 'a' + 'A'))))
            k++;
        if (k == n) return 1 + n;
        if (any_case && i == 0 && left > 2 && text[1] == 0xc5 && text[2] == 0xbf) return 3;
    }
    return 0;
}

/* \s+(?!\S)|\s+: a space that something follows belongs to what follows. */
static size_t spaces(const dpti_cut *c, size_t at)
{
    size_t end = at, last = at;
    for (dpti_char next; is(next = char_at(c, end), DPTI_SPACE); end += next.n_bytes)
        last = end;
    if (end < c->n_bytes && last > at) return last - at;
    return end - at;
}

static size_t gpt2_word(const dpti_cut *c, size_t at)
{
    const size_t short_form = contraction(c, at, false);
    if (short_form) return short_form;
    const dpti_char first = char_at(c, at);
    const size_t begin = at + (first.code == ' ');
    const dpti_char next = char_at(c, begin);
    if (next.n_bytes == 0 || next.class == DPTI_SPACE) return spaces(c, at);
    return run_end(c, begin, next.class, SIZE_MAX) - at;
}

/* [^\r\n\p{L}\p{N}]?\p{L}+ */
static size_t letters_word(const dpti_cut *c, size_t at)
{
    const dpti_char first = char_at(c, at);
    size_t begin = at;
    if (first.class == DPTI_NUMBER || ends_line(first)) return 0;
    if (first.class != DPTI_LETTER) begin += first.n_bytes;
    const size_t end = run_end(c, begin, DPTI_LETTER, SIZE_MAX);
    return end > begin ? end - at : 0;
}

/* ' ?[^\s\p{L}\p{N}]+[\r\n]*' */
static size_t marks_word(const dpti_cut *c, size_t at)
{
    const size_t begin = at + (c->text[at] == ' ');
    const size_t end = run_end(c, begin, DPTI_OTHER, SIZE_MAX);
    return end > begin ? line_ends_end(c, end) - at : 0;
}

/* \s*[\r\n]+: to the last end of a line among the spaces. */
static size_t lines_word(const dpti_cut *c, size_t at)
{
    size_t end = at, found = 0;
    for (dpti_char next; is(next = char_at(c, end), DPTI_SPACE);) {
        end += next.n_bytes;
        if (ends_line(next)) found = end - at;
    }
    return found;
}

static size_t llama3_word(const dpti_cut *c, size_t at, size_t most_digits)
{
    size_t n = contraction(c, at, true);
    if (!n) n = letters_word(c, at);
    if (!n) n = run_end(c, at, DPTI_NUMBER, most_digits) - at;
    if (!n) n = marks_word(c, at);
    if (!n) n = lines_word(c, at);
    return n ? n : spaces(c, at);
}

size_t dpti_word_bytes(const dpti_cut *cut, size_t at)
{
    switch (cut->pattern) {
    case DPTI_PATTERN_GPT2: return gpt2_word(cut, at);
    case DPTI_PATTERN_LLAMA3: return llama3_word(cut, at, 3);
    case DPTI_PATTERN_QWEN2: return llama3_word(cut, at, 1);
    case DPTI_PATTERN_NONE:
    case DPTI_N_PATTERNS: break;
    }
    return cut->n_bytes - at;
}
