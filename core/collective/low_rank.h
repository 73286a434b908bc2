/* Matrices of low rank in place of gradients (Vogels, Karimireddy, Jaggi 2019, "PowerSGD"), with
   error feedback.  M is the sum of a process's gradient of a matrix and its residual.

       P = sum of M Q over the processes, orthonormal columns made of it by Gram-Schmidt
       Q = sum of M' P over the processes
       the sum of gradients is P Q', and the residual M - P (M' P)'

   P and Q have `rank` columns and travel as bfloat16 (packing.h).  What rounding drops from Q stays
   in the residual, too.  Q of a step is where the next step begins.  Tensors that are no matrix, or
   whose factors would not be smaller, travel as float32.

   Arrays are those of a flat buffer (count), in which a matrix is (rows, columns) at `begin`.  The
   results are the same bits wherever they are computed from the same numbers. */
#ifndef DPTI_LOW_RANK_H
#define DPTI_LOW_RANK_H

#include "base/range.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct dpti_matrix {
    size_t begin, rows, columns;
    size_t rank;
    size_t p, q; /* where its factors are among all */
} dpti_matrix;

typedef struct dpti_low_rank {
    size_t count, rank;
    dpti_matrix *matrices;
    size_t n_matrices;
    dpti_range *whole; /* elements that travel as they are, */
    size_t n_whole;
    size_t n_p, n_q, n_values; /* elements of all factors P, of all Q, and of `whole` */
    /* Of this step.  p (n_p): (rows, rank) each.  q, dropped (n_q): (columns, rank) each. */
    float *p, *q, *dropped, *values;
    /* (count) Q of the last committed step: of a matrix (columns, rank) from `begin` on, and zeros
       elsewhere.  It is the same in all processes. */
    float *start;
} dpti_low_rank;

/* Makes one without tensors.  NULL if memory is short. */
dpti_low_rank *dpti_low_rank_create(size_t count, size_t rank);
void dpti_low_rank_destroy(dpti_low_rank *low_rank); /* accepts NULL */
/* Adds a tensor at elements `what` whose first axis has so many elements; `rows` 0: it is no
   matrix. false if memory is short. */
bool dpti_low_rank_add(dpti_low_rank *low_rank, dpti_range what, size_t rows);
/* Called when all tensors are added.  false if memory is short. */
bool dpti_low_rank_finish(dpti_low_rank *low_rank);
/* Begins anew: with the same numbers in every process. */
void dpti_low_rank_restart(dpti_low_rank *low_rank);
/* Returns the bytes that travel: of all factors and all `whole`. */
size_t dpti_low_rank_bytes(const dpti_low_rank *low_rank);

/* From sums (count), M of all matrices: writes P.  */
void dpti_low_rank_project(dpti_low_rank *low_rank, const float *sums);
/* P has been summed: makes its columns orthonormal, and writes Q. */
void dpti_low_rank_factor(dpti_low_rank *low_rank, const float *sums);
/* sums -= P Q': called before Q is summed, while it is what this process contributes. */
void dpti_low_rank_subtract(const dpti_low_rank *low_rank, float *sums);
/* sums += P dropped': what rounding has dropped from this process's Q, or from the sum. */
void dpti_low_rank_add_dropped(const dpti_low_rank *low_rank, float *sums);
/* Q has been summed: writes P Q' of all matrices to `out` (count), `values` to their places, and
   zeros elsewhere. */
void dpti_low_rank_expand(const dpti_low_rank *low_rank, float *out);
/* The step is committed: the next one begins with its Q. */
void dpti_low_rank_commit(dpti_low_rank *low_rank);

#endif
