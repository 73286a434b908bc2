/* Products of matrices on the calling thread, in two ways: through the BLAS that was found, or our
   own (product.h). */
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

/* A way to do products. */
typedef struct gemm_way {
    const char *name;
    /* Whether a linear operator can be done this way. */
    bool (*suits)(const dpt_op *op);
    /* Scratch that one thread needs, in floats. */
    size_t (*scratch)(void);
    /* m, n and k are positive; scratch begins at a cache line. */
    void (*run)(const dpt_op *op, const gemm *g, float *scratch);
} gemm_way;

extern const gemm_way KERNEL(gemm_blas), KERNEL(gemm_packed);

/* Does *g, also where an extent is 0. */
void KERNEL(gemm_run)(const gemm_way *way, const dpt_op *op, const gemm *g, float *scratch);

#endif
