/* Tests IDX files: valid files are read, and everything else is refused with its name. */
#include "data/data.h"
#include "gzip.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* 2 x 3 bytes: 10 .. 15. */
static const uint8_t matrix[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 10, 11, 12, 13, 14, 15};

static bool is_matrix(const dpti_idx *idx)
{
    return idx->rank == 2 && idx->shape[0] == 2 && idx->shape[1] == 3 &&
           memcmp(idx->data, matrix + 12, 6) == 0;
}

/* Whether it is refused as malformed, with the name and something to do, and *out untouched. */
static void check_refused(test *t, const uint8_t *bytes, size_t n_bytes, const char *reason)
{
    dpt_error error = {0};
    dpti_idx idx = {.rank = 99};
    if (!CHECK_STATUS(dpti_idx_parse(&(dpti_file_bytes){"some/file", bytes, n_bytes}, &idx, &error),
                      DPT_E_FORMAT)) {
        FAIL("not refused: %s", reason);
        free(idx.data);
        return;
    }
    CHECK_SIZE(idx.rank, 99);
    CHECK_CONTAINS(error.message, "some/file");
    CHECK_CONTAINS(error.message, reason);
}

static void reads_every_rank(test *t)
{
    for (uint8_t rank = 1; rank <= 4; rank++) {
        uint8_t file[4 + 16 + 24] = {0, 0, 8, rank};
        size_t n = 1, at = 4;
        for (uint8_t d = 0; d < rank; d++, at += 4) {
            file[at + 3] = (uint8_t)(d + 1);
            n *= d + 1u;
        }
        for (size_t i = 0; i < n; i++)
            file[at + i] = (uint8_t)(200 + i);
        dpti_idx idx = {0};
        dpt_error error = {0};
        REQUIRE_OK(dpti_idx_parse(&(dpti_file_bytes){"f", file, at + n}, &idx, &error));
        CHECK_SIZE(idx.rank, rank);
        for (size_t d = 0; d < rank; d++)
            CHECK_SIZE(idx.shape[d], d + 1);
        CHECK(memcmp(idx.data, file + at, n) == 0);
        CHECK_SIZE((uintptr_t)idx.data % 64, 0);
        free(idx.data);
    }
}

static void extents_are_big_endian(test *t)
{
    uint8_t *file = calloc(8 + 0x10203, 1);
    REQUIRE(file != NULL);
    memcpy(file, (uint8_t[]){0, 0, 8, 1, 0, 1, 2, 3}, 8);
    dpti_idx idx = {0};
    const dpt_status status =
        dpti_idx_parse(&(dpti_file_bytes){"f", file, 8 + 0x10203}, &idx, NULL);
    free(file);
    REQUIRE_OK(status);
    CHECK_SIZE(idx.shape[0], 0x10203);
    free(idx.data);
}

static void refuses_other_bytes(test *t)
{
    uint8_t bad[sizeof matrix + 1];
    check_refused(t, matrix, 0, "no IDX file");
    check_refused(t, matrix, 3, "no IDX file");
    check_refused(t, (const uint8_t *)"P5 28 28 255", 12, "no IDX file");
    memcpy(bad, matrix, sizeof matrix);
    bad[2] = 0x0d;
    check_refused(t, bad, sizeof matrix, "type 0d");
    bad[2] = 8;
    bad[3] = 0;
    check_refused(t, bad, sizeof matrix, "rank 0");
    bad[3] = 5;
    check_refused(t, bad, sizeof matrix, "rank 5");
    bad[3] = 2;
    bad[sizeof matrix] = 1;
    check_refused(t, bad, sizeof matrix + 1, "behind the end");
    for (size_t n = 4; n < sizeof matrix; n++)
        check_refused(t, matrix, n, "truncated");
}

static void refuses_impossible_sizes(test *t)
{
    uint8_t bad[4 + 16 + 8] = {0, 0, 8, 4};
    memset(bad + 4, 0xff, 16);
    check_refused(t, bad, sizeof bad, "impossible");
    memcpy(bad, (uint8_t[]){0, 0, 8, 1, 0xff, 0xff, 0xff, 0xff}, 8);
    check_refused(t, bad, sizeof bad, "truncated");
    size_t n_zipped = 0;
    uint8_t *zipped = pack_gzip(bad, sizeof bad, 12, &n_zipped);
    REQUIRE(zipped != NULL);
    check_refused(t, zipped, n_zipped, "truncated");
    free(zipped);
}

