/* Tests images that are read on demand: by any number of threads, in any order, and ahead of
   use. */
#include "data/ahead.h"
#include "data/reader.h"
#include "harness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COUNT = 40, BYTES = 5 };

/* An image is its record's number, five times. */
typedef struct maker {
    size_t bad[2];      /* records that cannot be made, */
    long wait_ms[2];    /* after so long; */
    long each_ms;       /* that each takes */
    atomic_size_t made; /* so many were tried, */
    atomic_size_t of[COUNT];
    atomic_bool destroyed;
    uint64_t seed; /* that it is told */
} maker;

static const maker sound = {.bad = {SIZE_MAX, SIZE_MAX}};

static dpt_status make(void *user, const dpti_wanted_image *wanted, void *image, dpt_error *error)
{
    maker *m = user;
    const size_t record = wanted->record;
    const dpti_image_use *use = wanted->use;
    atomic_fetch_add(&m->made, 1);
    if (use->seed != m->seed) return DPT_E_INTERNAL;
    if (m->each_ms > 0) nanosleep(&(struct timespec){.tv_nsec = m->each_ms * 1000000}, NULL);
    atomic_fetch_add(&m->of[record], 1);
    for (size_t i = 0; i < 2; i++) {
        if (record != m->bad[i]) continue;
        nanosleep(&(struct timespec){.tv_nsec = m->wait_ms[i] * 1000000}, NULL);
        return DPT_FAIL(error, DPT_E_FORMAT, "no image %zu", record);
    }
    memset(image, (int)(record + use->epoch), BYTES);
    return DPT_OK;
}

static void destroy(void *user)
{
    atomic_store(&((maker *)user)->destroyed, true);
}

static dpti_reader *reader_of(test *t, maker *m, size_t n_threads)
{
    const dpti_image_source source = {
        .make = make, .destroy = destroy, .user = m, .image_bytes = BYTES, .n_threads = n_threads};
    dpti_reader *reader = NULL;
    CHECK_OK(dpti_reader_create(&source, &reader, NULL));
    return reader;
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void any_number_of_threads(test *t)
{
    for (size_t n = 0; n <= 20; n++) {
        maker m = sound;
        uint8_t images[COUNT * BYTES] = {0};
        dpti_reader *reader = reader_of(t, &m, n);
        REQUIRE(reader);
        dpti_request all = {.n = COUNT, .images = images};
        dpti_reader_post(reader, &all);
        CHECK_OK(dpti_reader_wait(reader, &all, NULL));
        for (size_t i = 0; i < sizeof images; i++)
            CHECK_SIZE(images[i], i / BYTES);
        CHECK_SIZE(atomic_load(&m.made), COUNT);
        dpti_reader_destroy(reader);
        CHECK(atomic_load(&m.destroyed));
    }
}

/* Of several that fail the first is told, though it fails last. */
static void first_failure(test *t)
{
    for (size_t n = 0; n <= 20; n++) {
        maker m = {.bad = {7, 8}, .wait_ms = {15, 5}};
        uint8_t images[COUNT * BYTES];
        dpt_error error = {.status = DPT_OK};
        dpti_reader *reader = reader_of(t, &m, n);
        REQUIRE(reader);
        dpti_request all = {.n = COUNT, .images = images};
        dpti_reader_post(reader, &all);
        CHECK_STATUS(dpti_reader_wait(reader, &all, &error), DPT_E_FORMAT);
        CHECK_TEXT(error.message, "no image 7");
        CHECK(error.status == DPT_E_FORMAT);
        dpti_reader_destroy(reader);
    }
}

static void several_requests(test *t)
{
    static const uint32_t records[3][4] = {{3, 1, 2, 0}, {9, 9, 9, 9}, {39, 5, 38, 6}};
    maker m = sound;
    uint8_t images[3][4 * BYTES];
    dpti_request requests[3];
    dpti_reader *reader = reader_of(t, &m, 3);
    REQUIRE(reader);
    for (size_t i = 0; i < 3; i++) {
        requests[i] = (dpti_request){.records = records[i], .n = 4, .images = images[i]};
        dpti_reader_post(reader, &requests[i]);
    }
    for (size_t i = 3; i-- > 0;)
        CHECK_OK(dpti_reader_wait(reader, &requests[i], NULL));
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < 4 * BYTES; k++)
            CHECK_SIZE(images[i][k], records[i][k / BYTES]);
    dpti_request none = {.n = 0};
    dpti_reader_post(reader, &none);
    CHECK_OK(dpti_reader_wait(reader, &none, NULL));
    dpti_reader_destroy(reader);
}

