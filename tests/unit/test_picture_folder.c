/* Tests folders of pictures as data sets: what is read and in which order, what is refused, and
   that nothing depends on the number of threads. */
#include "data/ahead.h"
#include "data/picture.h"
#include "data/visit.h"
#include "data_files.h"

#ifdef DPTRAIN_HAS_PNG
#include "small_pictures.h"

/* ---- What is read ---------------------------------------------------------------------------- */

/* By bytes, as no locale and no file system sorts; hidden names and files beside the folders are
   none. */
static void reads_in_order(test *t)
{
    static const picture pictures[] = {
        {"order/train/b", "2.png", 41, 2, 2},
        {"order/train/b", "10.png", 40, 9, 3},
        {"order/train/B", "x", 10, 1, 1},
        {"order/train/B", "X.jpg", 9, 4, 16},
        {"order/train/\xc3\xa9", "0.png", 50, 3, 3},
        {"order/train/a", "0.png", 30, 2, 2},
        {"order/train/Z z", "0.png", 20, 2, 5},
        {"order/train/a", ".0.png", 99, 2, 2},
        {"order/train/.thumbs", "0.png", 99, 2, 2},
        {"order/train", "beside.png", 99, 2, 2},
    };
    static const uint8_t values[] = {9, 10, 20, 30, 40, 41, 50}, labels[] = {0, 0, 1, 2, 3, 3, 4};
    static const char *const names[] = {"B", "Z z", "a", "b", "\xc3\xa9"};
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++)
        write_picture(t, &pictures[i]);
    for (size_t grey = 0; grey < 2; grey++) {
        dpt_dataset *data = NULL;
        dpt_dataset_info info = {.size = sizeof info};
        const char *name = grey ? "folder:2x3x1" : "folder:2x3x3";
        REQUIRE_OK(dpt_dataset_open(context_of(t), name, "order", DPT_TRAIN, &data));
        dpt_dataset_describe(data, &info);
        CHECK_TEXT(info.name, grey ? "folder:2x3x1" : "folder:2x3"); /* one name for one thing */
        CHECK_TEXT(info.source, "order");
        CHECK(info.height == 2 && info.width == 3 && info.channels == (grey ? 1 : 3));
        CHECK_SIZE(info.count, 7);
        CHECK_SIZE(info.outputs, 5);
        for (size_t c = 0; c < info.outputs; c++)
            CHECK_TEXT(info.class_names[c], names[c]);
        CHECK((uintptr_t)data->images % 64 == 0 && (uintptr_t)data->labels % 64 == 0);
        CHECK_NEAR((double)data->scale[0], 1.0 / 255, 1e-9);
        check_values(t, data, values, labels);
        dpt_dataset_destroy(data);
    }
}

/* Of the wanted size as it is, of twice the size in boxes, and wider ones by their middle. */
static void cuts_and_scales(test *t)
{
    uint8_t rgb[4 * 6 * 3], expected[2 * 2 * 3];
    dpt_dataset *data = NULL;
    write_small(t, "cut");
    for (size_t i = 0; i < sizeof rgb; i++)
        rgb[i] = (uint8_t)(i * 3);
    write_pixels(t, "cut/train/one/1.png", rgb, 4, 6);
    write_pixels(t, "cut/train/one/2.png", rgb, 2, 2);
    for (size_t i = 0; i < sizeof expected; i++) {
        const size_t y = i / 6 * 2, x = 1 + i / 3 % 2 * 2, c = i % 3;
        unsigned sum = 0;
        for (size_t k = 0; k < 4; k++)
            sum += rgb[((y + k / 2) * 6 + x + k % 2) * 3 + c];
        expected[i] = (uint8_t)((sum + 2) / 4);
    }
    REQUIRE_OK(dpt_dataset_open(context_of(t), "folder:2x2", "cut", DPT_TRAIN, &data));
    const uint8_t *images = data->images;
    CHECK_SIZE(data->count, 4);
    CHECK(memcmp(images + 12, expected, 12) == 0);
    CHECK(memcmp(images + 24, rgb, 12) == 0);
    dpt_dataset_destroy(data);
}

/* Labels are those of training, whichever classes there are in the test; "val" is a test where
   there is no other. */
