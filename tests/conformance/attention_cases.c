/* Attention: lengths and widths around those of vectors and tiles, heads that share keys, both
   layouts, queries behind which there are earlier keys. */
#include "attention_cases.h"

#include <math.h>
#include <stdio.h>

#define N_ELEMENTS(array) (sizeof(array) / sizeof *(array))

/* Some of the options, one bit each, as far as the lengths allow them. */
static void vary(test *t, dpt_op_kind kind, dpt_attention_desc d, unsigned options)
{
    static const float factors[] = {1.0f, 2.0f, -0.5f};
    d.causal = (options & 1u) && d.keys >= d.queries;
    d.packed = (options & 2u) && d.keys == d.queries;
    d.no_gradient = options % 5 == 0 && kind == DPT_OP_ATTENTION_FORWARD;
    d.scale = factors[options % 3] / sqrtf((float)d.width);
    /* A forward pass takes scores of any size. */
    if (options % 7 == 0 && kind == DPT_OP_ATTENTION_FORWARD) d.scale = 1.0f;
    if (!conformance_enough(t))
        conformance_vary(t, &(const dpt_op_desc){.kind = kind, .u.attention = d}, options);
}

void attention_cases_check(test *t, dpt_op_kind kind)
{
    static const size_t lengths[] = {1, 2, 7, 16, 33, 64, 65, 130, 257};
    static const size_t heads[][2] = {{1, 1}, {2, 1}, {3, 3}, {6, 2}};
    static const size_t widths[] = {1, 4, 5, 8, 16, 17, 32, 64, 80, 128};
    static const size_t others[][2] = {{1, 7}, {7, 1}, {3, 64}, {33, 65}, {65, 33}, {16, 257}};
    unsigned i = 0;
    for (size_t l = 0; l < N_ELEMENTS(lengths); l++) {
        for (size_t w = 0; w < 5; w++, i++) {
            const size_t *h = heads[i % N_ELEMENTS(heads)];
            vary(t, kind,
                 (dpt_attention_desc){.heads = h[0],
                                      .key_heads = h[1],
                                      .width = widths[(i * 3 + l) % N_ELEMENTS(widths)],
                                      .queries = lengths[l],
                                      .keys = lengths[l]},
                 i);
        }
    }
    for (size_t l = 0; l < 2 * N_ELEMENTS(others); l++, i++) {
        const size_t *h = heads[i % N_ELEMENTS(heads)], *n = others[l / 2];
        vary(t, kind,
             (dpt_attention_desc){.heads = h[0],
                                  .key_heads = h[1],
                                  .width = widths[(i * 3) % N_ELEMENTS(widths)],
                                  .queries = n[0],
                                  .keys = n[1]},
             (unsigned)l);
    }
}

size_t attention_cases_work(const dpt_op_desc *desc)
{
    const dpt_attention_desc *d = &desc->u.attention;
    const size_t products = desc->kind == DPT_OP_ATTENTION_FORWARD ? 2 : 5;
    return products * d->heads * d->queries * d->keys * (d->width + 8);
}

void attention_cases_describe(const dpt_attention_desc *d, char *out, size_t n_bytes)
{
    snprintf(out, n_bytes, "heads %zu/%zu width %zu, %zu queries of %zu keys, scale %g%s%s%s",
             d->heads, d->key_heads, d->width, d->queries, d->keys, (double)d->scale,
             d->packed ? ", packed" : "", d->causal ? ", causal" : "",
             d->no_gradient ? ", no gradient" : "");
}
