/* Products of matrices on the calling thread: through the BLAS that was found, or our own. */
#ifndef DPT_CPU_GEMM_H
#define DPT_CPU_GEMM_H

#include "../operators.h"
#include "namespace.h"

/* C (m,n) = op(A) (m,k) * op(B) (k,n), or += ; row-major with leading dimensions. */
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
} gemm;

/* Whether the products of a linear operator go to the BLAS. */
bool KERNEL(gemm_uses_blas)(const dpt_op *op);
/* Scratch that one thread needs, in floats. */
size_t KERNEL(gemm_scratch)(const dpt_op *op);
void KERNEL(gemm_run)(const dpt_op *op, const gemm *g, float *scratch);

#endif
