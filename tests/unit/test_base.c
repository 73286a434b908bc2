/* Tests sizes, text, numbers and random numbers of core/base. */
#include "base/environment.h"
#include "base/floats.h"
#include "base/grow.h"
#include "base/memory.h"
#include "base/parse.h"
#include "base/print.h"
#include "base/processors.h"
#include "base/random.h"
#include "base/size.h"
#include "base/text.h"
#include "harness.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void sizes_overflow(test *t)
{
    size_t out = 7;
    CHECK(dpti_multiply(1u << 20, 1u << 20, &out));
    CHECK_SIZE(out, (size_t)1 << 40);
    CHECK(!dpti_multiply(SIZE_MAX / 2 + 1, 2, &out));
    CHECK_SIZE(out, (size_t)1 << 40);
    CHECK(dpti_multiply(SIZE_MAX, 0, &out));
    CHECK_SIZE(out, 0);
    CHECK(dpti_add(SIZE_MAX - 1, 1, &out));
    CHECK_SIZE(out, SIZE_MAX);
    CHECK(!dpti_add(SIZE_MAX, 1, &out));
    CHECK_SIZE(out, SIZE_MAX);
    CHECK_SIZE(dpti_round_up(0, 64), 0);
    CHECK_SIZE(dpti_round_up(1, 64), 64);
    CHECK_SIZE(dpti_round_up(64, 64), 64);
    CHECK_SIZE(dpti_round_up(65, 64), 128);
}

static void allocates_aligned(test *t)
{
    static const size_t sizes[] = {0, 1, 64, 65};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *memory = dpti_alloc_aligned(sizes[i]);
        REQUIRE(memory != NULL);
        CHECK_SIZE((uintptr_t)memory % 64, 0);
        free(memory);
    }
    CHECK(dpti_alloc_aligned(SIZE_MAX) == NULL);
    CHECK(dpti_alloc_aligned(SIZE_MAX - 63) == NULL);
}

static void arrays_grow(test *t)
{
    uint32_t *items = NULL, *grown;
    size_t capacity = 0, n_moves = 0;
    for (size_t n = 0; n < 1000; n++) {
        const size_t before = capacity;
        grown = dpti_grow(items, n, &capacity, sizeof *items);
        if (!grown) break;
        items = grown;
        n_moves += capacity != before;
        items[n] = (uint32_t)n;
    }
    CHECK_SIZE(capacity, 1024);
    CHECK_SIZE(n_moves, 7); /* 16, 32, ..., 1024 */
    for (size_t n = 0; n < 1000 && items; n++)
        CHECK_SIZE(items[n], n);
    /* A size that is too large changes nothing. */
    CHECK(!dpti_grow(items, capacity, &capacity, SIZE_MAX / capacity));
    CHECK_SIZE(capacity, 1024);
    size_t full = SIZE_MAX / 2 + 1;
    CHECK(!dpti_grow(items, full, &full, 1));
    CHECK_SIZE(full, SIZE_MAX / 2 + 1);
    free(items);
}

static void copies_and_formats(test *t)
{
    char *whole = dpti_strdup("abc"), *part = dpti_strndup("abcdef", 2);
    char *made = dpti_format("%d-%s", 42, "x");
    CHECK_TEXT(whole, "abc");
    CHECK_TEXT(part, "ab");
    CHECK_TEXT(made, "42-x");
    free(made);
    free(part);
    free(whole);
}

