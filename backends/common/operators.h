/* Operators of a backend that uses the portable kernels: what a kind's preparation fills in.  One
   file in operators/ for each family of kinds; convolutions and linear layers are the backend's. */
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
} dpt_call;

/* Enqueues the call. */
typedef dpt_status dpt_op_run(const dpt_call *call);

/* What a family's preparation says of an operator. */
typedef struct dpt_op_plan {
    dpt_op_run *run;
    void *state;                  /* kernels (borrowed) and parameters, or NULL */
    void (*destroy)(void *state); /* frees the state; NULL: free does */
    size_t workspace_bytes;
    double flops;
    bool exact;            /* as in dpt_op_info, */
    size_t mixes;          /* this, */
    double input_rounding; /* and this too */
    const char *algorithm; /* static, or in state */
} dpt_op_plan;

struct dpt_op {
    dpt_device *device;
    dpt_op_desc desc;
    size_t max_samples;
    const char *wanted; /* as in dpt_op_request; while it is prepared only */
    dpt_op_plan plan;
    char measured[DPT_MEASURED_BYTES]; /* as in dpt_op_info; empty: nothing */
};

/* Fills in op->plan, which is zeroed, from the rest of *op.  What it has set after a failure is
   freed as if it had succeeded.  Failures go to op->device->error. */
typedef dpt_status dpt_op_prepare(dpt_op *op);

/* dpt_prepare_NAME for each family of DPT_OP_FAMILY_LIST.  The backend defines those of
   convolutions and of linear layers.  operators/ defines the others. */
#define DPT_PREPARE_FAMILY(FAMILY, name) dpt_op_prepare dpt_prepare_##name;
DPT_OP_FAMILY_LIST(DPT_PREPARE_FAMILY)
#undef DPT_PREPARE_FAMILY

/* ---- For preparations ------------------------------------------------------------------------ */

/* DPT_E_UNSUPPORTED if one sample of a tensor has 2^31 elements or more: kernels count places
   within a sample in 32 bits. */
DPT_CHECK_RESULT dpt_status dpt_check_sample(const dpt_op *op, size_t n_elements);

/* Frees what a plan has and empties it. */
void dpt_op_plan_clear(dpt_op_plan *plan);

/* A state of n_bytes, zeroed, set as op->plan.state; NULL with the record filled in if there is no
   memory. */
void *dpt_op_state(dpt_op *op, size_t n_bytes);

extern const dpt_operator_ops dpt_common_operator_ops;

#endif
