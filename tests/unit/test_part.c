/* Tests parts of data sets, the statistics of their channels, and targets. */
#include "data/data.h"
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static dpt_context *context_of(test *t)
{
    return t->user;
}

static dpt_dataset *make(test *t, const dpt_dataset_memory *memory)
{
    dpt_dataset *data = NULL;
    CHECK_OK(dpt_dataset_from_memory(context_of(t), memory, &data));
    return data;
}

/* `count` images of 1 x 1 whose byte is their number. */
static dpt_dataset *make_numbered(test *t, size_t count)
{
    uint8_t images[256], labels[256];
    for (size_t i = 0; i < count; i++) {
        images[i] = (uint8_t)i;
        labels[i] = (uint8_t)(i % 7);
    }
    return make(t, &(dpt_dataset_memory){.size = sizeof(dpt_dataset_memory),
                                         .count = count,
                                         .height = 1,
                                         .width = 1,
                                         .channels = 1,
                                         .outputs = 7,
                                         .dtype = DPT_U8,
                                         .images = images,
                                         .labels = labels});
}

/* ---- Dividing -------------------------------------------------------------------------------- */

/* Every sample of `data` is in exactly one of the parts, in order, with its own image. */
static void check_parts(test *t, const dpt_dataset *data, const dpt_dataset *first,
                        const dpt_dataset *second)
{
    bool seen[256] = {false};
    const dpt_dataset *parts[] = {first, second};
    CHECK_SIZE(first->count + second->count, data->count);
    for (size_t p = 0; p < 2; p++) {
        CHECK(dpti_dataset_share(parts[p], data));
        CHECK_SIZE(parts[p]->n_records, data->n_records);
        for (size_t i = 0; i < parts[p]->count; i++) {
            const size_t record = dpti_dataset_record(parts[p], i);
            REQUIRE(record < data->n_records && !seen[record]);
            seen[record] = true;
            if (i > 0) CHECK(record > dpti_dataset_record(parts[p], i - 1));
        }
    }
    for (size_t i = 0; i < data->count; i++)
        CHECK(seen[dpti_dataset_record(data, i)]);
}

