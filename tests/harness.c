/* The test kit's runner, checks and random numbers (harness.h). */
#include "harness.h"

#include <ftw.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Checks ---------------------------------------------------------------------------------- */

void test_fail(test *t, const char *file, int line, const char *format, ...)
{
    va_list args;
    t->n_failures++;
    t->n_checks++;
    if (t->quiet) return;
    flockfile(stdout); /* cases may run in several threads */
    fprintf(stdout, "  %s:%d: ", file, line);
    va_start(args, format);
    vfprintf(stdout, format, args);
    va_end(args);
    fputc('\n', stdout);
    funlockfile(stdout);
}

void test_skip(test *t, const char *format, ...)
{
    va_list args;
    t->skipped = true;
    if (t->quiet) return;
    flockfile(stdout);
    fputs("  skipped: ", stdout);
    va_start(args, format);
    vfprintf(stdout, format, args);
    va_end(args);
    fputc('\n', stdout);
    funlockfile(stdout);
}

bool test_check(test *t, bool held, const char *what, const char *file, int line)
{
    if (!held) {
        test_fail(t, file, line, "does not hold: %s", what);
        return false;
    }
    t->n_checks++;
    return true;
}

static const char *status_name(dpt_status status)
{
    switch (status) {
#define STATUS_CASE(name, value, words)                                                            \
    case DPT_##name: return #name;
        DPT_STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
    }
    return "no status";
}

bool test_check_status(test *t, dpt_status actual, dpt_status expected, const char *what,
                       const char *file, int line)
{
    if (actual != expected) {
        test_fail(t, file, line, "%s: %s, expected %s", what, status_name(actual),
                  status_name(expected));
        return false;
    }
    t->n_checks++;
    return true;
}

bool test_check_near(test *t, double actual, double expected, double tolerance, const char *what,
                     const char *file, int line)
{
    if (!(fabs(actual - expected) <= tolerance)) {
        test_fail(t, file, line, "%s: %.17g, expected %.17g within %.3g", what, actual, expected,
                  tolerance);
        return false;
    }
    t->n_checks++;
    return true;
}

bool test_check_size(test *t, size_t actual, size_t expected, const char *what, const char *file,
                     int line)
{
    if (actual != expected) {
        test_fail(t, file, line, "%s: %zu, expected %zu", what, actual, expected);
        return false;
    }
    t->n_checks++;
    return true;
}

bool test_check_text(test *t, const char *actual, const char *expected, const char *what,
                     const char *file, int line)
{
    if (!actual || !expected || strcmp(actual, expected) != 0) {
        test_fail(t, file, line, "%s: \"%s\", expected \"%s\"", what, actual ? actual : "(null)",
                  expected ? expected : "(null)");
        return false;
    }
    t->n_checks++;
    return true;
}

bool test_check_contains(test *t, const char *text, const char *part, const char *what,
                         const char *file, int line)
{
    if (!text || !part || !strstr(text, part)) {
        test_fail(t, file, line, "%s: \"%s\" does not contain \"%s\"", what, text ? text : "(null)",
                  part ? part : "(null)");
        return false;
    }
    t->n_checks++;
    return true;
}

/* ---- The runner ------------------------------------------------------------------------------ */

static bool selected(const char *name, size_t n_args, char *const *args)
{
    for (size_t i = 0; i < n_args; i++) {
        if (strstr(name, args[i])) return true;
    }
    return n_args == 0;
}

int test_run(size_t n_args, char *const *args, const test_case *cases, size_t n_cases, void *user)
{
    size_t n_passed = 0, n_failed = 0, n_skipped = 0;
    for (size_t i = 0; i < n_cases; i++) {
        if (!selected(cases[i].name, n_args, args)) continue;
        test t = {.user = user, .name = cases[i].name};
        cases[i].run(&t);
        if (t.n_failures == 0 && !t.skipped && t.n_checks == 0) {
            test_fail(&t, __FILE__, __LINE__, "the case checked nothing");
        }
        if (t.n_failures > 0) {
            n_failed++;
            printf("FAIL %s\n", t.name);
        } else if (t.skipped) {
            n_skipped++;
            printf("skip %s\n", t.name);
        } else {
            n_passed++;
            printf("ok   %s (%zu checks)\n", t.name, t.n_checks);
        }
        fflush(stdout);
    }
    if (n_passed + n_failed + n_skipped == 0) puts("FAIL: no case ran");
    printf("%zu passed, %zu failed, %zu skipped\n", n_passed, n_failed, n_skipped);
    fflush(stdout);
    if (n_failed > 0 || n_passed + n_skipped == 0) return 1;
    return n_passed == 0 ? TEST_SKIP_CODE : 0;
}