static void test_part(test *t)
{
    dpt_dataset *data = NULL;
    write_square(t, "parts/train/ant", "0.png", 1);
    write_square(t, "parts/train/bee", "0.png", 2);
    write_square(t, "parts/train/cow", "0.png", 3);
    check_fails(t, "folder:2x2", "parts", DPT_TEST, DPT_E_NOT_FOUND,
                "parts has no folder test: pictures lie in train/CLASS and test/CLASS");
    write_square(t, "parts/val/cow", "0.png", 8);
    REQUIRE_OK(dpt_dataset_open(context_of(t), "folder:2x2", "parts", DPT_TEST, &data));
    CHECK_SIZE(data->classes, 3);
    CHECK_TEXT(data->class_names[0], "ant");
    check_values(t, data, (const uint8_t[]){8}, (const uint8_t[]){2});
    dpt_dataset_destroy(data);
    make_folder(t, "parts/test");
    check_fails(t, "folder:2x2", "parts", DPT_TEST, DPT_E_FORMAT, "parts/test has no folders: the");
    write_square(t, "parts/test/bee", "0.png", 7);
    write_square(t, "parts/test/cow", "0.png", 6);
    REQUIRE_OK(dpt_dataset_open(context_of(t), "folder:2x2", "parts", DPT_TEST, &data));
    check_values(t, data, (const uint8_t[]){7, 6}, (const uint8_t[]){1, 2});
    dpt_dataset_destroy(data);
    write_square(t, "parts/test/bees", "0.png", 7);
    check_fails(t, "folder:2x2", "parts", DPT_TEST, DPT_E_FORMAT,
                "parts/test/bees: parts/train has no such folder");
    REQUIRE(rename("parts/train", "parts/gone") == 0);
    check_fails(t, "folder:2x2", "parts", DPT_TEST, DPT_E_NOT_FOUND, "parts has no folder train");
}

static void links(test *t)
{
    dpt_dataset *data = NULL;
    write_small(t, "linked");
    REQUIRE(symlink("two", "linked/train/three") == 0);
    REQUIRE(symlink("../two/0.png", "linked/train/one/1.png") == 0);
    REQUIRE_OK(dpt_dataset_open(context_of(t), "folder:2x2", "linked", DPT_TRAIN, &data));
    check_values(t, data, (const uint8_t[]){0, 10, 10, 10}, (const uint8_t[]){0, 0, 1, 2});
    CHECK_TEXT(data->class_names[1], "three");
    dpt_dataset_destroy(data);

    REQUIRE(symlink(".", "linked/train/loop") == 0);
    check_fails(t, "folder:2x2", "linked", DPT_TRAIN, DPT_E_FORMAT, "is a folder in the folder of");
    REQUIRE(unlink("linked/train/loop") == 0 && symlink("loop", "linked/train/loop") == 0);
    check_fails(t, "folder:2x2", "linked", DPT_TRAIN, DPT_E_IO, "cannot read linked/train/loop: ");
    REQUIRE(unlink("linked/train/loop") == 0);
    REQUIRE(symlink("nowhere", "linked/train/one/2.png") == 0);
    check_fails(t, "folder:2x2", "linked", DPT_TRAIN, DPT_E_NOT_FOUND,
                "cannot read linked/train/one/2.png: ");
}