static void divides(test *t)
{
    static const struct {
        double fraction;
        size_t count, second;
    } cases[] = {{0.1, 60, 6}, {0.1, 64, 6},      {0.1, 66, 7},
                 {0.5, 3, 2},  {0.999, 3, 2 + 1}, {0.4, 2, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpt_dataset *data = make_numbered(t, cases[i].count), *first = NULL, *second = NULL;
        REQUIRE(data != NULL);
        if (cases[i].second == cases[i].count) {
            CHECK_STATUS(dpt_dataset_split(data, cases[i].fraction, 1, &first, &second),
                         DPT_E_INVALID);
            CHECK(!first && !second);
        } else if (CHECK_OK(dpt_dataset_split(data, cases[i].fraction, 1, &first, &second))) {
            CHECK_SIZE(second->count, cases[i].second);
            check_parts(t, data, first, second);
        }
        dpt_dataset_destroy(second);
        dpt_dataset_destroy(first);
        dpt_dataset_destroy(data);
    }
}

/* Parts of parts list records of the whole, which alone must live. */
static void divides_parts(test *t)
{
    dpt_dataset *data = make_numbered(t, 100), *first = NULL, *second = NULL;
    dpt_dataset *left = NULL, *right = NULL;
    REQUIRE(data != NULL);
    REQUIRE_OK(dpt_dataset_split(data, 0.4, 3, &first, &second));
    REQUIRE_OK(dpt_dataset_split(second, 0.25, 3, &left, &right));
    CHECK_SIZE(left->count, 30);
    CHECK_SIZE(right->count, 10);
    check_parts(t, second, left, right);
    dpt_dataset_destroy(second);
    dpt_dataset_destroy(first);
    const uint8_t *images = right->images;
    for (size_t i = 0; i < right->count; i++) {
        const size_t record = dpti_dataset_record(right, i);
        CHECK_SIZE(images[record], record);
        CHECK_SIZE((size_t)right->labels[record], record % 7);
    }
    dpt_dataset_info info = {.size = sizeof info};
    dpt_dataset_describe(right, &info);
    CHECK_TEXT(info.name, "memory");
    CHECK_SIZE(info.count, 10);
    CHECK_SIZE(info.outputs, 7);
    dpt_dataset_destroy(right);
    dpt_dataset_destroy(left);
    dpt_dataset_destroy(data);
}

static bool same_samples(const dpt_dataset *a, const dpt_dataset *b)
{
    return a->count == b->count &&
           memcmp(a->samples, b->samples, a->count * sizeof *a->samples) == 0;
}

static void is_keyed_by_the_seed(test *t)
{
    dpt_dataset *data = make_numbered(t, 200), *rest[3] = {NULL}, *taken[3] = {NULL};
    static const uint64_t seeds[] = {1, 1, 2};
    REQUIRE(data != NULL);
    for (size_t i = 0; i < 3; i++)
        REQUIRE_OK(dpt_dataset_split(data, 0.5, seeds[i], &rest[i], &taken[i]));
    CHECK(same_samples(taken[0], taken[1]) && same_samples(rest[0], rest[1]));
    CHECK(!same_samples(taken[0], taken[2]));
    /* At random: neither half of the data is in one part. */
    size_t low = 0;
    for (size_t i = 0; i < taken[0]->count; i++)
        low += taken[0]->samples[i] < 100;
    CHECK(low >= 25 && low <= 75);
    for (size_t i = 0; i < 3; i++) {
        dpt_dataset_destroy(taken[i]);
        dpt_dataset_destroy(rest[i]);
    }
    dpt_dataset_destroy(data);
}

static void refuses_empty_parts(test *t)
{
    static const double fractions[] = {0, 1, -0.5, 1.5, 0.04, 0.96, NAN, INFINITY};
    dpt_dataset *data = make_numbered(t, 10), *first = NULL, *second = NULL;
    REQUIRE(data != NULL);
    for (size_t i = 0; i < sizeof fractions / sizeof *fractions; i++) {
        CHECK_STATUS(dpt_dataset_split(data, fractions[i], 1, &first, &second), DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(context_of(t)), "fraction");
        CHECK(!first && !second);
    }
    dpt_dataset_destroy(data);
}

/* ---- Statistics ------------------------------------------------------------------------------ */

static void measures_bytes(test *t)
{
    /* Two images of 1 x 2 with two channels: 0 51 102 153 and 204 255 0 51. */
    static const uint8_t images[] = {0, 51, 102, 153, 204, 255, 0, 51}, labels[] = {0, 1};
    dpt_dataset *data = make(t, &(dpt_dataset_memory){.size = sizeof(dpt_dataset_memory),
                                                      .count = 2,
                                                      .height = 1,
                                                      .width = 2,
                                                      .channels = 2,
                                                      .outputs = 2,
                                                      .dtype = DPT_U8,
                                                      .images = images,
                                                      .labels = labels});
    float mean[4], deviation[4];
    REQUIRE(data != NULL);
    REQUIRE_OK(dpt_dataset_statistics(data, mean, deviation));
    /* Channel 0: 0 .4 .8 0; channel 1: .2 .6 1 .2. */
    CHECK_NEAR((double)mean[0], 0.3, 1e-7);
    CHECK_NEAR((double)mean[1], 0.5, 1e-7);
    CHECK_NEAR((double)deviation[0], sqrt((0.09 + 0.01 + 0.25 + 0.09) / 4), 1e-7);
    CHECK_NEAR((double)deviation[1], sqrt((0.09 + 0.01 + 0.25 + 0.09) / 4), 1e-7);
    CHECK_NEAR((double)mean[2] + (double)mean[3], 0, 0);
    CHECK_NEAR((double)deviation[2] + (double)deviation[3], 0, 0);

    REQUIRE_OK(dpt_dataset_normalize(data, mean, deviation));
    CHECK_SIZE(data->stat_channels, 2);
    for (size_t c = 0; c < 2; c++)
        CHECK_NEAR((102.0 - (double)data->mean[c]) * (double)data->scale[c],
                   (0.4 - (double)mean[c]) / (double)deviation[c], 1e-6);
    dpt_dataset_destroy(data);
}

/* Far from zero, where a mean of squares would lose everything. */
static void measures_floats(test *t)
{
    static const float images[] = {1e6f, 1e6f + 1, 1e6f + 2, 1e6f + 5};
    static const uint8_t labels[] = {0, 0, 0, 0};
    dpt_dataset *data = make(t, &(dpt_dataset_memory){.size = sizeof(dpt_dataset_memory),
                                                      .count = 4,
                                                      .height = 1,
                                                      .width = 1,
                                                      .channels = 1,
                                                      .outputs = 1,
                                                      .dtype = DPT_F32,
                                                      .images = images,
                                                      .labels = labels});
    float mean[4], deviation[4];
    REQUIRE(data != NULL);
    REQUIRE_OK(dpt_dataset_statistics(data, mean, deviation));
    CHECK_NEAR((double)mean[0], 1000002, 0);
    CHECK_NEAR((double)deviation[0], sqrt((4 + 1 + 0 + 9) / 4.0), 1e-6);
    dpt_dataset_destroy(data);
}

static void measures_parts_alone(test *t)
{
    dpt_dataset *data = make_numbered(t, 50), *first = NULL, *second = NULL;
    float mean[4], deviation[4];
    REQUIRE(data != NULL);
    REQUIRE_OK(dpt_dataset_split(data, 0.3, 9, &first, &second));
    double sum = 0;
    for (size_t i = 0; i < second->count; i++)
        sum += (double)dpti_dataset_record(second, i) / 255;
    REQUIRE_OK(dpt_dataset_statistics(second, mean, deviation));
    CHECK_NEAR((double)mean[0], sum / 15, 1e-7);
    /* A part is normalised by itself. */
    REQUIRE_OK(dpt_dataset_normalize(second, mean, deviation));
    CHECK_NEAR((double)second->mean[0], 255 * (double)mean[0], 1e-4);
    CHECK_NEAR((double)first->mean[0] + (double)data->mean[0], 0, 0);
    dpt_dataset_destroy(second);
    dpt_dataset_destroy(first);
    dpt_dataset_destroy(data);
}

static void constant_channels_stay(test *t)
{
    static const uint8_t images[] = {255, 255}, labels[] = {0, 0};
    dpt_dataset *data = make(t, &(dpt_dataset_memory){.size = sizeof(dpt_dataset_memory),
                                                      .count = 2,
                                                      .height = 1,
                                                      .width = 1,
                                                      .channels = 1,
                                                      .outputs = 1,
                                                      .dtype = DPT_U8,
                                                      .images = images,
                                                      .labels = labels});
    float mean[4], deviation[4];
    REQUIRE(data != NULL);
    REQUIRE_OK(dpt_dataset_statistics(data, mean, deviation));
    CHECK_NEAR((double)mean[0], 1, 0);
    CHECK_NEAR((double)deviation[0], 0, 0);
    REQUIRE_OK(dpt_dataset_normalize(data, mean, deviation));
    CHECK_NEAR((255 - (double)data->mean[0]) * (double)data->scale[0], 0, 0);
    dpt_dataset_destroy(data);
}

static void refuses_statistics(test *t)
{
    static const struct {
        float mean, deviation;
    } wrong[] = {{NAN, 1}, {INFINITY, 1}, {0, NAN},  {0, INFINITY},
                 {0, -1},  {0, 1e-45f},   {3e38f, 1}};
    dpt_dataset *data = make_numbered(t, 5);
    REQUIRE(data != NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const float mean[4] = {wrong[i].mean}, deviation[4] = {wrong[i].deviation};
        if (!CHECK_STATUS(dpt_dataset_normalize(data, mean, deviation), DPT_E_INVALID))
            FAIL("case %zu", i);
    }
    CHECK_NEAR((double)data->scale[0], 1.0 / 255, 1e-9);
    dpt_dataset_destroy(data);

    static const uint8_t images[5] = {0}, labels[1] = {0};
    float mean[4] = {0}, deviation[4] = {0};
    data = make(t, &(dpt_dataset_memory){.size = sizeof(dpt_dataset_memory),
                                         .count = 1,
                                         .height = 1,
                                         .width = 1,
                                         .channels = 5,
                                         .outputs = 1,
                                         .dtype = DPT_U8,
                                         .images = images,
                                         .labels = labels});
    REQUIRE(data != NULL);
    CHECK_STATUS(dpt_dataset_statistics(data, mean, deviation), DPT_E_UNSUPPORTED);
    CHECK_CONTAINS(dpt_error_message(context_of(t)), "4 channels");
    CHECK_STATUS(dpt_dataset_normalize(data, mean, deviation), DPT_E_UNSUPPORTED);
    dpt_dataset_destroy(data);

    static const float infinite[1] = {INFINITY};
    data = make(t, &(dpt_dataset_memory){.size = sizeof(dpt_dataset_memory),
                                         .count = 1,
                                         .height = 1,
                                         .width = 1,
                                         .channels = 1,
                                         .outputs = 1,
                                         .dtype = DPT_F32,
                                         .images = infinite,
                                         .labels = labels});
    REQUIRE(data != NULL);
    CHECK_STATUS(dpt_dataset_statistics(data, mean, deviation), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(context_of(t)), "not finite");
    dpt_dataset_destroy(data);
}

/* ---- Targets --------------------------------------------------------------------------------- */

static void takes_targets(test *t)
{
    static const uint8_t images[3] = {1, 2, 3}, labels[3] = {0, 1, 0};
    float targets[3 * 2] = {0, -1, 2, 3.5f, 1e30f, 5};
    dpt_dataset_memory memory = {.size = sizeof memory,
                                 .count = 3,
                                 .height = 1,
                                 .width = 1,
                                 .channels = 1,
                                 .outputs = 2,
                                 .dtype = DPT_U8,
                                 .images = images,
                                 .targets = targets};
    dpt_dataset *data = make(t, &memory), *both = NULL;
    memory.labels = labels;
    both = make(t, &memory);
    REQUIRE(data != NULL && both != NULL);
    CHECK(data->labels == NULL);
    CHECK_SIZE((uintptr_t)data->targets % 64, 0);
    CHECK(memcmp(data->targets, targets, sizeof targets) == 0);
    CHECK(memcmp(both->targets, targets, sizeof targets) == 0);
    for (size_t i = 0; i < 3; i++)
        CHECK_SIZE((size_t)both->labels[i], labels[i]);
    dpt_dataset *first = NULL, *second = NULL;
    if (CHECK_OK(dpt_dataset_split(data, 0.4, 1, &first, &second)))
        CHECK(second->targets == data->targets);
    dpt_dataset_destroy(second);
    dpt_dataset_destroy(first);
    dpt_dataset_destroy(both);
    dpt_dataset_destroy(data);

    targets[3] = NAN;
    data = NULL;
    CHECK_STATUS(dpt_dataset_from_memory(context_of(t), &memory, &data), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(context_of(t)), "target 1 of sample 1");
    CHECK(data == NULL);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"divides", divides},
        {"divides_parts", divides_parts},
        {"is_keyed_by_the_seed", is_keyed_by_the_seed},
        {"refuses_empty_parts", refuses_empty_parts},
        {"measures_bytes", measures_bytes},
        {"measures_floats", measures_floats},
        {"measures_parts_alone", measures_parts_alone},
        {"constant_channels_stay", constant_channels_stay},
        {"refuses_statistics", refuses_statistics},
        {"takes_targets", takes_targets},
    };
    dpt_context *context = NULL;
    if (dpt_context_create(&context) != DPT_OK) return 1;
    const int result = test_main(argc, argv, cases, sizeof cases / sizeof *cases, context);
    dpt_context_destroy(context);
    return result;
}
