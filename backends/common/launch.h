/* What the host code of the portable kernels (backends/kernels) needs from a backend: to find a
   kernel by its name, to launch the kernel, and some properties of the device.  The operators of
   backends/common are written against this header.  A backend that links them defines the functions
   that are marked "The backend defines this". */
#ifndef DPT_COMMON_LAUNCH_H
#define DPT_COMMON_LAUNCH_H

#include "backend.h"

/* ---- The device ------------------------------------------------------------------------------ */

typedef struct dpt_traits {
    const char *name;         /* of the device, for messages */
    bool is_cpu;              /* a group is a thread's work, and a work item a loop in it */
    bool is_compiled;         /* kernels were compiled with the backend: see dpt_program_key */
    unsigned n_units;         /* compute units, at least 1 */
    unsigned group_size;      /* GROUP of the portable kernels */
    unsigned vector_width;    /* floats of a CPU's vector */
    size_t most_group_size;   /* the most work items of a group that the device allows */
    size_t most_shared_bytes; /* the most local memory of a group, in bytes */
    dpt_dtype activations;    /* as in dpt_device_properties */
    double input_rounding;    /* as in dpt_op_info, of products of float32; not 0 if tensor cores
                                 may compute them */
    const char *varies;       /* why the device has no deterministic operators, or NULL: it has */
} dpt_traits;

/* The backend defines this. */
const dpt_traits *dpt_traits_of(const dpt_device *device);
/* The backend defines this. */
dpt_device *dpt_stream_device(const dpt_stream *stream);

/* ---- Kernels --------------------------------------------------------------------------------- */

typedef struct dpt_kernel dpt_kernel; /* defined by the backend; belongs to the device */

enum { DPT_MAX_OPTIONS = 512 };

/* A program: the kernels of one file, compiled with the same macros.  A backend that compiles at
   run time applies all macros.  A backend whose kernels are compiled beforehand has some variants
   of a file, and ignores the constants. */
typedef struct dpt_program_key {
    const char *file;              /* "pool2d.cl", of backends/kernels or of the backend; static */
    char options[DPT_MAX_OPTIONS]; /* macros that make another kernel: "-DTILE_M=8 -DTILE_N=64" */
    char constants[DPT_MAX_OPTIONS]; /* macros that repeat a parameter's value: "-DACTIVATION=1u" */
    bool deterministic;              /* dpt_program_key_deterministic sets it */
} dpt_program_key;

/* The backend defines this.  *out: the kernel `name` of a program, which belongs to the device.
   DPT_E_UNSUPPORTED if kernels are compiled beforehand and none has these options; DPT_E_DEVICE if
   the program does not compile. */
DPT_CHECK_RESULT dpt_status dpt_kernel_get(dpt_device *device, const dpt_program_key *key,
                                           const char *name, dpt_kernel **out);
/* dpt_kernel_get of a program without macros. */
DPT_CHECK_RESULT dpt_status dpt_kernel_of(dpt_device *device, const char *file, const char *name,
                                          dpt_kernel **out);
/* Adds to a key's options the type in which the program stores activations: nothing for float32,
   BF16 (kernels/dialect.h) for bfloat16. */
void dpt_program_key_store(dpt_program_key *key, dpt_dtype type);
/* Makes the program one of deterministic operators: adds DETERMINISTIC (kernels/dialect.h) to the
   key's options, as their last.  The backend then compiles it such that every operation of float32
   rounds once to the nearest, and flushes nothing. */
void dpt_program_key_deterministic(dpt_program_key *key);
/* dpt_kernel_get of a deterministic program without other macros. */
DPT_CHECK_RESULT dpt_status dpt_kernel_deterministic(dpt_device *device, const char *file,
                                                     const char *name, dpt_kernel **out);
/* A kernel of a program whose only macro is the type of stored activations. */
typedef struct dpt_stored_kernel {
    const char *file;
    dpt_dtype type;
    const char *name; /* of the kernel */
} dpt_stored_kernel;

/* dpt_kernel_get of such a kernel. */
DPT_CHECK_RESULT dpt_status dpt_kernel_storing(dpt_device *device, const dpt_stored_kernel *wanted,
                                               dpt_kernel **out);

/* ---- Launching ------------------------------------------------------------------------------- */

enum { DPT_MAX_ARGUMENTS = 24, DPT_MAX_ARGUMENT_BYTES = 1280 };

