/* OpenBLAS, opened at run time, so that the plug-in runs without one and sets it up before loading
   it.  It computes one matrix product on the calling thread, and many threads call it at once. */
#ifndef DPT_CPU_BLAS_H
#define DPT_CPU_BLAS_H

#include "backend.h"

/* The values of CBLAS's enumerations, which are part of its binary interface. */
enum {
    DPT_CPU_ROW_MAJOR = 101,
    DPT_CPU_NO_TRANS = 111,
    DPT_CPU_TRANS = 112,
};

/* C (m,n) = alpha * op(A) (m,k) * op(B) (k,n) + beta * C, all row-major with leading dimensions. */
typedef void dpt_cpu_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                           const float *a, int lda, const float *b, int ldb, float beta, float *c,
                           int ldc);

typedef struct dpt_cpu_blas {
    void *library;
    dpt_cpu_sgemm *sgemm; /* NULL: none found, the backend's own product is used */
    void (*set_n_threads)(int);
    char description[96]; /* "OpenBLAS 0.3.21 pthread, Cooperlake kernels", "own matrix product" */
} dpt_cpu_blas;

/* Finds and loads a BLAS; leaves the own product in place if there is none.  Reads $DPTRAIN_BLAS:
   the path of a library, or `none`; a path that cannot be used fills *problem (may be NULL).
   Changes the environment while it loads, so it comes before the process has other threads. */
void dpt_cpu_blas_open(dpt_cpu_blas *blas, dpt_error *problem);

/* To be called once on every thread that will multiply: the variant of OpenBLAS that is built on
   OpenMP keeps its number of threads per thread. */
void dpt_cpu_blas_enter(const dpt_cpu_blas *blas);

#endif
