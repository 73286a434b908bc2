/* Tests CIFAR-10's binary files: planes become pixels, parts are found, and other files are
   refused by name. */
#include "data_files.h"

enum { RECORD = 3073, PLANE = 1024, IMAGE = 3072 };

/* A byte of which every position and every record has its own. */
static uint8_t value_of(size_t record, size_t channel, size_t pixel)
{
    return (uint8_t)(97 * record + 31 * channel + 7 * pixel + pixel / 32);
}

/* Records first .. first + n - 1; the caller frees. */
static uint8_t *make_records(size_t first, size_t n)
{
    uint8_t *bytes = malloc(n * RECORD);
    for (size_t i = 0; bytes && i < n; i++) {
        bytes[i * RECORD] = (uint8_t)((first + i) % 10);
        for (size_t k = 0; k < IMAGE; k++)
            bytes[i * RECORD + 1 + k] = value_of(first + i, k / PLANE, k % PLANE);
    }
    return bytes;
}

static void write_records(test *t, const char *directory, const char *name, size_t first, size_t n)
{
    uint8_t *bytes = make_records(first, n);
    REQUIRE(bytes != NULL);
    write_file(t, directory, name, bytes, n * RECORD);
    free(bytes);
}

/* Records 0 .. count - 1 in order, as (y, x, channel). */
static void check_records(test *t, const uint8_t *images, const int32_t *labels, size_t count)
{
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        wrong += labels[i] != (int32_t)(i % 10);
        for (size_t pixel = 0; pixel < PLANE; pixel++)
            for (size_t c = 0; c < 3; c++)
                wrong += images[i * IMAGE + pixel * 3 + c] != value_of(i, c, pixel);
    }
    CHECK_SIZE(wrong, 0);
}

static void parses_records(test *t)
{
    for (size_t n = 1; n <= 3; n++) {
        uint8_t *bytes = make_records(0, n);
        REQUIRE(bytes != NULL);
        dpti_cifar batch = {0};
        dpt_error error = {0};
        if (CHECK_OK(
                dpti_cifar_parse(&(dpti_file_bytes){"f", bytes, n * RECORD}, &batch, &error))) {
            CHECK_SIZE(batch.count, n);
            CHECK_SIZE((uintptr_t)batch.images % 64, 0);
            CHECK_SIZE((uintptr_t)batch.labels % 64, 0);
            check_records(t, batch.images, batch.labels, n);
        }
        dpti_cifar_free(&batch);
        free(bytes);
    }
}

/* One file behind the other, whatever size the first one let expect. */
static void appends(test *t)
{
    dpti_cifar batches = {0};
    dpt_error error = {0};
    size_t first = 0;
    for (size_t n = 1; n <= 5; n++) {
        uint8_t *bytes = make_records(first, n);
        REQUIRE(bytes != NULL);
        CHECK_OK(dpti_cifar_parse(&(dpti_file_bytes){"f", bytes, n * RECORD}, &batches, &error));
        free(bytes);
        first += n;
    }
    CHECK_SIZE(batches.count, 15);
    CHECK(batches.capacity >= 15);
    check_records(t, batches.images, batches.labels, batches.count);
    dpti_cifar_free(&batches);
}

static void refuses_other_files(test *t)
{
    static const size_t sizes[] = {0, 1, RECORD - 1, RECORD + 1, 3 * RECORD - 1};
    uint8_t *bytes = make_records(0, 3);
    dpt_error error = {0};
    REQUIRE(bytes != NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        dpti_cifar batch = {0};
        CHECK_STATUS(
            dpti_cifar_parse(&(dpti_file_bytes){"some/file", bytes, sizes[i]}, &batch, &error),
            DPT_E_FORMAT);
        CHECK_CONTAINS(error.message, "some/file: truncated");
        dpti_cifar_free(&batch);
    }
    bytes[2 * RECORD] = 10;
    dpti_cifar batch = {0};
    CHECK_STATUS(
        dpti_cifar_parse(&(dpti_file_bytes){"some/file", bytes, 3 * RECORD}, &batch, &error),
        DPT_E_FORMAT);
    CHECK_CONTAINS(error.message, "some/file: label 10 of record 2");
    dpti_cifar_free(&batch);
    free(bytes);
}

/* Files of different sizes, one of them packed. */
static void write_training(test *t, const char *directory)
{
    write_records(t, directory, "data_batch_1.bin", 0, 2);
    write_records(t, directory, "data_batch_2.bin.gz", 2, 3);
    write_records(t, directory, "data_batch_3.bin", 5, 1);
    write_records(t, directory, "data_batch_4.bin", 6, 4);
    write_records(t, directory, "data_batch_5.bin", 10, 2);
}

