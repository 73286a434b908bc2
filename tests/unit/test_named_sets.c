/* Tests data sets with names of their own beside MNIST: EMNIST, KMNIST, CIFAR-100; the names of
   classes in files; and labels that do not begin at 0. */
#include "data/class_names.h"
#include "data/first_label.h"
#include "data_files.h"

enum { HEIGHT = 3, WIDTH = 2, PIXELS = HEIGHT * WIDTH };

/* The last notice, and how many there were. */
typedef struct notices {
    size_t n;
    char last[512];
} notices;

static void take_notice(void *user, const char *line)
{
    notices *to = user;
    to->n++;
    snprintf(to->last, sizeof to->last, "%s", line);
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* Images of two rows of three: as EMNIST stores images of three rows of two. */
static void write_idx(test *t, const char *directory, const char *name, const uint8_t *labels,
                      size_t n)
{
    uint8_t bytes[256] = {0, 0, 8, labels ? 1 : 3, 0, 0, 0, (uint8_t)n,
                          0, 0, 0, WIDTH,          0, 0, 0, HEIGHT};
    const size_t begin = labels ? 8 : 16, each = labels ? 1 : PIXELS;
    REQUIRE(begin + n * each <= sizeof bytes);
    for (size_t i = 0; i < n * each; i++)
        bytes[begin + i] = labels ? labels[i] : (uint8_t)(i + 1);
    write_file(t, directory, name, bytes, begin + n * each);
}

static void write_pair(test *t, const char *directory, const char *prefix, const uint8_t *labels,
                       size_t n)
{
    char name[64];
    snprintf(name, sizeof name, "%s-images-idx3-ubyte", prefix);
    write_idx(t, directory, name, NULL, n);
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte.gz", prefix);
    write_idx(t, directory, name, labels, n);
}

static dpt_dataset *open_part(test *t, const char *name, const char *directory, dpt_part part)
{
    dpt_dataset *data = NULL;
    CHECK_OK(dpt_dataset_open(context_of(t), name, directory, part, &data));
    return data;
}

/* ---- EMNIST and KMNIST ----------------------------------------------------------------------- */

static const struct {
    const char *split;
    size_t classes;
    const char *first, *last;
} splits[] = {
    {"byclass", 62, "0", "z"},   {"bymerge", 47, "0", "t"}, {"balanced", 47, "0", "t"},
    {"letters", 27, "N/A", "z"}, {"digits", 10, "0", "9"},  {"mnist", 10, "0", "9"},
};

/* In the folder of the archive, or beside it. */
static void opens_emnist(test *t)
{
    static const uint8_t upright[PIXELS] = {1, 4, 2, 5, 3, 6};
    static const uint8_t labels[] = {9, 0};
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        char name[64], prefix[64];
        const char *directory = i % 2 ? "emnist/gzip" : "emnist";
        snprintf(name, sizeof name, "emnist:%s", splits[i].split);
        snprintf(prefix, sizeof prefix, "emnist-%s-train", splits[i].split);
        write_pair(t, directory, prefix, labels, 2);
        snprintf(prefix, sizeof prefix, "emnist-%s-test", splits[i].split);
        write_pair(t, directory, prefix, labels + 1, 1);
        dpt_dataset *data = open_part(t, name, "emnist", DPT_TRAIN);
        dpt_dataset *test_data = open_part(t, name, "emnist", DPT_TEST);
        REQUIRE(data && test_data);
        CHECK_TEXT(data->name, name);
        CHECK_SIZE(data->count, 2);
        CHECK_SIZE(test_data->count, 1);
        CHECK_SIZE(data->height, HEIGHT);
        CHECK_SIZE(data->width, WIDTH);
        CHECK(memcmp(data->images, upright, PIXELS) == 0);
        CHECK(((const uint8_t *)data->images)[PIXELS + 1] == 6 + 4);
        CHECK_SIZE(data->classes, splits[i].classes);
        CHECK_SIZE(test_data->classes, splits[i].classes);
        CHECK_TEXT(data->class_names[0], splits[i].first);
        CHECK_TEXT(data->class_names[splits[i].classes - 1], splits[i].last);
        dpt_dataset_destroy(test_data);
        dpt_dataset_destroy(data);
    }
}

