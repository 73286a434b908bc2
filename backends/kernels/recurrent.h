/* Parameters of recurrent.cl. */
#ifndef DPT_KERNELS_RECURRENT_H
#define DPT_KERNELS_RECURRENT_H

#include "dialect.h"

/* Cells, as dpt_recurrent_cell numbers them. */
#define CELL_RNN        0u
#define CELL_LSTM       1u
#define CELL_GRU        2u
#define CELL_GRU_BEFORE 3u

/* What a launch computes. */
#define PASS_WHOLE 0u /* a place of the sequence */
#define PASS_RESET 1u /* GRU_BEFORE: the gates r and z; backward: the gradient of r */
#define PASS_NEW   2u /* GRU_BEFORE: the candidate and the state; backward: their gradients */
#define PASS_END   3u /* backward: the gradient of the initial state */

/* Where the state before a place is. */
#define BEFORE_ZERO    0u
#define BEFORE_PLACE   1u
#define BEFORE_INITIAL 2u

/* The place of a row in a tensor, in elements: sample * `sample` + `at`. */
typedef struct recurrent_row {
    u32 sample, at;
} recurrent_row;

typedef struct recurrent_params {
    u64 n_samples;
    /* Parts of the workspace, in floats.  Each has rows of `hidden`, but for a_from and a_to of the
       backward pass. */
    u64 a_from; /* (n, terms) the left side of the product */
    u64 a_to;   /* the next one */
    u64 cell;   /* the state c, or its gradient */
    u64 keep;  /* forward: the gate z of GRU_BEFORE; backward: what the gradient of h has already */
    u64 reset; /* GRU_BEFORE: r * h; backward: dx of the candidate */
    u32 hidden, terms, unit_tiles;
    u32 a_pitch;                    /* from sample to sample of a_to */
    u32 w_line, w_term, w_block[4]; /* strides of the weights, and where the gates begin */
    u32 block[4];                   /* where the gates begin in x */
    u32 activation[3];
    u32 type, pass; /* CELL_ and PASS_ */
    u32 before;     /* backward: BEFORE_ */
    u32 has_bias, saves, has_dq;
    recurrent_row x, y, y_before, gates, cells, cells_before;
    u32 unused;
} recurrent_params;

/* Of the kernels that copy states. */
typedef struct recurrent_copy_params {
    u64 count; /* elements of all samples */
    u64 state; /* where the state begins in the workspace, in floats */
    recurrent_row row;
    u32 hidden;
    u32 is_zero; /* there is no tensor: the state becomes 0 */
} recurrent_copy_params;

#endif
