/* Factors of matrices, by plain loops whose order of sums is fixed. */
#include "collective/low_rank.h"

#include "base/random.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

dpti_low_rank *dpti_low_rank_create(size_t count, size_t rank)
{
    dpti_low_rank *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    l->count = count;
    l->rank = rank;
    return l;
}

void dpti_low_rank_destroy(dpti_low_rank *low_rank)
{
    if (!low_rank) return;
    free(low_rank->start);
    free(low_rank->values);
    free(low_rank->dropped);
    free(low_rank->q);
    free(low_rank->p);
    free(low_rank->whole);
    free(low_rank->matrices);
    free(low_rank);
}

static bool add_whole(dpti_low_rank *l, dpti_range what)
{
    dpti_range *whole = realloc(l->whole, (l->n_whole + 1) * sizeof *whole);
    if (!whole) return false;
    l->whole = whole;
    whole[l->n_whole++] = what;
    l->n_values += dpti_range_size(what);
    return true;
}

bool dpti_low_rank_add(dpti_low_rank *low_rank, dpti_range what, size_t rows)
{
    dpti_low_rank *l = low_rank;
    const size_t size = dpti_range_size(what), columns = rows > 0 ? size / rows : 0;
    size_t rank = l->rank < rows ? l->rank : rows;
    if (rank > columns) rank = columns;
    if (rank == 0 || rank * (rows + columns) >= size) return add_whole(l, what);
    dpti_matrix *matrices = realloc(l->matrices, (l->n_matrices + 1) * sizeof *matrices);
    if (!matrices) return false;
    l->matrices = matrices;
    matrices[l->n_matrices++] = (dpti_matrix){.begin = what.begin,
                                              .rows = rows,
                                              .columns = columns,
                                              .rank = rank,
                                              .p = l->n_p,
                                              .q = l->n_q};
    l->n_p += rows * rank;
    l->n_q += columns * rank;
    return true;
}

bool dpti_low_rank_finish(dpti_low_rank *low_rank)
{
    dpti_low_rank *l = low_rank;
    l->p = calloc(l->n_p + 1, sizeof *l->p);
    l->q = calloc(l->n_q + 1, sizeof *l->q);
    l->dropped = calloc(l->n_q + 1, sizeof *l->dropped);
    l->values = calloc(l->n_values + 1, sizeof *l->values);
    l->start = calloc(l->count + 1, sizeof *l->start);
    const bool complete = l->p && l->q && l->dropped && l->values && l->start;
    if (complete) dpti_low_rank_restart(l);
    return complete;
}

/* Random numbers for column k of a start. */
static void draw_column(const dpti_matrix *m, float *start, size_t k)
{
    dpti_random random;
    dpti_random_init(&random, m->begin, DPTI_RANDOM_FACTOR, k);
    for (size_t j = 0; j < m->columns; j++)
        start[j * m->rank + k] = dpti_random_uniform(&random) - 0.5f;
}

void dpti_low_rank_restart(dpti_low_rank *low_rank)
{
    dpti_low_rank *l = low_rank;
    memset(l->start, 0, l->count * sizeof *l->start);
    for (size_t i = 0; i < l->n_matrices; i++)
        for (size_t k = 0; k < l->matrices[i].rank; k++)
            draw_column(&l->matrices[i], l->start + l->matrices[i].begin, k);
}

size_t dpti_low_rank_bytes(const dpti_low_rank *low_rank)
{
    return (low_rank->n_p + low_rank->n_q) * sizeof(uint16_t) + low_rank->n_values * sizeof(float);
}

/* ---- Factors --------------------------------------------------------------------------------- */

/* The square of the length of column k, and the product of columns k and i. */
static double dot(const dpti_matrix *m, const float *p, size_t k, size_t i)
{
    double sum = 0;
    for (size_t row = 0; row < m->rows; row++)
        sum += (double)p[row * m->rank + k] * (double)p[row * m->rank + i];
    return sum;
}

/* Subtracts from column k its part along column i, whose length is 1 or 0. */
static void subtract_column(const dpti_matrix *m, float *p, size_t k, size_t i)
{
    const double part = dot(m, p, k, i);
    for (size_t row = 0; row < m->rows; row++)
        p[row * m->rank + k] -= (float)(part * (double)p[row * m->rank + i]);
}

static void scale_column(const dpti_matrix *m, float *p, size_t k, double factor)
{
    for (size_t row = 0; row < m->rows; row++)
        p[row * m->rank + k] = (float)(factor * (double)p[row * m->rank + k]);
}

/* Gram-Schmidt, twice.  A column of which nothing but rounding is left becomes zero. */
static void orthonormalise(const dpti_matrix *m, float *p)
{
    static const double rounding = 1e-6;
    for (size_t k = 0; k < m->rank; k++) {
        double before = sqrt(dot(m, p, k, k));
        /* So that squares of what is left do not become zero. */
        scale_column(m, p, k, before > 0 ? 1 / before : 0);
        for (size_t pass = 0; pass < 2; pass++)
            for (size_t i = 0; i < k; i++)
                subtract_column(m, p, k, i);
        const double length = sqrt(dot(m, p, k, k));
        scale_column(m, p, k, length > rounding ? 1 / length : 0);
    }
}