/* What is waited for is read before what was posted before it. */
static void the_waiting_first(test *t)
{
    maker m = sound;
    m.each_ms = 2;
    uint8_t early[COUNT * BYTES], late[2 * BYTES];
    dpti_reader *reader = reader_of(t, &m, 1);
    REQUIRE(reader);
    dpti_request all = {.n = COUNT, .images = early}, some = {.n = 2, .images = late};
    dpti_reader_post(reader, &all);
    dpti_reader_post(reader, &some);
    CHECK_OK(dpti_reader_wait(reader, &some, NULL));
    CHECK(atomic_load(&m.made) < COUNT);
    CHECK_OK(dpti_reader_wait(reader, &all, NULL));
    CHECK_SIZE(atomic_load(&m.made), COUNT + 2);
    CHECK(early[COUNT * BYTES - 1] == COUNT - 1 && late[BYTES] == 1);
    dpti_reader_destroy(reader);
}

/* What is dropped is over, begun or not, and its memory is written no more. */
static void dropped(test *t)
{
    for (size_t n = 1; n <= 4; n++) {
        maker m = {.bad = {0, SIZE_MAX}, .wait_ms = {5, 0}};
        uint8_t images[COUNT * BYTES] = {0}, after[BYTES];
        dpti_reader *reader = reader_of(t, &m, n);
        REQUIRE(reader);
        dpti_request all = {.n = COUNT, .images = images}, one = {.n = 1, .images = after};
        dpti_reader_post(reader, &all);
        dpti_reader_drop(reader, &all);
        memset(images, 255, sizeof images);
        CHECK_STATUS((dpti_reader_post(reader, &one), dpti_reader_wait(reader, &one, NULL)),
                     DPT_E_FORMAT);
        for (size_t i = 0; i < sizeof images; i++)
            CHECK_SIZE(images[i], 255);
        dpti_reader_destroy(reader);
    }
}

/* ---- Ahead ----------------------------------------------------------------------------------- */

/* A data set with nothing but a reader. */
static dpt_dataset data_of(dpti_reader *reader)
{
    return (dpt_dataset){.name = (char *)"made",
                         .count = COUNT,
                         .height = 1,
                         .width = 1,
                         .channels = BYTES,
                         .dtype = DPT_U8,
                         .reader = reader};
}

static void check_run(test *t, dpti_ahead *ahead, uint64_t key, const uint32_t *records, size_t n)
{
    uint8_t images[COUNT * BYTES] = {0};
    dpt_error error = {.status = DPT_OK};
    CHECK_OK(
        dpti_ahead_wait(ahead, &(dpti_ahead_run){.key = key, .records = records, .n = n}, &error));
    dpti_ahead_copy(ahead, &(dpti_ahead_run){.key = key, .records = records, .n = n}, images, NULL);
    for (size_t i = 0; i < n * BYTES; i++)
        CHECK_SIZE(images[i], records[i / BYTES]);
}

/* Each image once, though more runs are asked for than are kept at a time. */
static void reads_ahead(test *t)
{
    static const uint32_t records[] = {7, 3, 1, 0, 2, 9, 30, 31, 39, 11, 12, 13, 4, 5, 6, 20};
    maker m = sound;
    dpti_reader *reader = reader_of(t, &m, 2);
    REQUIRE(reader);
    const dpt_dataset data = data_of(reader);
    dpti_ahead *ahead = dpti_ahead_create(&data, 3, NULL);
    REQUIRE(ahead);
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = i; k < i + 3 && k < 4; k++)
            dpti_ahead_begin(ahead,
                             &(dpti_ahead_run){.key = 100 + k, .records = records + 4 * k, .n = 4});
        for (size_t k = 0; k < 4; k++)
            CHECK(dpti_ahead_has(ahead, 100 + k) == (k < i + 3 && k + 3 > (i > 0 ? 3 : 2)));
        check_run(t, ahead, 100 + i, records + 4 * i, 4);
        /* In another order, or fewer of them: devices have their own shares. */
        const uint32_t some[] = {records[4 * i + 3], records[4 * i], records[4 * i + 2]};
        check_run(t, ahead, 100 + i, some, 3);
    }
    for (size_t i = 0; i < sizeof records / sizeof *records; i++)
        CHECK_SIZE(atomic_load(&m.of[records[i]]), 1);
    dpti_ahead_destroy(ahead);
    dpti_reader_destroy(reader);
}

