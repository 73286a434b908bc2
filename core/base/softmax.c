/* Softmax and sigmoid on the host (softmax.h). */
#include "base/softmax.h"

#include "base/elementary.h"

static void softmax(float *row, size_t n)
{
    double most = (double)row[0], sum = 0;
    for (size_t i = 1; i < n; i++) /* not by fmax: gcc 12.2 for AArch64 breaks down over it */
        if ((double)row[i] > most) most = (double)row[i];
    for (size_t i = 0; i < n; i++)
        sum += dpti_exp((double)row[i] - most);
    for (size_t i = 0; i < n; i++)
        row[i] = (float)(dpti_exp((double)row[i] - most) / sum);
}

void dpti_softmax_rows(float *rows, size_t n_rows, size_t n)
{
    for (size_t i = 0; i < n_rows; i++)
        softmax(rows + i * n, n);
}

void dpti_sigmoid_all(float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        values[i] = (float)(1.0 / (1.0 + dpti_exp(-(double)values[i])));
}
