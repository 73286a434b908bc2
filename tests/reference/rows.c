/* Operators on the rows of a matrix: ROW_SOFTMAX and TAKE. */
#include "reference.h"

#include <math.h>

/* ---- Softmax --------------------------------------------------------------------------------- */

/* The maximum of a row, and the sum of the exponentials below it. */
typedef struct row_sums {
    double most, sum;
} row_sums;

static row_sums sums_of(const double *x, size_t columns)
{
    row_sums s = {.most = x[0]};
    for (size_t c = 1; c < columns; c++)
        if (x[c] > s.most) s.most = x[c];
    for (size_t c = 0; c < columns; c++)
        s.sum += exp(x[c] - s.most);
    return s;
}

void reference_row_softmax(const dpt_row_softmax_desc *d, size_t n, const reference_args *args)
{
    for (size_t row = 0; row < n * d->rows; row++) {
        const double *x = args->in[0] + row * d->columns;
        const row_sums s = sums_of(x, d->columns);
        for (size_t c = 0; c < d->columns; c++)
            args->out[0][row * d->columns + c] =
                d->log ? x[c] - s.most - log(s.sum) : exp(x[c] - s.most) / s.sum;
    }
}

void reference_row_softmax_backward(const dpt_row_softmax_desc *d, size_t n,
                                    const reference_args *args)
{
    for (size_t row = 0; row < n * d->rows; row++) {
        const double *dy = args->in[0] + row * d->columns, *y = args->in[1] + row * d->columns;
        double *dx = args->out[0] + row * d->columns;
        double sum = 0.0;
        for (size_t c = 0; c < d->columns; c++)
            sum += d->log ? dy[c] : dy[c] * y[c];
        for (size_t c = 0; c < d->columns; c++) {
            const double value = d->log ? dy[c] - exp(y[c]) * sum : y[c] * (dy[c] - sum);
            dx[c] = args->accumulate ? dx[c] + value : value;
        }
    }
}

/* exp(x - most) magnifies the rounding of x - most by its size. */
void magnitude_row_softmax(const dpt_row_softmax_desc *d, size_t n, const reference_args *args)
{
    for (size_t row = 0; row < n * d->rows; row++) {
        const double *x = args->in[0] + row * d->columns;
        const row_sums s = sums_of(x, d->columns);
        for (size_t c = 0; c < d->columns; c++) {
            const double below = isinf(x[c]) ? 0.0 : s.most - x[c];
            args->out[0][row * d->columns + c] =
                d->log ? 1.0 + below + log(s.sum) : exp(x[c] - s.most) / s.sum * (2.0 + below);
        }
    }
}

void magnitude_row_softmax_backward(const dpt_row_softmax_desc *d, size_t n,
                                    const reference_args *args)
{
    for (size_t row = 0; row < n * d->rows; row++) {
        const double *dy = args->in[0] + row * d->columns, *y = args->in[1] + row * d->columns;
        double *dx = args->out[0] + row * d->columns;
        double sum = 0.0;
        for (size_t c = 0; c < d->columns; c++)
            sum += fabs(d->log ? dy[c] : dy[c] * y[c]);
        for (size_t c = 0; c < d->columns; c++) {
            const double value =
                d->log ? fabs(dy[c]) + exp(y[c]) * sum : fabs(y[c]) * (fabs(dy[c]) + sum);
            dx[c] = args->accumulate ? fabs(dx[c]) + value : value;
        }
    }
}

/* ---- Rows of a table ------------------------------------------------------------------------- */

/* Whether an index names a row. */
static bool is_row(const dpt_take_desc *d, double index)
{
    return index >= 0.0 && index < (double)d->rows;
}

void reference_take(const dpt_take_desc *d, size_t n, const reference_args *args)
{
    for (size_t i = 0; i < n * d->count; i++) {
        const double index = args->in[1][i];
        for (size_t c = 0; c < d->width; c++)
            args->out[0][i * d->width + c] =
                is_row(d, index) ? args->in[0][(size_t)index * d->width + c] : NAN;
    }
}

void reference_take_backward(const dpt_take_desc *d, size_t n, const reference_args *args)
{
    for (size_t e = 0; e < d->rows * d->width && !args->accumulate; e++)
        args->out[0][e] = 0.0;
    for (size_t i = 0; i < n * d->count; i++) {
        if (!is_row(d, args->in[1][i])) continue;
        double *row = args->out[0] + (size_t)args->in[1][i] * d->width;
        for (size_t c = 0; c < d->width; c++)
            row[c] += args->in[0][i * d->width + c];
    }
}
