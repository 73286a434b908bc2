/* One step of sums of low rank (core/collective/low_rank.h), in double precision and without any
   rounding. */
#ifndef DPT_TEST_LOW_RANK_H
#define DPT_TEST_LOW_RANK_H

#include <stdbool.h>
#include <stddef.h>

typedef struct reference_matrix {
    size_t rows, columns, rank;
} reference_matrix;

/* out (rows, columns) = P P' sum, where the columns of P are those of sum * start by Gram-Schmidt.
   start (columns, rank).  false: no memory. */
bool reference_low_rank(const reference_matrix *m, const double *sum, const double *start,
                        double *out);

#endif
