/* What this process gives the backend: cores, the processor's name and instruction sets, memory, a
   BLAS.  Found once, at the first probe, and constant from then on: the backend's one process-wide
   object.  The environment is read while it is found, and at no other time. */
#ifndef DPT_CPU_HOST_H
#define DPT_CPU_HOST_H

#include "backend.h"
#include "blas.h"

enum { DPT_CPU_MAX_CORES = 4096, DPT_CPU_MAX_THREADS = 1024 };

typedef struct dpt_cpu_kernel_set dpt_cpu_kernel_set;

typedef struct dpt_cpu_host {
    /* The cores that this process may run on, as numbered by the system.  Read before any thread
       is bound, because a bound thread sees nothing but its own core. */
    unsigned cores[DPT_CPU_MAX_CORES];
    unsigned n_cores;
    char name[DPT_NAME_BYTES]; /* "AMD EPYC 9454" */
    size_t memory_bytes;
    size_t cache_bytes;                /* of a thread */
    const dpt_cpu_kernel_set *kernels; /* the best that the processor runs, or the forced one */
    dpt_cpu_blas blas;
    char algorithm[16]; /* $DPTRAIN_CPU_ALGORITHM, for devices without algorithm=; "" if unset */
    dpt_error problem;  /* what the user asked for in the environment and cannot have */
} dpt_cpu_host;

const dpt_cpu_host *dpt_cpu_host_get(void);

#endif
