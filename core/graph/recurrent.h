/* Recurrent layers over values: LSTM, GRU and RNN along one axis of a value, in one direction.

   A layer is two nodes.  A projection is a linear layer over all places of the sequence at once,
   whose weights are a value: a parameter that is read as one (dpti_read_parameter), or what is
   computed of parameters.  A recurrence (RECURRENT, core/backend/op_list.h) walks along the
   sequence.  The gradient of its weights is a LINEAR_BACKWARD_WEIGHTS over all places. */
#ifndef DPTI_RECURRENT_H
#define DPTI_RECURRENT_H

#include "graph/tensor.h"

/* The linear layer x * w^T + bias over the last axis of x, for each index of the other axes.
     w     (out, in), without samples
     bias  (out) elements in any shape, without samples; id 0: none
   The result has the axes of x, the last one with `out` elements.
   Errors: DPT_E_INVALID if the shapes do not fit, or if x has no samples or a weight has some. */
typedef struct dpti_linear_values {
    dpt_value w, bias;
} dpti_linear_values;
dpt_value dpti_projection(dpt_model *model, dpt_value x, const dpti_linear_values *of);

typedef struct dpti_recurrence {
    dpt_recurrent_cell cell;
    size_t hidden;
    uint8_t place[DPT_RECURRENT_GATES];
    dpt_activation activation[DPT_RECURRENT_ACTIVATIONS];
    bool reverse, gives_cell;
    /* Weights without samples: w (gates * hidden, hidden), where GRU_BEFORE has two gates and
       w_new (hidden, hidden); bias (gates * hidden) elements, of a GRU; id 0: none. */
    dpt_value w, w_new, bias;
    /* The initial states, (hidden) elements of each sequence in any shape; those without samples
       are the same for all samples.  id 0: zeros. */
    dpt_value h0, c0;
} dpti_recurrence;

/* The recurrence over x (length, gates * hidden), which is what a projection gives.  The result is
   (length, hidden), and (length + 1, hidden) with gives_cell: the last row is then the state of the
   cell behind the last place that was walked.  x may have an axis of sequences in front, which the
   result then has, too, and the initial states.
   Errors: DPT_E_INVALID for what dpti_projection refuses, and as RECURRENT. */
dpt_value dpti_recurrent(dpt_model *model, dpt_value x, const dpti_recurrence *of);

#endif
