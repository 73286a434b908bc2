/* Tests safetensors: written tensors are read back, files of other programs are read, and damaged
   files are refused. */
#include "harness.h"
#include "io/safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const float weight[6] = {0, 1, 2, 3, 4, -5.5f};
static const int64_t count[1] = {7};

static const dpti_tensor tensors[] = {
    {.name = "fc.weight",
     .dtype = "F32",
     .rank = 2,
     .shape = {2, 3},
     .data = weight,
     .n_bytes = 24},
    {.name = "empty", .dtype = "F16", .rank = 2, .shape = {0, 4}, .data = NULL, .n_bytes = 0},
    {.name = "n", .dtype = "I64", .rank = 0, .data = count, .n_bytes = 8},
};
enum { N_TENSORS = sizeof tensors / sizeof *tensors };

/* ---- Files ----------------------------------------------------------------------------------- */

static size_t read_whole(const char *path, uint8_t *to, size_t capacity)
{
    FILE *file = fopen(path, "rb");
    if (!file) return 0;
    const size_t n = fread(to, 1, capacity, file);
    fclose(file);
    return n;
}

static bool write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    if (!file) return false;
    const bool written = fputs(text, file) >= 0;
    return fclose(file) == 0 && written;
}

static size_t entries_of(const char *directory)
{
    DIR *folder = opendir(directory);
    size_t n = 0;
    for (const struct dirent *e = folder ? readdir(folder) : NULL; e; e = readdir(folder))
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    if (folder) closedir(folder);
    return n;
}

/* ---- Round trip ------------------------------------------------------------------------------ */

static void check_equal(test *t, const dpti_tensor *found, const dpti_tensor *expected)
{
    REQUIRE(found != NULL);
    CHECK_TEXT(found->name, expected->name);
    CHECK_TEXT(found->dtype, expected->dtype);
    CHECK_SIZE(found->rank, expected->rank);
    for (size_t d = 0; d < expected->rank; d++)
        CHECK_SIZE(found->shape[d], expected->shape[d]);
    CHECK_SIZE(found->n_bytes, expected->n_bytes);
    if (expected->n_bytes) CHECK(memcmp(found->data, expected->data, expected->n_bytes) == 0);
}

static void reads_what_it_writes(test *t)
{
    static const char *const metadata[] = {"format", "pt", "model", "lenet \"5\" \xc3\xa9", NULL};
    dpti_safetensors *file = NULL;
    dpt_error error = {0};
    REQUIRE_OK(dpti_safetensors_write(
        &(dpti_tensor_file){
            .path = "round-trip", .tensors = tensors, .n_tensors = N_TENSORS, .metadata = metadata},
        &error));
    REQUIRE_OK(dpti_safetensors_read("round-trip", &file, &error));
    CHECK_SIZE(dpti_safetensors_count(file), N_TENSORS);
    for (size_t i = 0; i < N_TENSORS; i++)
        check_equal(t, dpti_safetensors_find(file, tensors[i].name), &tensors[i]);
    check_equal(t, dpti_safetensors_get(file, 0), &tensors[0]);
    CHECK(dpti_safetensors_get(file, N_TENSORS) == NULL);
    CHECK(dpti_safetensors_find(file, "fc") == NULL);
    CHECK(dpti_safetensors_find(file, "__metadata__") == NULL);
    CHECK_TEXT(dpti_safetensors_metadata(file, "format"), "pt");
    CHECK_TEXT(dpti_safetensors_metadata(file, "model"), metadata[3]);
    CHECK(dpti_safetensors_metadata(file, "other") == NULL);
    dpti_safetensors_close(file);
    dpti_safetensors_close(NULL);

    uint8_t bytes[1000];
    REQUIRE(read_whole("round-trip", bytes, sizeof bytes) > 8);
    CHECK_SIZE(bytes[0] % 8, 0); /* the length of the header: data are aligned */
    CHECK(bytes[8] == '{');
}

static void writes_no_tensors(test *t)
{
    dpti_safetensors *file = NULL;
    dpt_error error = {0};
    REQUIRE_OK(dpti_safetensors_write(
        &(dpti_tensor_file){.path = "nothing", .tensors = NULL, .n_tensors = 0}, &error));
    REQUIRE_OK(dpti_safetensors_read("nothing", &file, &error));
    CHECK_SIZE(dpti_safetensors_count(file), 0);
    CHECK(dpti_safetensors_metadata(file, "format") == NULL);
    dpti_safetensors_close(file);
}

