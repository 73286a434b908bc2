/* Products of matrices by a team, in two ways: through the BLAS that was found, or our own
   (product.h). */
#ifndef DPT_CPU_GEMM_H
#define DPT_CPU_GEMM_H

#include "../operators.h"
#include "namespace.h"

/* C (m,n) = op(A) (m,k) * op(B) (k,n), or += ; row-major with leading dimensions.  Then bias, ReLU
   and mask, in this order. */
typedef struct gemm {
    size_t m, n, k;
    const float *a;
    size_t lda;
    bool a_transposed; /* A is stored (k,m) */
    const float *b;
    size_t ldb;
    bool b_transposed; /* B is stored (n,k) */
    float *c;
    size_t ldc;
    bool accumulate;
    const float *bias; /* (n) added to every row, or NULL */
    bool relu;
    const float *mask; /* (m,n), rows ldc apart, or NULL: results are 0 where it is not positive */
} gemm;

/* One of the threads that do a product together. */
typedef struct gemm_crew {
    dpt_cpu_team *team;
    unsigned thread, n_threads;
    float *scratch; /* of all of them; begins at a cache line */
} gemm_crew;

/* A way to do products. */
typedef struct gemm_way {
    const char *name;
    /* Whether a linear operator can be done this way. */
    bool (*suits)(const dpt_op *op);
    /* Scratch that all threads need together, in floats. */
    size_t (*scratch)(unsigned n_threads);
    /* A thread's part; m, n and k are positive.  All threads come: there may be barriers within,
       but none at the end. */
    void (*run)(const dpt_op *op, const gemm *g, const gemm_crew *crew);
} gemm_way;

extern const gemm_way KERNEL(gemm_blas), KERNEL(gemm_packed);

/* Does a thread's part of *g, also where an extent is 0; all threads come. Ends without a barrier.
 */
void KERNEL(gemm_run)(const gemm_way *way, const dpt_op *op, const gemm *g, const gemm_crew *crew);

#endif
