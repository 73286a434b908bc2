/* The algorithms for a matrix product: the BLAS that the host found, or our own product
   (product.h). */
#ifndef DPT_CPU_GEMM_ALGORITHMS_H
#define DPT_CPU_GEMM_ALGORITHMS_H

#include "gemm.h"

typedef struct gemm_algorithm {
    const char *name;
    /* Whether the algorithm can compute the product of a linear operator. */
    bool (*suits)(const dpt_op *op);
    /* Floats of scratch that all threads together need for products that have at most the m, n and
       k of *largest, and a tree if largest->grain is not 0. */
    size_t (*scratch)(const gemm *largest, unsigned n_threads);
    /* Computes one thread's part; m, n and k are positive.  All threads of the crew must call it,
       because it may contain barriers.  There is no barrier at its end. */
    void (*run)(const dpt_op *op, const gemm *g, const gemm_crew *crew);
} gemm_algorithm;

extern const gemm_algorithm KERNEL(gemm_blas), KERNEL(gemm_packed);

/* Whether the host has a BLAS that all threads of the operator's team can call at once. */
bool KERNEL(gemm_has_blas)(const dpt_op *op);

/* Computes one thread's part of *g, also if m, n or k is 0.  All threads of the crew must call it.
   There is no barrier at its end. */
void KERNEL(gemm_run)(const gemm_algorithm *algorithm, const dpt_op *op, const gemm *g,
                      const gemm_crew *crew);

#endif