static void open_and_check(test *t, const char *directory, dpt_part part, const char *source,
                           size_t count)
{
    dpt_dataset *data = NULL;
    dpt_dataset_info info = {.size = sizeof info};
    REQUIRE_OK(dpt_dataset_open(context_of(t), "cifar10", directory, part, &data));
    dpt_dataset_describe(data, &info);
    CHECK_TEXT(info.name, "cifar10");
    CHECK_TEXT(info.source, source);
    CHECK_SIZE(info.count, count);
    CHECK_SIZE(info.height, 32);
    CHECK_SIZE(info.width, 32);
    CHECK_SIZE(info.channels, 3);
    CHECK_SIZE(info.outputs, 10);
    CHECK_TEXT(info.class_names[0], "airplane");
    CHECK_TEXT(info.class_names[9], "truck");
    CHECK_SIZE(data->n_records, count);
    check_records(t, data->images, data->labels, count);
    dpt_dataset_destroy(data);
}

static void opens_both_parts(test *t)
{
    write_training(t, "flat");
    write_records(t, "flat", "test_batch.bin", 0, 3);
    open_and_check(t, "flat", DPT_TRAIN, "flat", 12);
    open_and_check(t, "flat", DPT_TEST, "flat", 3);
    /* As the archive unpacks. */
    write_training(t, "above/cifar-10-batches-bin");
    write_records(t, "above/cifar-10-batches-bin", "test_batch.bin.gz", 0, 1);
    open_and_check(t, "above", DPT_TRAIN, "above", 12);
    open_and_check(t, "above", DPT_TEST, "above", 1);
}

static void searches_in_order(test *t)
{
    char here[160], cache[256];
    REQUIRE(getcwd(here, sizeof here) != NULL);
    snprintf(cache, sizeof cache, "%s/home/.cache/dptrain/cifar10", here);
    check_fails(t, "cifar10", NULL, DPT_TEST, DPT_E_NOT_FOUND, "--data DIR");
    CHECK_CONTAINS(dpt_error_message(context_of(t)), "https://www.cs.toronto.edu/~kriz/cifar.html");
    CHECK_CONTAINS(dpt_error_message(context_of(t)), cache);
    write_records(t, "home/.cache/dptrain/cifar10", "test_batch.bin", 0, 1);
    open_and_check(t, NULL, DPT_TEST, cache, 1);
    REQUIRE(setenv("DPTRAIN_DATA", "variable", 1) == 0);
    write_records(t, "variable/cifar-10-batches-bin", "test_batch.bin", 0, 2);
    open_and_check(t, NULL, DPT_TEST, "variable", 2);
    write_records(t, "variable/cifar10/cifar-10-batches-bin", "test_batch.bin", 0, 3);
    open_and_check(t, NULL, DPT_TEST, "variable/cifar10", 3);
    unsetenv("DPTRAIN_DATA");
}

static void names_what_is_missing(test *t)
{
    make_folder(t, "none");
    check_fails(t, "cifar10", "none", DPT_TRAIN, DPT_E_NOT_FOUND, "data_batch_1.bin");
    check_fails(t, "cifar10", "none", DPT_TEST, DPT_E_NOT_FOUND, "test_batch.bin");
    write_training(t, "some");
    REQUIRE(unlink("some/data_batch_4.bin") == 0);
    check_fails(t, "cifar10", "some", DPT_TRAIN, DPT_E_NOT_FOUND, "some has no data_batch_4.bin");
    /* A set is in one folder: the fourth file elsewhere does not count. */
    write_records(t, "some/cifar-10-batches-bin", "data_batch_4.bin", 0, 1);
    check_fails(t, "cifar10", "some", DPT_TRAIN, DPT_E_NOT_FOUND, "some has no data_batch_4.bin");
    check_fails(t, "cifar10", "no-such-folder", DPT_TRAIN, DPT_E_NOT_FOUND, "no-such-folder");
}

static void names_the_wrong_file(test *t)
{
    static const uint8_t rubbish[] = "not an image";
    write_training(t, "wrong");
    write_file(t, "wrong", "data_batch_3.bin", rubbish, sizeof rubbish);
    check_fails(t, "cifar10", "wrong", DPT_TRAIN, DPT_E_FORMAT,
                "wrong/data_batch_3.bin: truncated");
    write_file(t, "wrong", "data_batch_3.bin", NULL, 0);
    check_fails(t, "cifar10", "wrong", DPT_TRAIN, DPT_E_FORMAT,
                "wrong/data_batch_3.bin: truncated");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"parses_records", parses_records},
        {"appends", appends},
        {"refuses_other_files", refuses_other_files},
        {"opens_both_parts", opens_both_parts},
        {"searches_in_order", searches_in_order},
        {"names_what_is_missing", names_what_is_missing},
        {"names_the_wrong_file", names_the_wrong_file},
    };
    return run_in_new_folder(argc, argv, cases, sizeof cases / sizeof *cases);
}