/* Told by the content: a JPEG that calls itself PNG. */
static void tells_jpeg(test *t)
{
#ifdef DPTRAIN_HAS_JPEG
    uint8_t bytes[4096];
    dpt_dataset *data = NULL;
    FILE *from = test_open("fuzz/corpus/jpeg/grey.jpg");
    REQUIRE(from != NULL);
    const size_t n = fread(bytes, 1, sizeof bytes, from);
    fclose(from);
    REQUIRE(n > 0 && n < sizeof bytes);
    write_small(t, "jpeg");
    write_file(t, "jpeg/train/one", "1.png", bytes, n);
    REQUIRE_OK(dpt_dataset_open(context_of(t), "folder:4x4", "jpeg", DPT_TRAIN, &data));
    CHECK_SIZE(data->count, 3);
    dpt_dataset_destroy(data);
#else
    SKIP("built without libjpeg");
#endif
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void refuses_names(test *t)
{
    static const char *const names[] = {
        "folder",
        "folder:",
        "folder:64",
        "folder:64x",
        "folder:64x64x",
        "folder:64x64x2",
        "folder:0x64",
        "folder:64x4097",
        "folder:64x64x3x",
        "folder:64x64x3x1",
        "folder:-1x64",
        "folder:64 x64",
        "folder:64x64:10",
        "folder:64x64:stream:stream",
        "folder:64x64:no-orientation:",
        "folder:64x64:skip",
        "folder:64x64:depth=0",
        "folder:64x64:depth=9",
        "folder:64x64:depth=",
        "folder:64x64:depth=1:depth=2",
        "folder:64x64:train.csv",
        "folder:1e2x64",
        "folder:0000000064x64",
    };
    static const char *const tables[] = {"pictures",
                                         "pictures:",
                                         "pictures:8",
                                         "pictures:8x8",
                                         "pictures:8x8:",
                                         "pictures:8x8:stream",
                                         "pictures:8x8x4:train.csv:a:b"};
    write_small(t, "names");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_fails(t, names[i], "names", DPT_TRAIN, DPT_E_INVALID, "write folder:HxW, as in");
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        check_fails(t, tables[i], "names", DPT_TRAIN, DPT_E_INVALID, "write pictures:HxW:FILE.csv");
    check_fails(t, "folders:64x64", "names", DPT_TRAIN, DPT_E_INVALID, "did you mean 'folder'");
}

static void refuses_classes(test *t)
{
    make_folder(t, "classes");
    check_fails(t, "folder:2x2", "no-such", DPT_TRAIN, DPT_E_NOT_FOUND, "no-such");
    check_fails(t, "folder:2x2", "classes", DPT_TRAIN, DPT_E_NOT_FOUND,
                "classes has no folder train");
    make_folder(t, "classes/train");
    check_fails(t, "folder:2x2", "classes", DPT_TRAIN, DPT_E_FORMAT,
                "classes/train has 0 folders, and there must be 2 to 65536");
    write_square(t, "classes/train/one", "0.png", 1);
    check_fails(t, "folder:2x2", "classes", DPT_TRAIN, DPT_E_FORMAT, "has 1 folder, and");
    make_folder(t, "classes/train/two");
    check_fails(t, "folder:2x2", "classes", DPT_TRAIN, DPT_E_FORMAT,
                "classes/train/two has no pictures");
}

/* More than bytes could tell apart. */
static void reads_many_classes(test *t)
{
    dpt_dataset *data = NULL;
    for (size_t i = 0; i < 300; i++) {
        char path[64];
        snprintf(path, sizeof path, "many/train/%03zu", i);
        write_square(t, path, "0.png", (uint8_t)(i % 250));
    }
    REQUIRE_OK(dpt_dataset_open(context_of(t), "folder:2x2", "many", DPT_TRAIN, &data));
    CHECK_SIZE(data->classes, 300);
    CHECK_TEXT(data->class_names[299], "299");
    for (size_t i = 0; i < data->count; i++)
        CHECK_SIZE((size_t)data->labels[i], i);
    dpt_dataset_destroy(data);
}

/* Names go into files and to terminals. */
static void refuses_odd_classes(test *t)
{
    static const char *const names[] = {"a\x1b[2J", "new\nline", "latin-\xe9", "\x7f"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char directory[32], path[64];
        snprintf(directory, sizeof directory, "odd-%zu", i);
        snprintf(path, sizeof path, "%s/train/%s", directory, names[i]);
        write_small(t, directory);
        write_square(t, path, "0.png", 1);
        check_fails(t, "folder:2x2", directory, DPT_TRAIN, DPT_E_FORMAT, "rename it");
        CHECK(strchr(dpt_error_message(context_of(t)), '\x1b') == NULL);
    }
}

static void refuses_files(test *t)
{
    static const struct {
        const char *name, *text, *reason;
    } cases[] = {
        {"text.jpg", "text", "files/train/one/text.jpg: neither PNG, JPEG"},
        {"empty.png", "", "files/train/one/empty.png: neither PNG, JPEG"},
        {"cut.png", "\x89PNG\r\n\x1a\n", "files/train/one/cut.png: damaged PNG"},
    };
    write_small(t, "files");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[64];
        write_file(t, "files/train/one", cases[i].name, (const uint8_t *)cases[i].text,
                   strlen(cases[i].text));
        check_fails(t, "folder:2x2", "files", DPT_TRAIN, DPT_E_FORMAT, cases[i].reason);
        snprintf(path, sizeof path, "files/train/one/%s", cases[i].name);
        REQUIRE(unlink(path) == 0);
    }
    REQUIRE(mkfifo("files/train/one/pipe", 0600) == 0);
    check_fails(t, "folder:2x2", "files", DPT_TRAIN, DPT_E_IO, "pipe: it is no regular file");
    REQUIRE(unlink("files/train/one/pipe") == 0);
    write_square(t, "files/train/one/more", "0.png", 1);
    check_fails(t, "folder:2x2", "files", DPT_TRAIN, DPT_E_FORMAT,
                "files/train/one/more is a folder in the folder of a class");
}

/* A header that promises more than is taken memory for. */
static void refuses_absurd_size(test *t)
{
    uint8_t bytes[4096];
    FILE *from = test_open("fuzz/corpus/png/huge.png");
    REQUIRE(from != NULL);
    const size_t n = fread(bytes, 1, sizeof bytes, from);
    fclose(from);
    write_small(t, "absurd");
    write_file(t, "absurd/train/one", "1.png", bytes, n);
    check_fails(t, "folder:2x2", "absurd", DPT_TRAIN, DPT_E_FORMAT,
                "1.png: the image is 30000x30000 (height x width), and at most 268 million pixels");
}

/* ---- Read as they are needed ----------------------------------------------------------------- */

