/* A kernel that is compiled for the host: the entry of its table (kernels/table.h) that a launch
   finds.  For C and C++. */
#ifndef DPT_TEST_EMULATOR_KERNEL_H
#define DPT_TEST_EMULATOR_KERNEL_H

#include <stddef.h>

#define EMULATED_MAGIC 0x6b65726e656c2e2eull

typedef struct emulated_kernel {
    unsigned long long magic;             /* EMULATED_MAGIC */
    void (*call)(void *const *arguments); /* does one thread's work */
    size_t n_arguments;
    const size_t *bytes;             /* of each argument */
    char *shared_begin, *shared_end; /* shared memory of its file's kernels */
} emulated_kernel;

/* As CUDA's threadIdx, blockIdx, blockDim and gridDim, of the thread that runs: there is one at a
   time. */
typedef struct emulated_index {
    unsigned x, y, z;
} emulated_index;

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)
extern emulated_index emulated_thread, emulated_block, emulated_threads, emulated_blocks;
/* __syncthreads */
void emulated_barrier(void);
#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
