/* dpt_sample: the definitions of temperature, top_k and top_p, and what is refused. */
#include "dptrain.h"
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 6, DRAWS = 20000 };

/* Probabilities 0.4, 0.25, 0.15, 0.1, 0.06 and 0.04, in another order. */
static const double probabilities[N] = {0.15, 0.4, 0.04, 0.25, 0.06, 0.1};

static dpt_context *context;

static void make_logits(float out[N])
{
    for (size_t i = 0; i < N; i++)
        out[i] = (float)log(probabilities[i]) + 3;
}

static void count(test *t, const dpt_sampling *sampling, const float *logits, size_t counts[N])
{
    memset(counts, 0, N * sizeof *counts);
    for (uint64_t i = 0; i < DRAWS; i++) {
        int32_t id = -1;
        if (!CHECK_OK(dpt_sample(context, logits, N, sampling, i, &id))) return;
        if (CHECK(id >= 0 && id < N)) counts[id]++;
    }
}

/* The draws have these probabilities within five deviations, and none of 0 is drawn. */
static void follows(test *t, const dpt_sampling *sampling, const double wanted[N])
{
    float logits[N];
    size_t counts[N];
    make_logits(logits);
    count(t, sampling, logits, counts);
    for (size_t i = 0; i < N; i++) {
        const double deviation = sqrt(DRAWS * wanted[i] * (1 - wanted[i]));
        CHECK_NEAR((double)counts[i], DRAWS * wanted[i], 5 * deviation);
    }
}

/* Gives `out` the probabilities raised to 1 / temperature of the tokens that are left. */
static void expect(double temperature, const bool left[N], double out[N])
{
    double sum = 0;
    for (size_t i = 0; i < N; i++)
        sum += out[i] = left[i] ? pow(probabilities[i], 1 / temperature) : 0;
    for (size_t i = 0; i < N; i++)
        out[i] /= sum;
}

static void temperature(test *t)
{
    static const bool all[N] = {true, true, true, true, true, true};
    double wanted[N];
    for (double x = 0.5; x <= 2; x *= 2) {
        expect(x, all, wanted);
        follows(t, &(dpt_sampling){.size = sizeof(dpt_sampling), .temperature = x, .seed = 7},
                wanted);
    }
}

static void top_k(test *t)
{
    static const bool three[N] = {true, true, false, true, false, false};
    double wanted[N];
    expect(1, three, wanted);
    follows(t, &(dpt_sampling){.size = sizeof(dpt_sampling), .temperature = 1, .top_k = 3}, wanted);
}

/* The likeliest tokens are left whose probabilities reach top_p: 0.4 + 0.25 < 0.7 <= 0.8. */
static void top_p(test *t)
{
    static const bool three[N] = {true, true, false, true, false, false},
                      one[N] = {false, true, false, false, false, false},
                      two[N] = {false, true, false, true, false, false};
    double wanted[N];
    dpt_sampling s = {.size = sizeof s, .temperature = 1, .top_p = 0.7};
    expect(1, three, wanted);
    follows(t, &s, wanted);
    s.top_p = 1e-6;
    expect(1, one, wanted);
    follows(t, &s, wanted);
    /* top_k first: of 0.4, 0.25 and 0.15 the first two have 0.8125 of the probability. */
    s.top_k = 3;
    s.top_p = 0.8;
    expect(1, two, wanted);
    follows(t, &s, wanted);
    /* Temperature first: at 0.5 the squares 0.16, 0.0625, 0.0225 ... have the sum 0.2598. */
    s = (dpt_sampling){.size = sizeof s, .temperature = 0.5, .top_p = 0.8};
    expect(0.5, two, wanted);
    follows(t, &s, wanted);
}

/* Of many tokens: the draws are exactly those that the definition leaves, computed by sorting. */
enum { LARGE = 1500 };

static float large[LARGE];

static int by_large(const void *a, const void *b)
{
    const float x = large[*(const int *)a], y = large[*(const int *)b];
    return (x < y) - (x > y);
}

