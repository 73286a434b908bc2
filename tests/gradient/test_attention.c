/* Tests ATTENTION of the reference: the gradients that BACKWARD computes equal the central
   differences of FORWARD, for both layouts, causal or not, with heads that share keys. */
#include "gradient.h"
#include "reference/reference.h"

enum { N = 2, HEADS = 4, WIDTH = 3, MOST_INPUTS = 3 };

/* The objective is the sum of g * y. */
typedef struct problem {
    dpt_op_desc forward;
    size_t n_in[MOST_INPUTS], n_y;
    double *in[MOST_INPUTS], *g, *y, *lse;
} problem;

static double objective(void *argument)
{
    problem *p = argument;
    const reference_args args = {.in = {p->in[0], p->in[1], p->in[2]}, .out = {p->y, p->lse}};
    double sum = 0.0;
    reference_run(&p->forward, N, &args);
    for (size_t i = 0; i < p->n_y; i++)
        sum += p->g[i] * p->y[i];
    return sum;
}

static problem create(const dpt_attention_desc *d, uint64_t seed)
{
    problem p = {.forward = {.kind = DPT_OP_ATTENTION_FORWARD, .u.attention = *d}};
    const size_t k = N * d->keys * d->key_heads * d->width;
    test_random random = {seed};
    p.n_y = N * d->queries * d->heads * d->width;
    p.n_in[0] = d->packed ? N * d->queries * dpt_attention_pitch(d) : p.n_y;
    p.n_in[1] = p.n_in[2] = d->packed ? 0 : k;
    for (size_t i = 0; i < MOST_INPUTS; i++) {
        p.in[i] = values(p.n_in[i]);
        fill(&random, p.in[i], p.n_in[i]);
    }
    p.g = values(p.n_y);
    fill(&random, p.g, p.n_y);
    p.y = values(p.n_y);
    p.lse = values(N * d->heads * d->queries);
    return p;
}

static void check(test *t, const dpt_attention_desc *d, uint64_t seed)
{
    problem p = create(d, seed);
    double *gradient[MOST_INPUTS], *numeric[MOST_INPUTS];
    const dpt_op_desc backward = {.kind = DPT_OP_ATTENTION_BACKWARD, .u.attention = *d};
    for (size_t i = 0; i < MOST_INPUTS; i++) {
        gradient[i] = values(p.n_in[i]);
        numeric[i] = values(p.n_in[i]);
    }
    (void)objective(&p);
    reference_run(&backward, N,
                  &(reference_args){.in = {p.g, p.y, p.lse, p.in[0], p.in[1], p.in[2]},
                                    .out = {gradient[0], gradient[1], gradient[2]}});
    for (size_t i = 0; i < MOST_INPUTS; i++) {
        central_differences(objective, &p, 1e-5, p.in[i], p.n_in[i], numeric[i]);
        const double error = worst(gradient[i], numeric[i], p.n_in[i]);
        if (!CHECK(error < 1e-8))
            FAIL("input %zu of %zu queries and %zu keys%s%s: error %g", i, d->queries, d->keys,
                 d->causal ? ", causal" : "", d->packed ? ", packed" : "", error);
    }
    for (size_t i = 0; i < MOST_INPUTS; i++) {
        free(gradient[i]);
        free(numeric[i]);
        free(p.in[i]);
    }
    free(p.g);
    free(p.y);
    free(p.lse);
}

static void attention(test *t)
{
    static const size_t lengths[][2] = {{1, 1}, {4, 4}, {2, 5}, {5, 2}};
    for (unsigned i = 0; i < 48; i++) {
        const size_t *n = lengths[i / 12];
        const bool packed = (i & 1u) && n[0] == n[1], causal = (i & 2u) && n[1] >= n[0];
        const size_t key_heads[] = {4, 2, 1};
        check(t,
              &(dpt_attention_desc){.heads = HEADS,
                                    .key_heads = key_heads[i / 4 % 3],
                                    .width = WIDTH,
                                    .queries = n[0],
                                    .keys = n[1],
                                    .packed = packed,
                                    .causal = causal,
                                    .scale = 0.7f},
              70 + i);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {{"attention", attention}};
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