/* No new mapping of more than this, until it is given back.  False if the system has no limits. */
static bool limit_memory(size_t n_bytes, struct rlimit *before)
{
    size_t n_pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file) return false;
    const bool known = fscanf(file, "%zu", &n_pages) == 1;
    fclose(file);
    if (!known || getrlimit(RLIMIT_AS, before) != 0) return false;
    const rlim_t limit = n_pages * (rlim_t)sysconf(_SC_PAGESIZE) + n_bytes;
    return setrlimit(RLIMIT_AS, &(struct rlimit){limit, before->rlim_max}) == 0;
}

/* A few compressed bytes cannot be four billion: that much memory is not even asked for. */
static void takes_no_memory_on_trust(test *t)
{
    size_t n_zipped = 0;
    uint8_t *zipped = pack_gzip(matrix, sizeof matrix, 12, &n_zipped);
    REQUIRE(zipped != NULL);
    memset(zipped + n_zipped - 4, 0xff, 4); /* the size */
    struct rlimit before;
    const bool limited = limit_memory((size_t)1 << 30, &before);
    check_refused(t, zipped, n_zipped, "corrupt");
    if (limited) CHECK(setrlimit(RLIMIT_AS, &before) == 0);
    free(zipped);
    if (!limited) SKIP("no limit on memory here");
}

static void reads_gzip(test *t)
{
    size_t n_zipped = 0;
    uint8_t *zipped = pack_gzip(matrix, sizeof matrix, 12, &n_zipped);
    REQUIRE(zipped != NULL);
    dpti_idx idx = {0};
    const dpt_status status = dpti_idx_parse(&(dpti_file_bytes){"f", zipped, n_zipped}, &idx, NULL);
    free(zipped);
    REQUIRE_OK(status);
    CHECK(is_matrix(&idx));
    free(idx.data);
}

/* Zeros compress as far as deflate can; the limit on what a file may claim must let them through.
 */
static void reads_best_compression(test *t)
{
    const size_t n = 8 + ((size_t)1 << 24);
    uint8_t *file = calloc(n, 1);
    REQUIRE(file != NULL);
    memcpy(file, (uint8_t[]){0, 0, 8, 1, 1, 0, 0, 0}, 8);
    size_t n_zipped = 0;
    uint8_t *zipped = pack_gzip(file, n, 6, &n_zipped);
    free(file);
    REQUIRE(zipped != NULL);
    CHECK(n_zipped < n / 900);
    dpti_idx idx = {0};
    const dpt_status status = dpti_idx_parse(&(dpti_file_bytes){"f", zipped, n_zipped}, &idx, NULL);
    free(zipped);
    REQUIRE_OK(status);
    CHECK_SIZE(idx.shape[0], (size_t)1 << 24);
    free(idx.data);
}

static void refuses_broken_gzip(test *t)
{
    size_t n_zipped = 0;
    uint8_t *zipped = pack_gzip(matrix, sizeof matrix, 12, &n_zipped);
    REQUIRE(zipped != NULL);
    uint8_t *twice = malloc(2 * n_zipped);
    REQUIRE(twice != NULL);
    memcpy(twice, zipped, n_zipped);
    memcpy(twice + n_zipped, zipped, n_zipped);
    check_refused(t, twice, 2 * n_zipped, "behind the end of the gzip data");
    check_refused(t, twice, n_zipped + 1, "behind the end of the gzip data");
    for (size_t n = 2; n < n_zipped; n++)
        check_refused(t, zipped, n, "");
    twice[n_zipped - 5] ^= 1; /* the last byte of the checksum */
    check_refused(t, twice, n_zipped, "corrupt");
    twice[n_zipped - 5] ^= 1;
    twice[n_zipped - 4] ^= 1; /* the first byte of the size */
    check_refused(t, twice, n_zipped, "corrupt");
    free(twice);

    /* The IDX data inside: too few, too many. */
    uint8_t longer[sizeof matrix + 1] = {0};
    memcpy(longer, matrix, sizeof matrix);
    free(zipped);
    zipped = pack_gzip(matrix, sizeof matrix - 1, 12, &n_zipped);
    REQUIRE(zipped != NULL);
    check_refused(t, zipped, n_zipped, "truncated");
    free(zipped);
    zipped = pack_gzip(longer, sizeof longer, 12, &n_zipped);
    REQUIRE(zipped != NULL);
    check_refused(t, zipped, n_zipped, "behind the end");
    free(zipped);
}

