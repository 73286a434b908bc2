/* Lists of the names of classes (class_names.h). */
#include "data/class_names.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 24 };

/* A block for n names with n_bytes of text, terminators included. */
static const char **allocate(size_t n, size_t n_bytes)
{
    return malloc(n * sizeof(char *) + n_bytes + 1);
}

const char **dpti_class_names_copy(const char *const *names, size_t n)
{
    size_t n_bytes = 0;
    for (size_t i = 0; i < n; i++)
        n_bytes += strlen(names[i]) + 1;
    const char **out = allocate(n, n_bytes);
    char *at = out ? (char *)(out + n) : NULL;
    for (size_t i = 0; out && i < n; i++) {
        const size_t length = strlen(names[i]) + 1;
        out[i] = memcpy(at, names[i], length);
        at += length;
    }
    return out;
}

const char **dpti_class_names_count(size_t first, size_t n)
{
    const char **out = allocate(n, n * DIGITS);
    char *at = out ? (char *)(out + n) : NULL;
    for (size_t i = 0; out && i < n; i++) {
        out[i] = at;
        at += snprintf(at, DIGITS, "%zu", first + i) + 1;
    }
    return out;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* Returns the bytes of the text without white space at its end. */
static size_t text_bytes(const dpti_file_bytes *file)
{
    size_t n = file->n_bytes;
    while (n > 0 && strchr("\r\n \t", file->bytes[n - 1]) && file->bytes[n - 1] != '\0')
        n--;
    return n;
}

static size_t count_lines(const dpti_file_bytes *file, size_t n_bytes)
{
    size_t n = n_bytes > 0;
    for (size_t i = 0; i < n_bytes; i++)
        n += file->bytes[i] == '\n';
    return n;
}

/* Cuts the text behind the pointers into lines. */
static dpt_status cut(const char **names, size_t n, const char *file, dpt_error *error)
{
    char *at = (char *)(names + n);
    for (size_t i = 0; i < n; i++) {
        char *end = at + strcspn(at, "\n");
        char *next = *end ? end + 1 : end;
        *end = '\0';
        if (end > at && end[-1] == '\r') end[-1] = '\0';
        if (*at == '\0' || at[dpti_plain_bytes(at)] != '\0')
            return DPT_FAIL(error, DPT_E_FORMAT,
                            "%s: line %zu is no name of a class, which is printable UTF-8", file,
                            i + 1);
        names[i] = at;
        at = next;
    }
    return DPT_OK;
}

dpt_status dpti_class_names_parse(const dpti_file_bytes *file, size_t n, const char ***out,
                                  dpt_error *error)
{
    const size_t n_bytes = text_bytes(file), n_lines = count_lines(file, n_bytes);
    if (n_lines != n)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s has %zu line%s, and there are %zu classes; write one name a line",
                        file->name, n_lines, n_lines == 1 ? "" : "s", n);
    if (n_bytes > 0 && memchr(file->bytes, '\0', n_bytes))
        return DPT_FAIL(error, DPT_E_FORMAT, "%s is no text", file->name);
    const char **names = allocate(n, n_bytes);
    if (!names)
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the names in %s", file->name);
    char *text = (char *)(names + n);
    if (n_bytes > 0) memcpy(text, file->bytes, n_bytes);
    text[n_bytes] = '\0';
    const dpt_status status = cut(names, n, file->name, error);
    if (status == DPT_OK)
        *out = names;
    else
        free(names);
    return status;
}