/* A launch that is being put together.  Add the arguments in the order of the kernel's parameters,
   then enqueue.  The calls that add an argument cannot fail; the call that enqueues reports what
   went wrong:

       dpt_launch l = dpt_launch_begin(call->stream, state->kernel);
       dpt_launch_tensor(&l, call->args->out[0], DPT_F32);
       dpt_launch_tensor(&l, call->args->in[0], DPT_F32);
       dpt_launch_value(&l, &params, sizeof params);
       return dpt_launch_items(&l, count); */
typedef struct dpt_launch {
    dpt_stream *stream;
    dpt_kernel *kernel;
    unsigned n_arguments;
    unsigned n_bytes;                             /* of all arguments and the gaps between them */
    uint32_t buffers;                             /* bit i: argument i is a buffer, or null */
    unsigned short at[DPT_MAX_ARGUMENTS];         /* the offset of each argument in `bytes` */
    unsigned short n_bytes_of[DPT_MAX_ARGUMENTS]; /* the size of each argument */
    bool overflows;                               /* there were more arguments than fit */
    _Alignas(16) unsigned char bytes[DPT_MAX_ARGUMENT_BYTES];
} dpt_launch;

dpt_launch dpt_launch_begin(dpt_stream *stream, dpt_kernel *kernel);
/* Adds an IN or OUT argument of the dialect: a buffer and an offset in elements.  {NULL, 0} passes
   null. */
void dpt_launch_tensor(dpt_launch *launch, dpt_location location, dpt_dtype dtype);
/* Adds an argument of n_bytes, which is copied. */
void dpt_launch_value(dpt_launch *launch, const void *value, size_t n_bytes);

/* The following calls enqueue the launch.  They fail with DPT_E_INTERNAL if the arguments do not
   fit, and as dpt_launch_enqueue does. */

/* One work item for each of 0 .. n_items-1, rounded up to whole groups of group_size; the kernel
   must check the bound.  0 items enqueue nothing. */
DPT_CHECK_RESULT dpt_status dpt_launch_items(dpt_launch *launch, size_t n_items);
/* For kernels with FOR_ELEMENTS (span.h): the elements 0 .. per_sample-1 of n_samples samples.  The
   sample is GROUP_ID(1), so the kernel needs no division to find an element in its sample. */
DPT_CHECK_RESULT dpt_status dpt_launch_elements(dpt_launch *launch, size_t per_sample,
                                                size_t n_samples);
/* For kernels with the lanes of lanes.h: n_rows rows that are summed up in `lanes` lanes. */
DPT_CHECK_RESULT dpt_status dpt_launch_rows(dpt_launch *launch, size_t n_rows, unsigned lanes);
/* For kernels with FOR_RUNS (span.h): the elements 0 .. count-1. */
DPT_CHECK_RESULT dpt_status dpt_launch_runs(dpt_launch *launch, size_t count);
/* For kernels with FOR_QUADS (quad.h), on GPUs: the quads 0 .. per_sample-1 of n_samples samples.
 */
DPT_CHECK_RESULT dpt_status dpt_launch_quads(dpt_launch *launch, size_t per_sample,
                                             size_t n_samples);
/* n_groups[d] groups of group[d] work items, in three dimensions.  0 groups enqueue nothing. */
DPT_CHECK_RESULT dpt_status dpt_launch_groups(dpt_launch *launch, const size_t n_groups[3],
                                              const size_t group[3]);

/* The backend defines this.  Returns a kernel's argument for a buffer: a device address or a handle
   of the size of a pointer. */
const void *dpt_buffer_argument(const dpt_buffer *buffer);
/* The backend defines this.  Enqueues the launch; every number of groups is at least 1. */
DPT_CHECK_RESULT dpt_status dpt_launch_enqueue(const dpt_launch *launch, const size_t n_groups[3],
                                               const size_t group[3]);

/* Whether kernels of this device take `count` elements four at a time (kernels/quad.h).  They do if
   count is a multiple of four and the device is no CPU. */
bool dpt_takes_quads(const dpt_device *device, size_t count);

/* Whether a location's offset is a multiple of four elements.  True for {NULL, 0}. */
static inline bool dpt_begins_quad(dpt_location location, dpt_dtype dtype)
{
    return location.offset_bytes % (4 * dpt_dtype_bytes(dtype)) == 0;
}

/* The location that is `bytes` behind another one. */
static inline dpt_location dpt_at(dpt_location location, size_t bytes)
{
    return (dpt_location){location.buffer, location.offset_bytes + bytes};
}

#endif
