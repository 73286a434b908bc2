/* Text and tokens: windows and their labels, the shift of later epochs, parts, files of every kind,
   and what is refused. */
#include "data/data.h"
#include "data/text_paths.h"
#include "data/tokens.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void write_bytes(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    if (!file || (n > 0 && fwrite(bytes, 1, n, file) != n) || fclose(file) != 0) abort();
}

static void write_text(const char *path, const char *text)
{
    write_bytes(path, text, strlen(text));
}

/* Opens a part; NULL: *error says why not. */
static dpt_dataset *open_data(const char *name, const char *files, dpt_part part, dpt_error *error)
{
    dpt_dataset *data = NULL;
    const dpti_data_request request = {.name = name, .directory = files, .part = part};
    return dpti_text_open(&request, &data, error) == DPT_OK ? data : NULL;
}

/* Reads the window of a record: its ids, and then its labels. */
static bool read_window(const dpt_dataset *data, uint32_t record, dpti_image_use use, int32_t *out)
{
    dpt_error error = {.status = DPT_OK};
    dpti_request request = {.records = &record, .n = 1, .use = use, .images = (uint8_t *)out};
    dpti_reader_post(data->reader, &request);
    return dpti_reader_wait(data->reader, &request, &error) == DPT_OK;
}

/* ---- Windows --------------------------------------------------------------------------------- */

/* The bytes 0, 1, ..., n - 1, so that an id is its own place. */
static void write_places(const char *path, size_t n)
{
    uint8_t bytes[256];
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)i;
    write_bytes(path, bytes, n);
}

static void has_windows(test *t)
{
    dpt_error error = {.status = DPT_OK};
    write_places("train.txt", 103);
    dpt_dataset *data = open_data("text:10", "train.txt", DPT_TRAIN, &error);
    dpt_dataset *all = open_data("text:10", "train.txt", DPT_TEST, &error);
    REQUIRE(data && all);
    CHECK_SIZE(data->count, 9); /* one less, so that windows can be shifted */
    CHECK_SIZE(all->count, 10);
    CHECK(data->height == 1 && data->width == 1 && data->channels == 10);
    CHECK(data->classes == 256 && data->vocabulary == 256 && dpti_dataset_labels(data) == 10);
    CHECK(data->bytes_per_label == 1);
    for (uint32_t r = 0; r < 9; r++) {
        int32_t window[20];
        REQUIRE(read_window(data, r, (dpti_image_use){.epoch = 1, .seed = 7}, window));
        for (int32_t i = 0; i < 10; i++)
            CHECK(window[i] == (int32_t)r * 10 + i && window[10 + i] == window[i] + 1);
    }
    int32_t last[20];
    REQUIRE(read_window(all, 9, (dpti_image_use){.epoch = 0}, last));
    CHECK(last[0] == 90 && last[19] == 100);
    const uint32_t records[] = {3, 4};
    CHECK_SIZE(dpti_dataset_count_labels(data, records, 2), 20);
    dpt_dataset_destroy(data);
    dpt_dataset_destroy(all);
}

/* Every epoch after the first has one shift for all windows, which the seed tells. */
static void shifts_later_epochs(test *t)
{
    dpt_error error = {.status = DPT_OK};
    bool seen[10] = {false};
    size_t n_seen = 0, n_differ = 0;
    write_places("train.txt", 100);
    dpt_dataset *data = open_data("text:10", "train.txt", DPT_TRAIN, &error);
    REQUIRE(data != NULL);
    for (size_t epoch = 2; epoch < 200; epoch++) {
        int32_t first[20], last[20], other[20];
        REQUIRE(read_window(data, 0, (dpti_image_use){.epoch = epoch, .seed = 7}, first));
        REQUIRE(read_window(data, 8, (dpti_image_use){.epoch = epoch, .seed = 7}, last));
        REQUIRE(read_window(data, 0, (dpti_image_use){.epoch = epoch, .seed = 8}, other));
        CHECK(first[0] >= 0 && first[0] < 10 && last[0] == first[0] + 80);
        CHECK(last[19] == last[0] + 10);
        n_seen += !seen[first[0]];
        n_differ += first[0] != other[0];
        seen[first[0]] = true;
    }
    CHECK(n_seen == 10 && n_differ > 100);
    dpt_dataset_destroy(data);
}