static void keep_image(void *user, size_t sample, const uint8_t *image)
{
    memcpy((uint8_t *)user + sample * 12, image, 12);
}

/* The same data set in every way, and by the same name, so that training on one can be resumed with
   the other. */
static void streams_the_same(test *t)
{
    enum { MOST = 80 };
    dpt_dataset *kept = NULL, *streamed = NULL;
    uint8_t images[MOST * 12];
    float mean[2][4], deviation[2][4];
    write_small(t, "streamed");
    for (size_t i = 1; i < MOST - 1; i++) {
        char name[16];
        snprintf(name, sizeof name, "%zu.png", i);
        write_picture(t, &(picture){"streamed/train/two", name, (uint8_t)(3 * i), 1 + i % 5, 3});
    }
    REQUIRE_OK(dpt_dataset_open(context_of(t), "folder:2x2", "streamed", DPT_TRAIN, &kept));
    REQUIRE_OK(
        dpt_dataset_open(context_of(t), "folder:2x2:stream", "streamed", DPT_TRAIN, &streamed));
    REQUIRE(kept->reader == NULL && streamed->images == NULL && kept->count == MOST);
    CHECK_TEXT(streamed->name, "folder:2x2");
    CHECK_SIZE(streamed->count, MOST);
    CHECK(memcmp(streamed->labels, kept->labels, MOST * sizeof *kept->labels) == 0);
    CHECK_OK(dpti_dataset_visit(streamed, &(dpti_visit){1, keep_image, images}, NULL));
    CHECK(memcmp(images, kept->images, sizeof images) == 0);
    CHECK_SIZE(dpti_dataset_content(streamed), dpti_dataset_content(kept));
    CHECK_OK(dpt_dataset_statistics(kept, mean[0], deviation[0]));
    CHECK_OK(dpt_dataset_statistics(streamed, mean[1], deviation[1]));
    CHECK(memcmp(mean[0], mean[1], sizeof *mean) == 0 && mean[0][2] > mean[0][0]);
    CHECK(memcmp(deviation[0], deviation[1], sizeof *deviation) == 0 && deviation[0][0] > 0);
    /* Whoever has read them all once finds those that are damaged by then. */
    write_file(t, "streamed/train/two", "40.png", (const uint8_t *)"damaged", 7);
    CHECK_STATUS(dpt_dataset_statistics(streamed, mean[1], deviation[1]), DPT_E_FORMAT);
    CHECK_CONTAINS(dpt_error_message(context_of(t)),
                   "streamed/train/two/40.png: neither PNG, JPEG");
    REQUIRE(unlink("streamed/train/two/40.png") == 0);
    CHECK_STATUS(dpt_dataset_statistics(streamed, mean[1], deviation[1]), DPT_E_IO);
    CHECK_CONTAINS(dpt_error_message(context_of(t)), "streamed/train/two/40.png");
    dpt_dataset_destroy(streamed);
    dpt_dataset_destroy(kept);
}

/* A window of the picture: another one in each epoch and with each seed, and otherwise the same;
   and a picture that is as large as its image is not left as it is. */
static void crops_streamed(test *t)
{
    enum { BYTES = 12, COUNT = 3 };
    static const uint32_t records[COUNT] = {0, 1, 2};
    static const dpti_image_use uses[] = {
        {.epoch = 0, .seed = 1, .least_area = 0.1}, {.epoch = 1, .seed = 1, .least_area = 0.1},
        {.epoch = 2, .seed = 1, .least_area = 0.1}, {.epoch = 1, .seed = 2, .least_area = 0.1},
        {.epoch = 1, .seed = 1, .least_area = 0},
    };
    enum { USES = sizeof uses / sizeof *uses };
    uint8_t rgb[16 * 16 * 3], images[USES][2][COUNT * BYTES];
    dpt_dataset *data = NULL;
    for (size_t i = 0; i < sizeof rgb; i++)
        rgb[i] = (uint8_t)(i * i % 251);
    write_small(t, "windows");
    write_pixels(t, "windows/train/one/0.png", rgb, 16, 16);
    write_pixels(t, "windows/train/one/1.png", rgb, 2, 2);
    write_pixels(t, "windows/train/one/2.png", rgb, 9, 16);
    REQUIRE_OK(dpt_dataset_open(context_of(t), "folder:2x2:stream", "windows", DPT_TRAIN, &data));
    for (size_t i = 0; i < USES; i++)
        for (size_t k = 0; k < 2; k++) {
            dpti_ahead *ahead = dpti_ahead_create(data, 2, &uses[i]);
            REQUIRE(ahead);
            CHECK_OK(dpti_ahead_wait(
                ahead,
                &(dpti_ahead_run){.key = 0, .epoch = uses[i].epoch, .records = records, .n = COUNT},
                NULL));
            dpti_ahead_copy(ahead, &(dpti_ahead_run){.key = 0, .records = records, .n = COUNT},
                            images[i][k], NULL);
            dpti_ahead_destroy(ahead);
        }
    for (size_t i = 0; i < USES; i++) {
        CHECK(memcmp(images[i][0], images[i][1], sizeof images[i][0]) == 0);
        for (size_t k = 0; k < i; k++)
            CHECK((memcmp(images[i][0], images[k][0], sizeof images[i][0]) == 0) ==
                  (k == 0 && i == 4));
    }
    CHECK(memcmp(images[0][0] + BYTES, rgb, BYTES) == 0);
    dpt_dataset_destroy(data);
}

