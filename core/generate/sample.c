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
    double logit;  /* less the largest one, divided by the temperature */
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
    size_t finite = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(logits[i]) || logits[i] == INFINITY)
            return dpt_fail(context, DPT_E_INVALID,
                            "the logit of token %zu is not finite: are the weights damaged?", i);
        finite += logits[i] != -INFINITY;
    }
    if (finite == 0)
        return dpt_fail(context, DPT_E_INVALID, "the logits of all tokens are -infinity");
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

/* The k-th largest of n numbers, whose order changes; 1 <= k <= n. */
static double find_kth(double *x, size_t n, size_t k)
{
    for (size_t first = 0, end = n;;) {
        const double pivot = x[first + (end - first) / 2];
        size_t above = first, i = first, below = end; /* [above, i) equal the pivot */
        while (i < below) {
            const double value = x[i];
            if (value > pivot) {
                x[i++] = x[above];
                x[above++] = value;
            } else if (value < pivot) {
                x[i] = x[--below];
                x[below] = value;
            } else {
                i++;
            }
        }
        if (k - 1 >= above && k - 1 < below) return pivot;
        if (k - 1 < above)
            end = above;
        else
            first = below;
    }
}

/* Keeps the candidates that have at least the k-th largest logit.  `scratch` has n numbers. */
static size_t keep_top_k(candidate *c, size_t n, size_t k, double *scratch)
{
    size_t left = 0;
    if (k == 0 || k >= n) return n;
    for (size_t i = 0; i < n; i++)
        scratch[i] = c[i].logit;
    const double least = find_kth(scratch, n, k);
    for (size_t i = 0; i < n; i++)
        if (c[i].logit >= least) c[left++] = c[i];
    return left;
}

static void weigh(candidate *c, size_t n)
{
    double most = c[0].logit;
    for (size_t i = 1; i < n; i++)
        if (c[i].logit > most) most = c[i].logit;
    for (size_t i = 0; i < n; i++)
        c[i].weight = dpti_exp(c[i].logit - most);
}

static double sum_weights(const candidate *c, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += c[i].weight;
    return sum;
}

/* Leaves out the least likely candidates, which have at most 1 - p of the probability together.
   Those of less than this part of the mean are among them whatever their order is, and need not be
   sorted. */
static size_t keep_top_p(candidate *c, size_t n, double p)
{
    const double most = (1 - p) * sum_weights(c, n);
    double tail = 0;
    size_t left = 0;
    if (p <= 0 || p >= 1) return n;
    for (size_t i = 0; i < n; i++) {
        if (c[i].weight < 1 && (double)n * c[i].weight <= most) /* 1: the likeliest */
            tail += c[i].weight;
        else
            c[left++] = c[i];
    }
    qsort(c, left, sizeof *c, by_logit);
    while (left > 1 && tail + c[left - 1].weight <= most)
        tail += c[--left].weight;
    return left;
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
    while (n > 1 && c[n - 1].weight <= 0) /* rounding has left a little behind all of them */
        n--;
    return c[n - 1].id;
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
    candidate *c = malloc(n * (sizeof *c + sizeof(double)));
    if (!c) return dpt_fail(context, DPT_E_NO_MEMORY, "no memory to draw a token");
    /* Below the largest one, so that no quotient is infinite. */
    const double most = (double)logits[largest(logits, n)];
    for (size_t i = 0; i < n; i++)
        c[i] = (candidate){.id = (int32_t)i, .logit = ((double)logits[i] - most) / s.temperature};
    size_t left = keep_top_k(c, n, s.top_k, (double *)(void *)(c + n));
    weigh(c, left);
    left = keep_top_p(c, left, s.top_p);
    *id = draw(c, left, s.seed, number);
    free(c);
    return DPT_OK;
}
