/* The tensors of an operator, as core describes them. */
#ifndef DPTI_SLOTS_H
#define DPTI_SLOTS_H

#include "backend.h"

typedef enum dpti_slot_role { DPTI_SLOT_IN, DPTI_SLOT_OUT } dpti_slot_role;

/* One tensor of an operator, from DPT_OP_LIST (backend/op_list.h). */
typedef struct dpti_slot {
    const char *name; /* "x", "dy" */
    dpt_dtype dtype;
    size_t per_sample; /* elements a sample; 0 if the tensor has no sample axis */
    size_t fixed;      /* elements, if it has none */
    bool accumulates;  /* an output that DPT_RUN_ACCUMULATE adds to; others are written over */
    bool per_grain;    /* an output of which a call with grains writes a row for each grain */
} dpti_slot;

/* The tensors of an operator.  This is the one place that knows them: dispatch, the graph and the
   conformance suite ask here. */
typedef struct dpti_signature {
    size_t n_in, n_out;
    dpti_slot in[DPT_MAX_INPUTS];
    dpti_slot out[DPT_MAX_OUTPUTS];
    bool reads_step;     /* args.step must be set */
    bool may_accumulate; /* honours DPT_RUN_ACCUMULATE */
    bool may_halt;       /* honours args.halt */
    bool per_step;       /* n is 1: works on whole tensors, once a step */
} dpti_signature;

#endif