/* What would take more memory than pictures may have is streamed without being asked to. */
static void streams_large_ones(test *t)
{
    static const char name[] = "DPTRAIN_DATA_MEMORY";
    dpt_dataset *data = NULL;
    dpt_dataset_info info = {.size = sizeof info};
    write_small(t, "much"); /* two images of 12 bytes */
    for (size_t i = 0; i < 2; i++) {
        REQUIRE(setenv(name, i ? "23" : "24", 1) == 0);
        REQUIRE_OK(dpt_dataset_open(context_of(t), "folder:2x2", "much", DPT_TRAIN, &data));
        dpt_dataset_describe(data, &info);
        CHECK(info.read_as_needed == (i == 1) && (data->images == NULL) == (i == 1));
        dpt_dataset_destroy(data);
    }
    REQUIRE(setenv(name, "much", 1) == 0);
    check_fails(t, "folder:2x2", "much", DPT_TRAIN, DPT_E_INVALID,
                "DPTRAIN_DATA_MEMORY is \"much\": give the memory that pictures may take");
    REQUIRE(unsetenv(name) == 0);
}

static void divides_streamed(test *t)
{
    dpt_dataset *wholes[2] = {NULL}, *parts[2][2] = {{NULL}};
    static const char *const names[] = {"folder:2x2", "folder:2x2:stream"};
    write_small(t, "dealt");
    for (size_t i = 1; i < 9; i++) {
        char name[16];
        snprintf(name, sizeof name, "%zu.png", i);
        write_square(t, "dealt/train/two", name, (uint8_t)(7 * i));
    }
    for (size_t i = 0; i < 2; i++) {
        REQUIRE_OK(dpt_dataset_open(context_of(t), names[i], "dealt", DPT_TRAIN, &wholes[i]));
        REQUIRE_OK(dpt_dataset_split(wholes[i], 0.3, 1, &parts[i][0], &parts[i][1]));
    }
    for (size_t k = 0; k < 2; k++) {
        CHECK_SIZE(dpti_dataset_content(parts[0][k]), dpti_dataset_content(parts[1][k]));
        CHECK(dpti_dataset_content(parts[0][k]) != dpti_dataset_content(wholes[0]));
        CHECK(dpti_dataset_share(parts[1][k], wholes[1]) &&
              !dpti_dataset_share(parts[1][k], wholes[0]));
    }
    for (size_t i = 0; i < 2; i++) {
        dpt_dataset_destroy(parts[i][0]);
        dpt_dataset_destroy(parts[i][1]);
        dpt_dataset_destroy(wholes[i]);
    }
}

/* ---- Large ones ------------------------------------------------------------------------------ */

typedef struct large_source {
    dpt_picture_shape shape;
    pthread_mutex_t large;
} large_source;

static dpt_status read_large(void *user, const dpti_wanted_image *wanted, void *image,
                             dpt_error *error)
{
    large_source *s = user;
    char path[64];
    snprintf(path, sizeof path, "large/%zu.png", wanted->record);
    const dpti_picture_options way = {.shape = s->shape, .large = &s->large};
    return dpti_picture_read(path, &way, image, error);
}

/* Those that are decoded one at a time. */
static void large_pictures(test *t)
{
    enum { LARGE = 5800 };
    large_source own = {.shape = {1, 1, 3, true, false}, .large = PTHREAD_MUTEX_INITIALIZER};
    const dpti_image_source source = {
        .make = read_large, .user = &own, .image_bytes = 3, .n_threads = 3};
    png_image image = {
        .version = PNG_IMAGE_VERSION, .width = LARGE, .height = LARGE, .format = PNG_FORMAT_GRAY};
    uint8_t *grey = malloc((size_t)LARGE * LARGE), pixels[9];
    dpti_reader *reader = NULL;
    REQUIRE(grey);
    memset(grey, 77, (size_t)LARGE * LARGE);
    make_folder(t, "large");
    CHECK(png_image_write_to_file(&image, "large/0.png", 0, grey, 0, NULL) != 0);
    free(grey);
    REQUIRE(symlink("0.png", "large/1.png") == 0 && symlink("0.png", "large/2.png") == 0);
    REQUIRE_OK(dpti_reader_create(&source, &reader, NULL));
    dpti_request all = {.n = 3, .images = pixels};
    dpti_reader_post(reader, &all);
    CHECK_OK(dpti_reader_wait(reader, &all, NULL));
    dpti_reader_destroy(reader);
    for (size_t i = 0; i < sizeof pixels; i++)
        CHECK_SIZE(pixels[i], 77);
}