int test_main(int argc, char **argv, const test_case *cases, size_t n_cases, void *user)
{
    const size_t n_args = argc > 1 ? (size_t)argc - 1 : 0;
    return test_run(n_args, argv + 1, cases, n_cases, user);
}

/* ---- Files and names ------------------------------------------------------------------------- */

size_t test_stride(void)
{
    const char *text = getenv("DPTRAIN_TEST_STRIDE");
    const size_t times = text ? strtoul(text, NULL, 10) : 1;
    return times > 0 ? times : 1;
}

FILE *test_open(const char *name)
{
    const char *source = getenv("SRC");
    char path[1024];
    if (source)
        snprintf(path, sizeof path, "%s/tests/%s", source, name);
    else
        snprintf(path, sizeof path, "%s/%s", DPT_TEST_SOURCE_DIR, name);
    return fopen(path, "r");
}

bool test_enter_folder(char folder[TEST_FOLDER_BYTES])
{
    const char *above = getenv("TMPDIR");
    char name[TEST_FOLDER_BYTES];
    const int n =
        snprintf(name, sizeof name, "%s/dptrain-test-XXXXXX", above && *above ? above : "/tmp");
    return n > 0 && (size_t)n < sizeof name && mkdtemp(name) && chdir(name) == 0 &&
           getcwd(folder, TEST_FOLDER_BYTES);
}

static int remove_entry(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about, (void)kind, (void)where;
    return remove(path);
}

void test_remove_folder(const char *folder)
{
    enum { OPEN_FOLDERS = 8 };
    if (chdir(folder) == 0 && chdir("..") == 0)
        (void)nftw(folder, remove_entry, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}

bool test_list_has(const char *list, const char *name)
{
    const size_t length = strlen(name);
    while (*list) {
        const size_t n = strcspn(list, ",");
        if (n == length && strncmp(list, name, n) == 0) return true;
        list += n + (list[n] == ',');
    }
    return false;
}

/* ---- Locales --------------------------------------------------------------------------------- */

/* localedef complains of the categories that are missing, and makes it all the same. */
static void make_comma_locale(void)
{
    FILE *to = fopen("comma.source", "w");
    if (!to) return;
    fputs("LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\ngrouping -1\nEND LC_NUMERIC\n", to);
    if (fclose(to) != 0) return;
    if (system("localedef -c -i comma.source ./comma >/dev/null 2>&1") >= 0)
        setenv("LOCPATH", ".", 1);
}

bool test_set_comma_locale(void)
{
    static const char *const installed[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "fr_FR"};
    for (size_t i = 0; i < sizeof installed / sizeof *installed; i++)
        if (setlocale(LC_ALL, installed[i])) return true;
    make_comma_locale();
    return setlocale(LC_ALL, "comma") != NULL;
}

/* ---- Random numbers -------------------------------------------------------------------------- */

uint64_t test_random_u64(test_random *random)
{
    uint64_t z = random->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

size_t test_random_below(test_random *random, size_t bound)
{
    return (size_t)(test_random_u64(random) % bound);
}

int test_random_int(test_random *random, int low, int high)
{
    return low + (int)test_random_below(random, (size_t)(high - low) + 1);
}

double test_random_uniform(test_random *random)
{
    return (double)(test_random_u64(random) >> 11) * 0x1p-53;
}

double test_random_normal(test_random *random)
{
    const double u = 1.0 - test_random_uniform(random); /* (0, 1] */
    const double v = test_random_uniform(random);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586476925 * v);
}

void test_fill_integers(test_random *random, float *out, size_t n, int low, int high)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)test_random_int(random, low, high);
}

/* The sum of four parts of 64 random bits: suites fill hundreds of millions, for which
   a logarithm and a cosine each take longer than what is tested. */
void test_fill_normal(test_random *random, float *out, size_t n)
{
    const double scale =
        sqrt(3.0) / 65536.0; /* of numbers below 2^16, of variance 2^32 / 12 each */
    for (size_t i = 0; i < n; i++) {
        const uint64_t bits = test_random_u64(random);
        const uint64_t sum =
            (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
        out[i] = (float)(((double)sum - 2.0 * 65535.0) * scale);
    }
}
