/* The greatest element of a row, and sums over a row in double precision, in an order that does not
   depend on the instruction set. */
#ifndef DPT_CPU_ROW_SUMS_H
#define DPT_CPU_ROW_SUMS_H

#include <stddef.h>

/* Lanes of which each combines every eighth element of a row, so that the compiler makes vectors of
   them.  Their number is the same for all instruction sets, and so are the bits. */
enum { ROW_PARTS = 8 };

/* The greatest element. */
static inline float row_greatest(const float *x, size_t n)
{
    float part[ROW_PARTS], most;
    size_t i = 0;
    for (size_t k = 0; k < ROW_PARTS; k++)
        part[k] = x[0];
    for (; i + ROW_PARTS <= n; i += ROW_PARTS)
        for (size_t k = 0; k < ROW_PARTS; k++)
            part[k] = x[i + k] > part[k] ? x[i + k] : part[k];
    for (; i < n; i++)
        part[0] = x[i] > part[0] ? x[i] : part[0];
    most = part[0];
    for (size_t k = 1; k < ROW_PARTS; k++)
        most = part[k] > most ? part[k] : most;
    return most;
}

/* The sum of the lanes, in their order. */
static inline double row_sum_of(const double part[ROW_PARTS])
{
    double sum = part[0];
    for (size_t k = 1; k < ROW_PARTS; k++)
        sum += part[k];
    return sum;
}

static inline double row_sum(const float *y, size_t n)
{
    double part[ROW_PARTS] = {0};
    size_t i = 0;
    for (; i + ROW_PARTS <= n; i += ROW_PARTS)
        for (size_t k = 0; k < ROW_PARTS; k++)
            part[k] += (double)y[i + k];
    for (; i < n; i++)
        part[0] += (double)y[i];
    return row_sum_of(part);
}

static inline double row_dot(const float *a, const float *b, size_t n)
{
    double part[ROW_PARTS] = {0};
    size_t i = 0;
    for (; i + ROW_PARTS <= n; i += ROW_PARTS)
        for (size_t k = 0; k < ROW_PARTS; k++)
            part[k] += (double)a[i + k] * (double)b[i + k];
    for (; i < n; i++)
        part[0] += (double)a[i] * (double)b[i];
    return row_sum_of(part);
}

#endif