static void finds_folders_by_name(test *t)
{
    static const uint8_t label = 3;
    REQUIRE(setenv("DPTRAIN_DATA", "all", 1) == 0);
    write_pair(t, "all/emnist", "emnist-letters-test", &label, 1);
    write_pair(t, "all/kmnist", "t10k", &label, 1);
    write_pair(t, "all/mnist", "t10k", &label, 1);
    dpt_dataset *letters = open_part(t, "emnist:letters", NULL, DPT_TEST);
    dpt_dataset *kuzushiji = open_part(t, "kmnist", NULL, DPT_TEST);
    REQUIRE(letters && kuzushiji);
    CHECK_TEXT(letters->source, "all/emnist");
    CHECK_TEXT(kuzushiji->source, "all/kmnist");
    CHECK_TEXT(kuzushiji->class_names[3], "tsu");
    CHECK_SIZE(kuzushiji->height, WIDTH); /* as it is stored */
    dpt_dataset_destroy(kuzushiji);
    dpt_dataset_destroy(letters);
    check_fails(t, "emnist:digits", NULL, DPT_TEST, DPT_E_NOT_FOUND, "emnist-digits-train-images");
    unsetenv("DPTRAIN_DATA");
}

static void refuses_other_emnist(test *t)
{
    static const uint8_t label = 10;
    check_fails(t, "emnist", NULL, DPT_TRAIN, DPT_E_INVALID, "emnist:letters");
    check_fails(t, "emnist:capitals", NULL, DPT_TRAIN, DPT_E_INVALID, "no split of EMNIST");
    write_pair(t, "tens", "emnist-digits-test", &label, 1);
    check_fails(t, "emnist:digits", "tens", DPT_TEST, DPT_E_FORMAT, "label 10 of sample 0");
    check_fails(t, "emnist:digits", "tens", DPT_TRAIN, DPT_E_NOT_FOUND,
                "tens has no emnist-digits-train-images-idx3-ubyte");
}

/* ---- CIFAR-100 ------------------------------------------------------------------------------- */

static void write_cifar100(test *t, const char *directory, const char *name, uint8_t fine)
{
    const size_t n_bytes = dpti_cifar_record_bytes(DPTI_CIFAR100_FINE);
    uint8_t *record = calloc(n_bytes, 1);
    REQUIRE(record != NULL);
    record[0] = fine / 5;
    record[1] = fine;
    record[2] = 77;
    write_file(t, directory, name, record, n_bytes);
    free(record);
}

static void write_names(test *t, const char *path, size_t n, const char *end)
{
    char text[2048] = "", *at = text;
    for (size_t i = 0; i < n; i++)
        at += snprintf(at, (size_t)(text + sizeof text - at), "name %zu%s", i, end);
    write_file(t, "cifar/cifar-100-binary", path, (const uint8_t *)text, strlen(text));
}

static void opens_cifar100(test *t)
{
    write_cifar100(t, "cifar/cifar-100-binary", "train.bin", 99);
    write_cifar100(t, "cifar/cifar-100-binary", "test.bin", 42);
    dpt_dataset *unnamed = open_part(t, "cifar100", "cifar", DPT_TRAIN);
    write_names(t, "fine_label_names.txt", 100, "\r\n");
    write_names(t, "coarse_label_names.txt", 20, "\n");
    dpt_dataset *fine = open_part(t, "cifar100", "cifar", DPT_TRAIN);
    dpt_dataset *coarse = open_part(t, "cifar100:coarse", "cifar", DPT_TEST);
    REQUIRE(unnamed && fine && coarse);
    CHECK_SIZE(unnamed->classes, 100);
    CHECK(unnamed->class_names == NULL);
    CHECK_SIZE(fine->classes, 100);
    CHECK(fine->labels[0] == 99);
    CHECK_TEXT(fine->class_names[99], "name 99");
    CHECK_SIZE(coarse->classes, 20);
    CHECK(coarse->labels[0] == 42 / 5);
    CHECK_TEXT(coarse->class_names[8], "name 8");
    CHECK(((const uint8_t *)fine->images)[0] == 77 && ((const uint8_t *)fine->images)[1] == 0);
    dpt_dataset_destroy(coarse);
    dpt_dataset_destroy(fine);
    dpt_dataset_destroy(unnamed);
    write_names(t, "fine_label_names.txt", 99, "\n");
    check_fails(t, "cifar100", "cifar", DPT_TRAIN, DPT_E_FORMAT,
                "fine_label_names.txt has 99 lines, and there are 100 classes");
}