/* ---- Single pictures, and what is common to all data sets ------------------------------------ */

static void single_pictures(test *t)
{
    dpt_context *context = context_of(t);
    dpt_picture_shape shape = {2, 2, 3, false, false};
    uint8_t pixels[27];
    write_square(t, "single", "0.png", 5);
    REQUIRE_OK(dpt_picture_read(context, "single/0.png", &shape, pixels));
    CHECK(pixels[0] == 5 && pixels[11] == 7);
    shape.height = 3;
    CHECK_STATUS(dpt_picture_read(context, "single/0.png", &shape, pixels), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(context), "0.png: the image is 2x2 (height x width), but");
    shape = (dpt_picture_shape){3, 3, 3, true, false};
    CHECK_OK(dpt_picture_read(context, "single/0.png", &shape, pixels));
    CHECK(pixels[0] == 5 && pixels[26] == 7);
    CHECK_STATUS(dpt_picture_read(context, "single/1.png", &shape, pixels), DPT_E_NOT_FOUND);
    shape.channels = 2;
    CHECK_STATUS(dpt_picture_read(context, "single/0.png", &shape, pixels), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(context), "1 or 3 channels, and not 2");
    shape = (dpt_picture_shape){0, 3, 3, true, false};
    CHECK_STATUS(dpt_picture_read(context, "single/0.png", &shape, pixels), DPT_E_INVALID);
    shape = (dpt_picture_shape){3, 65537, 3, true, false};
    CHECK_STATUS(dpt_picture_read(context, "single/0.png", &shape, pixels), DPT_E_INVALID);
}

/* Parts tell the names of the whole; the sanitizer sees who frees them. */
static void names_of_parts(test *t)
{
    dpt_dataset *whole = NULL, *first = NULL, *second = NULL, *third = NULL, *fourth = NULL;
    dpt_dataset_info info = {.size = sizeof info};
    write_small(t, "divided");
    for (size_t i = 1; i < 6; i++) {
        char name[16];
        snprintf(name, sizeof name, "%zu.png", i);
        write_square(t, "divided/train/two", name, (uint8_t)i);
    }
    REQUIRE_OK(dpt_dataset_open(context_of(t), "folder:2x2", "divided", DPT_TRAIN, &whole));
    REQUIRE_OK(dpt_dataset_split(whole, 0.5, 1, &first, &second));
    REQUIRE_OK(dpt_dataset_split(first, 0.5, 1, &third, &fourth));
    dpt_dataset_destroy(first);
    dpt_dataset_destroy(third);
    dpt_dataset_describe(fourth, &info);
    CHECK_TEXT(info.class_names[1], "two");
    dpt_dataset_destroy(fourth);
    dpt_dataset_describe(second, &info);
    CHECK_TEXT(info.class_names[0], "one");
    dpt_dataset_destroy(second);
    dpt_dataset_describe(whole, &info);
    CHECK_TEXT(info.class_names[1], "two");
    dpt_dataset_destroy(whole);
}

static void searches(test *t)
{
    dpt_dataset *data = NULL;
    check_fails(t, "folder:2x2", NULL, DPT_TRAIN, DPT_E_NOT_FOUND,
                "pass --data DIR with pictures in DIR/train/CLASS");
    make_folder(t, "packed/train.gz");
    check_fails(t, "folder:2x2", "packed", DPT_TRAIN, DPT_E_NOT_FOUND,
                "packed has no folder train");
    write_small(t, "found");
    REQUIRE(setenv("DPTRAIN_DATA", "found", 1) == 0);
    CHECK_OK(dpt_dataset_open(context_of(t), "folder:2x2", NULL, DPT_TEST, &data));
    if (data) CHECK_TEXT(data->source, "found");
    dpt_dataset_destroy(data);
    unsetenv("DPTRAIN_DATA");
}

#else

static void nothing(test *t)
{
    SKIP("built without libpng");
}

#endif

/* ---- Lists of pictures ----------------------------------------------------------------------- */

