/* Keeps the end of what a process prints, and finds the part that explains a failure. */
#include "printed.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Appends bytes; the first ones go where there are too many. */
static void keep(dpt_cl_printed *p, const char *bytes, size_t n)
{
    if (n > DPT_CL_PRINTED_BYTES) {
        bytes += n - DPT_CL_PRINTED_BYTES;
        n = DPT_CL_PRINTED_BYTES;
    }
    const size_t excess = p->n + n > DPT_CL_PRINTED_BYTES ? p->n + n - DPT_CL_PRINTED_BYTES : 0;
    memmove(p->text, p->text + excess, p->n - excess);
    p->n -= excess;
    memcpy(p->text + p->n, bytes, n);
    p->n += n;
    p->text[p->n] = '\0';
}

void dpt_cl_printed_read(dpt_cl_printed *p)
{
    char bytes[4096];
    while (p->fd >= 0) {
        const ssize_t n = read(p->fd, bytes, sizeof bytes);
        if (n > 0) {
            keep(p, bytes, (size_t)n);
        } else if (n < 0 && errno == EINTR) {
            continue;
        } else {
            if (n < 0 && errno == EAGAIN) return;
            (void)close(p->fd);
            p->fd = -1;
        }
    }
}

/* Returns whether a line has a word that stands in messages of failures. */
static bool tells(const char *line, size_t n)
{
    static const char *const signs[] = {"error", "assert", "fatal", "abort", "terminate", "failed"};
    for (size_t at = 0; at < n; at++)
        for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
            if (n - at >= strlen(signs[i]) &&
                strncasecmp(line + at, signs[i], strlen(signs[i])) == 0)
                return true;
    return false;
}

const char *dpt_cl_printed_part(dpt_cl_printed *p, size_t most)
{
    for (size_t i = 0; i < p->n; i++) /* a NUL would end the text */
        if (p->text[i] == '\0') p->text[i] = ' ';
    while (p->n > 0 && isspace((unsigned char)p->text[p->n - 1]))
        p->text[--p->n] = '\0';
    for (const char *at = p->text; *at; at += strcspn(at, "\n"), at += *at == '\n')
        if (tells(at, strcspn(at, "\n"))) return at;
    const char *end = p->text + p->n;
    const char *begin = p->n > most ? end - most : p->text;
    return begin;
}