/* Where shares are not those that were foreseen. */
static void reads_what_is_missing(test *t)
{
    static const uint32_t begun[] = {1, 2, 3, 4}, wanted[] = {3, 4, 5, 6, 1}, others[] = {2, 5, 8};
    maker m = sound;
    dpti_reader *reader = reader_of(t, &m, 2);
    REQUIRE(reader);
    const dpt_dataset data = data_of(reader);
    dpti_ahead *ahead = dpti_ahead_create(&data, 2, NULL);
    REQUIRE(ahead);
    dpti_ahead_begin(ahead, &(dpti_ahead_run){.key = 0, .records = begun, .n = 4});
    check_run(t, ahead, 0, wanted, 5);
    CHECK_SIZE(atomic_load(&m.made), 6);
    check_run(t, ahead, 0, others, 3);
    check_run(t, ahead, 1, wanted, 5); /* was not begun */
    dpti_ahead_begin(ahead, &(dpti_ahead_run){.key = 2, .records = begun, .n = 4});
    dpti_ahead_begin(ahead, &(dpti_ahead_run){.key = 3, .records = begun, .n = 4});
    dpti_ahead_begin(
        ahead,
        &(dpti_ahead_run){.key = 4, .records = begun, .n = 4}); /* and nobody waits for them */
    dpti_ahead_destroy(ahead);
    dpti_reader_destroy(reader);
}

/* What a run is made for: the epoch, and what was said at the beginning. */
static void of_an_epoch(test *t)
{
    static const uint32_t records[] = {4, 5, 6}, more[] = {6, 7};
    maker m = sound;
    uint8_t images[3 * BYTES];
    dpti_reader *reader = reader_of(t, &m, 2);
    REQUIRE(reader);
    const dpt_dataset data = data_of(reader);
    const dpti_image_use use = {.seed = 77, .least_area = 0.5};
    dpti_ahead *ahead = dpti_ahead_create(&data, 3, &use);
    REQUIRE(ahead);
    m.seed = 77;
    for (size_t epoch = 0; epoch < 3; epoch++) {
        dpti_ahead_begin(
            ahead, &(dpti_ahead_run){.key = epoch, .epoch = epoch, .records = records, .n = 3});
        CHECK_OK(dpti_ahead_wait(
            ahead, &(dpti_ahead_run){.key = epoch, .epoch = epoch, .records = records, .n = 3},
            NULL));
        dpti_ahead_copy(ahead, &(dpti_ahead_run){.key = epoch, .records = records, .n = 3}, images,
                        NULL);
        for (size_t i = 0; i < sizeof images; i++)
            CHECK_SIZE(images[i], records[i / BYTES] + epoch);
        CHECK_OK(dpti_ahead_wait(
            ahead, &(dpti_ahead_run){.key = epoch, .epoch = epoch, .records = more, .n = 2}, NULL));
        dpti_ahead_copy(ahead, &(dpti_ahead_run){.key = epoch, .records = more, .n = 2}, images,
                        NULL);
        CHECK_SIZE(images[BYTES], 7 + epoch);
    }
    dpti_ahead_destroy(ahead);
    dpti_reader_destroy(reader);
}

/* A failure is told to who waits, and is none any more when the image is there again. */
static void fails_and_goes_on(test *t)
{
    static const uint32_t records[] = {4, 5, 6, 7};
    maker m = sound;
    dpt_error error = {.status = DPT_OK};
    dpti_reader *reader = reader_of(t, &m, 2);
    REQUIRE(reader);
    const dpt_dataset data = data_of(reader);
    dpti_ahead *ahead = dpti_ahead_create(&data, 2, NULL);
    REQUIRE(ahead);
    for (size_t i = 0; i < 2; i++) {
        m.bad[0] = 6;
        dpti_ahead_begin(ahead, &(dpti_ahead_run){.key = i, .records = records, .n = 4});
        CHECK_STATUS(
            dpti_ahead_wait(ahead, &(dpti_ahead_run){.key = i, .records = records, .n = 4}, &error),
            DPT_E_FORMAT);
        CHECK_TEXT(error.message, "no image 6");
        check_run(t, ahead, i, records, 2); /* those are there */
        m.bad[0] = SIZE_MAX;
        check_run(t, ahead, i, records, 4);
    }
    dpti_ahead_destroy(ahead);
    dpti_reader_destroy(reader);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"any_number_of_threads", any_number_of_threads},
        {"first_failure", first_failure},
        {"several_requests", several_requests},
        {"the_waiting_first", the_waiting_first},
        {"dropped", dropped},
        {"reads_ahead", reads_ahead},
        {"reads_what_is_missing", reads_what_is_missing},
        {"of_an_epoch", of_an_epoch},
        {"fails_and_goes_on", fails_and_goes_on},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