static void characters_are_utf8(test *t)
{
    static const struct {
        const char *text;
        size_t n_bytes, n_plain; /* of the first character; of all that are plain */
        uint32_t code;
    } cases[] = {
        {"", 0, 0, 0},
        {"ab", 1, 2, 'a'},
        {"a\nb", 1, 1, 'a'},
        {"\033[1m", 1, 0, 033},
        {"\x7f", 1, 0, 0x7f},
        {"\xc2\x85", 2, 0, 0x85}, /* next line */
        {"\xc2\xa0", 2, 2, 0xa0},
        {"\xc3\xa9t\xc3\xa9", 2, 5, 0xe9},
        {"\xe2\x82\xac\t", 3, 3, 0x20ac},
        {"\xf0\x9f\x98\x80", 4, 4, 0x1f600},
        {"\xf4\x8f\xbf\xbf", 4, 4, 0x10ffff},
    };
    static const char *const wrong[] = {"\x80",
                                        "\xc3",
                                        "\xc3(",
                                        "\xc0\xaf",
                                        "\xe0\x80\xaf",
                                        "\xed\xa0\x80",
                                        "\xe2\x82",
                                        "\xf0\x80\x80\xaf",
                                        "\xf4\x90\x80\x80",
                                        "\xf5\x80\x80\x80",
                                        "\xff"};
    uint32_t code;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_SIZE(dpti_character(cases[i].text, &code), cases[i].n_bytes);
        CHECK_SIZE(code, cases[i].code);
        CHECK_SIZE(dpti_plain_bytes(cases[i].text), cases[i].n_plain);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (!CHECK(dpti_character(wrong[i], &code) == 0 && dpti_plain_bytes(wrong[i]) == 0))
            FAIL("number %zu is taken for UTF-8", i);
}