static void has_one_window(test *t)
{
    dpt_error error = {.status = DPT_OK};
    int32_t window[2];
    write_places("train.txt", 2);
    dpt_dataset *data = open_data("text:1", "train.txt", DPT_TRAIN, &error);
    REQUIRE(data && data->count == 1);
    REQUIRE(read_window(data, 0, (dpti_image_use){.epoch = 9}, window));
    CHECK(window[0] == 0 && window[1] == 1);
    dpt_dataset_destroy(data);
    CHECK(!open_data("text:2", "train.txt", DPT_TRAIN, &error));
    CHECK(error.status == DPT_E_INVALID);
    CHECK_CONTAINS(error.message, "train.txt has 2 tokens, and a window of 2 needs 3");
}

/* The end becomes the second part, whose windows no shifted window of the first part reaches. */
static void is_cut_in_one_place(test *t)
{
    dpt_error error = {.status = DPT_OK};
    dpt_dataset *first = NULL, *second = NULL;
    write_places("train.txt", 210);
    dpt_dataset *data = open_data("text:10", "train.txt", DPT_TRAIN, &error);
    REQUIRE(data && data->count == 20);
    REQUIRE_OK(dpt_dataset_split(data, 0.25, 1, &first, &second));
    CHECK(first->count == 14 && second->count == 5);
    CHECK(dpti_dataset_record(first, 13) == 13 && dpti_dataset_record(second, 0) == 15);
    int32_t largest = 0, window[20];
    for (size_t epoch = 1; epoch < 100; epoch++) {
        REQUIRE(read_window(first, 13, (dpti_image_use){.epoch = epoch, .seed = 3}, window));
        if (window[19] > largest) largest = window[19];
    }
    REQUIRE(read_window(second, 15, (dpti_image_use){.epoch = 0}, window));
    CHECK(largest == 149 && window[0] == 150);
    CHECK(dpti_dataset_content(first) != dpti_dataset_content(second));
    dpt_dataset_destroy(first);
    dpt_dataset_destroy(second);
    dpt_dataset_destroy(data);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void joins_files(test *t)
{
    dpt_error error = {.status = DPT_OK};
    dpti_paths paths = {.n = 0};
    int32_t window[12];
    CHECK(mkdir("corpus", 0700) == 0 && mkdir("corpus/b", 0700) == 0);
    write_text("corpus/c", "789");
    write_text("corpus/b/x", "56");
    write_text("corpus/a", "1234");
    write_text("corpus/empty", "");
    write_text("corpus/.hidden", "x");
    CHECK(symlink(".", "corpus/circle") == 0 && symlink("nowhere", "corpus/dead") == 0);
    write_text("a,b", "x");
    CHECK_STATUS(dpti_text_paths("corpus,a,b", false, &paths, &error), DPT_E_NOT_FOUND);
    REQUIRE_OK(dpti_text_paths("a,b", false, &paths, &error));
    CHECK(paths.n == 1);
    dpti_paths_free(&paths);
    REQUIRE_OK(dpti_text_paths("corpus,corpus/a", false, &paths, &error));
    CHECK(paths.n == 4);
    CHECK_TEXT(paths.items[0], "corpus/a");
    CHECK_TEXT(paths.items[1], "corpus/b/x");
    CHECK_TEXT(paths.items[2], "corpus/c");
    CHECK_TEXT(paths.items[3], "corpus/a");
    dpti_paths_free(&paths);
    dpt_dataset *data = open_data("text:6", "corpus", DPT_TEST, &error);
    REQUIRE(data && data->count == 1);
    CHECK_TEXT(data->source, "corpus/a and 2 more files");
    REQUIRE(read_window(data, 0, (dpti_image_use){.epoch = 0}, window));
    for (int32_t i = 0; i < 6; i++)
        CHECK(window[i] == '1' + i && window[6 + i] == '2' + i);
    dpt_dataset_destroy(data);
}

static void finds_the_test_part(test *t)
{
    dpt_error error = {.status = DPT_OK};
    write_text("a.train.txt", "training text");
    write_text("a.val.txt", "held out");
    write_text("b.train.txt", "more training");
    dpt_dataset *data = open_data("text:3", "a.train.txt", DPT_TEST, &error);
    REQUIRE(data != NULL);
    CHECK_TEXT(data->source, "a.val.txt");
    dpt_dataset_destroy(data);
    data = open_data("text:3", "a.train.txt,b.train.txt", DPT_TEST, &error); /* b has none */
    REQUIRE(data != NULL);
    CHECK_TEXT(data->source, "a.train.txt and 1 more file");
    dpt_dataset_destroy(data);
}

/* Ids 1, 2, 300, 4 in each form that a file can have. */
static void reads_every_form(test *t)
{
    static const uint16_t narrow[] = {1, 2, 300, 4};
    static const uint32_t wide[] = {1, 2, 300, 4};
    static const uint8_t swapped[] = {0, 1, 0, 2, 1, 44, 0, 4};
    static const struct {
        const char *name, *type;
        const void *bytes;
        size_t n;
        uint32_t magic, version;
    } forms[] = {
        {"tokens:3", NULL, narrow, sizeof narrow, 0, 0},
        {"tokens:3:u16", NULL, narrow, sizeof narrow, 0, 0},
        {"tokens:3:u32", NULL, wide, sizeof wide, 0, 0},
        {"tokens:3", "<u2", narrow, sizeof narrow, 0, 0},
        {"tokens:3", ">u2", swapped, sizeof swapped, 0, 0},
        {"tokens:3", "<i4", wide, sizeof wide, 0, 0},
        {"tokens:3", NULL, narrow, sizeof narrow, 20240520, 1},
        {"tokens:3", NULL, wide, sizeof wide, 20240801, 7},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        dpt_error error = {.status = DPT_OK};
        int32_t window[6] = {0};
        uint8_t file[2048] = {0};
        size_t head = 0;
        if (forms[i].type) {
            head = 128;
            memcpy(file, "\x93NUMPY\1\0\x76\0", 10);
            memset(file + 10, ' ', 118);
            snprintf((char *)file + 10, 118,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (4,)}", forms[i].type);
            file[10 + strlen((char *)file + 10)] = ' ';
        } else if (forms[i].magic) {
            const uint32_t header[] = {forms[i].magic, forms[i].version, 4};
            head = 1024;
            memcpy(file, header, sizeof header);
        }
        memcpy(file + head, forms[i].bytes, forms[i].n);
        write_bytes("ids", file, head + forms[i].n);
        dpt_dataset *data = open_data(forms[i].name, "ids", DPT_TEST, &error);
        if (!CHECK(data && data->count == 1 && data->vocabulary == 301)) {
            FAIL("form %zu: %s", i, error.message);
            continue;
        }
        CHECK(read_window(data, 0, (dpti_image_use){.epoch = 0}, window));
        CHECK(window[0] == 1 && window[2] == 300 && window[3] == 2 && window[5] == 4);
        dpt_dataset_destroy(data);
    }
}

static void refuse(test *t, const char *name, const char *files, const char *why)
{
    dpt_error error = {.status = DPT_OK};
    dpt_dataset *data = open_data(name, files, DPT_TRAIN, &error);
    if (!CHECK(!data && error.status != DPT_OK)) dpt_dataset_destroy(data);
    CHECK_CONTAINS(error.message, why);
}

static void refuses_files(test *t)
{
    static const uint16_t ids[] = {1, 2, 300, 4, 5, 6, 7, 8};
    static const uint32_t wide[32] = {5, 6, 7};
    uint32_t header[256] = {20240520, 1, 9};
    write_text("empty", "");
    write_bytes("ids", ids, sizeof ids);
    write_bytes("odd", ids, 7);
    write_bytes("wide", wide, sizeof wide);
    write_bytes("short.bin", header, 1024);
    header[1] = 2;
    write_bytes("version.bin", header, 1024);
    write_bytes("cut.bin", header, 100);
    write_text("reals.npy", "\x93NUMPY\1");
    refuse(t, "text", "ids", "text:CONTEXT");
    refuse(t, "text:0", "ids", "text:CONTEXT");
    refuse(t, "tokens:4:", "ids", "text:CONTEXT");
    refuse(t, "text:4", "nothing", "cannot read nothing");
    refuse(t, "text:4", "empty", "empty is empty; leave it out");
    refuse(t, "tokens:4", "odd", "odd has 7 bytes, which are no whole number of ids");
    refuse(t, "tokens:4", "wide", "the ids have 32 bits; write tokens:CONTEXT:u32");
    refuse(t, "tokens:4", "short.bin", "promises 9 ids of 2 bytes, and 0 bytes are there");
    refuse(t, "tokens:4", "version.bin", "version 2 of llm.c's token files; version 1");
    refuse(t, "tokens:4", "cut.bin", "ends within its header of 1024 bytes");
    refuse(t, "tokens:4", "reals.npy", "reals.npy");
    refuse(t, "tokens:4:300", "ids",
           "ids: the id at place 2 is out of range: the vocabulary has 300 ids");
    refuse(t, "text:4:no/tokenizer.json", "ids", "no/tokenizer.json");
}

static void refuses_real_numbers(test *t)
{
    static const char head[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (4,)}";
    static const char two[] = "{'descr': '<u2', 'fortran_order': False, 'shape': (4, 2)}";
    static const char cut[] = "{'descr': '<u2', 'fortran_order': False, 'shape': (99,)}";
    const char *const heads[] = {head, two, cut};
    const char *const whys[] = {"this array has real numbers", "one axis, and this one has 2",
                                "promises 198 bytes of elements and 16 are there"};
    for (size_t i = 0; i < 3; i++) {
        uint8_t file[128 + 16] = {0};
        memcpy(file, "\x93NUMPY\1\0\x76\0", 10);
        memset(file + 10, ' ', 118);
        memcpy(file + 10, heads[i], strlen(heads[i]));
        write_bytes("a.npy", file, sizeof file);
        refuse(t, "tokens:3", "a.npy", whys[i]);
    }
}

/* A file that shrinks is an error of the window that lacks ids. */
static void notices_a_shorter_file(test *t)
{
    dpt_error error = {.status = DPT_OK};
    uint32_t record = 8;
    int32_t window[20];
    write_places("train.txt", 100);
    dpt_dataset *data = open_data("text:10", "train.txt", DPT_TRAIN, &error);
    REQUIRE(data && truncate("train.txt", 40) == 0);
    CHECK(read_window(data, 0, (dpti_image_use){.epoch = 1}, window));
    dpti_request request = {.records = &record, .n = 1, .images = (uint8_t *)window};
    dpti_reader_post(data->reader, &request);
    CHECK_STATUS(dpti_reader_wait(data->reader, &request, &error), DPT_E_FORMAT);
    CHECK_CONTAINS(error.message, "train.txt has become shorter");
    dpt_dataset_destroy(data);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"has_windows", has_windows},
        {"shifts_later_epochs", shifts_later_epochs},
        {"has_one_window", has_one_window},
        {"is_cut_in_one_place", is_cut_in_one_place},
        {"joins_files", joins_files},
        {"finds_the_test_part", finds_the_test_part},
        {"reads_every_form", reads_every_form},
        {"refuses_files", refuses_files},
        {"refuses_real_numbers", refuses_real_numbers},
        {"notices_a_shorter_file", notices_a_shorter_file},
    };
    char folder[TEST_FOLDER_BYTES];
    if (!test_enter_folder(folder)) return 1;
    const int code = test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
    test_remove_folder(folder);
    return code;
}
