/* Tests factors of low rank (collective/low_rank.h) in one process, where nothing is rounded to
   bfloat16: against the reference; matrices of zeros; ranks beyond those of a matrix; which tensors
   travel as they are. */
#include "collective/low_rank.h"

#include "harness.h"
#include "reference/low_rank.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void draw(float *values, size_t n, uint64_t seed)
{
    test_random random = {seed};
    for (size_t i = 0; i < n; i++)
        values[i] = (float)(2 * test_random_uniform(&random) - 1);
}

/* One with a single matrix. */
static dpti_low_rank *make(size_t rows, size_t columns, size_t rank)
{
    const size_t n = rows * columns;
    dpti_low_rank *l = dpti_low_rank_create(n, rank);
    if (l && dpti_low_rank_add(l, (dpti_range){0, n}, rows) && dpti_low_rank_finish(l)) return l;
    dpti_low_rank_destroy(l);
    return NULL;
}

/* A step with these sums, which become what is left out. */
static void step(dpti_low_rank *l, float *sums, float *out)
{
    dpti_low_rank_project(l, sums);
    dpti_low_rank_factor(l, sums);
    dpti_low_rank_subtract(l, sums);
    dpti_low_rank_add_dropped(l, sums); /* zeros */
    dpti_low_rank_expand(l, out);
    dpti_low_rank_commit(l);
}

static double size_of(const float *values, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)values[i] * (double)values[i];
    return sqrt(sum);
}

static void check_matrix(test *t, const reference_matrix *m)
{
    const size_t n = m->rows * m->columns, n_start = m->columns * m->rank;
    dpti_low_rank *l = make(m->rows, m->columns, m->rank);
    float *sums = calloc(3 * n, sizeof *sums), *out = sums + n, *before = sums + 2 * n;
    double *sum = calloc(2 * n + n_start, sizeof *sum), *wanted = sum + n, *start = sum + 2 * n;
    REQUIRE(l && sums && sum && l->n_matrices == 1);
    for (size_t s = 0; s < 3; s++) {
        draw(before, n, 5 + s);
        memcpy(sums, before, n * sizeof *sums);
        for (size_t i = 0; i < n; i++)
            sum[i] = (double)sums[i];
        for (size_t i = 0; i < n_start; i++)
            start[i] = (double)l->start[i];
        REQUIRE(reference_low_rank(m, sum, start, wanted));
        step(l, sums, out);
        size_t n_wrong = 0;
        for (size_t i = 0; i < n; i++) {
            n_wrong += !(fabs((double)out[i] - wanted[i]) <= 2e-4);
            n_wrong += !(fabs((double)out[i] + (double)sums[i] - (double)before[i]) <= 1e-6);
        }
        CHECK_SIZE(n_wrong, 0);
    }
    free(sum);
    free(sums);
    dpti_low_rank_destroy(l);
}

static void as_the_reference(test *t)
{
    static const reference_matrix matrices[] = {{20, 30, 1}, {20, 30, 2},  {64, 9, 3},
                                                {7, 200, 4}, {100, 80, 8}, {3, 50, 2}};
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
        check_matrix(t, &matrices[i]);
}

/* A matrix of a lower rank than that is found whole: the other columns of P are zero. */
static void lower_ranks(test *t)
{
    enum { ROWS = 30, COLUMNS = 40, N = ROWS * COLUMNS };
    dpti_low_rank *l = make(ROWS, COLUMNS, 4);
    float sums[N], out[N], rows[ROWS], columns[COLUMNS];
    REQUIRE(l);
    draw(rows, ROWS, 1);
    draw(columns, COLUMNS, 2);
    for (size_t s = 0; s < 3; s++) {
        for (size_t i = 0; i < N; i++)
            sums[i] = rows[i / COLUMNS] * columns[i % COLUMNS];
        const double size = size_of(sums, N);
        step(l, sums, out);
        CHECK(size_of(sums, N) <= 1e-5 * size);
    }
    dpti_low_rank_destroy(l);
}

/* Behind a step without gradients the next one finds its matrix all the same. */
static void zeros(test *t)
{
    enum { ROWS = 30, COLUMNS = 40, N = ROWS * COLUMNS };
    dpti_low_rank *l = make(ROWS, COLUMNS, 2);
    float sums[N] = {0}, out[N];
    REQUIRE(l);
    step(l, sums, out);
    CHECK(size_of(out, N) == 0 && size_of(sums, N) == 0);
    for (size_t i = 0; i < N; i++)
        sums[i] = (float)(1 + i / COLUMNS);
    const double size = size_of(sums, N);
    step(l, sums, out);
    CHECK_NEAR(size_of(out, N) / size, 1, 1e-5);
    dpti_low_rank_destroy(l);
}

static void not_finite(test *t)
{
    enum { ROWS = 30, COLUMNS = 40, N = ROWS * COLUMNS };
    static const float values[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        dpti_low_rank *l = make(ROWS, COLUMNS, 2);
        float sums[N];
        REQUIRE(l);
        draw(sums, N, 3);
        sums[N / 2] = values[i];
        dpti_low_rank_project(l, sums);
        CHECK(!isfinite(size_of(l->p, l->n_p)));
        dpti_low_rank_destroy(l);
    }
}

/* What is no matrix, or is not smaller as factors, travels as it is. */
static void whole_tensors(test *t)
{
    dpti_low_rank *l = dpti_low_rank_create(2000, 4);
    float out[2000];
    REQUIRE(l);
    REQUIRE(dpti_low_rank_add(l, (dpti_range){0, 100}, 0));
    REQUIRE(dpti_low_rank_add(l, (dpti_range){128, 128 + 64}, 8));    /* 4 * 16 = 64 */
    REQUIRE(dpti_low_rank_add(l, (dpti_range){256, 256 + 800}, 20));  /* 4 * 60 */
    REQUIRE(dpti_low_rank_add(l, (dpti_range){1100, 1100 + 100}, 1)); /* 1 * 101 */
    REQUIRE(dpti_low_rank_add(l, (dpti_range){1300, 1300 + 200}, 2)); /* 2 * 102 */
    REQUIRE(dpti_low_rank_finish(l));
    CHECK_SIZE(l->n_matrices, 1);
    CHECK_SIZE(l->n_whole, 4);
    CHECK_SIZE(l->n_p, 80);
    CHECK_SIZE(l->n_q, 160);
    CHECK_SIZE(l->n_values, 464);
    CHECK_SIZE(dpti_low_rank_bytes(l), 2 * 240 + 4 * 464);
    for (size_t i = 0; i < l->n_values; i++)
        l->values[i] = (float)(i + 1);
    memset(out, 1, sizeof out);
    dpti_low_rank_expand(l, out);
    CHECK(out[0] == 1 && out[99] == 100 && out[100] == 0 && out[128] == 101 && out[191] == 164);
    CHECK(out[256] == 0 && out[1100] == 165 && out[1499] == 464 && out[1500] == 0);
    dpti_low_rank_destroy(l);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"as the reference", as_the_reference},
        {"lower ranks", lower_ranks},
        {"zeros", zeros},
        {"numbers that are not finite", not_finite},
        {"whole tensors", whole_tensors},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