static void nearest_words(test *t)
{
    static const char *const known[] = {"lenet", "linear", "mlp", "resnet18", NULL};
    static const struct {
        const char *word, *nearest;
    } cases[] = {
        {"lenet", "lenet"},      {"lennet", "lenet"},     {"lent", "lenet"}, {"lneet", "lenet"},
        {"liner", "linear"},     {"resnet1", "resnet18"}, {"mpl", "mlp"},    {"ml", "mlp"},
        {"resnt18", "resnet18"}, {"transformer", NULL},   {"", NULL},        {"xyz", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *found = dpti_nearest(cases[i].word, known);
        if (cases[i].nearest)
            CHECK_TEXT(found, cases[i].nearest);
        else if (!CHECK(found == NULL))
            FAIL("'%s' gave '%s'", cases[i].word, found);
    }
    char endless[200];
    memset(endless, 'l', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    CHECK(dpti_nearest(endless, known) == NULL);
}

static void whole_sizes_only(test *t)
{
    static const char *const wrong[] = {"",    " 1",  "1 ", "-1", "+1",  "0x10",
                                        "1.0", "1e3", "a",  "1a", "101", "18446744073709551616"};
    size_t out = 7;
    CHECK(dpti_parse_size("0", 0, 100, &out));
    CHECK_SIZE(out, 0);
    CHECK(dpti_parse_size("100", 0, 100, &out));
    CHECK_SIZE(out, 100);
    CHECK(dpti_parse_size("18446744073709551615", 0, SIZE_MAX, &out));
    CHECK_SIZE(out, SIZE_MAX);
    CHECK(!dpti_parse_size("4", 5, 100, &out));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (!CHECK(!dpti_parse_size(wrong[i], 0, 100, &out))) FAIL("'%s' was read", wrong[i]);
    CHECK_SIZE(out, SIZE_MAX);
}

static void whole_reals_only(test *t)
{
    static const char *const wrong[] = {"",   " 1", "-1", "+1",    "nan",  "inf", "0x1p3",
                                        "1x", "1e", ".",  "1e999", "10.1", "1,5", "e5"};
    double out = 7;
    CHECK(dpti_parse_real("0.25", 0, 10, &out));
    CHECK_NEAR(out, 0.25, 0);
    CHECK(dpti_parse_real(".5", 0, 10, &out));
    CHECK_NEAR(out, 0.5, 0);
    CHECK(dpti_parse_real("1e-3", 0, 10, &out));
    CHECK_NEAR(out, 1e-3, 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (!CHECK(!dpti_parse_real(wrong[i], 0, 10, &out))) FAIL("'%s' was read", wrong[i]);
    CHECK_NEAR(out, 1e-3, 0);
}

static void bytes_with_units(test *t)
{
    static const char *const wrong[] = {"",      "K",   "1k",  "1KB",  "1Ki",         "1iB",
                                        "1MiBs", "1 K", "-1K", "1.5G", "99999999999T"};
    size_t out = 7;
    CHECK(dpti_parse_bytes("1024", &out));
    CHECK_SIZE(out, 1024);
    CHECK(dpti_parse_bytes("64M", &out));
    CHECK_SIZE(out, 64u << 20);
    CHECK(dpti_parse_bytes("2G", &out));
    CHECK_SIZE(out, (size_t)2 << 30);
    CHECK(dpti_parse_bytes("5KiB", &out));
    CHECK_SIZE(out, 5u << 10);
    CHECK(dpti_parse_bytes("3T", &out));
    CHECK_SIZE(out, (size_t)3 << 40);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (!CHECK(!dpti_parse_bytes(wrong[i], &out))) FAIL("'%s' was read", wrong[i]);
    CHECK_SIZE(out, (size_t)3 << 40);
}

static void seconds_with_units(test *t)
{
    static const char *const wrong[] = {
        "",    "5",    "ms",  "5 ms",    "-5ms",  "5m",   "5MS",
        "nan", "0x5s", "11s", "10001ms", "1e9us", "5mss", "00000000000000000000000000000000005ms"};
    double out = 7;
    CHECK(dpti_parse_seconds("500us", 10, &out));
    CHECK_NEAR(out, 500e-6, 1e-18);
    CHECK(dpti_parse_seconds("5ms", 10, &out));
    CHECK_NEAR(out, 5e-3, 1e-17);
    CHECK(dpti_parse_seconds("2e-2s", 10, &out));
    CHECK_NEAR(out, 0.02, 0);
    CHECK(dpti_parse_seconds("0s", 10, &out));
    CHECK_NEAR(out, 0, 0);
    CHECK(dpti_parse_seconds("10s", 10, &out));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (!CHECK(!dpti_parse_seconds(wrong[i], 10, &out))) FAIL("'%s' was read", wrong[i]);
    CHECK_NEAR(out, 10, 0);
}

static void numbers_know_no_locale(test *t)
{
    double real = 0, seconds = 0, with_comma = 0;
    char printed[16], by_program[16];
    if (!test_set_comma_locale()) SKIP("no locale with a decimal comma, and no localedef");
    const bool read_real = dpti_parse_real("0.25", 0, 10, &real);
    const bool read_seconds = dpti_parse_seconds("2.5ms", 10, &seconds);
    const bool read_comma = dpti_parse_real("0,25", 0, 10, &with_comma);
    dpti_print(printed, sizeof printed, "%s %.9g", "a", 0.5);
    snprintf(by_program, sizeof by_program, "%g", 0.5);
    setlocale(LC_ALL, "C");
    CHECK(read_real && real == 0.25);
    CHECK(read_seconds && seconds == 2.5e-3);
    CHECK(!read_comma);
    CHECK_TEXT(printed, "a 0.5");
    CHECK_TEXT(by_program, "0,5"); /* the program's locale is as it was */
}

static void environment_is_never_empty(test *t)
{
    REQUIRE(setenv("DPTRAIN_TEST_VALUE", "x", 1) == 0);
    CHECK_TEXT(dpti_environment("DPTRAIN_TEST_VALUE"), "x");
    CHECK_TEXT(dpti_environment_trusted("DPTRAIN_TEST_VALUE"), "x");
    REQUIRE(setenv("DPTRAIN_TEST_VALUE", "", 1) == 0);
    CHECK(dpti_environment("DPTRAIN_TEST_VALUE") == NULL);
    REQUIRE(unsetenv("DPTRAIN_TEST_VALUE") == 0);
    CHECK(dpti_environment("DPTRAIN_TEST_VALUE") == NULL);
}

/* The known answers for philox4x32-10 that its authors publish with Random123 (kat_vectors). */
static void philox_known_answers(test *t)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } cases[] = {
        {.counter = {0, 0, 0, 0},
         .key = {0, 0},
         .out = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {.counter = {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         .key = {0xffffffff, 0xffffffff},
         .out = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {.counter = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         .key = {0xa4093822, 0x299f31d0},
         .out = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t out[4];
        dpti_philox(cases[i].counter, cases[i].key, out);
        CHECK(memcmp(out, cases[i].out, sizeof out) == 0);
    }
}

static void sequences_are_keyed(test *t)
{
    dpti_random a, b, seed, use, index;
    dpti_random_init(&a, 1, DPTI_RANDOM_INIT, 5);
    dpti_random_init(&b, 1, DPTI_RANDOM_INIT, 5);
    dpti_random_init(&seed, (uint64_t)1 << 32 | 1, DPTI_RANDOM_INIT, 5);
    dpti_random_init(&use, 1, DPTI_RANDOM_SHUFFLE, 5);
    dpti_random_init(&index, 1, DPTI_RANDOM_INIT, (uint64_t)1 << 32 | 5);
    size_t n_equal = 0;
    for (int i = 0; i < 100; i++) {
        const uint32_t value = dpti_random_u32(&a);
        CHECK(value == dpti_random_u32(&b));
        n_equal += value == dpti_random_u32(&seed);
        n_equal += value == dpti_random_u32(&use);
        n_equal += value == dpti_random_u32(&index);
    }
    CHECK_SIZE(n_equal, 0);
}

static void below_has_no_bias(test *t)
{
    /* value % bound would put half of all values into the first third. */
    enum { N = 30000 };
    const uint32_t bound = 0xC0000000u;
    dpti_random random;
    dpti_random_init(&random, 7, DPTI_RANDOM_SHUFFLE, 0);
    size_t n_first = 0, n_outside = 0;
    for (int i = 0; i < N; i++) {
        const uint32_t value = dpti_random_below(&random, bound);
        n_first += value < bound / 3;
        n_outside += value >= bound;
    }
    CHECK_SIZE(n_outside, 0);
    CHECK_NEAR((double)n_first / N, 1.0 / 3, 0.015); /* more than 5 standard deviations */

    size_t count[7] = {0};
    for (int i = 0; i < 7 * N; i++) {
        const uint32_t value = dpti_random_below(&random, 7);
        REQUIRE(value < 7);
        count[value]++;
    }
    double chi2 = 0;
    for (int k = 0; k < 7; k++)
        chi2 += ((double)count[k] - N) * ((double)count[k] - N) / N;
    CHECK_NEAR(chi2, 0, 35); /* 6 degrees of freedom: beyond with probability 4e-6 */
    CHECK(dpti_random_below(&random, 1) == 0);
}

static void distributions(test *t)
{
    enum { N = 100000 };
    dpti_random random;
    dpti_random_init(&random, 3, DPTI_RANDOM_INIT, 0);
    double sum = 0, low = 1, high = 0;
    for (int i = 0; i < N; i++) {
        const double u = (double)dpti_random_uniform(&random);
        sum += u;
        low = fmin(low, u);
        high = fmax(high, u);
    }
    CHECK(low >= 0 && high < 1);
    CHECK(low < 0.001 && high > 0.999);
    CHECK_NEAR(sum / N, 0.5, 0.005);

    double moment[5] = {0};
    for (int i = 0; i < N; i++) {
        const double x = (double)dpti_random_normal(&random);
        for (int k = 1; k <= 4; k++)
            moment[k] += pow(x, k) / N;
    }
    CHECK_NEAR(moment[1], 0, 0.017);
    CHECK_NEAR(moment[2], 1, 0.025);
    CHECK_NEAR(moment[3], 0, 0.07);
    CHECK_NEAR(moment[4], 3, 0.17);
}

/* A single bit that differs is found wherever it is; so are two, and another length. */
static void hashes_tell_arrays_apart(test *t)
{
    enum { N = 77 };
    float values[N];
    uint32_t words[N];
    for (size_t i = 0; i < N; i++)
        values[i] = (float)i - 30.0f;
    const uint64_t hash = dpti_hash_floats(values, N, 1);
    CHECK(hash == dpti_hash_floats(values, N, 1) && hash != dpti_hash_floats(values, N, 2));
    for (size_t i = 0; i < N; i++) {
        for (unsigned bit = 0; bit < 32; bit++) {
            memcpy(words, values, sizeof words);
            words[i] ^= 1u << bit;
            float changed[N];
            memcpy(changed, words, sizeof changed);
            if (dpti_hash_floats(changed, N, 1) == hash) FAIL("bit %u of %zu", bit, i);
            words[(i + 16) % N] ^= 1u << bit; /* of the same lane */
            memcpy(changed, words, sizeof changed);
            if (dpti_hash_floats(changed, N, 1) == hash) FAIL("bits %u of %zu and on", bit, i);
        }
        CHECK(dpti_hash_floats(values, i, 1) != hash);
    }
}

static void finite_is_finite(test *t)
{
    const float bad[] = {INFINITY, -INFINITY, NAN, -NAN};
    float values[37] = {0};
    values[3] = 3.4e38f;
    values[4] = -3.4e38f;
    values[5] = 1e-45f;
    CHECK(dpti_all_finite(values, 37) && dpti_all_finite(values, 0));
    for (size_t i = 0; i < 37 * 4; i++) {
        const float before = values[i / 4];
        values[i / 4] = bad[i % 4];
        CHECK(!dpti_all_finite(values, 37));
        values[i / 4] = before;
    }
}

static void powers(test *t)
{
    CHECK(dpti_power(0.9, 0) == 1.0 && dpti_power(0.9, 1) == 0.9 && dpti_power(0.0, 3) == 0.0);
    CHECK(dpti_power(2.0, 1000) == 0x1p1000 && dpti_power(0.9, SIZE_MAX) == 0.0);
    for (size_t n = 1; n < 5000; n = n * 3 + 1) {
        CHECK_NEAR(dpti_power(0.999, n) / pow(0.999, (double)n), 1.0, 1e-12);
        CHECK_NEAR(dpti_power(0.9, n) / pow(0.9, (double)n), 1.0, 1e-12);
    }
}

static void write_text(test *t, const char *path, const char *text)
{
    char folder[128];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strchr(folder, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(folder, 0777);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    REQUIRE(file != NULL);
    CHECK(fputs(text, file) >= 0 && fclose(file) == 0);
}

/* Of both versions, of the group itself or of one that it is in, and where there is none. */
static void memory_of_groups(test *t)
{
    static const struct {
        const char *groups;
        size_t limit;
    } cases[] = {
        {"0::/\n", SIZE_MAX},
        {"0::/a\n", 4096},
        {"0::/a/b/c\n", 1024},
        {"0::/a/free\n", 4096},
        {"0::/nowhere/a/b\n", SIZE_MAX},
        {"5:devices:/a\n4:cpu,memory:/job/step\n0::/\n", 8192},
        {"4:memory_other,memoryless:/job\n", SIZE_MAX},
        {"9:name=systemd:/a\n1:memory,cpu:/elsewhere\n0::/a\n", 4096},
        {"4:memory:/job\n", 1u << 20},
        {"", SIZE_MAX},
        {"no lines like these\n:\n::\n0::\n1:memory:\n", SIZE_MAX},
    };
    const dpti_group_tree tree = {"groups.txt", "groups"};
    write_text(t, "groups/a/memory.max", "4096\n");
    write_text(t, "groups/a/b/memory.max", "max\n");
    write_text(t, "groups/a/b/c/memory.max", "1024\n");
    write_text(t, "groups/a/free/memory.max", "99999\n");
    write_text(t, "groups/memory/job/memory.limit_in_bytes", "1048576\n");
    write_text(t, "groups/memory/job/step/memory.limit_in_bytes", "8192\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(t, "groups.txt", cases[i].groups);
        if (!CHECK_SIZE(dpti_group_memory(&tree), cases[i].limit)) FAIL("%s", cases[i].groups);
    }
    CHECK_SIZE(dpti_group_memory(&(dpti_group_tree){"nothing.txt", "groups"}), SIZE_MAX);
    CHECK(dpti_machine_memory() >= 1u << 20);
    CHECK_SIZE(dpti_machine_memory(), dpti_machine_memory());
}

/* The least of quotas, of sets of processors, and of what the process may run on. */
static void processors_of_groups(test *t)
{
    static const struct {
        const char *groups;
        size_t allowed, n;
    } cases[] = {
        {"0::/\n", 64, 64},
        {"0::/two\n", 64, 2},
        {"0::/two\n", 1, 1},
        {"0::/two\n", 0, 1},
        {"0::/two/half\n", 64, 1},
        {"0::/two/free\n", 64, 2},
        {"0::/many\n", 64, 6},
        {"0::/many\n", 4, 4},
        {"0::/broken\n", 64, 64},
        {"4:cpuacct,cpu:/job\n", 64, 3},
        {"4:cpu:/job/none\n", 64, 3},
        {"4:cpu:/free\n", 64, 64},
        {"5:cpuset:/job\n4:cpu:/job\n0::/\n", 64, 2},
        {"5:cpuset:/other\n", 64, 64},
        {"", 64, 64},
    };
    const dpti_group_tree tree = {"groups.txt", "groups"};
    write_text(t, "groups/two/cpu.max", "250000 100000\n");
    write_text(t, "groups/two/half/cpu.max", "50000 100000\n");
    write_text(t, "groups/two/free/cpu.max", "max 100000\n");
    write_text(t, "groups/many/cpuset.cpus.effective", "0-3,8,63\n");
    write_text(t, "groups/broken/cpu.max", "many 100000\n");
    write_text(t, "groups/broken/cpuset.cpus.effective", "3-0,x\n");
    write_text(t, "groups/cpu/job/cpu.cfs_quota_us", "390000\n");
    write_text(t, "groups/cpu/job/cpu.cfs_period_us", "100000\n");
    write_text(t, "groups/cpu/job/none/cpu.cfs_quota_us", "-1\n");
    write_text(t, "groups/cpu/job/none/cpu.cfs_period_us", "100000\n");
    write_text(t, "groups/cpu/free/cpu.cfs_quota_us", "-1\n");
    write_text(t, "groups/cpu/free/cpu.cfs_period_us", "100000\n");
    write_text(t, "groups/cpuset/job/cpuset.effective_cpus", "5,7\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(t, "groups.txt", cases[i].groups);
        if (!CHECK_SIZE(dpti_processors_of(&tree, cases[i].allowed), cases[i].n))
            FAIL("%s", cases[i].groups);
    }
    CHECK_SIZE(dpti_processors_of(&(dpti_group_tree){"nothing.txt", "groups"}, 7), 7);
    CHECK(dpti_processors() >= 1);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"sizes_overflow", sizes_overflow},
        {"allocates_aligned", allocates_aligned},
        {"arrays_grow", arrays_grow},
        {"copies_and_formats", copies_and_formats},
        {"characters_are_utf8", characters_are_utf8},
        {"nearest_words", nearest_words},
        {"whole_sizes_only", whole_sizes_only},
        {"whole_reals_only", whole_reals_only},
        {"bytes_with_units", bytes_with_units},
        {"seconds_with_units", seconds_with_units},
        {"numbers_know_no_locale", numbers_know_no_locale},
        {"environment_is_never_empty", environment_is_never_empty},
        {"philox_known_answers", philox_known_answers},
        {"sequences_are_keyed", sequences_are_keyed},
        {"below_has_no_bias", below_has_no_bias},
        {"distributions", distributions},
        {"hashes_tell_arrays_apart", hashes_tell_arrays_apart},
        {"finite_is_finite", finite_is_finite},
        {"powers", powers},
        {"memory_of_groups", memory_of_groups},
        {"processors_of_groups", processors_of_groups},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
