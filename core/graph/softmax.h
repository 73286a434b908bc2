/* The softmax of values of any rank: layers that are one ROW_SOFTMAX (core/backend/op_list.h). */
#ifndef DPTI_SOFTMAX_H
#define DPTI_SOFTMAX_H

#include "graph/builder.h"

typedef struct dpti_softmax_options {
    size_t axis; /* of x */
    bool log;    /* the logarithm of the softmax */
} dpti_softmax_options;

/* The softmax along an axis of x, which must have samples.  x is copied if the axis is not the last
   one, or if the elements of x do not lie in row-major order.
   Errors: DPT_E_INVALID if there is no such axis. */
dpt_value dpti_softmax(dpt_model *model, dpt_value x, const dpti_softmax_options *options);

#endif
