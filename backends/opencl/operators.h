/* Operators inside the backend: what a kind's preparation fills in, and how kernels are launched.
   One file in operators/ for each family of kinds. */
#ifndef DPT_OPENCL_OPERATORS_H
#define DPT_OPENCL_OPERATORS_H

#include "device.h"
#include "program.h"

/* One call of an operator. */
typedef struct dpt_cl_call {
    dpt_stream *stream;
    const dpt_op *op;
    size_t n_samples;
    const dpt_op_args *args;
    bool accumulate;
} dpt_cl_call;

/* Enqueues the call. */
typedef dpt_status dpt_cl_run(const dpt_cl_call *call);

/* What a family's preparation says of an operator. */
typedef struct dpt_cl_plan {
    dpt_cl_run *run;
    void *state; /* kernels (borrowed) and parameters, or NULL; freed with free */
    size_t workspace_bytes;
    double flops;
    bool exact;            /* as in dpt_op_info, */
    size_t mixes;          /* this too */
    const char *algorithm; /* static, or in state */
} dpt_cl_plan;

struct dpt_op {
    dpt_device *device;
    dpt_op_desc desc;
    size_t max_samples;
    dpt_cl_plan plan;
};

/* Fills in op->plan, which is zeroed, from the rest of *op.  What it has set after a failure is
   freed as if it had succeeded.  Failures go to op->device->error. */
typedef dpt_status dpt_cl_prepare(dpt_op *op);

/* One for each family: the second column of DPT_OP_LIST. */
dpt_cl_prepare dpt_cl_prepare_gather;
dpt_cl_prepare dpt_cl_prepare_conv2d;
dpt_cl_prepare dpt_cl_prepare_linear;
dpt_cl_prepare dpt_cl_prepare_pool2d;
dpt_cl_prepare dpt_cl_prepare_activation;
dpt_cl_prepare dpt_cl_prepare_dropout;
dpt_cl_prepare dpt_cl_prepare_batch_norm;
dpt_cl_prepare dpt_cl_prepare_layer_norm;
dpt_cl_prepare dpt_cl_prepare_softmax;
dpt_cl_prepare dpt_cl_prepare_squared_error;
dpt_cl_prepare dpt_cl_prepare_elementwise;
dpt_cl_prepare dpt_cl_prepare_sgd;
dpt_cl_prepare dpt_cl_prepare_adamw;
dpt_cl_prepare dpt_cl_prepare_clip_norm;

/* ---- Launching ------------------------------------------------------------------------------- */

/* A launch in the making: arguments in the order of the kernel's parameters, then go.  The first
   failure is kept and comes back from go, so that the calls between need no checks:

       dpt_cl_launch l = dpt_cl_launch_begin(call->stream, state->kernel);
       dpt_cl_launch_tensor(&l, call->args->out[0], DPT_F32);
       dpt_cl_launch_tensor(&l, call->args->in[0], DPT_F32);
       dpt_cl_launch_value(&l, &params, sizeof params);
       return dpt_cl_launch_items(&l, count); */
typedef struct dpt_cl_launch {
    dpt_stream *stream;
    cl_kernel kernel;
    cl_uint n_arguments;
    cl_int code;
} dpt_cl_launch;

dpt_cl_launch dpt_cl_launch_begin(dpt_stream *stream, cl_kernel kernel);
/* IN or OUT of the dialect: a buffer and a place in elements; {NULL, 0} passes null. */
void dpt_cl_launch_tensor(dpt_cl_launch *launch, dpt_location location, dpt_dtype dtype);
void dpt_cl_launch_value(dpt_cl_launch *launch, const void *value, size_t n_bytes);
/* One work item for each of 0 .. n_items-1, rounded up to whole groups of found->group_size; the
   kernel checks its bound.  0 items enqueue nothing. */
DPT_CHECK_RESULT dpt_status dpt_cl_launch_items(dpt_cl_launch *launch, size_t n_items);
/* For kernels with FOR_ELEMENTS (span.h): the elements 0 .. per_sample-1 of n_samples samples.  A
   kernel finds its sample in GROUP_ID(1), and its place in the sample without a division. */
DPT_CHECK_RESULT dpt_status dpt_cl_launch_elements(dpt_cl_launch *launch, size_t per_sample,
                                                   size_t n_samples);
/* n_groups[d] groups of group[d] items in up to three dimensions; 0 groups enqueue nothing. */
DPT_CHECK_RESULT dpt_status dpt_cl_launch_groups(dpt_cl_launch *launch, const size_t n_groups[3],
                                                 const size_t group[3]);

/* Room in a location: `bytes` further on. */
static inline dpt_location dpt_cl_at(dpt_location location, size_t bytes)
{
    return (dpt_location){location.buffer, location.offset_bytes + bytes};
}

/* ---- Small arithmetic for preparations ------------------------------------------------------- */

/* Products and sums of sizes that stick at SIZE_MAX, so that one check at the end finds overflow.
 */
static inline size_t dpt_cl_mul(size_t a, size_t b)
{
    size_t product;
    return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

static inline size_t dpt_cl_add(size_t a, size_t b)
{
    size_t sum;
    return __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}

static inline size_t dpt_cl_ceil_div(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

/* Bytes rounded up so that the next part of a workspace is aligned. */
static inline size_t dpt_cl_round(size_t n_bytes)
{
    return n_bytes > SIZE_MAX - DPT_CL_ALIGNMENT_BYTES
               ? SIZE_MAX
               : (n_bytes + DPT_CL_ALIGNMENT_BYTES - 1) / DPT_CL_ALIGNMENT_BYTES *
                     DPT_CL_ALIGNMENT_BYTES;
}

/* DPT_E_UNSUPPORTED if one sample of a tensor has 2^31 elements or more: kernels count places
   within a sample in 32 bits. */
DPT_CHECK_RESULT dpt_status dpt_cl_check_sample(const dpt_op *op, size_t n_elements);

/* A state of n_bytes, zeroed, set as op->plan.state; NULL with the record filled in if there is no
   memory. */
void *dpt_cl_state(dpt_op *op, size_t n_bytes);

#endif