/* The bytes that Python's safetensors 0.8.0 makes of
       {"fc.weight": arange(6).reshape(2, 3), "n": 7, "e": zeros((0, 4), float16)}. */
static void reads_pythons_file(test *t)
{
    static const char header[] =
        "\xd0\0\0\0\0\0\0\0{\"__metadata__\":{\"format\":\"pt\"},"
        "\"n\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
        "\"fc.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]},"
        "\"e\":{\"dtype\":\"F16\",\"shape\":[0,4],\"data_offsets\":[32,32]}}   ";
    enum { N_HEADER = sizeof header - 1 };
    uint8_t bytes[N_HEADER + 32];
    const float values[6] = {0, 1, 2, 3, 4, 5};
    memcpy(bytes, header, N_HEADER);
    memcpy(bytes + N_HEADER, count, 8);
    memcpy(bytes + N_HEADER + 8, values, 24);
    dpti_safetensors *file = NULL;
    dpt_error error = {0};
    REQUIRE_OK(
        dpti_safetensors_parse(&(dpti_file_bytes){"python", bytes, sizeof bytes}, &file, &error));
    CHECK_SIZE(dpti_safetensors_count(file), 3);
    check_equal(t, dpti_safetensors_find(file, "n"), &tensors[2]);
    CHECK(dpti_safetensors_find(file, "e") && dpti_safetensors_find(file, "e")->n_bytes == 0);
    dpti_tensor expected = tensors[0];
    expected.data = values;
    check_equal(t, dpti_safetensors_find(file, "fc.weight"), &expected);
    CHECK_TEXT(dpti_safetensors_metadata(file, "format"), "pt");
    dpti_safetensors_close(file);
}

/* The bytes that MLX 0.32.4 makes of {"b": zeros(2, bfloat16)}: a header without padding. */
static void reads_mlx_file(test *t)
{
    static const char bytes[] = "K\0\0\0\0\0\0\0{\"__metadata__\":null,"
                                "\"b\":{\"data_offsets\":[0,4],\"dtype\":\"BF16\",\"shape\":[2]}}"
                                "\0\0\0"; /* and the zero that ends the text */
    dpti_safetensors *file = NULL;
    dpt_error error = {0};
    REQUIRE_OK(dpti_safetensors_parse(
        &(dpti_file_bytes){"mlx", (const uint8_t *)bytes, sizeof bytes}, &file, &error));
    CHECK_SIZE(dpti_safetensors_count(file), 1);
    CHECK(dpti_safetensors_find(file, "b") && dpti_safetensors_find(file, "b")->n_bytes == 4);
    CHECK(dpti_safetensors_metadata(file, "format") == NULL);
    dpti_safetensors_close(file);
}

/* ---- Damaged files --------------------------------------------------------------------------- */

static void check_refused(test *t, const uint8_t *bytes, size_t n_bytes, const char *reason)
{
    dpti_safetensors *file = NULL;
    dpt_error error = {0};
    if (!CHECK_STATUS(
            dpti_safetensors_parse(&(dpti_file_bytes){"some/file", bytes, n_bytes}, &file, &error),
            DPT_E_FORMAT)) {
        FAIL("not refused: %s", reason);
        dpti_safetensors_close(file);
        return;
    }
    CHECK(file == NULL);
    CHECK_CONTAINS(error.message, "some/file");
    CHECK_CONTAINS(error.message, reason);
    for (const char *c = error.message; *c; c++)
        CHECK((unsigned char)*c >= 0x20);
}

