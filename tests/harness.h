/* A small kit for test programs: checks that note where they failed, a runner that counts, seeded
   random numbers of its own.  Knows nothing of dptrain but its status codes.

       static void adds(test *t)
       {
           CHECK(1 + 1 == 2);
           REQUIRE(dpt_context_create(&context) == DPT_OK);
       }

       int main(int argc, char **argv)
       {
           static const test_case cases[] = {{"adds", adds}};
           return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
       }

   The macros expect the running test in a variable `t`.  A case passes if it made at least one
   check and all of them held. */
#ifndef DPT_TEST_HARNESS_H
#define DPT_TEST_HARNESS_H

#include "dpt_types.h"

#include <stdio.h>

typedef struct test {
    void *user;       /* what test_main was given */
    const char *name; /* the running case */
    size_t n_checks, n_failures;
    bool skipped;
    bool quiet; /* failures are counted and not printed: for tests of tests */
} test;

typedef struct test_case {
    const char *name;
    void (*run)(test *t);
} test_case;

enum { TEST_SKIP_CODE = 77 };

/* Runs the cases, or with arguments those whose name contains one of them, and prints a line for
   each and `N passed, N failed, N skipped` at the end.  The result is the exit status: 0, 1 if a
   case failed or none ran, 77 if all were skipped.  n_args does not count the program's name. */
int test_run(size_t n_args, char *const *args, const test_case *cases, size_t n_cases, void *user);
int test_main(int argc, char **argv, const test_case *cases, size_t n_cases, void *user);

/* Checks note a failure, print it, and go on; their value is whether they held.  REQUIRE also
   leaves the (void) function. */
#define CHECK(condition) test_check(t, (condition), #condition, __FILE__, __LINE__)
#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!CHECK(condition)) return;                                                             \
    } while (0)
#define CHECK_STATUS(call, expected)                                                               \
    test_check_status(t, (call), (expected), #call, __FILE__, __LINE__)
#define CHECK_OK(call) CHECK_STATUS(call, DPT_OK)
#define REQUIRE_OK(call)                                                                           \
    do {                                                                                           \
        if (!CHECK_OK(call)) return;                                                               \
    } while (0)
/* |actual - expected| <= tolerance.  NaN on either side fails. */
#define CHECK_NEAR(actual, expected, tolerance)                                                    \
    test_check_near(t, (actual), (expected), (tolerance), #actual, __FILE__, __LINE__)
#define CHECK_SIZE(actual, expected)                                                               \
    test_check_size(t, (actual), (expected), #actual, __FILE__, __LINE__)
/* Strings: equal; `part` occurs in `text`.  NULL fails. */
#define CHECK_TEXT(actual, expected)                                                               \
    test_check_text(t, (actual), (expected), #actual, __FILE__, __LINE__)
#define CHECK_CONTAINS(text, part) test_check_contains(t, (text), (part), #text, __FILE__, __LINE__)
/* Notes a failure with a message of one's own. */
#define FAIL(...) test_fail(t, __FILE__, __LINE__, __VA_ARGS__)
/* Ends the (void) case as skipped. */
#define SKIP(...)                                                                                  \
    do {                                                                                           \
        test_skip(t, __VA_ARGS__);                                                                 \
        return;                                                                                    \
    } while (0)

bool test_check(test *t, bool held, const char *what, const char *file, int line);
bool test_check_status(test *t, dpt_status actual, dpt_status expected, const char *what,
                       const char *file, int line);
bool test_check_near(test *t, double actual, double expected, double tolerance, const char *what,
                     const char *file, int line);
bool test_check_size(test *t, size_t actual, size_t expected, const char *what, const char *file,
                     int line);
bool test_check_text(test *t, const char *actual, const char *expected, const char *what,
                     const char *file, int line);
bool test_check_contains(test *t, const char *text, const char *part, const char *what,
                         const char *file, int line);
DPT_PRINTF(4, 5) void test_fail(test *t, const char *file, int line, const char *format, ...);
DPT_PRINTF(2, 3) void test_skip(test *t, const char *format, ...);

/* $DPTRAIN_TEST_STRIDE, by which strides over calls that fail are multiplied, or 1 if it is not
   set. */
size_t test_stride(void);

/* Opens a file of the tests, as "golden/lenet.txt", to be read: below $SRC/tests, else where they
   were built from.  NULL if it is not there. */
FILE *test_open(const char *name);

enum { TEST_FOLDER_BYTES = 512 };

/* Makes an empty folder below $TMPDIR, or /tmp, and makes it the current folder.  `folder` gets its
   path, without symbolic links.  false: it cannot be made. */
bool test_enter_folder(char folder[TEST_FOLDER_BYTES]);
/* Removes that folder with all that is in it.  The current folder is then the one above. */
void test_remove_folder(const char *folder);

/* Whether a list of names, separated by commas, has this one: $DPTRAIN_TEST_REQUIRE. */
bool test_list_has(const char *list, const char *name);

/* Sets a locale whose decimal point is a comma: one that is installed, or one
   that localedef makes in the current folder.  false: neither is to be had.  setlocale(LC_ALL, "C")
   takes it back. */
bool test_set_comma_locale(void);

/* Random numbers, the same on every machine (splitmix64). */
typedef struct test_random {
    uint64_t state;
} test_random;

uint64_t test_random_u64(test_random *random);
/* 0 .. bound-1; bound > 0. */
size_t test_random_below(test_random *random, size_t bound);
/* An integer in low .. high, both included. */
int test_random_int(test_random *random, int low, int high);
double test_random_uniform(test_random *random); /* [0, 1) */
double test_random_normal(test_random *random);
/* n small integers in low .. high as floats: sums of products of them are exact in any order. */
void test_fill_integers(test_random *random, float *out, size_t n, int low, int high);
/* n numbers of mean 0 and variance 1, nearly normal: none beyond 3.5. */
void test_fill_normal(test_random *random, float *out, size_t n);

#endif