static void refuses_other_cifar100(test *t)
{
    write_cifar100(t, "wrong", "train.bin", 100);
    check_fails(t, "cifar100", "wrong", DPT_TRAIN, DPT_E_FORMAT, "label 20 of record 0");
    write_file(t, "wrong", "train.bin", (const uint8_t *)"", 0);
    check_fails(t, "cifar100:coarse", "wrong", DPT_TRAIN, DPT_E_FORMAT, "CIFAR-100 records");
    check_fails(t, "cifar100", "wrong", DPT_TEST, DPT_E_NOT_FOUND, "test.bin");
    check_fails(t, "cifar100:fine", "wrong", DPT_TEST, DPT_E_INVALID, "cifar100:coarse");
}

/* ---- Names of classes ------------------------------------------------------------------------ */

static void reads_names(test *t)
{
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"", "has 0 lines"},          {"a\n", "has 1 line,"},
        {"a\nb\nc", "has 3 lines"},   {"a\n\nb", "has 3 lines"},
        {"\nb", "line 1 is no name"}, {"a\n\x80", "line 2 is no name"},
        {"a\n\r\n", "has 1 line,"},   {"a\tb\nc", "line 1 is no name"},
    };
    const char **names = NULL;
    dpt_error error = {.status = DPT_OK};
    const char text[] = "sea lion\r\nRochen \xc3\xbc\n\n";
    REQUIRE_OK(dpti_class_names_parse(
        &(dpti_file_bytes){"f", (const uint8_t *)text, sizeof text - 1}, 2, &names, &error));
    CHECK_TEXT(names[0], "sea lion");
    CHECK_TEXT(names[1], "Rochen \xc3\xbc");
    free(names);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const dpti_file_bytes file = {"some/file", (const uint8_t *)wrong[i].text,
                                      strlen(wrong[i].text)};
        CHECK_STATUS(dpti_class_names_parse(&file, 2, &names, &error), DPT_E_FORMAT);
        CHECK_CONTAINS(error.message, "some/file");
        CHECK_CONTAINS(error.message, wrong[i].says);
    }
    CHECK_STATUS(dpti_class_names_parse(&(dpti_file_bytes){"f", (const uint8_t *)"a\0\nb", 4}, 2,
                                        &names, &error),
                 DPT_E_FORMAT);
}

/* ---- Labels that do not begin at 0 ----------------------------------------------------------- */

static void tells_of_a_first_label(test *t)
{
    static const uint8_t from_one[] = {3, 1, 2, 3}, from_zero[] = {0, 2, 1, 0};
    notices told = {.n = 0};
    write_pair(t, "one", "train", from_one, 4);
    write_pair(t, "one", "t10k", from_one + 1, 2);
    write_pair(t, "zero", "train", from_zero, 4);
    dpt_context_notices(context_of(t), take_notice, &told);
    dpt_dataset *zero = open_part(t, "idx", "zero", DPT_TRAIN);
    CHECK_SIZE(told.n, 0);
    dpt_dataset *one = open_part(t, "idx", "one", DPT_TRAIN);
    CHECK_SIZE(told.n, 1);
    CHECK_CONTAINS(told.last, "one/train-images-idx3-ubyte are 1 to 3; 0 does not occur");
    dpt_dataset *test_data = open_part(t, "idx", "one", DPT_TEST);
    dpt_dataset *shifted = open_part(t, "idx:labels-from=1", "one", DPT_TRAIN);
    CHECK_SIZE(told.n, 1);
    dpt_context_notices(context_of(t), NULL, NULL);
    REQUIRE(zero && one && test_data && shifted);
    CHECK_SIZE(one->classes, 4);
    dpt_dataset_destroy(shifted);
    dpt_dataset_destroy(test_data);
    dpt_dataset_destroy(one);
    dpt_dataset_destroy(zero);
}