static void compare_left(test *t, size_t top_k, double top_p, size_t least_drawn)
{
    static bool left[LARGE], drawn[LARGE];
    int order[LARGE];
    double sum = 0, before = 0;
    size_t n = top_k ? top_k : LARGE, n_drawn = 0;
    const dpt_sampling s = {
        .size = sizeof s, .temperature = 1, .top_k = top_k, .top_p = top_p, .seed = 3};
    for (int i = 0; i < LARGE; i++) {
        order[i] = i;
        left[i] = drawn[i] = false;
    }
    qsort(order, LARGE, sizeof *order, by_large);
    for (size_t i = 0; i < n; i++)
        sum += exp((double)large[order[i]]);
    /* A token is left if those before it have less than top_p. */
    for (size_t i = 0; i < n && before < top_p * sum; i++) {
        left[order[i]] = true;
        before += exp((double)large[order[i]]);
    }
    for (uint64_t i = 0; i < DRAWS / 5; i++) {
        int32_t id = -1;
        CHECK_OK(dpt_sample(context, large, LARGE, &s, i, &id));
        if (!CHECK(id >= 0 && id < LARGE && left[id])) return;
        n_drawn += !drawn[id];
        drawn[id] = true;
    }
    CHECK(n_drawn >= least_drawn);
}

static void many_tokens(test *t)
{
    uint32_t x = 1;
    for (size_t i = 0; i < LARGE; i++) {
        x = x * 1664525u + 1013904223u;
        large[i] = (float)(x >> 8) / 2097152.0f; /* 0 to 8 */
    }
    compare_left(t, 40, 1, 40);
    compare_left(t, 1, 1, 1);
    compare_left(t, 0, 0.5, 80);
    compare_left(t, 100, 0.9, 60);
}

static void equal_logits(test *t)
{
    const float logits[N] = {1, 2, 2, 2, 0, 1};
    size_t counts[N];
    dpt_sampling s = {.size = sizeof s};
    count(t, &s, logits, counts);
    CHECK_SIZE(counts[1], DRAWS);
    s = (dpt_sampling){.size = sizeof s, .temperature = 1, .top_k = 2};
    count(t, &s, logits, counts); /* all that equal the second largest stay */
    CHECK(counts[1] > 0 && counts[2] > 0 && counts[3] > 0);
    CHECK_SIZE(counts[1] + counts[2] + counts[3], DRAWS);
}

static void repeats(test *t)
{
    float logits[N];
    size_t same = 0;
    make_logits(logits);
    for (uint64_t i = 0; i < 100; i++) {
        dpt_sampling s = {.size = sizeof s, .temperature = 1, .seed = 5};
        int32_t a = -1, b = -2, c = -3;
        CHECK_OK(dpt_sample(context, logits, N, &s, i, &a));
        CHECK_OK(dpt_sample(context, logits, N, &s, i, &b));
        s.seed = 6;
        CHECK_OK(dpt_sample(context, logits, N, &s, i, &c));
        CHECK(a == b);
        same += a == c;
    }
    CHECK(same < 60); /* two draws are equal with the probability 0.26 */
}

static void refuses(test *t, const dpt_sampling *s, const float *logits, size_t n)
{
    int32_t id = 77;
    CHECK_STATUS(dpt_sample(context, logits, n, s, 0, &id), DPT_E_INVALID);
    CHECK(id == 77 && dpt_error_message(context)[0]);
}

static void bad_input(test *t)
{
    float logits[N];
    const dpt_sampling bad[] = {
        {.size = sizeof *bad, .temperature = -1},
        {.size = sizeof *bad, .temperature = NAN},
        {.size = sizeof *bad, .temperature = INFINITY},
        {.size = sizeof *bad, .temperature = 1, .top_p = 1.5},
        {.size = sizeof *bad, .temperature = 1, .top_p = -0.1},
        {.size = sizeof *bad, .temperature = 1, .top_p = NAN},
        {.temperature = 1},
    };
    const dpt_sampling good = {.size = sizeof good, .temperature = 1};
    make_logits(logits);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuses(t, &bad[i], logits, N);
    refuses(t, &good, logits, 0);
    refuses(t, &good, NULL, N);
    logits[3] = NAN;
    refuses(t, &good, logits, N);
    logits[3] = -INFINITY; /* a token that is never drawn */
    size_t counts[N];
    count(t, &good, logits, counts);
    CHECK_SIZE(counts[3], 0);
    for (size_t i = 0; i < N; i++)
        logits[i] = -INFINITY;
    refuses(t, &good, logits, N);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"temperature", temperature},
        {"top_k", top_k},
        {"top_p", top_p},
        {"many_tokens", many_tokens},
        {"equal_logits", equal_logits},
        {"repeats", repeats},
        {"bad_input", bad_input},
    };
    if (dpt_context_create(&context) != DPT_OK) return 1;
    const int code = test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
    dpt_context_destroy(context);
    return code;
}
