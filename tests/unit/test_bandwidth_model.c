/* Tests the choices of the bandwidth model: bucket sizes, windows and routes that were computed by
   hand. */
#include "harness.h"
#include "train/components/bandwidth_model.h"

#include <math.h>

enum { KIB = 1024, MIB = 1024 * 1024 };

static bool is_near(double value, double expected)
{
    return fabs(value - expected) <= 1e-9 * fabs(expected);
}

static void two_sums_tell_a_link(test *t)
{
    /* 1 ms and 10 ns a byte: 16 KiB take 1.16384 ms, 64 KiB 1.65536 ms. */
    const dpti_bandwidth_model link = dpti_bandwidth_between(1.16384e-3, 64 * KIB, 1.65536e-3);
    CHECK(is_near(link.alpha, 1e-3) && is_near(link.beta, 1e-8));
    /* Times that noise has turned round: a byte costs nothing. */
    const dpti_bandwidth_model odd = dpti_bandwidth_between(2e-3, 64 * KIB, 1e-3);
    CHECK(is_near(odd.alpha, 2e-3) && odd.beta == 0);
    /* A burst that passed at once. */
    const dpti_bandwidth_model steep = dpti_bandwidth_between(1e-4, 64 * KIB, 1e-2);
    CHECK(is_near(steep.alpha, 1e-4) && is_near(steep.beta, 9.9e-3 / (48 * KIB)));
}

static void a_slow_link_is_timed_with_less(test *t)
{
    static const struct {
        size_t n_bytes;
        double seconds;
        size_t expected;
    } cases[] = {
        {64 * KIB, 1e-3, 256 * KIB},    /* 40 times as much would do, but that is a guess */
        {64 * KIB, -1e-3, 256 * KIB},   /* noise */
        {256 * KIB, 20e-3, 512 * KIB},  /* twice */
        {256 * KIB, 30e-3, 256 * KIB},  /* a third more is not worth it */
        {512 * KIB, 1e-3, MIB},         /* the most */
        {768 * KIB, 1e-3, 768 * KIB},   /* not worth it either */
        {64 * KIB, 1, 64 * KIB},        /* slow */
        {64 * KIB, INFINITY, 64 * KIB}, /* very slow */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!CHECK_SIZE(dpti_bandwidth_more_bytes(cases[i].n_bytes, cases[i].seconds, 40e-3),
                        cases[i].expected))
            FAIL("case %zu", i);
}

static void buckets_fit_the_link(test *t)
{
    static const struct {
        dpti_bandwidth_model link;
        size_t total, first, others; /* bytes */
    } cases[] = {
        /* alpha / beta = 100 000 bytes; T beta / alpha = 64, so 8 buckets. */
        {{1e-3, 1e-8}, 6400000, 100000, 800000},
        /* The same link, a smaller model: 4 of them, the square root of 16. */
        {{1e-3, 1e-8}, 1600000, 100000, 400000},
        /* 100 Mbit/s, 85 ns a byte: alpha / beta = 3 529 bytes, T beta / alpha = 2 267, its root
           47.6: the least first, and the most buckets. */
        {{3e-4, 85e-9}, 8000000, 64 * KIB, 250000},
        /* Far away, 10 ms: alpha / beta = 10 000 000 bytes, T beta / alpha = 4.5, its root 2.1. */
        {{10e-3, 1e-9}, 45000000, MIB, 21213203},
        /* So far that one bucket would do: two. */
        {{1, 1e-9}, 45000000, MIB, 22500000},
        /* Half of all is less than the first, which is half a millisecond over a nanosecond. */
        {{5e-4, 1e-9}, 600000, 500000, 500000},
        /* The least first is more than a part of the most buckets. */
        {{1e-6, 1e-9}, MIB, 64 * KIB, 64 * KIB},
        {{0, 1e-9}, 32 * MIB, 64 * KIB, MIB},   /* messages cost nothing */
        {{1e-3, 0}, 32 * MIB, MIB, 16 * MIB},   /* bytes cost nothing */
        {{0, 0}, 32 * MIB, 64 * KIB, 16 * MIB}, /* neither does */
        {{1e-3, 1e-8}, 0, 100000, 100000},      /* nothing to be sent */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const dpti_bucket_sizes sizes = dpti_bandwidth_buckets(cases[i].link, cases[i].total / 4);
        if (!CHECK(fabs((double)sizes.first - (double)cases[i].first / 4) <= 1) ||
            !CHECK(fabs((double)sizes.others - (double)cases[i].others / 4) <= 1))
            FAIL("case %zu: %zu, %zu bytes", i, 4 * sizes.first, 4 * sizes.others);
    }
}

static void a_window_covers_the_way(test *t)
{
    static const struct {
        dpti_bandwidth_model link;
        size_t n; /* processes */
        dpti_route route;
        size_t expected; /* chunks of 256 KiB */
    } cases[] = {
        {{0, 1e-9}, 2, DPTI_ROUTE_DIRECT, 3},     /* no way at all */
        {{3e-4, 85e-9}, 2, DPTI_ROUTE_DIRECT, 3}, /* those of two take 45 ms: 2 + 1 */
        {{3e-3, 1e-9}, 2, DPTI_ROUTE_DIRECT, 8},  /* 524 us, 5.7 of which the way takes: 2 + 6 */
        {{3e-3, 1e-9}, 8, DPTI_ROUTE_DIRECT, 4},  /* 2.1 ms, 1.4 of which: 2 + 2 */
        {{3e-4, 85e-9}, 4, DPTI_ROUTE_RING, 7},   /* 6 links, and 22 ms a chunk: 6 + 1 */
        {{1e-3, 2e-9}, 3, DPTI_ROUTE_RING, 6},    /* 4 links, and 524 us, 1.9 of which: 4 + 2 */
        {{3e-4, 1e-9}, 12, DPTI_ROUTE_RING, DPTI_MOST_WINDOW},
        {{1, 1e-9}, 2, DPTI_ROUTE_DIRECT, DPTI_MOST_WINDOW},
        {{1, 0}, 2, DPTI_ROUTE_DIRECT, DPTI_MOST_WINDOW},
        {{0, 0}, 2, DPTI_ROUTE_DIRECT, DPTI_LEAST_WINDOW},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!CHECK_SIZE(dpti_bandwidth_window(cases[i].link, cases[i].n, cases[i].route),
                        cases[i].expected))
            FAIL("case %zu", i);
}

static void the_ring_must_be_faster(test *t)
{
    CHECK(dpti_bandwidth_route(1, 0.89) == DPTI_ROUTE_RING);
    CHECK(dpti_bandwidth_route(1, 0.91) == DPTI_ROUTE_DIRECT);
    CHECK(dpti_bandwidth_route(1, 2) == DPTI_ROUTE_DIRECT);
    CHECK(dpti_bandwidth_route(0, 0) == DPTI_ROUTE_DIRECT);
    CHECK(dpti_bandwidth_route(NAN, 1) == DPTI_ROUTE_DIRECT);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"two sums tell a link", two_sums_tell_a_link},
        {"a slow link is timed with less", a_slow_link_is_timed_with_less},
        {"buckets fit the link", buckets_fit_the_link},
        {"a window covers the way", a_window_covers_the_way},
        {"the ring must be faster", the_ring_must_be_faster},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