static void refuses_wrong_headers(test *t)
{
#define TENSOR(dtype, shape, offsets)                                                              \
    "{\"w\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
    static const struct {
        const char *header;
        size_t n_data;
        const char *reason;
    } cases[] = {
        {"", 0, "no JSON object"},
        {"[]", 0, "no JSON object"},
        {" {}", 0, "no JSON object"},
        {"{\"w\":}", 0, "no JSON"},
        {"{}{}", 0, "no JSON"},
        {"{}", 1, "1 bytes behind"},
        {"{\"w\":1}", 0, "tensor w has no dtype"},
        {"{\"a\\nb\":1}", 0, "tensor a b has no dtype"},
        {"{\"__metadata__\":[]}", 0, "__metadata__"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__"},
        {"{\"w\":{\"dtype\":\"U8\",\"shape\":[]}}", 0, "data_offsets"},
        {"{\"w\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "shape"},
        {"{\"w\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
         "\"w\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
         0, "no JSON"},
        {TENSOR("\"F33\"", "[1]", "[0,4]"), 4, "tensor w has the unknown dtype F33"},
        {TENSOR("3", "[1]", "[0,4]"), 4, "tensor w has no dtype"},
        {TENSOR("\"F32\"", "[2]", "[0,4]"), 4, "not those of its shape"},
        {TENSOR("\"F32\"", "[-1]", "[0,4]"), 4, "no size"},
        {TENSOR("\"F32\"", "[1.0]", "[0,4]"), 4, "no size"},
        {TENSOR("\"F32\"", "{}", "[0,4]"), 4, "shape"},
        {TENSOR("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "at most 8"},
        {TENSOR("\"F32\"", "[4294967296,4294967296]", "[0,0]"), 0, "not those of its shape"},
        {TENSOR("\"F32\"", "[1]", "[0,4]"), 3, "truncated"},
        {TENSOR("\"F32\"", "[1]", "[4,0]"), 4, "lies at 4 to 0"},
        {TENSOR("\"F32\"", "[1]", "[0]"), 4, "two sizes"},
        {TENSOR("\"F32\"", "[1]", "[0,4,8]"), 8, "two sizes"},
        {TENSOR("\"F32\"", "[1]", "[-4,0]"), 4, "two sizes"},
        {TENSOR("\"F32\"", "[1]", "[0,99999999999999999999]"), 4, "no JSON"},
        {TENSOR("\"F32\"", "[1]", "[4,8]"), 8, "hole before tensor w"},
        {TENSOR("\"F32\"", "[1]", "[0,4]"), 8, "4 bytes behind"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}",
         6, "overlaps tensor b"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
         4, "overlaps tensor b"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[3,5]}}",
         5, "hole before tensor b"},
    };
#undef TENSOR
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t n_header = strlen(cases[i].header);
        const size_t n_bytes = 8 + n_header + cases[i].n_data;
        uint8_t *bytes = calloc(n_bytes, 1);
        REQUIRE(bytes != NULL);
        bytes[0] = (uint8_t)n_header;
        memcpy(bytes + 8, cases[i].header, n_header);
        check_refused(t, bytes, n_bytes, cases[i].reason);
        free(bytes);
    }
}

