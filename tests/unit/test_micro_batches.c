/* Tests the division of a shard into micro-batches, and how much caches hold. */
#include "harness.h"
#include "train/plan/micro_batches.h"

#include <stdint.h>

static void micro_batches_are_equal(test *t)
{
    for (size_t n = 0; n <= 70; n++)
        for (size_t most = n == 0 ? 0 : 1; most <= 72; most++) {
            const size_t first = dpti_next_micro_batch(n, most);
            size_t left = n, n_micro_batches = 0, last = first;
            do {
                const size_t micro_batch = dpti_next_micro_batch(left, most);
                CHECK(micro_batch <= most && micro_batch <= last && (micro_batch > 0 || n == 0));
                last = micro_batch;
                left -= micro_batch;
                n_micro_batches++;
            } while (left > 0 && last > 0);
            CHECK_SIZE(left, 0);
            CHECK(first - last <= 1);
            CHECK_SIZE(n_micro_batches, dpti_count_micro_batches(n, most));
            if (n > 0) CHECK((n_micro_batches - 1) * most < n); /* no fewer would do */
        }
}

/* Micro-batches of grains end, none is too large, and a device holds few nodes. */
static void grains_are_divided(test *t)
{
    for (size_t n_samples = 1; n_samples <= 70; n_samples++) {
        const dpti_grains g = dpti_grains_of(n_samples);
        for (size_t most = g.size; most <= n_samples + 1; most++) {
            dpti_grain_node left = {0, g.n};
            while (left.begin < left.end) {
                const size_t n = dpti_next_grains(&g, left, most);
                if (!CHECK(n > 0 && left.begin + n <= left.end)) return;
                CHECK(dpti_grain_begin(&g, left.begin + n) - dpti_grain_begin(&g, left.begin) <=
                      most);
                left.begin += n;
            }
        }
    }
}

static void few_nodes_are_held(test *t)
{
    static const struct {
        size_t first, end, most, n_nodes; /* of 32 samples in 16 grains */
    } cases[] = {{0, 16, 32, 1},  {0, 16, 31, 1}, {0, 16, 16, 1}, {0, 16, 15, 2}, {0, 16, 8, 2},
                 {0, 16, 4, 3},   {0, 16, 2, 4},  {0, 8, 16, 1},  {8, 16, 16, 1}, {0, 13, 32, 3},
                 {13, 16, 32, 2}, {0, 16, 1, 4},  {0, 2, 0, 1},   {1, 15, 32, 6}, {5, 5, 32, 0}};
    const dpti_grains g = dpti_grains_of(32);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_SIZE(
            dpti_most_nodes(&g, (dpti_grain_node){cases[i].first, cases[i].end}, cases[i].most),
            cases[i].n_nodes);
}

static void caches_hold(test *t)
{
    static const struct {
        dpti_cached_work work;
        size_t most;
    } cases[] = {
        {{.cache_bytes = 8000, .n_threads = 2, .sample_bytes = 100, .parameter_bytes = 400}, 80},
        {{.cache_bytes = 8000, .n_threads = 2, .sample_bytes = 100, .parameter_bytes = 2000}, 80},
        {{.cache_bytes = 8000, .n_threads = 2, .sample_bytes = 500}, 16},
        /* Nothing is known, or there is nothing to hold. */
        {{.cache_bytes = 0, .n_threads = 2, .sample_bytes = 100, .parameter_bytes = 400}, SIZE_MAX},
        {{.cache_bytes = 8000, .n_threads = 0, .sample_bytes = 0}, SIZE_MAX},
        /* Too many parameters; too few samples a thread. */
        {{.cache_bytes = 8000, .n_threads = 2, .sample_bytes = 9, .parameter_bytes = 2001},
         SIZE_MAX},
        {{.cache_bytes = 8000, .n_threads = 2, .sample_bytes = 501}, SIZE_MAX},
        {{.cache_bytes = 8000, .n_threads = 8, .sample_bytes = 200}, SIZE_MAX},
        {{.cache_bytes = 80, .n_threads = 1, .sample_bytes = SIZE_MAX}, SIZE_MAX},
        {{.cache_bytes = 8000, .n_threads = 0, .sample_bytes = 9000}, SIZE_MAX},
        {{.cache_bytes = 8000, .n_threads = 0, .sample_bytes = 800}, 10},
        {{.cache_bytes = SIZE_MAX, .n_threads = 1, .sample_bytes = 1, .parameter_bytes = SIZE_MAX},
         SIZE_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_SIZE(dpti_most_in_cache(&cases[i].work), cases[i].most);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"micro-batches are equal", micro_batches_are_equal},
        {"grains are divided", grains_are_divided},
        {"few nodes are held", few_nodes_are_held},
        {"caches hold", caches_hold},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
