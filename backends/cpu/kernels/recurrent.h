/* The arithmetic of recurrent cells: what a row of a batch computes at one place of the sequence
   besides the product with the weights. */
#ifndef DPT_CPU_RECURRENT_H
#define DPT_CPU_RECURRENT_H

#include "backend.h"
#include "namespace.h"

/* One sample at one place.  `wide` floats are those of all gates, and the others are those of the
   state. */
typedef struct cell_forward {
    const float *x; /* (wide) */
    float *q;       /* (wide) the product with the state; becomes the gates */
    float *h, *c;   /* the states, before and after; c is read and written for an LSTM only */
    float *gates;   /* (saved, hidden) or NULL */
    bool exact;     /* deterministic: the functions of kernels/exact.h */
} cell_forward;

/* For GRU_BEFORE, before the product with the new weights: the gates r and z, and r * h. */
void KERNEL(cell_reset)(const dpt_recurrent_desc *d, const cell_forward *row, float *reset);
/* Everything behind the products. */
void KERNEL(cell_forward)(const dpt_recurrent_desc *d, const cell_forward *row);

typedef struct cell_backward {
    const float *dy, *y, *gates, *cell; /* y: not for an LSTM; cell: only for an LSTM */
    const float *h_before, *c_before;   /* NULL: zeros */
    float *dh, *dc; /* the gradients of the states behind the place, without dy; they become those
                       of the states before it, without what the product gives */
    float *dx, *dq; /* (wide) dq: GRU only */
    bool exact;     /* as in cell_forward */
} cell_backward;

/* Everything before the product. */
void KERNEL(cell_backward)(const dpt_recurrent_desc *d, const cell_backward *row);
/* For GRU_BEFORE, behind the product of dx of the candidate and the new weights, which is `reset`:
   the gradient of r. */
void KERNEL(cell_reset_backward)(const dpt_recurrent_desc *d, const cell_backward *row,
                                 const float *reset);

#endif