static void shifts_labels(test *t)
{
    static const uint8_t labels[] = {3, 1, 2, 3}, letters[] = {26, 1};
    write_pair(t, "one", "train", labels, 4);
    write_pair(t, "one", "t10k", labels + 1, 1);
    write_pair(t, "one", "emnist-letters-train", letters, 2);
    dpt_dataset *data = open_part(t, "idx:labels-from=1", "one", DPT_TRAIN);
    dpt_dataset *test_data = open_part(t, "idx:labels-from=1", "one", DPT_TEST);
    dpt_dataset *named = open_part(t, "emnist:letters:labels-from=1", "one", DPT_TRAIN);
    REQUIRE(data && test_data && named);
    CHECK_TEXT(data->name, "idx:labels-from=1");
    CHECK_SIZE(data->classes, 3);
    CHECK_SIZE(test_data->classes, 3);
    CHECK(memcmp(data->labels, (const int32_t[]){2, 0, 1, 2}, 4 * sizeof(int32_t)) == 0);
    CHECK(test_data->labels[0] == 0);
    CHECK_TEXT(data->class_names[0], "1");
    CHECK_TEXT(data->class_names[2], "3");
    size_t counts[3] = {9, 9, 9};
    REQUIRE_OK(dpt_dataset_count_classes(data, counts));
    CHECK(counts[0] == 1 && counts[1] == 1 && counts[2] == 2);
    CHECK_SIZE(named->classes, 26);
    CHECK(named->labels[0] == 25 && named->labels[1] == 0);
    CHECK_TEXT(named->class_names[0], "a");
    CHECK_TEXT(named->class_names[25], "z");
    dpt_dataset_destroy(named);
    dpt_dataset_destroy(test_data);
    dpt_dataset_destroy(data);
    check_fails(t, "idx:labels-from=2", "one", DPT_TRAIN, DPT_E_FORMAT,
                "begin at 2 (--labels-from), but sample 1 has label 1");
}

static void refuses_other_first_labels(test *t)
{
    static const char *const names[] = {"idx:labels-from=",   "idx:labels-from=0",
                                        "idx:labels-from=-1", "idx:labels-from=65536",
                                        "idx:labels-from=1x", "idx:labels-from=1:labels-from=x"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_fails(t, names[i], "one", DPT_TRAIN, DPT_E_INVALID, "a number from 1 to 65535");
    check_fails(t, "folder:8x8:labels-from=1", "one", DPT_TRAIN, DPT_E_INVALID,
                "numbers as labels");
    check_fails(t, "synthetic:8x8x1:3:9:labels-from=1", NULL, DPT_TRAIN, DPT_E_INVALID,
                "numbers as labels");
    check_fails(t, "text:8:labels-from=1", "one", DPT_TRAIN, DPT_E_INVALID, "numbers as labels");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"opens_emnist", opens_emnist},
        {"finds_folders_by_name", finds_folders_by_name},
        {"refuses_other_emnist", refuses_other_emnist},
        {"opens_cifar100", opens_cifar100},
        {"refuses_other_cifar100", refuses_other_cifar100},
        {"reads_names", reads_names},
        {"tells_of_a_first_label", tells_of_a_first_label},
        {"shifts_labels", shifts_labels},
        {"refuses_other_first_labels", refuses_other_first_labels},
    };
    return run_in_new_folder(argc, argv, cases, sizeof cases / sizeof *cases);
}
