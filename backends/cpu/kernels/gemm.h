/* A matrix product: its operands, and the threads that compute it together. */
#ifndef DPT_CPU_GEMM_H
#define DPT_CPU_GEMM_H

#include "../operators.h"
#include "namespace.h"

typedef struct gemm gemm;

/* Packs some columns and terms of B, as product_pack_b does (product.h). */
typedef void gemm_pack(const gemm *g, dpt_cpu_range columns, dpt_cpu_range terms, float *to);

/* C (m,n) = op(A) (m,k) * op(B) (k,n), or C += ; row-major with leading dimensions in floats.  Then
   bias, ReLU and mask are applied to C, in this order. */
struct gemm {
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
    /* Our own product only.  An element is one sum over k, however the terms are cut into blocks.
       A product that accumulates has at most PRODUCT_TERMS terms then.  With `continues` the sum
       begins with C in place of 0. */
    bool unbroken, continues;
    const float *factor; /* of unbroken sums, before C is added; NULL: none */
    const float *bias;   /* (n), added to every row, or NULL */
    bool relu;
    const float *mask; /* (m,n), rows ldc apart, or NULL: C becomes 0 where it is not positive */
    /* Our own product only.  The terms are cut into grains of so many, at most 16, whose sums are
       added up along the tree (tree.h).  Factor, bias, ReLU and mask are not applied.  0: no tree.
     */
    size_t grain;
    bool no_negative_zero; /* the sum of a grain that is -0 becomes +0 */
    /* Packs B in place of `b`; NULL: `b` is there.  `source` is for this function. */
    gemm_pack *pack;
    const void *source;
};

/* One of the threads that compute a product together. */
typedef struct gemm_crew {
    dpt_cpu_team *team;
    unsigned thread, n_threads;
    float *scratch; /* shared by the threads; begins at a cache line */
} gemm_crew;

#endif