#ifdef DPTRAIN_HAS_PNG
/* In the order of the list, a picture twice, and one that cannot be read. */
static void reads_lists(test *t)
{
    static const char *const paths[] = {"list/b.png", "list/a.png", "list/b.png", "list/cut.png"};
    static const char *const wrong[] = {"list/a.png", NULL};
    dpt_pictures_options how = {.size = sizeof how,
                                .shape = {.height = 2, .width = 2, .channels = 3},
                                .outputs = 2,
                                .skip_unreadable = true};
    dpt_pictures *pictures = NULL;
    dpt_dataset *data = NULL;
    write_square(t, "list", "a.png", 10);
    write_square(t, "list", "b.png", 20);
    write_file(t, "list", "cut.png", (const uint8_t *)"cut", 3);
    CHECK_STATUS(dpt_pictures_list(context_of(t), wrong, 2, &pictures), DPT_E_INVALID);
    REQUIRE_OK(dpt_pictures_list(context_of(t), paths, 4, &pictures));
    CHECK_SIZE(dpt_pictures_count(pictures), 4);
    CHECK_SIZE(dpt_pictures_others(pictures), 0);
    CHECK_TEXT(dpt_pictures_name(pictures, 2), "list/b.png");
    CHECK(dpt_pictures_name(pictures, 4) == NULL);
    REQUIRE_OK(dpt_pictures_open(context_of(t), pictures, &how, &data));
    static const uint8_t values[] = {20, 10, 20, 0};
    uint8_t images[4 * 12] = {0};
    CHECK_OK(dpti_dataset_visit(data, &(dpti_visit){1, keep_image, images}, NULL));
    for (size_t i = 0; i < 4; i++)
        CHECK_SIZE(images[12 * i], values[i]);
    CHECK_CONTAINS(dpt_pictures_failure(pictures, 3), "list/cut.png: ");
    CHECK(dpt_pictures_failure(pictures, 2) == NULL);
    dpt_dataset_destroy(data);
    /* Without skip_unreadable the message begins with the name. */
    how.skip_unreadable = false;
    CHECK_STATUS(dpt_pictures_open(context_of(t), pictures, &how, &data), DPT_E_FORMAT);
    CHECK(strncmp(dpt_error_message(context_of(t)), "list/cut.png: ", 14) == 0);
    dpt_pictures_destroy(pictures);
}
#endif

/* ---- What is passed over, and what is left out ----------------------------------------------- */

#ifdef DPTRAIN_HAS_PNG
static void passes_over(test *t)
{
    static const char text[] = "no picture";
    dpt_dataset *data = NULL;
    notices all = {.n = 0};
    write_small(t, "beside");
    write_file(t, "beside/train/one", "Thumbs.db", (const uint8_t *)text, sizeof text);
    write_file(t, "beside/train/two", "notes.txt", (const uint8_t *)text, sizeof text);
    write_file(t, "beside/train/two", "no-dot", (const uint8_t *)text, 0);
    write_square(t, "beside/train/two", "picture-without-a-name", 7);
    dpt_context_notices(context_of(t), note, &all);
    CHECK_OK(dpt_dataset_open(context_of(t), "folder:2x2", "beside", DPT_TRAIN, &data));
    dpt_context_notices(context_of(t), NULL, NULL);
    REQUIRE(data);
    CHECK_SIZE(data->count, 3);
    CHECK_SIZE(all.n, 1);
    CHECK_TEXT(all.last, "beside/train: 3 files are passed over, no pictures by name and content");
    dpt_dataset_destroy(data);
    REQUIRE(unlink("beside/train/one/0.png") == 0);
    check_fails(t, "folder:2x2", "beside", DPT_TRAIN, DPT_E_FORMAT,
                "beside/train/one has no pictures, but other files");
}

static void check_path(test *t, const char *name, size_t sample, const char *wanted)
{
    char path[128] = "";
    const dpt_dataset_place place = {name, "skipped", DPT_TRAIN};
    CHECK_OK(dpt_dataset_file(context_of(t), &place, sample, path, sizeof path));
    CHECK_TEXT(path, wanted);
}

/* ---- Classes below folders ------------------------------------------------------------------- */

