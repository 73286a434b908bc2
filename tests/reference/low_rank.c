/* The projection of a matrix, column by column. */
#include "reference/low_rank.h"

#include <math.h>
#include <stdlib.h>

static double product(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

bool reference_low_rank(const reference_matrix *m, const double *sum, const double *start,
                        double *out)
{
    const size_t rows = m->rows, columns = m->columns;
    double *p = calloc(rows * m->rank, sizeof *p); /* column after column */
    if (!p) return false;
    for (size_t k = 0; k < m->rank; k++) {
        double *column = p + k * rows;
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < columns; j++)
                column[i] += sum[i * columns + j] * start[j * m->rank + k];
        const double before = sqrt(product(column, column, rows));
        for (size_t pass = 0; pass < 2; pass++)
            for (size_t e = 0; e < k; e++) {
                const double part = product(column, p + e * rows, rows);
                for (size_t i = 0; i < rows; i++)
                    column[i] -= part * p[e * rows + i];
            }
        const double length = sqrt(product(column, column, rows));
        for (size_t i = 0; i < rows; i++)
            column[i] = length > 1e-6 * before ? column[i] / length : 0;
    }
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) {
            out[i * columns + j] = 0;
            for (size_t k = 0; k < m->rank; k++)
                for (size_t e = 0; e < rows; e++)
                    out[i * columns + j] +=
                        p[k * rows + i] * p[k * rows + e] * sum[e * columns + j];
        }
    free(p);
    return true;
}
