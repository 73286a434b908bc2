/* Drawing the next token (dpt_sample). */
#include "dptrain/generate.h"

#include "base/elementary.h"
#include "base/random.h"
#include "context/context.h"
#include "context/sized.h"

#include <math.h>
#include <stdlib.h>

/* A token that may be drawn. */
typedef struct candidate {
    int32_t id;
    double logit;  /* divided by the temperature */
    double weight; /* e^(logit - the largest logit) */
} candidate;

static dpt_status check(dpt_context *context, const float *logits, size_t n, const dpt_sampling *s)
{
    if (!logits || n == 0 || n > DPT_MAX_VOCABULARY)
        return dpt_fail(context, DPT_E_INVALID, "a token is drawn of 1 to %d logits, not of %zu",
                        DPT_MAX_VOCABULARY, logits ? n : 0);
    if (!(s->temperature >= 0 && s->temperature <= 1e6))
        return dpt_fail(context, DPT_E_INVALID, "a temperature of %g is not between 0 and 1000000",
                        s->temperature);
    if (!(s->top_p >= 0 && s->top_p <= 1))
        return dpt_fail(context, DPT_E_INVALID, "a top_p of %g is not above 0 and at most 1",
                        s->top_p);
    for (size_t i = 0; i < n; i++)
        if (isnan(logits[i]) || logits[i] == INFINITY)
            return dpt_fail(context, DPT_E_INVALID,
                            "the logit of token %zu is not finite: are the weights damaged?", i);
    return DPT_OK;
}

static int32_t largest(const float *logits, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return (int32_t)best;
}

/* The likeliest first; of equal ones the smaller id first. */
static int by_logit(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

/* How many of the sorted candidates have at least the k-th largest logit. */
static size_t keep_top_k(const candidate *c, size_t n, size_t k)
{
    if (k == 0 || k >= n) return n;
    while (k < n && c[k].logit == c[k - 1].logit)
        k++;
    return k;
}

static double sum_weights(const candidate *c, size_t n)
{
    double sum = 0;
    for (size_t i = n; i-- > 0;) /* the smallest first */
        sum += c[i].weight;
    return sum;
}

/* How many of the sorted candidates are left when the last ones, which have at most 1 - p of the
   probability together, are left out. */
static size_t keep_top_p(const candidate *c, size_t n, double p)
{
    const double most = (1 - p) * sum_weights(c, n);
    double tail = 0;
    if (p <= 0 || p >= 1) return n;
    while (n > 1 && tail + c[n - 1].weight <= most)
        tail += c[--n].weight;
    return n;
}

static int32_t draw(const candidate *c, size_t n, uint64_t seed, uint64_t number)
{
    dpti_random random;
    dpti_random_init(&random, seed, DPTI_RANDOM_TOKEN, number);
    const uint64_t high = dpti_random_u32(&random) >> 5, low = dpti_random_u32(&random) >> 6;
    const double uniform = (double)(high << 26 | low) / 9007199254740992.0; /* 53 bits */
    double left = uniform * sum_weights(c, n);
    for (size_t i = 0; i < n; i++) {
        left -= c[i].weight;
        if (left < 0) return c[i].id;
    }
    return c[0].id; /* rounding */
}

dpt_status dpt_sample(dpt_context *context, const float *logits, size_t n,
                      const dpt_sampling *sampling, uint64_t number, int32_t *id)
{
    dpt_sampling s;
    if (!context) return DPT_E_INVALID;
    DPT_TRY(dpti_take_sized(context, &(dpti_sized){"dpt_sampling", sampling, sizeof s}, &s));
    if (!id) return dpt_fail(context, DPT_E_INVALID, "there is no place for the token");
    DPT_TRY(check(context, logits, n, &s));
    if (s.temperature == 0) {
        *id = largest(logits, n);
        return DPT_OK;
    }
    candidate *c = malloc(n * sizeof *c);
    if (!c) return dpt_fail(context, DPT_E_NO_MEMORY, "no memory to draw a token");
    for (size_t i = 0; i < n; i++)
        c[i] = (candidate){.id = (int32_t)i, .logit = (double)logits[i] / s.temperature};
    qsort(c, n, sizeof *c, by_logit);
    for (size_t i = 0; i < n; i++)
        c[i].weight = i == 0 ? 1 : dpti_exp(c[i].logit - c[0].logit);
    size_t left = keep_top_k(c, n, s.top_k);
    left = keep_top_p(c, left, s.top_p);
    *id = draw(c, left, s.seed, number);
    free(c);
    return DPT_OK;
}