/* Every proper prefix of a right file is refused. */
static void refuses_truncated_files(test *t)
{
    uint8_t bytes[1000];
    dpt_error error = {0};
    REQUIRE_OK(dpti_safetensors_write(
        &(dpti_tensor_file){.path = "whole", .tensors = tensors, .n_tensors = N_TENSORS}, &error));
    const size_t n = read_whole("whole", bytes, sizeof bytes);
    REQUIRE(n > 40 && n < sizeof bytes);
    for (size_t i = 0; i < n; i++) {
        uint8_t *prefix = malloc(i ? i : 1); /* so that a read beyond is noticed */
        REQUIRE(prefix != NULL);
        memcpy(prefix, bytes, i);
        check_refused(t, prefix, i, "");
        free(prefix);
    }
    static const uint8_t endless[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    check_refused(t, endless, sizeof endless, "truncated");
}

static void paths_that_are_no_files(test *t)
{
    dpti_safetensors *file = NULL;
    dpt_error error = {0};
    CHECK_STATUS(dpti_safetensors_read("no-such-file", &file, &error), DPT_E_NOT_FOUND);
    CHECK_CONTAINS(error.message, "no-such-file");
    CHECK_STATUS(dpti_safetensors_read("/", &file, &error), DPT_E_IO);
}

/* ---- Sealed files ---------------------------------------------------------------------------- */

static void sealed_files(test *t)
{
    static const char *const metadata[] = {"dptrain", "the state", NULL};
    uint8_t bytes[1000];
    dpti_safetensors *file = NULL;
    dpt_error error = {0};
    REQUIRE_OK(dpti_safetensors_seal(
        &(dpti_tensor_file){
            .path = "sealed", .tensors = tensors, .n_tensors = N_TENSORS, .metadata = metadata},
        &error));
    REQUIRE_OK(dpti_safetensors_read_sealed("sealed", sizeof bytes, &file, &error));
    CHECK_SIZE(dpti_safetensors_count(file), N_TENSORS);
    CHECK_TEXT(dpti_safetensors_metadata(file, "dptrain"), "the state");
    dpti_safetensors_close(file);
    const size_t n = read_whole("sealed", bytes, sizeof bytes);
    REQUIRE(n > 100 && n < sizeof bytes);
    for (size_t i = 0; i < n; i++) { /* no byte of it may change */
        bytes[i] ^= 4;
        CHECK_STATUS(
            dpti_safetensors_parse_sealed(&(dpti_file_bytes){"input", bytes, n}, &file, &error),
            DPT_E_FORMAT);
        CHECK_CONTAINS(error.message, "input");
        bytes[i] ^= 4;
    }
    CHECK_STATUS(dpti_safetensors_read_sealed("sealed", n - 1, &file, &error), DPT_E_FORMAT);
    REQUIRE_OK(dpti_safetensors_write(
        &(dpti_tensor_file){
            .path = "open", .tensors = tensors, .n_tensors = N_TENSORS, .metadata = metadata},
        &error));
    CHECK_STATUS(dpti_safetensors_read_sealed("open", 1000, &file, &error), DPT_E_FORMAT);
    CHECK_CONTAINS(error.message, "checksum");
}

static void a_look_at_the_header(test *t)
{
    static const char *const metadata[] = {"dptrain", "the state", NULL};
    dpt_error error = {0};
    REQUIRE_OK(dpti_safetensors_seal(
        &(dpti_tensor_file){
            .path = "peek", .tensors = tensors, .n_tensors = N_TENSORS, .metadata = metadata},
        &error));
    char *found = dpti_safetensors_peek("peek", 1000, "dptrain");
    CHECK_TEXT(found, "the state");
    free(found);
    CHECK(!dpti_safetensors_peek("peek", 1000, "nothing"));
    CHECK(!dpti_safetensors_peek("peek", 20, "dptrain")); /* the header is longer */
    CHECK(!dpti_safetensors_peek("no-such-file", 1000, "dptrain"));
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void refuses_wrong_tensors(test *t)
{
    dpti_tensor twice[2] = {tensors[0], tensors[0]};
    dpti_tensor wrong[5] = {tensors[0], tensors[0], tensors[0], tensors[0], tensors[0]};
    wrong[0].n_bytes = 20;
    wrong[1].dtype = "F33";
    wrong[2].name = "__metadata__";
    wrong[3].rank = DPTI_TENSOR_MAX_RANK + 1;
    wrong[4].name = "\xff";
    dpt_error error = {0};
    CHECK_STATUS(
        dpti_safetensors_write(
            &(dpti_tensor_file){.path = "wrong", .tensors = twice, .n_tensors = 2}, &error),
        DPT_E_INVALID);
    CHECK_CONTAINS(error.message, "fc.weight");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_STATUS(
            dpti_safetensors_write(
                &(dpti_tensor_file){.path = "wrong", .tensors = &wrong[i], .n_tensors = 1}, &error),
            DPT_E_INVALID);
    static const char *const metadata[] = {"key", "\xff", NULL};
    CHECK_STATUS(dpti_safetensors_write(
                     &(dpti_tensor_file){
                         .path = "wrong", .tensors = tensors, .n_tensors = 1, .metadata = metadata},
                     &error),
                 DPT_E_INVALID);
    CHECK_CONTAINS(error.message, "UTF-8");
    const size_t half = (size_t)1 << 62;
    const dpti_tensor large[2] = {
        {.name = "a", .dtype = "U8", .rank = 1, .shape = {half}, .n_bytes = half},
        {.name = "b", .dtype = "U8", .rank = 1, .shape = {half}, .n_bytes = half}};
    CHECK_STATUS(
        dpti_safetensors_write(
            &(dpti_tensor_file){.path = "wrong", .tensors = large, .n_tensors = 2}, &error),
        DPT_E_INVALID);
    CHECK_CONTAINS(error.message, "more bytes than a file can have");
    CHECK(access("wrong", F_OK) != 0);
}

static void says_why_it_cannot_write(test *t)
{
    dpt_error error = {0};
    CHECK_STATUS(
        dpti_safetensors_write(
            &(dpti_tensor_file){.path = "no/such/folder/f", .tensors = tensors, .n_tensors = 1},
            &error),
        DPT_E_IO);
    CHECK_CONTAINS(error.message, "no/such/folder/f");
    CHECK_CONTAINS(error.message, strerror(ENOENT));
    CHECK_STATUS(dpti_safetensors_write(
                     &(dpti_tensor_file){.path = "/", .tensors = tensors, .n_tensors = 1}, &error),
                 DPT_E_IO);
    CHECK_CONTAINS(error.message, strerror(EISDIR));
    if (access("/dev/full", W_OK) != 0) SKIP("no /dev/full");
    CHECK_STATUS(
        dpti_safetensors_write(
            &(dpti_tensor_file){.path = "/dev/full", .tensors = tensors, .n_tensors = 1}, &error),
        DPT_E_IO);
    CHECK_CONTAINS(error.message, strerror(ENOSPC));
    struct stat info;
    CHECK(stat("/dev/full", &info) == 0 && S_ISCHR(info.st_mode));
}

/* A file that may not grow is a disk that is full: the old file stays, the temporary one goes. */
static void a_full_disk_harms_nothing(test *t)
{
    enum { BYTES = 100000 };
    char *large = calloc(BYTES, 1);
    REQUIRE(large != NULL);
    const dpti_tensor tensor = {
        .name = "w", .dtype = "U8", .rank = 1, .shape = {BYTES}, .data = large, .n_bytes = BYTES};
    struct rlimit before, limit;
    REQUIRE(mkdir("full", 0777) == 0 && write_text("full/model", "the old one"));
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
    limit = before;
    limit.rlim_cur = 4096;
    signal(SIGXFSZ, SIG_IGN);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    dpt_error error = {0};
    const dpt_status status = dpti_safetensors_write(
        &(dpti_tensor_file){.path = "full/model", .tensors = &tensor, .n_tensors = 1}, &error);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK_STATUS(status, DPT_E_IO);
    CHECK_CONTAINS(error.message, "full/model");
    CHECK_CONTAINS(error.message, strerror(EFBIG));
    uint8_t text[32] = {0};
    CHECK_SIZE(read_whole("full/model", text, sizeof text - 1), 11);
    CHECK_TEXT((const char *)text, "the old one");
    CHECK_SIZE(entries_of("full"), 1);
    free(large);
}

static void replaces_what_is_there(test *t)
{
    struct stat info;
    dpt_error error = {0};
    dpti_safetensors *file = NULL;
    REQUIRE(mkdir("replace", 0777) == 0 && write_text("replace/model", "the old one"));
    REQUIRE(chmod("replace/model", 0640) == 0 && symlink("model", "replace/link") == 0);
    REQUIRE_OK(dpti_safetensors_write(
        &(dpti_tensor_file){.path = "replace/link", .tensors = tensors, .n_tensors = N_TENSORS},
        &error));
    CHECK(lstat("replace/link", &info) == 0 && S_ISLNK(info.st_mode));
    CHECK(stat("replace/model", &info) == 0 && (info.st_mode & 0777) == 0640);
    CHECK_SIZE(entries_of("replace"), 2);
    REQUIRE_OK(dpti_safetensors_read("replace/model", &file, &error));
    CHECK_SIZE(dpti_safetensors_count(file), N_TENSORS);
    dpti_safetensors_close(file);
    /* In the working folder, without any folder in the path. */
    REQUIRE_OK(dpti_safetensors_write(
        &(dpti_tensor_file){.path = "plain", .tensors = tensors, .n_tensors = N_TENSORS}, &error));
    CHECK(stat("plain", &info) == 0 && S_ISREG(info.st_mode));
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"reads_what_it_writes", reads_what_it_writes},
        {"writes_no_tensors", writes_no_tensors},
        {"reads_pythons_file", reads_pythons_file},
        {"reads_mlx_file", reads_mlx_file},
        {"refuses_wrong_headers", refuses_wrong_headers},
        {"refuses_truncated_files", refuses_truncated_files},
        {"paths_that_are_no_files", paths_that_are_no_files},
        {"sealed_files", sealed_files},
        {"a_look_at_the_header", a_look_at_the_header},
        {"refuses_wrong_tensors", refuses_wrong_tensors},
        {"says_why_it_cannot_write", says_why_it_cannot_write},
        {"a_full_disk_harms_nothing", a_full_disk_harms_nothing},
        {"replaces_what_is_there", replaces_what_is_there},
    };
    char folder[TEST_FOLDER_BYTES];
    if (!test_enter_folder(folder)) return 1;
    const int code = test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
    test_remove_folder(folder);
    return code;
}
