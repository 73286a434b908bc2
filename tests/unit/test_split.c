/* Tests splits: invariants of every split, and examples with known answers. */
#include "balance/split.h"
#include "context_create.h"
#include "harness.h"

#include <string.h>

static void gives_known_shards(test *t)
{
    static const struct {
        const char *split;
        size_t n_rows, n_devices, rows[8];
    } cases[] = {
        {"equal", 30, 8, {4, 4, 4, 4, 4, 4, 4, 2}},
        {"equal", 10, 3, {4, 4, 2}},
        {"equal", 10, 8, {2, 2, 2, 2, 2, 0, 0, 0}},
        {"equal", 4, 2, {2, 2}},
        {NULL, 3, 2, {2, 1}},
        {"equal", 0, 2, {0, 0}},
        {"equal", SIZE_MAX, 2, {SIZE_MAX / 2 + 1, SIZE_MAX / 2}},
        {"5:2:1", 256, 3, {160, 64, 32}},
        {"5:2:1", 10, 3, {6, 3, 1}}, /* 6.25, 2.5, 1.25 */
        {"1:1:1", 10, 3, {4, 3, 3}}, /* the first of equal remainders */
        {"1:1:1:1", 10, 4, {3, 3, 2, 2}},
        {"0:1", 7, 2, {0, 7}},
        {"1:0:1", 7, 3, {4, 0, 3}},
        {"0.1:0.2", 3, 2, {1, 2}},
        {"1e3:.5e3", 3, 2, {2, 1}},
        {"7", 9, 1, {9}},
        {"1:1000000", 10, 2, {0, 10}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpti_split split;
        dpt_error error = {.status = DPT_OK};
        size_t rows[8] = {0};
        REQUIRE_OK(dpti_split_parse(cases[i].split, cases[i].n_devices, &split, &error));
        dpti_split_rows(&split, cases[i].n_rows, rows);
        for (size_t k = 0; k < cases[i].n_devices; k++)
            if (!CHECK_SIZE(rows[k], cases[i].rows[k]))
                FAIL("split %s of %zu, device %zu", cases[i].split ? cases[i].split : "NULL",
                     cases[i].n_rows, k);
    }
}

/* Sum, quota within one, nothing for nothing: for many random proportions. */
static void keeps_its_promises(test *t)
{
    test_random random = {.state = 17};
    for (size_t round = 0; round < 2000; round++) {
        dpti_split split = {.n_devices = 1 + test_random_below(&random, 12)};
        double sum = 0.0;
        for (size_t i = 0; i < split.n_devices; i++) {
            if (test_random_below(&random, 4) > 0)
                split.parts[i] = test_random_below(&random, 2)
                                     ? (double)test_random_below(&random, 1000)
                                     : test_random_uniform(&random) * 1e6;
            sum += split.parts[i];
        }
        if (!(sum > 0.0)) continue;
        const size_t n_rows = test_random_below(&random, 100000);
        size_t rows[12], total = 0;
        dpti_split_rows(&split, n_rows, rows);
        for (size_t i = 0; i < split.n_devices; i++) {
            total += rows[i];
            CHECK_NEAR((double)rows[i], (double)n_rows * split.parts[i] / sum, 1.0);
            if (!(split.parts[i] > 0.0)) CHECK_SIZE(rows[i], 0);
        }
        CHECK_SIZE(total, n_rows);
    }
}

static void is_exact_for_huge_numbers(test *t)
{
    dpti_split split;
    dpt_error error = {.status = DPT_OK};
    size_t rows[3];
    REQUIRE_OK(dpti_split_parse("3:2:2", 3, &split, &error));
    dpti_split_rows(&split, SIZE_MAX, rows);
    CHECK(rows[0] + rows[1] + rows[2] == SIZE_MAX);
    CHECK(rows[0] <= SIZE_MAX - rows[1] && rows[0] + rows[1] <= SIZE_MAX - rows[2]);
    CHECK_NEAR((double)rows[0] / (double)SIZE_MAX, 3.0 / 7.0, 1e-9);
}

static void complains(test *t)
{
    static const struct {
        const char *split;
        size_t n_devices;
        const char *part;
    } cases[] = {
        {"1:2", 3, "2 parts for 3 devices"},
        {"1:2:3", 2, "3 parts for 2 devices"},
        {"1", 2, "1 part for 2 devices"},
        {"0:0", 2, "all zero"},
        {"-1:2", 2, "\"-1\" is not a number"},
        {"1:x", 2, "\"x\" is not a number"},
        {"1:", 2, "\"\" is not a number"},
        {"1::2", 3, "\"\" is not a number"},
        {":", 2, "\"\" is not a number"},
        {"1:1e99", 2, "\"1e99\" is not a number"},
        {"1:nan", 2, "\"nan\" is not a number"},
        {"1: 2", 2, "\" 2\" is not a number"},
        {"", 2, "unknown split"},
        {"eqaul", 2, "did you mean \"equal\"?"},
        {"Measure", 2, "replay:LOG"},
        {"equal", 0, "not for 0"},
        {"equal", 257, "not for 257"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpti_split split;
        dpt_error error = {.status = DPT_OK};
        CHECK_STATUS(dpti_split_parse(cases[i].split, cases[i].n_devices, &split, &error),
                     DPT_E_INVALID);
        CHECK_CONTAINS(error.message, cases[i].part);
    }
}

static void is_public(test *t)
{
    dpt_context *context = NULL;
    REQUIRE_OK(dpti_context_create_empty(&context));
    size_t rows[2] = {9, 9};
    CHECK_STATUS(dpt_shard_rows(context, dpt_split_from("1:2:3"), 10, 2, rows), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(context), "3 parts for 2 devices");
    CHECK_SIZE(rows[0], 9);
    static const char *const of_trainers[] = {"measured", "replay:run.jsonl"};
    for (size_t i = 0; i < 2; i++) {
        CHECK_STATUS(dpt_shard_rows(context, dpt_split_from(of_trainers[i]), 10, 2, rows),
                     DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(context), "is for a trainer");
        CHECK_CONTAINS(dpt_error_message(context), "use DPT_SPLIT_EQUAL, or DPT_SPLIT_PROPORTIONS");
    }
    const dpt_split wrong[] = {{DPT_SPLIT_PROPORTIONS, NULL}, {(dpt_split_kind)9, "1:1"}};
    for (size_t i = 0; i < 2; i++) {
        CHECK_STATUS(dpt_shard_rows(context, wrong[i], 10, 2, rows), DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(context), "use DPT_SPLIT_EQUAL");
        CHECK_SIZE(rows[0], 9);
    }
    CHECK_OK(dpt_shard_rows(context, dpt_split_from("3:1"), 8, 2, rows));
    CHECK_SIZE(rows[0], 6);
    CHECK_SIZE(rows[1], 2);
    dpt_context_destroy(context);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"gives_known_shares", gives_known_shards},
        {"keeps_its_promises", keeps_its_promises},
        {"is_exact_for_huge_numbers", is_exact_for_huge_numbers},
        {"complains", complains},
        {"is_public", is_public},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
