/* Tests data sets: search for files, parts that must fit together, synthetic data sets, and data
   sets from memory. */
#include "data_files.h"

#include <math.h>

/* ---- IDX files ------------------------------------------------------------------------------- */

typedef struct idx_file {
    const char *directory, *name;
    size_t rank, shape[4];
    const uint8_t *bytes;
} idx_file;

/* Compressed if the name says so. */
static void write_idx(test *t, const idx_file *file)
{
    uint8_t content[256] = {0, 0, 8, (uint8_t)file->rank};
    size_t n = 1, n_content = 4;
    for (size_t d = 0; d < file->rank; d++, n_content += 4) {
        content[n_content + 2] = (uint8_t)(file->shape[d] >> 8);
        content[n_content + 3] = (uint8_t)file->shape[d];
        n *= file->shape[d];
    }
    REQUIRE(n <= sizeof content - n_content);
    if (n > 0) memcpy(content + n_content, file->bytes, n);
    n_content += n;
    write_file(t, file->directory, file->name, content, n_content);
}

static const uint8_t pixels[24] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,
                                   13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24};

/* count images of 2 x 2 in one folder. */
static void write_pair(test *t, const char *directory, const char *images, const char *labels,
                       size_t count, const uint8_t *label_bytes)
{
    write_idx(t, &(idx_file){.directory = directory,
                             .name = images,
                             .rank = 3,
                             .shape = {count, 2, 2},
                             .bytes = pixels});
    write_idx(t, &(idx_file){.directory = directory,
                             .name = labels,
                             .rank = 1,
                             .shape = {count},
                             .bytes = label_bytes});
}

/* ---- Finding --------------------------------------------------------------------------------- */

