/* Assembles the source text of a program from embedded files. */
#include "source.h"
#include "found.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_INCLUDED = 32 };

/* A text that grows, with the files that it has already. */
typedef struct text {
    char *bytes;
    size_t n, capacity;
    const dpt_cl_source *included[MAX_INCLUDED];
    size_t n_included;
    bool failed;
} text;

static void append(text *t, const void *bytes, size_t n)
{
    if (t->n + n + 1 > t->capacity) {
        const size_t capacity = 2 * (t->n + n) + 4096;
        char *grown = realloc(t->bytes, capacity);
        if (!grown) {
            t->failed = true;
            return;
        }
        t->bytes = grown;
        t->capacity = capacity;
    }
    memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
    t->bytes[t->n] = '\0';
}

static const dpt_cl_source *find_source(const char *name, size_t length)
{
    for (const dpt_cl_source *source = dpt_cl_sources; source->name; source++)
        if (strlen(source->name) == length && memcmp(source->name, name, length) == 0)
            return source;
    return NULL;
}

/* Returns whether a source is in the text.  If it is not, the source is noted as included. */
static bool included(text *t, const dpt_cl_source *source)
{
    for (size_t i = 0; i < t->n_included; i++)
        if (t->included[i] == source) return true;
    if (t->n_included == MAX_INCLUDED) {
        t->failed = true;
        return true;
    }
    t->included[t->n_included++] = source;
    return false;
}

/* Returns the NAME of a line #include "NAME", or NULL. */
static const char *include_name(const char *line, size_t n, size_t *length)
{
    static const char directive[] = "#include \"";
    const size_t skip = sizeof directive - 1;
    if (n <= skip || memcmp(line, directive, skip) != 0) return NULL;
    const char *quote = memchr(line + skip, '"', n - skip);
    if (!quote) return NULL;
    *length = (size_t)(quote - line) - skip;
    return line + skip;
}

/* Appends a source and its headers.  Each header is appended once, where it is included first. */
static void append_source(text *t, const dpt_cl_source *source)
{
    const char *at = (const char *)source->text, *end = at + source->n_bytes;
    char place[DPT_CL_TEXT_BYTES];
    if (included(t, source)) return;
    for (size_t line = 1; at < end && !t->failed; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const size_t n = stop ? (size_t)(stop - at) + 1 : (size_t)(end - at);
        size_t length = 0;
        const char *name = include_name(at, n, &length);
        const dpt_cl_source *header = name ? find_source(name, length) : NULL;
        if (header) append_source(t, header);
        if (!header) append(t, at, n);
        if (header || line == 1) {
            const int written =
                snprintf(place, sizeof place, "#line %zu \"%s\"\n", line + 1, source->name);
            append(t, place, written > 0 ? (size_t)written : 0);
        }
        at += n;
    }
}

dpt_status dpt_cl_source_assemble(dpt_device *device, const char *file, dpt_cl_assembled *out)
{
    text t = {.bytes = NULL};
    const dpt_cl_source *source = find_source(file, strlen(file));
    if (!source)
        return DPT_FAIL(&device->error, DPT_E_INTERNAL, "no kernel source %s in this build", file);
    append_source(&t, source);
    if (t.failed || !t.bytes) {
        free(t.bytes);
        return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for kernel source");
    }
    *out = (dpt_cl_assembled){.bytes = t.bytes, .n_bytes = t.n};
    return DPT_OK;
}