/* Columns of zeros begin anew: nothing would ever be found along them. */
static void revive(const dpti_matrix *m, float *start)
{
    for (size_t k = 0; k < m->rank; k++) {
        bool any = false;
        for (size_t j = 0; j < m->columns && !any; j++)
            any = start[j * m->rank + k] != 0;
        if (!any) draw_column(m, start, k);
    }
}

/* p (rows, rank) = sums (rows, columns) * q (columns, rank) */
static void multiply(const dpti_matrix *m, const float *sums, const float *q, float *p)
{
    const size_t r = m->rank;
    memset(p, 0, m->rows * r * sizeof *p);
    for (size_t i = 0; i < m->rows; i++)
        for (size_t j = 0; j < m->columns; j++)
            for (size_t k = 0; k < r; k++)
                p[i * r + k] += sums[i * m->columns + j] * q[j * r + k];
}

/* q (columns, rank) = sums' * p (rows, rank) */
static void multiply_transposed(const dpti_matrix *m, const float *sums, const float *p, float *q)
{
    const size_t r = m->rank;
    memset(q, 0, m->columns * r * sizeof *q);
    for (size_t i = 0; i < m->rows; i++)
        for (size_t j = 0; j < m->columns; j++)
            for (size_t k = 0; k < r; k++)
                q[j * r + k] += sums[i * m->columns + j] * p[i * r + k];
}

/* An element of p * q': a row of each. */
static float element(const float *p, const float *q, size_t rank)
{
    float sum = 0;
    for (size_t k = 0; k < rank; k++)
        sum += p[k] * q[k];
    return sum;
}

/* to (rows, columns) += p * q' */
static void add_product(const dpti_matrix *m, const float *p, const float *q, float *to)
{
    const size_t r = m->rank;
    for (size_t i = 0; i < m->rows; i++)
        for (size_t j = 0; j < m->columns; j++)
            to[i * m->columns + j] += element(p + i * r, q + j * r, r);
}

/* from (rows, columns) -= p * q' */
static void subtract_product(const dpti_matrix *m, const float *p, const float *q, float *from)
{
    const size_t r = m->rank;
    for (size_t i = 0; i < m->rows; i++)
        for (size_t j = 0; j < m->columns; j++)
            from[i * m->columns + j] -= element(p + i * r, q + j * r, r);
}

void dpti_low_rank_project(dpti_low_rank *low_rank, const float *sums)
{
    dpti_low_rank *l = low_rank;
    for (size_t i = 0; i < l->n_matrices; i++) {
        const dpti_matrix *m = &l->matrices[i];
        revive(m, l->start + m->begin);
        multiply(m, sums + m->begin, l->start + m->begin, l->p + m->p);
    }
}

void dpti_low_rank_factor(dpti_low_rank *low_rank, const float *sums)
{
    dpti_low_rank *l = low_rank;
    for (size_t i = 0; i < l->n_matrices; i++) {
        const dpti_matrix *m = &l->matrices[i];
        orthonormalise(m, l->p + m->p);
        multiply_transposed(m, sums + m->begin, l->p + m->p, l->q + m->q);
    }
}

void dpti_low_rank_subtract(const dpti_low_rank *low_rank, float *sums)
{
    const dpti_low_rank *l = low_rank;
    for (size_t i = 0; i < l->n_matrices; i++) {
        const dpti_matrix *m = &l->matrices[i];
        subtract_product(m, l->p + m->p, l->q + m->q, sums + m->begin);
    }
}

void dpti_low_rank_add_dropped(const dpti_low_rank *low_rank, float *sums)
{
    const dpti_low_rank *l = low_rank;
    for (size_t i = 0; i < l->n_matrices; i++) {
        const dpti_matrix *m = &l->matrices[i];
        add_product(m, l->p + m->p, l->dropped + m->q, sums + m->begin);
    }
}

void dpti_low_rank_expand(const dpti_low_rank *low_rank, float *out)
{
    const dpti_low_rank *l = low_rank;
    const float *values = l->values;
    memset(out, 0, l->count * sizeof *out);
    for (size_t i = 0; i < l->n_matrices; i++) {
        const dpti_matrix *m = &l->matrices[i];
        add_product(m, l->p + m->p, l->q + m->q, out + m->begin);
    }
    for (size_t i = 0; i < l->n_whole; i++) {
        const size_t n = dpti_range_size(l->whole[i]);
        memcpy(out + l->whole[i].begin, values, n * sizeof *values);
        values += n;
    }
}

void dpti_low_rank_commit(dpti_low_rank *low_rank)
{
    dpti_low_rank *l = low_rank;
    for (size_t i = 0; i < l->n_matrices; i++) {
        const dpti_matrix *m = &l->matrices[i];
        memcpy(l->start + m->begin, l->q + m->q, m->columns * m->rank * sizeof *l->q);
    }
}