/* The size that the file ends with is the last member's, too small for all before. */
static void refuses_a_second_member(test *t)
{
    static const uint8_t zeros[100000];
    size_t n_first = 0, n_second = 0;
    uint8_t *first = pack_gzip(zeros, sizeof zeros, 12, &n_first);
    uint8_t *second = pack_gzip(matrix, sizeof matrix, 12, &n_second);
    uint8_t *both = malloc(n_first + n_second);
    if (CHECK(first && second && both)) {
        memcpy(both, first, n_first);
        memcpy(both + n_first, second, n_second);
        check_refused(t, both, n_first + n_second, "behind the end of the gzip data");
    }
    free(both);
    free(second);
    free(first);
}

/* Whatever bit of the file is wrong: refused, or (in gzip's own header) of no consequence. */
static void no_flipped_bit_goes_through(test *t)
{
    size_t n_zipped = 0, n_refused = 0;
    uint8_t *zipped = pack_gzip(matrix, sizeof matrix, 12, &n_zipped);
    REQUIRE(zipped != NULL);
    for (size_t bit = 0; bit < 8 * n_zipped; bit++) {
        dpti_idx idx = {0};
        zipped[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (dpti_idx_parse(&(dpti_file_bytes){"f", zipped, n_zipped}, &idx, NULL) == DPT_OK) {
            CHECK(is_matrix(&idx));
            free(idx.data);
        } else {
            n_refused++;
        }
        zipped[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    CHECK(n_refused > 8 * n_zipped / 2);
    free(zipped);
}

static bool write_file(const char *path, const uint8_t *bytes, size_t n_bytes)
{
    FILE *file = fopen(path, "wb");
    if (!file) return false;
    const bool written = fwrite(bytes, 1, n_bytes, file) == n_bytes;
    return fclose(file) == 0 && written;
}

static void reads_large_files(test *t)
{
    const size_t n = 8 + 1000003;
    uint8_t *bytes = malloc(n);
    REQUIRE(bytes != NULL);
    memcpy(bytes, (uint8_t[]){0, 0, 8, 1, 0, 15, 66, 67}, 8);
    test_random random = {.state = 1};
    for (size_t i = 8; i < n; i++)
        bytes[i] = (uint8_t)test_random_u64(&random);
    size_t n_zipped = 0;
    uint8_t *zipped = pack_gzip(bytes, n, 12, &n_zipped);
    REQUIRE(zipped != NULL);
    REQUIRE(write_file("plain", bytes, n));
    REQUIRE(write_file("zipped", zipped, n_zipped));
    static const char *const paths[] = {"plain", "zipped"};
    for (size_t i = 0; i < 2; i++) {
        dpti_idx idx = {0};
        dpt_error error = {0};
        REQUIRE_OK(dpti_idx_read(paths[i], &idx, &error));
        CHECK_SIZE(idx.shape[0], n - 8);
        CHECK(memcmp(idx.data, bytes + 8, n - 8) == 0);
        free(idx.data);
    }
    REQUIRE(write_file("zipped", zipped, n_zipped - 100000));
    dpti_idx idx = {0};
    dpt_error error = {0};
    CHECK_STATUS(dpti_idx_read("zipped", &idx, &error), DPT_E_FORMAT);
    CHECK_CONTAINS(error.message, "zipped");
    CHECK_CONTAINS(error.message, "download it again");
    free(zipped);
    free(bytes);
}

static void paths_that_are_no_files(test *t)
{
    dpti_idx idx = {0};
    dpt_error error = {0};
    CHECK_STATUS(dpti_idx_read("no-such-file", &idx, &error), DPT_E_NOT_FOUND);
    CHECK_CONTAINS(error.message, "no-such-file");
    CHECK_STATUS(dpti_idx_read("/", &idx, &error), DPT_E_IO);
    CHECK_STATUS(dpti_idx_read("/dev/zero", &idx, &error), DPT_E_IO);
    CHECK_CONTAINS(error.message, "no regular file");
}

/* ---- Labels ---------------------------------------------------------------------------------- */

static void labels_have_three_widths(test *t)
{
    static const struct {
        size_t n_bytes;
        uint8_t bytes[20];
    } files[] = {
        {11, {0, 0, 0x08, 1, 0, 0, 0, 3, 7, 0, 255}},
        {14, {0, 0, 0x0B, 1, 0, 0, 0, 3, 0, 7, 0, 0, 0, 255}},
        {20, {0, 0, 0x0C, 1, 0, 0, 0, 3, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 255}},
    };
    static const int32_t wanted[] = {7, 0, 255};
    for (size_t i = 0; i < 3; i++) {
        dpti_labels labels = {0};
        dpt_error error = {0};
        REQUIRE_OK(dpti_labels_parse(&(dpti_file_bytes){"f", files[i].bytes, files[i].n_bytes},
                                     &labels, &error));
        CHECK_SIZE(labels.count, 3);
        CHECK(memcmp(labels.values, wanted, sizeof wanted) == 0);
        CHECK_SIZE((uintptr_t)labels.values % 64, 0);
        free(labels.values);
    }
}

static void check_labels(test *t, const uint8_t *bytes, size_t n_bytes, const char *reason)
{
    dpt_error error = {0};
    dpti_labels labels = {.count = 99};
    if (!CHECK_STATUS(
            dpti_labels_parse(&(dpti_file_bytes){"some/file", bytes, n_bytes}, &labels, &error),
            DPT_E_FORMAT)) {
        FAIL("not refused: %s", reason);
        free(labels.values);
        return;
    }
    CHECK_SIZE(labels.count, 99);
    CHECK_CONTAINS(error.message, "some/file");
    CHECK_CONTAINS(error.message, reason);
}

static void refuses_what_is_no_label(test *t)
{
    static const uint8_t below[] = {0, 0, 0x0B, 1, 0, 0, 0, 2, 0, 1, 0xff, 0xff},
                         least[] = {0, 0, 0x0C, 1, 0, 0, 0, 1, 0x80, 0, 0, 0},
                         beyond[] = {0, 0, 0x0C, 1, 0, 0, 0, 1, 0, 1, 0, 0},
                         most[] = {0, 0, 0x0C, 1, 0, 0, 0, 1, 0, 0, 0xff, 0xff},
                         float32[] = {0, 0, 0x0D, 1, 0, 0, 0, 1, 0, 0, 0, 0};
    dpti_labels labels = {0};
    check_labels(t, below, sizeof below, "label -1 of sample 1");
    check_labels(t, least, sizeof least, "label -2147483648 of sample 0");
    check_labels(t, beyond, sizeof beyond, "label 65536 of sample 0 is out of range");
    check_labels(t, most, sizeof most - 1, "truncated");
    check_labels(t, float32, sizeof float32, "or to 16 or 32 bits");
    check_labels(t, matrix, sizeof matrix, "labels have rank 1");
    if (CHECK_OK(dpti_labels_parse(&(dpti_file_bytes){"f", most, sizeof most}, &labels, NULL)))
        CHECK_SIZE((size_t)labels.values[0], 65535);
    free(labels.values);
    check_refused(t, most, sizeof most, "type 0c"); /* images are bytes */
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"reads_every_rank", reads_every_rank},
        {"extents_are_big_endian", extents_are_big_endian},
        {"refuses_other_bytes", refuses_other_bytes},
        {"refuses_impossible_sizes", refuses_impossible_sizes},
        {"takes_no_memory_on_trust", takes_no_memory_on_trust},
        {"reads_gzip", reads_gzip},
        {"reads_best_compression", reads_best_compression},
        {"refuses_broken_gzip", refuses_broken_gzip},
        {"refuses_a_second_member", refuses_a_second_member},
        {"no_flipped_bit_goes_through", no_flipped_bit_goes_through},
        {"reads_large_files", reads_large_files},
        {"paths_that_are_no_files", paths_that_are_no_files},
        {"labels have three widths", labels_have_three_widths},
        {"refuses what is no label", refuses_what_is_no_label},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
