/* OpenBLAS, which is opened at run time.  The plug-in therefore works without one, and can set the
   environment before the library is loaded.  OpenBLAS computes a matrix product on the calling
   thread, and many threads call it at once. */
#ifndef DPT_CPU_BLAS_H
#define DPT_CPU_BLAS_H

#include "backend.h"

/* Values of CBLAS's enumerations, which are part of its binary interface. */
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
    dpt_cpu_sgemm *sgemm; /* NULL: no BLAS was found, and our own product is used */
    void (*set_n_threads)(int);
    char description[96]; /* "OpenBLAS 0.3.21 pthread, Cooperlake kernels", "own matrix product" */
} dpt_cpu_blas;

/* Finds and loads a BLAS.  blas->sgemm stays NULL if there is none.  $DPTRAIN_BLAS is the path of a
   library, or `none`.  A path that cannot be used is recorded in *problem, which may be NULL.
   The call changes the environment during the loading, so it must come before the process has other
   threads. */
void dpt_cpu_blas_open(dpt_cpu_blas *blas, dpt_error *problem);

/* Sets the library's number of threads to one.  Every thread that multiplies must call it once,
   because the OpenMP variant of OpenBLAS keeps the number for each thread. */
void dpt_cpu_blas_enter(const dpt_cpu_blas *blas);

#endif
