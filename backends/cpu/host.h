/* The host: the cores of this process, the processor's name, caches and instruction sets, memory,
   and a BLAS.  The host is examined once, at the first probe, and constant afterwards.  The
   environment is read during the examination and at no other time. */
#ifndef DPT_CPU_HOST_H
#define DPT_CPU_HOST_H

#include "backend.h"
#include "blas.h"

enum { DPT_CPU_MAX_CORES = 4096, DPT_CPU_MAX_THREADS = 1024 };

typedef struct dpt_cpu_kernel_set dpt_cpu_kernel_set;

typedef struct dpt_cpu_host {
    /* The cores that this process may run on, by the system's numbers.  They are read before a
       thread is bound, because a bound thread sees only its own core. */
    unsigned cores[DPT_CPU_MAX_CORES];
    unsigned n_cores;
    char name[DPT_NAME_BYTES]; /* "AMD EPYC 9454" */
    size_t memory_bytes;
    size_t cache_bytes;                /* of one thread */
    const dpt_cpu_kernel_set *kernels; /* the best set that the processor runs, or the forced one */
    dpt_cpu_blas blas;
    char algorithm[16]; /* $DPTRAIN_CPU_ALGORITHM, for devices without algorithm=; "" if unset */
    dpt_error problem;  /* an invalid setting in the environment; every open fails with it */
} dpt_cpu_host;

/* Examines the host at the first call.  Call it before threads are bound. */
const dpt_cpu_host *dpt_cpu_host_get(void);

#endif
