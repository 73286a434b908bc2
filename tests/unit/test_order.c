/* Tests the order of samples: every epoch has each sample once, in an order that the seed
   determines. */
#include "harness.h"
#include "train/components/order.h"

#include <string.h>

enum { N = 23, BATCH = 5 };

/* Walks through an epoch; false if it has not every sample once. */
static bool read_epoch(test *t, dpti_order *order, dpti_cursor *at, uint32_t out[N])
{
    const size_t epoch = at->epoch;
    bool seen[N] = {false}, whole = true;
    size_t n = 0;
    while (at->epoch == epoch && n < N) {
        size_t n_samples;
        const uint32_t *batch = dpti_order_batch(order, at, &n_samples);
        CHECK_SIZE(n_samples, N - n < BATCH ? N - n : BATCH);
        for (size_t i = 0; i < n_samples && n < N; i++, n++) {
            whole = whole && batch[i] < N && !seen[batch[i]];
            if (batch[i] < N) seen[batch[i]] = true;
            out[n] = batch[i];
        }
        *at = dpti_order_next(order, *at);
    }
    CHECK_SIZE(n, N);
    CHECK_SIZE(at->epoch, epoch + 1);
    return whole;
}

static void read_two(test *t, uint64_t seed, bool shuffle, uint32_t first[N], uint32_t second[N])
{
    const dpt_dataset data = {.count = N, .n_records = N};
    dpti_order order;
    dpti_cursor at = {.epoch = 1};
    REQUIRE(dpti_order_create(&data, &(dpti_order_options){BATCH, seed, shuffle}, &order));
    CHECK(read_epoch(t, &order, &at, first));
    CHECK(read_epoch(t, &order, &at, second));
    CHECK_SIZE(at.step, 10);
    dpti_order_free(&order);
}

static void every_epoch_has_its_own(test *t)
{
    uint32_t a[2][N], b[2][N], other[2][N];
    read_two(t, 1, true, a[0], a[1]);
    read_two(t, 1, true, b[0], b[1]);
    read_two(t, 2, true, other[0], other[1]);
    CHECK(memcmp(a[0], a[1], sizeof a[0]) != 0);
    CHECK(memcmp(a, b, sizeof a) == 0);
    CHECK(memcmp(a[0], other[0], sizeof a[0]) != 0);
}

static void without_shuffling_it_is_the_data_s(test *t)
{
    uint32_t first[N], second[N];
    read_two(t, 1, false, first, second);
    for (uint32_t i = 0; i < N; i++)
        CHECK(first[i] == i && second[i] == i);
}

/* Reads batches that are `gap` samples apart, from the same places with another order object, too.
   The order of so many samples is not kept. */
static void many_samples_are_not_kept(test *t)
{
    enum { MANY = DPTI_ORDER_KEPT + 3, GAP = 1 << 22 };
    const dpt_dataset data = {.count = MANY, .n_records = MANY};
    uint32_t first[BATCH] = {0};
    dpti_order order, again;
    REQUIRE(dpti_order_create(&data, &(dpti_order_options){BATCH, 1, true}, &order));
    REQUIRE(dpti_order_create(&data, &(dpti_order_options){BATCH, 1, true}, &again));
    for (size_t position = 0; position < MANY; position += GAP) {
        const dpti_cursor at = {.epoch = 1, .position = position}, later = {2, 2, position};
        size_t n, n_again;
        const uint32_t *batch = dpti_order_batch(&order, &at, &n);
        const uint32_t *same = dpti_order_batch(&again, &at, &n_again);
        CHECK_SIZE(n, MANY - position < BATCH ? MANY - position : BATCH);
        REQUIRE(n == n_again);
        CHECK(memcmp(batch, same, n * sizeof *batch) == 0);
        for (size_t i = 0; i < n; i++)
            CHECK(batch[i] < MANY && (position == 0 || batch[i] != first[i]));
        if (position == 0) memcpy(first, batch, sizeof first);
        CHECK(memcmp(dpti_order_batch(&again, &later, &n_again), batch, n * sizeof *batch) != 0);
    }
    const dpti_cursor end = dpti_order_next(&order, (dpti_cursor){7, 1, MANY - 2});
    CHECK(end.step == 8 && end.epoch == 2 && end.position == 0);
    dpti_order_free(&order);
    dpti_order_free(&again);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"every epoch has an order of its own", every_epoch_has_its_own},
        {"without shuffling it is the data's", without_shuffling_it_is_the_data_s},
        {"the order of many samples is not kept", many_samples_are_not_kept},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