static void opens_every_spelling(test *t)
{
    static const char *const names[][2] = {
        {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"},
        {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte"},
        {"train-images.idx3-ubyte", "train-labels.idx1-ubyte"},
        {"train-images.idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char directory[32];
        snprintf(directory, sizeof directory, "spelling-%zu", i);
        write_pair(t, directory, names[i][0], names[i][1], 3, (const uint8_t[]){9, 0, 5});
        dpt_dataset *data = NULL;
        REQUIRE_OK(dpt_dataset_open(context_of(t), "fashion-mnist", directory, DPT_TRAIN, &data));
        dpt_dataset_info info = {.size = sizeof info};
        dpt_dataset_describe(data, &info);
        CHECK_TEXT(info.name, "fashion-mnist");
        CHECK_TEXT(info.source, directory);
        CHECK_SIZE(info.count, 3);
        CHECK_SIZE(info.height, 2);
        CHECK_SIZE(info.width, 2);
        CHECK_SIZE(info.channels, 1);
        CHECK_SIZE(info.outputs, 10);
        CHECK_TEXT(info.class_names[9], "Ankle boot");
        CHECK(memcmp(data->images, pixels, 12) == 0);
        CHECK(memcmp(data->labels, (const int32_t[]){9, 0, 5}, 3 * sizeof(int32_t)) == 0);
        CHECK_SIZE((uintptr_t)data->images % 64, 0);
        CHECK_SIZE((uintptr_t)data->labels % 64, 0);
        CHECK(data->dtype == DPT_U8);
        CHECK_SIZE(data->stat_channels, 1);
        CHECK_NEAR((double)data->mean[0], 0, 0);
        CHECK_NEAR((double)data->scale[0], 1.0 / 255, 1e-9);
        dpt_dataset_destroy(data);
    }
}

static void open_and_check_source(test *t, const char *name, const char *source)
{
    dpt_dataset *data = NULL;
    dpt_dataset_info info = {.size = sizeof info};
    REQUIRE_OK(dpt_dataset_open(context_of(t), name, NULL, DPT_TEST, &data));
    dpt_dataset_describe(data, &info);
    CHECK_TEXT(info.source, source);
    dpt_dataset_destroy(data);
}

static void searches_in_order(test *t)
{
    static const char images[] = "t10k-images-idx3-ubyte", labels[] = "t10k-labels-idx1-ubyte";
    static const uint8_t label[] = {1};
    char here[160], home[256], cache[256];
    REQUIRE(getcwd(here, sizeof here) != NULL);
    snprintf(home, sizeof home, "%s/home/.cache/dptrain/mnist", here);
    snprintf(cache, sizeof cache, "%s/xdg/dptrain/mnist", here);
    make_folder(t, "home");

    check_fails(t, "mnist", NULL, DPT_TEST, DPT_E_NOT_FOUND, "--data DIR");
    CHECK_CONTAINS(dpt_error_message(context_of(t)), "looked in");
    CHECK_CONTAINS(dpt_error_message(context_of(t)), home);

    make_folder(t, home);
    write_pair(t, home + strlen(here) + 1, images, labels, 1, label);
    open_and_check_source(t, "mnist", home);

    snprintf(home, sizeof home, "%s/xdg", here);
    REQUIRE(setenv("XDG_CACHE_HOME", home, 1) == 0);
    check_fails(t, "mnist", NULL, DPT_TEST, DPT_E_NOT_FOUND, "looked in");
    write_pair(t, cache + strlen(here) + 1, images, labels, 1, label);
    open_and_check_source(t, "mnist", cache);

    REQUIRE(setenv("DPTRAIN_DATA", "variable", 1) == 0);
    open_and_check_source(t, "mnist", cache);
    write_pair(t, "variable", images, labels, 1, label);
    open_and_check_source(t, "mnist", "variable");
    write_pair(t, "variable/mnist", images, labels, 1, label);
    open_and_check_source(t, "mnist", "variable/mnist");

    /* A folder that is given is the only one. */
    make_folder(t, "empty");
    check_fails(t, "mnist", "empty", DPT_TEST, DPT_E_NOT_FOUND, "t10k-images-idx3-ubyte");
    unsetenv("DPTRAIN_DATA");
    unsetenv("XDG_CACHE_HOME");
}

static void says_how_to_get_data(test *t)
{
    check_fails(t, "idx", NULL, DPT_TRAIN, DPT_E_NOT_FOUND, "train-images-idx3-ubyte");
    check_fails(t, "mnist", "no-such-folder", DPT_TRAIN, DPT_E_NOT_FOUND, "no-such-folder");
    write_idx(t, &(idx_file){.directory = "half",
                             .name = "train-images-idx3-ubyte",
                             .rank = 3,
                             .shape = {1, 2, 2},
                             .bytes = pixels});
    check_fails(t, "mnist", "half", DPT_TRAIN, DPT_E_NOT_FOUND, "train-labels-idx1-ubyte");
}

static void suggests_names(test *t)
{
    check_fails(t, "fasion-mnist", NULL, DPT_TRAIN, DPT_E_INVALID, "did you mean 'fashion-mnist'");
    check_fails(t, "minst", NULL, DPT_TRAIN, DPT_E_INVALID, "did you mean 'mnist'");
    check_fails(t, "cifar-10", NULL, DPT_TRAIN, DPT_E_INVALID, "did you mean 'cifar10'");
    check_fails(t, "fasion", NULL, DPT_TRAIN, DPT_E_INVALID, "did you mean 'fashion-mnist'");
    check_fails(t, "syntetic:28x28x1:10:9", NULL, DPT_TRAIN, DPT_E_INVALID,
                "did you mean 'synthetic'");
    check_fails(t, "a-name-that-is-longer-than-any-name-is", NULL, DPT_TRAIN, DPT_E_INVALID,
                "unknown");
    check_fails(t, "imagenet-22k", NULL, DPT_TRAIN, DPT_E_INVALID, "synthetic:HxWxC:CLASSES:COUNT");
    check_fails(t, "", NULL, DPT_TRAIN, DPT_E_INVALID, "known:");
    check_fails(t, NULL, NULL, DPT_TRAIN, DPT_E_INVALID, "name");
    check_fails(t, "mnist", NULL, (dpt_part)2, DPT_E_INVALID, "DPT_TRAIN");
}

/* ---- Putting together ------------------------------------------------------------------------ */

static void refuses_pairs_that_disagree(test *t)
{
    static const char images[] = "train-images-idx3-ubyte", labels[] = "train-labels-idx1-ubyte";
    write_pair(t, "disagree", images, labels, 3, (const uint8_t[]){0, 1, 2});
    write_idx(
        t, &(idx_file){
               .directory = "disagree", .name = labels, .rank = 1, .shape = {2}, .bytes = pixels});
    check_fails(t, "mnist", "disagree", DPT_TRAIN, DPT_E_FORMAT, "disagree/train-images");
    CHECK_CONTAINS(dpt_error_message(context_of(t)), "3 images");
    CHECK_CONTAINS(dpt_error_message(context_of(t)), "disagree/train-labels");
    CHECK_CONTAINS(dpt_error_message(context_of(t)), "2 labels");

    write_pair(t, "range", images, labels, 3, (const uint8_t[]){0, 10, 2});
    check_fails(t, "mnist", "range", DPT_TRAIN, DPT_E_FORMAT, "label 10 of sample 1");
    CHECK_CONTAINS(dpt_error_message(context_of(t)), "range/train-images");
    CHECK_CONTAINS(dpt_error_message(context_of(t)), "range/train-labels");

    write_pair(t, "zero", images, labels, 0, NULL);
    check_fails(t, "mnist", "zero", DPT_TRAIN, DPT_E_FORMAT, "no samples");

    write_pair(t, "rank", images, labels, 3, (const uint8_t[]){0, 1, 2});
    write_idx(
        t, &(idx_file){
               .directory = "rank", .name = images, .rank = 2, .shape = {3, 4}, .bytes = pixels});
    check_fails(t, "mnist", "rank", DPT_TRAIN, DPT_E_FORMAT, "rank 2");
    write_idx(
        t,
        &(idx_file){
            .directory = "rank", .name = images, .rank = 3, .shape = {3, 0, 2}, .bytes = pixels});
    check_fails(t, "mnist", "rank", DPT_TRAIN, DPT_E_FORMAT, "no pixels");
    write_idx(
        t,
        &(idx_file){
            .directory = "rank", .name = labels, .rank = 3, .shape = {3, 1, 1}, .bytes = pixels});
    check_fails(t, "mnist", "rank", DPT_TRAIN, DPT_E_FORMAT, "labels have rank 1");
}

static void reads_colour_images(test *t)
{
    write_idx(t, &(idx_file){.directory = "colour",
                             .name = "train-images-idx3-ubyte",
                             .rank = 4,
                             .shape = {2, 2, 2, 3},
                             .bytes = pixels});
    write_idx(t, &(idx_file){.directory = "colour",
                             .name = "train-labels-idx1-ubyte",
                             .rank = 1,
                             .shape = {2},
                             .bytes = (const uint8_t[]){0, 0}});
    dpt_dataset *data = NULL;
    REQUIRE_OK(dpt_dataset_open(context_of(t), "idx", "colour", DPT_TRAIN, &data));
    CHECK_SIZE(data->channels, 3);
    CHECK_SIZE(data->classes, 2); /* at least */
    CHECK(data->class_names == NULL);
    CHECK(memcmp(data->images, pixels, 24) == 0);
    dpt_dataset_destroy(data);
}

/* Both parts have the classes of the training labels, whatever the test labels show. */
static void classes_come_from_training(test *t)
{
    static const char images[] = "t10k-images-idx3-ubyte", labels[] = "t10k-labels-idx1-ubyte.gz";
    write_pair(t, "own", "train-images-idx3-ubyte", "train-labels-idx1-ubyte", 3,
               (const uint8_t[]){0, 6, 2});
    write_pair(t, "own", images, labels, 2, (const uint8_t[]){1, 3});
    for (int part = DPT_TRAIN; part <= DPT_TEST; part++) {
        dpt_dataset *data = NULL;
        REQUIRE_OK(dpt_dataset_open(context_of(t), "idx", "own", (dpt_part)part, &data));
        CHECK_SIZE(data->classes, 7);
        CHECK_SIZE(data->count, part == DPT_TRAIN ? 3 : 2);
        dpt_dataset_destroy(data);
    }
    write_pair(t, "own", images, labels, 2, (const uint8_t[]){1, 7});
    check_fails(t, "idx", "own", DPT_TEST, DPT_E_FORMAT, "label 7 of sample 1");
}

static void reads_the_package(test *t)
{
    if (access("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz", R_OK) != 0)
        SKIP("the package dataset-fashion-mnist is not installed");
    for (int part = DPT_TRAIN; part <= DPT_TEST; part++) {
        dpt_dataset *data = NULL;
        REQUIRE_OK(dpt_dataset_open(context_of(t), "fashion-mnist", NULL, (dpt_part)part, &data));
        CHECK_SIZE(data->count, part == DPT_TRAIN ? 60000 : 10000);
        CHECK_SIZE(data->height * data->width * data->channels, 784);
        size_t count[10] = {0};
        for (size_t i = 0; i < data->count; i++)
            count[data->labels[i]]++;
        for (size_t k = 0; k < 10; k++)
            CHECK_SIZE(count[k], data->count / 10);
        dpt_dataset_destroy(data);
    }
}

/* ---- Synthetic ------------------------------------------------------------------------------- */

static void refuses_wrong_specs(test *t)
{
    static const struct {
        const char *spec;
        dpt_status status;
        const char *reason;
    } cases[] = {
        {"synthetic", DPT_E_INVALID, "synthetic:HxWxC:CLASSES:COUNT"},
        {"synthetic:", DPT_E_INVALID, "synthetic:HxWxC:CLASSES:COUNT"},
        {"synthetic:28x28:10:100", DPT_E_INVALID, "synthetic:HxWxC:CLASSES:COUNT"},
        {"synthetic:28x28x1:10", DPT_E_INVALID, "synthetic:HxWxC:CLASSES:COUNT"},
        {"synthetic:28x28x1:10:100:1", DPT_E_INVALID, "synthetic:HxWxC:CLASSES:COUNT"},
        {"synthetic:28x28x1x1:10:100", DPT_E_INVALID, "synthetic:HxWxC:CLASSES:COUNT"},
        {"synthetic:0x28x1:10:100", DPT_E_INVALID, "H is '0', it must be 1 to 4096"},
        {"synthetic:28x4097x1:10:100", DPT_E_INVALID, "W is '4097'"},
        {"synthetic:28x28x-1:10:100", DPT_E_INVALID, "C is '-1'"},
        {"synthetic:28x28x1:1:100", DPT_E_INVALID, "CLASSES is '1', it must be 2 to 65536"},
        {"synthetic:28x28x1:65537:100", DPT_E_INVALID, "CLASSES is '65537'"},
        {"synthetic:28x28x1:10:0", DPT_E_INVALID, "COUNT is '0'"},
        {"synthetic:28x28x1:10:2147483648", DPT_E_INVALID, "COUNT is '2147483648'"},
        {"synthetic:28x28x1:10:", DPT_E_INVALID, "COUNT is ''"},
        {"synthetic:28x28x1:10:1e3", DPT_E_INVALID, "COUNT is '1e3'"},
        {"synthetic:4096x4096x4096:2:2147483647", DPT_E_NO_MEMORY, "ask for fewer"},
        {"synthetic:4096x4096x4096:2:10000", DPT_E_NO_MEMORY, "ask for fewer"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_fails(t, cases[i].spec, NULL, DPT_TRAIN, cases[i].status, cases[i].reason);
}

static void synthetic_sizes(test *t)
{
    static const struct {
        const char *spec;
        size_t train, test, classes, sample;
    } cases[] = {
        {"synthetic:28x28x1:10:600", 600, 100, 10, 784},
        {"synthetic:5x7x3:4:12", 12, 4, 4, 105},
        {"synthetic:1x1x1:256:3", 3, 3, 256, 1},
        {"synthetic:1x1x1:1000:1800", 1800, 1000, 1000, 1},
        {"synthetic:9x1x17:2:1", 1, 1, 2, 153},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int part = DPT_TRAIN; part <= DPT_TEST; part++) {
            dpt_dataset *data = NULL;
            REQUIRE_OK(dpt_dataset_open(context_of(t), cases[i].spec, NULL, (dpt_part)part, &data));
            CHECK_TEXT(data->name, cases[i].spec);
            CHECK_TEXT(data->source, "synthetic");
            CHECK_SIZE(data->count, part == DPT_TRAIN ? cases[i].train : cases[i].test);
            CHECK_SIZE(data->classes, cases[i].classes);
            CHECK_SIZE(data->height * data->width * data->channels, cases[i].sample);
            for (size_t k = 0; k < data->count; k++)
                CHECK_SIZE((size_t)data->labels[k], k % cases[i].classes);
            dpt_dataset_destroy(data);
        }
    }
}

/* A sample is a function of its index, not of how many there are; and the parts share none. */
static void synthetic_is_deterministic(test *t)
{
    dpt_dataset *few = NULL, *many = NULL, *other = NULL;
    REQUIRE_OK(dpt_dataset_open(context_of(t), "synthetic:6x6x2:3:30", NULL, DPT_TRAIN, &few));
    REQUIRE_OK(dpt_dataset_open(context_of(t), "synthetic:6x6x2:3:300", NULL, DPT_TRAIN, &many));
    REQUIRE_OK(dpt_dataset_open(context_of(t), "synthetic:6x6x2:3:300", NULL, DPT_TEST, &other));
    CHECK(memcmp(few->images, many->images, 30 * 72) == 0);
    const uint8_t *a = many->images, *b = other->images;
    for (size_t i = 0; i < other->count; i++)
        for (size_t k = 0; k < other->count; k++)
            CHECK(memcmp(a + 72 * i, b + 72 * k, 72) != 0);
    for (size_t i = 1; i < many->count; i++)
        CHECK(memcmp(a, a + 72 * i, 72) != 0);
    dpt_dataset_destroy(other);
    dpt_dataset_destroy(many);
    dpt_dataset_destroy(few);
}

/* The nearest class mean of the training part names the class of almost every test sample. */
static void synthetic_can_be_learned(test *t)
{
    enum { PIXELS = 12 * 12, CLASSES = 10 };
    dpt_dataset *train = NULL, *held_out = NULL;
    REQUIRE_OK(
        dpt_dataset_open(context_of(t), "synthetic:12x12x1:10:1200", NULL, DPT_TRAIN, &train));
    REQUIRE_OK(
        dpt_dataset_open(context_of(t), "synthetic:12x12x1:10:1200", NULL, DPT_TEST, &held_out));
    static double mean[CLASSES][PIXELS];
    memset(mean, 0, sizeof mean);
    const uint8_t *images = train->images;
    for (size_t i = 0; i < train->count; i++)
        for (size_t p = 0; p < PIXELS; p++)
            mean[train->labels[i]][p] += (double)images[i * PIXELS + p] * CLASSES / 1200;
    images = held_out->images;
    size_t hits = 0;
    for (size_t i = 0; i < held_out->count; i++) {
        size_t best = 0;
        double best_distance = INFINITY;
        for (size_t k = 0; k < CLASSES; k++) {
            double distance = 0;
            for (size_t p = 0; p < PIXELS; p++)
                distance += pow((double)images[i * PIXELS + p] - mean[k][p], 2);
            if (distance < best_distance) {
                best_distance = distance;
                best = k;
            }
        }
        hits += best == (size_t)held_out->labels[i];
    }
    CHECK(hits >= held_out->count * 98 / 100);
    dpt_dataset_destroy(held_out);
    dpt_dataset_destroy(train);
}

/* ---- From memory ----------------------------------------------------------------------------- */

static void copies_memory(test *t)
{
    float images[2 * 2 * 1 * 2] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint8_t labels[2] = {0, 4};
    const dpt_dataset_memory memory = {
        .size = sizeof memory,
        .count = 2,
        .height = 2,
        .width = 1,
        .channels = 2,
        .outputs = 5,
        .dtype = DPT_F32,
        .images = images,
        .labels = labels,
        .mean = {0.5f, 1.5f},
        .deviation = {2, 0},
    };
    dpt_dataset *data = NULL;
    REQUIRE_OK(dpt_dataset_from_memory(context_of(t), &memory, &data));
    memset(images, 0, sizeof images);
    memset(labels, 9, sizeof labels);
    CHECK_NEAR((double)((const float *)data->images)[7], 8, 0);
    CHECK_SIZE((size_t)data->labels[1], 4);
    CHECK_SIZE(data->stat_channels, 2);
    CHECK_NEAR((double)data->mean[0], 0.5, 0);
    CHECK_NEAR((double)data->scale[0], 0.5, 0);
    CHECK_NEAR((double)data->mean[1], 1.5, 0);
    CHECK_NEAR((double)data->scale[1], 1, 0);
    dpt_dataset_info info = {.size = sizeof info};
    dpt_dataset_describe(data, &info);
    CHECK_TEXT(info.source, "memory");
    CHECK(info.class_names == NULL);
    CHECK_SIZE(info.outputs, 5);
    dpt_dataset_destroy(data);
}

static void normalises_bytes(test *t)
{
    const uint8_t images[1] = {51}, labels[1] = {0};
    const dpt_dataset_memory memory = {
        .size = sizeof memory,
        .count = 1,
        .height = 1,
        .width = 1,
        .channels = 1,
        .outputs = 2,
        .dtype = DPT_U8,
        .images = images,
        .labels = labels,
        .mean = {0.1f},
        .deviation = {0.25f},
    };
    dpt_dataset *data = NULL;
    REQUIRE_OK(dpt_dataset_from_memory(context_of(t), &memory, &data));
    CHECK_NEAR((51.0 - (double)data->mean[0]) * (double)data->scale[0], (0.2 - 0.1) / 0.25, 1e-6);
    dpt_dataset_destroy(data);
}

/* Whatever it is made of, a data set has a number that no other one has had. */
static void numbers_differ(test *t)
{
    static const float x[4] = {1, 2, 3, 4};
    static const int32_t labels[2] = {0, 1};
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = 2,
                                       .height = 1,
                                       .width = 1,
                                       .channels = 2,
                                       .outputs = 2,
                                       .dtype = DPT_F32,
                                       .images = x,
                                       .labels = labels};
    const dpt_dataset_array arrays[] = {
        {.name = "x", .dtype = DPT_F32, .rank = 2, .shape = {2, 2}, .data = x},
        {.name = "labels", .dtype = DPT_I32, .rank = 1, .shape = {2}, .data = labels}};
    dpt_dataset *data[6] = {NULL};
    for (size_t i = 0; i < 2; i++) {
        REQUIRE_OK(dpt_dataset_from_memory(context_of(t), &memory, &data[3 * i]));
        REQUIRE_OK(dpt_dataset_from_arrays(context_of(t), arrays, 2, &data[3 * i + 1]));
        REQUIRE_OK(dpt_dataset_open(context_of(t), "synthetic:1x1x1:2:4", NULL, DPT_TRAIN,
                                    &data[3 * i + 2]));
    }
    for (size_t i = 0; i < 6; i++) {
        CHECK(data[i]->serial != 0);
        for (size_t k = 0; k < i; k++)
            CHECK(data[i]->serial != data[k]->serial);
    }
    for (size_t i = 0; i < 6; i++)
        dpt_dataset_destroy(data[i]);
}

static void refuses_wrong_memory(test *t)
{
    const uint8_t images[8] = {0}, labels[2] = {0, 1};
    const dpt_dataset_memory right = {
        .size = sizeof right,
        .count = 2,
        .height = 2,
        .width = 2,
        .channels = 1,
        .outputs = 2,
        .dtype = DPT_U8,
        .images = images,
        .labels = labels,
    };
    dpt_dataset *data = NULL;
    REQUIRE_OK(dpt_dataset_from_memory(context_of(t), &right, &data));
    dpt_dataset_destroy(data);
    data = NULL;

    dpt_dataset_memory unlabelled = right;
    unlabelled.labels = NULL;
    REQUIRE_OK(dpt_dataset_from_memory(context_of(t), &unlabelled, &data));
    dpt_dataset_destroy(data);
    data = NULL;

    dpt_dataset_memory wrong[11];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        wrong[i] = right;
    wrong[0].images = NULL;
    wrong[1].count = 0;
    wrong[2].height = 0;
    wrong[3].channels = 0;
    wrong[4].outputs = 0;
    wrong[5].outputs = 1; /* label 1 */
    wrong[6].dtype = DPT_I32;
    wrong[7].mean[0] = NAN;
    wrong[8].deviation[0] = -1;
    wrong[9].height = wrong[9].width = SIZE_MAX / 2;
    wrong[10].channels = 5;
    wrong[10].mean[3] = 1;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (!CHECK_STATUS(dpt_dataset_from_memory(context_of(t), &wrong[i], &data), DPT_E_INVALID))
            FAIL("case %zu", i);
        CHECK(data == NULL);
    }
    dpt_dataset_destroy(NULL);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"opens_every_spelling", opens_every_spelling},
        {"searches_in_order", searches_in_order},
        {"says_how_to_get_data", says_how_to_get_data},
        {"suggests_names", suggests_names},
        {"refuses_pairs_that_disagree", refuses_pairs_that_disagree},
        {"reads_colour_images", reads_colour_images},
        {"classes_come_from_training", classes_come_from_training},
        {"reads_the_package", reads_the_package},
        {"refuses_wrong_specs", refuses_wrong_specs},
        {"synthetic_sizes", synthetic_sizes},
        {"synthetic_is_deterministic", synthetic_is_deterministic},
        {"synthetic_can_be_learned", synthetic_can_be_learned},
        {"copies_memory", copies_memory},
        {"normalises_bytes", normalises_bytes},
        {"numbers differ", numbers_differ},
        {"refuses_wrong_memory", refuses_wrong_memory},
    };
    return run_in_new_folder(argc, argv, cases, sizeof cases / sizeof *cases);
}
