/* What the portable kernels (backends/kernels) need of a backend: finding a kernel by name,
   launching it, and a few facts about the device.  The host code of operators that every GPU API
   does alike is written once against this, and stands beside it; each backend that links it
   implements what is marked so. */
#ifndef DPT_COMMON_LAUNCH_H
#define DPT_COMMON_LAUNCH_H

#include "backend.h"

enum { DPT_ALIGNMENT_BYTES = 256 }; /* of buffers, tensors and parts of workspaces */

/* ---- The device ------------------------------------------------------------------------------ */

typedef struct dpt_traits {
    const char *name;         /* of the device, for messages */
    bool is_cpu;              /* groups are threads, and work items loops */
    bool is_compiled;         /* kernels were compiled with the backend: see dpt_program_key */
    unsigned n_units;         /* compute units, at least 1 */
    unsigned group_size;      /* GROUP of the portable kernels */
    unsigned vector_width;    /* floats of a CPU's vectors */
    size_t most_group_size;   /* that the device allows */
    size_t most_shared_bytes; /* of local memory that a group may have */
    dpt_dtype activations;    /* as in dpt_device_info */
    double input_rounding;    /* of products of float32 (dpt_op_info): not 0 if tensor cores may
                                 compute them */
} dpt_traits;

/* The backend's. */
const dpt_traits *dpt_traits_of(const dpt_device *device);
dpt_device *dpt_stream_device(const dpt_stream *stream);

/* ---- Kernels --------------------------------------------------------------------------------- */

typedef struct dpt_kernel dpt_kernel; /* the backend's; belongs to the device */

enum { DPT_MAX_OPTIONS = 512 };

/* Kernels of one file, compiled with the same macros.  A backend that compiles when it runs does
   it with all of them.  One whose kernels are compiled beforehand has some variants of a file, and
   ignores the constants. */
typedef struct dpt_program_key {
    const char *file; /* "pool2d.cl", of backends/kernels or the backend's own; static */
    char options[DPT_MAX_OPTIONS];   /* what makes another kernel: "-DTILE_M=8 -DTILE_N=64" */
    char constants[DPT_MAX_OPTIONS]; /* what the parameters say as well: "-DACTIVATION=1u" */
} dpt_program_key;

/* The backend's.  The kernel `name` of a program.  DPT_E_UNSUPPORTED if its kernels are compiled
   beforehand and not with these options; DPT_E_DEVICE if it does not compile. */
DPT_CHECK_RESULT dpt_status dpt_kernel_get(dpt_device *device, const dpt_program_key *key,
                                           const char *name, dpt_kernel **out);
/* With no macros of its own. */
DPT_CHECK_RESULT dpt_status dpt_kernel_of(dpt_device *device, const char *file, const char *name,
                                          dpt_kernel **out);
/* Adds to a key's options what says that the program stores activations as `type`: nothing for
   float32, BF16 (kernels/dialect.h) for bfloat16. */
void dpt_program_key_store(dpt_program_key *key, dpt_dtype type);
/* With that alone. */
DPT_CHECK_RESULT dpt_status dpt_kernel_storing(dpt_device *device, const char *file, dpt_dtype type,
                                               const char *name, dpt_kernel **out);

/* ---- Launching ------------------------------------------------------------------------------- */

enum { DPT_MAX_ARGUMENTS = 24, DPT_MAX_ARGUMENT_BYTES = 512 };

/* A launch in the making: arguments in the order of the kernel's parameters, then go.  The calls
   between need no checks:

       dpt_launch l = dpt_launch_begin(call->stream, state->kernel);
       dpt_launch_tensor(&l, call->args->out[0], DPT_F32);
       dpt_launch_tensor(&l, call->args->in[0], DPT_F32);
       dpt_launch_value(&l, &params, sizeof params);
       return dpt_launch_items(&l, count); */
typedef struct dpt_launch {
    dpt_stream *stream;
    dpt_kernel *kernel;
    unsigned n_arguments;
    unsigned n_bytes;                             /* of all arguments, and gaps between them */
    unsigned short at[DPT_MAX_ARGUMENTS];         /* where each one begins, */
    unsigned short n_bytes_of[DPT_MAX_ARGUMENTS]; /* and its size */
    bool overflows;                               /* more than there is room for */
    _Alignas(16) unsigned char bytes[DPT_MAX_ARGUMENT_BYTES];
} dpt_launch;

dpt_launch dpt_launch_begin(dpt_stream *stream, dpt_kernel *kernel);
/* IN or OUT of the dialect: a buffer and a place in elements; {NULL, 0} passes null. */
void dpt_launch_tensor(dpt_launch *launch, dpt_location location, dpt_dtype dtype);
/* Copied. */
void dpt_launch_value(dpt_launch *launch, const void *value, size_t n_bytes);
/* One work item for each of 0 .. n_items-1, rounded up to whole groups of group_size; the kernel
   checks its bound.  0 items enqueue nothing. */
DPT_CHECK_RESULT dpt_status dpt_launch_items(dpt_launch *launch, size_t n_items);
/* For kernels with FOR_ELEMENTS (span.h): the elements 0 .. per_sample-1 of n_samples samples.  A
   kernel finds its sample in GROUP_ID(1), and its place in the sample without a division. */
DPT_CHECK_RESULT dpt_status dpt_launch_elements(dpt_launch *launch, size_t per_sample,
                                                size_t n_samples);
/* For kernels with FOR_RUNS: the elements 0 .. count-1. */
DPT_CHECK_RESULT dpt_status dpt_launch_runs(dpt_launch *launch, size_t count);
/* For kernels with FOR_QUADS (quad.h), on GPUs: the quads 0 .. per_sample-1 of n_samples samples.
 */
DPT_CHECK_RESULT dpt_status dpt_launch_quads(dpt_launch *launch, size_t per_sample,
                                             size_t n_samples);
/* n_groups[d] groups of group[d] items in up to three dimensions; 0 groups enqueue nothing. */
DPT_CHECK_RESULT dpt_status dpt_launch_groups(dpt_launch *launch, const size_t n_groups[3],
                                              const size_t group[3]);

/* The backend's.  What a kernel's argument for a buffer is, the size of a pointer: a device address
   or a handle. */
const void *dpt_buffer_argument(const dpt_buffer *buffer);
/* The backend's.  Enqueues; every number of groups is at least 1. */
DPT_CHECK_RESULT dpt_status dpt_launch_enqueue(const dpt_launch *launch, const size_t n_groups[3],
                                               const size_t group[3]);

/* Whether `count` elements are taken by quads (kernels/quad.h), wherever they lie: none on CPUs. */
bool dpt_takes_quads(const dpt_device *device, size_t count);

/* Whether a place, in elements of a type, is a multiple of four.  A null slot has any. */
static inline bool dpt_begins_quad(dpt_location location, dpt_dtype dtype)
{
    return location.offset_bytes % (4 * dpt_dtype_bytes(dtype)) == 0;
}

/* A place `bytes` further on. */
static inline dpt_location dpt_at(dpt_location location, size_t bytes)
{
    return (dpt_location){location.buffer, location.offset_bytes + bytes};
}

#endif
