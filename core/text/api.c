/* The public functions of tokenizers (dptrain/tokenizer.h). */
#include "context/context.h"
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

dpt_status dpt_tokenizer_open(dpt_context *context, const char *path, dpt_tokenizer **out)
{
    dpt_error error = {.status = DPT_OK};
    if (!path) return dpt_fail(context, DPT_E_INVALID, "a tokenizer needs a path");
    if (dpti_tokenizer_read(path, out, &error) == DPT_OK) return DPT_OK;
    return dpti_context_fail(context, NULL, &error);
}

void dpt_tokenizer_destroy(dpt_tokenizer *tokenizer)
{
    dpti_tokenizer_free(tokenizer);
}

size_t dpt_tokenizer_vocabulary(const dpt_tokenizer *tokenizer)
{
    return dpti_tokenizer_vocabulary(tokenizer);
}

int32_t dpt_tokenizer_find(const dpt_tokenizer *tokenizer, const char *text)
{
    return dpti_tokenizer_find(tokenizer, (dpti_bytes){text, strlen(text)});
}

dpt_status dpt_tokenizer_encode(dpt_context *context, dpt_tokenizer *tokenizer, const char *text,
                                size_t n_bytes, int32_t **ids, size_t *n_ids)
{
    dpt_error error = {.status = DPT_OK};
    dpti_ids made = {.n = 0};
    if (dpti_tokenizer_encode(tokenizer, (dpti_bytes){text, n_bytes}, &made, &error) == DPT_OK) {
        *ids = made.items;
        *n_ids = made.n;
        return DPT_OK;
    }
    free(made.items);
    return dpti_context_fail(context, NULL, &error);
}

/* Returns the place of the first id that no token has; n: each has one. */
static size_t measure(const dpt_tokenizer *tokenizer, const int32_t *ids, size_t n, size_t *n_bytes)
{
    *n_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const dpti_bytes token = dpti_tokenizer_token(tokenizer, ids[i]);
        if (!token.data) return i;
        *n_bytes += token.n_bytes;
    }
    return n;
}

dpt_status dpt_tokenizer_decode(dpt_context *context, const dpt_tokenizer *tokenizer,
                                const int32_t *ids, size_t n_ids, char **text, size_t *n_bytes)
{
    size_t n, at = 0;
    const size_t good = measure(tokenizer, ids, n_ids, &n);
    if (good < n_ids)
        return dpt_fail(context, DPT_E_INVALID,
                        "the id %d at place %zu is that of no token; the vocabulary has %zu ids",
                        (int)ids[good], good, dpti_tokenizer_vocabulary(tokenizer));
    char *made = malloc(n + 1);
    if (!made) return dpt_fail(context, DPT_E_NO_MEMORY, "no memory for a text");
    for (size_t i = 0; i < n_ids; i++) {
        const dpti_bytes token = dpti_tokenizer_token(tokenizer, ids[i]);
        if (token.n_bytes > 0) memcpy(made + at, token.data, token.n_bytes);
        at += token.n_bytes;
    }
    made[n] = '\0';
    *text = made;
    *n_bytes = n;
    return DPT_OK;
}
