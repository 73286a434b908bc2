/* The operators of a backend that uses the portable kernels: their plans, and what prepares them.
   operators/ has one file for each family of kinds.  The backend defines linear layers itself, and
   the list of its convolution algorithms (conv2d.h). */
#ifndef DPT_COMMON_OPERATORS_H
#define DPT_COMMON_OPERATORS_H

#include "choices.h"
#include "launch.h"
#include "size.h"

/* One call of an operator. */
typedef struct dpt_call {
    dpt_stream *stream;
    const dpt_op *op;
    size_t n_samples;
    const dpt_op_args *args;
    bool accumulate;
    size_t grain; /* as in dpt_op_args; 0 for an operator whose plan does not have has_grains */
} dpt_call;

/* Enqueues the call. */
typedef dpt_status dpt_op_run(const dpt_call *call);

/* What a preparation fills in. */
typedef struct dpt_op_plan {
    dpt_op_run *run;
    void *state;                  /* kernels (borrowed) and parameters, or NULL; owned */
    void (*destroy)(void *state); /* frees the state; NULL: `free` does */
    size_t workspace_bytes;
    double flops;
    bool exact;            /* as in dpt_op_info */
    size_t mixes;          /* as in dpt_op_info */
    double input_rounding; /* as in dpt_op_info */
    bool has_grains;       /* as in dpt_op_info */
    const char *algorithm; /* static, or part of the state */
} dpt_op_plan;

struct dpt_op {
    dpt_device *device;
    dpt_op_desc desc;
    size_t max_samples;
    const char *wanted; /* as in dpt_op_request; valid during the preparation only */
    bool deterministic; /* as in dpt_op_request.  The type is then DPT_F32 */
    dpt_op_plan plan;
    char measured[DPT_MEASURED_BYTES]; /* as in dpt_op_info; empty if nothing was measured */
};

/* Fills in op->plan, which the caller has zeroed, from the rest of *op.  Failures are recorded in
   op->device->error.  The caller clears the plan after a failure, too.  A preparation sees a
   deterministic operator only if operators.c lists its family among those that have such operators.
 */
typedef dpt_status dpt_op_prepare(dpt_op *op);

/* dpt_prepare_NAME for each family of DPT_OP_FAMILY_LIST.  The backend defines those of
   convolutions and of linear layers.  operators/ defines the others. */
#define DPT_PREPARE_FAMILY(FAMILY, name) dpt_op_prepare dpt_prepare_##name;
DPT_OP_FAMILY_LIST(DPT_PREPARE_FAMILY)
#undef DPT_PREPARE_FAMILY

/* ---- For preparations ------------------------------------------------------------------------ */

/* DPT_E_UNSUPPORTED if one sample of a tensor has 2^31 elements or more, because kernels count the
   elements of a sample in 32 bits. */
DPT_CHECK_RESULT dpt_status dpt_check_sample(const dpt_op *op, size_t n_elements);

/* Adds to a key's options what the operator's type and dpt_op.deterministic ask for. */
void dpt_op_key(const dpt_op *op, dpt_program_key *key);
/* dpt_kernel_get of a program whose only macro is that of dpt_op_key. */
DPT_CHECK_RESULT dpt_status dpt_op_kernel(const dpt_op *op, const char *file, const char *name,
                                          dpt_kernel **out);

/* Frees the state of a plan and zeroes the plan. */
void dpt_op_plan_clear(dpt_op_plan *plan);

/* Sets op->plan.state to n_bytes of zeroed memory and returns it.  NULL, with the device's error
   filled in, if there is no memory. */
void *dpt_op_state(dpt_op *op, size_t n_bytes);

extern const dpt_operator_ops dpt_common_operator_ops;

#endif
