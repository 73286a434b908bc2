/* A program of a device, and its kernels. */
#ifndef DPT_OPENCL_KERNEL_H
#define DPT_OPENCL_KERNEL_H

#include "cache.h"
#include "launch.h"
#include "opencl.h"

typedef struct dpt_cl_program dpt_cl_program;

/* What a driver may compile a kernel anew for. */
typedef struct dpt_cl_launch_size {
    size_t group[3];
    bool wide; /* more work items in a dimension than fit in 16 bits: PoCL distinguishes that */
} dpt_cl_launch_size;

struct dpt_kernel {
    cl_kernel handle;
    char *name;
    dpt_cl_program *program;
    dpt_cl_launch_size *launches; /* (n_launches) that need no trial any more */
    size_t n_launches;
    struct dpt_kernel *next;
};

struct dpt_cl_program {
    dpt_program_key key; /* its file is embedded and so static */
    cl_program program;
    uint64_t id;                    /* of source and options, not 0 */
    char file[DPT_HASH_CHARS + 24]; /* in the cache */
    bool stored;                    /* it is there, or cannot be had */
    char *tried;                    /* the cache's lines of launches (tried.h), or NULL */
    dpt_kernel *kernels;
    struct dpt_cl_program *next;
};

#endif