/* Sorted by the bytes of whole paths: '-' is before '/'. */
static void takes_folders_below(test *t)
{
    dpt_dataset *data = NULL;
    write_square(t, "deep/train/animals/dog", "0.png", 3);
    write_square(t, "deep/train/animals/cat", "0.png", 2);
    write_square(t, "deep/train/animals-old/cat", "0.png", 1);
    write_square(t, "deep/train/animals", "beside.png", 9);
    write_square(t, "deep/test/animals/dog", "0.png", 4);
    make_folder(t, "deep/train/none");
    REQUIRE_OK(dpt_dataset_open(context_of(t), "folder:2x2:depth=2", "deep", DPT_TRAIN, &data));
    CHECK_TEXT(data->name, "folder:2x2:depth=2");
    CHECK_SIZE(data->classes, 3);
    CHECK_TEXT(data->class_names[0], "animals-old/cat");
    CHECK_TEXT(data->class_names[1], "animals/cat");
    CHECK_TEXT(data->class_names[2], "animals/dog");
    check_values(t, data, (const uint8_t[]){1, 2, 3}, (const uint8_t[]){0, 1, 2});
    dpt_dataset_destroy(data);
    REQUIRE_OK(dpt_dataset_open(context_of(t), "folder:2x2:no-orientation:depth=2", "deep",
                                DPT_TEST, &data));
    CHECK_TEXT(data->name, "folder:2x2:depth=2:no-orientation");
    check_values(t, data, (const uint8_t[]){4}, (const uint8_t[]){2});
    dpt_dataset_destroy(data);
    check_fails(t, "folder:2x2", "deep", DPT_TRAIN, DPT_E_FORMAT, "write :depth=2 behind the size");
    check_fails(t, "folder:2x2:depth=3", "deep", DPT_TRAIN, DPT_E_FORMAT,
                "has 0 folders at this depth");
    write_square(t, "deep/test/animals/cow", "0.png", 4);
    check_fails(t, "folder:2x2:depth=2", "deep", DPT_TEST, DPT_E_FORMAT,
                "deep/test/animals/cow: deep/train has no such folder");
}

static void skips_unreadable(test *t)
{
    static const char *const names[] = {"folder:2x2:skip-unreadable",
                                        "folder:2x2:stream:skip-unreadable",
                                        "folder:2x2:skip-unreadable:stream"};
    char path[128];
    write_small(t, "skipped");
    for (char name[] = "a.png"; name[0] <= 'd'; name[0]++)
        write_square(t, "skipped/train/one", name, (uint8_t)name[0]);
    write_file(t, "skipped/train/one", "b.png", (const uint8_t *)"cut", 3);
    write_file(t, "skipped/train/two", "z.jpg", (const uint8_t *)"cut", 3);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        dpt_dataset *data = NULL;
        notices all = {.n = 0};
        dpt_context_notices(context_of(t), note, &all);
        CHECK_OK(dpt_dataset_open(context_of(t), names[i], "skipped", DPT_TRAIN, &data));
        dpt_context_notices(context_of(t), NULL, NULL);
        REQUIRE(data);
        CHECK_SIZE(data->count, 5);
        CHECK_TEXT(data->name, "folder:2x2");
        CHECK_SIZE(all.n, 1);
        CHECK_TEXT(all.last, "skipped/train: 2 pictures that cannot be read are left out; dptrain "
                             "data names them");
        CHECK(data->labels[3] == 0 && data->labels[4] == 1);
        dpt_dataset_destroy(data);
    }
    check_path(t, names[0], 2, "skipped/train/one/c.png");
    check_path(t, "folder:2x2", 2, "skipped/train/one/b.png");
    const dpt_dataset_place place = {names[0], "skipped", DPT_TRAIN},
                            other = {"mnist", NULL, DPT_TRAIN};
    CHECK_STATUS(dpt_dataset_file(context_of(t), &place, 5, path, sizeof path), DPT_E_INVALID);
    CHECK_STATUS(dpt_dataset_file(context_of(t), &other, 0, path, sizeof path), DPT_E_INVALID);
    REQUIRE(unlink("skipped/train/two/0.png") == 0);
    check_fails(t, names[0], "skipped", DPT_TRAIN, DPT_E_FORMAT,
                "skipped/train/two has no picture that can be read");
}
#endif

int main(int argc, char **argv)
{
    static const test_case cases[] = {
#ifdef DPTRAIN_HAS_PNG
        {"reads_in_order", reads_in_order},
        {"cuts_and_scales", cuts_and_scales},
        {"test_part", test_part},
        {"links", links},
        {"tells_jpeg", tells_jpeg},
        {"refuses_names", refuses_names},
        {"refuses_classes", refuses_classes},
        {"reads_many_classes", reads_many_classes},
        {"refuses_odd_classes", refuses_odd_classes},
        {"refuses_files", refuses_files},
        {"refuses_absurd_size", refuses_absurd_size},
        {"streams_the_same", streams_the_same},
        {"crops_streamed", crops_streamed},
        {"streams_large_ones", streams_large_ones},
        {"divides_streamed", divides_streamed},
        {"large_pictures", large_pictures},
        {"single_pictures", single_pictures},
        {"names_of_parts", names_of_parts},
        {"searches", searches},
        {"reads_lists", reads_lists},
        {"passes_over", passes_over},
        {"takes_folders_below", takes_folders_below},
        {"skips_unreadable", skips_unreadable},
#else
        {"nothing", nothing},
#endif
    };
    return run_in_new_folder(argc, argv, cases, sizeof cases / sizeof *cases);
}
