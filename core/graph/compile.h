/* The inside of the compiler: its state, and the functions that add instructions to a program.

   Every node's value has a root: the node whose tensor holds the value.  The root of a flatten is
   its input.  An activation that directly follows a layer is computed by that layer if the layer
   can do that, and an addition that directly follows a batch-norm is computed by that batch-norm.
   Gradients belong to roots.  The consumers of a root fill its gradient in reverse order: the
   first consumer writes, later ones accumulate, and the last one applies the derivative of the
   root's activation.  It does so itself if its operator can, and otherwise by a separate
   instruction.  On devices that ask for it, a batch-norm applies the derivative of its own ReLU
   instead. */
#ifndef DPTI_COMPILE_H
#define DPTI_COMPILE_H

#include "graph/program.h"

typedef struct dpti_compiler {
    const dpt_model *model;
    const dpti_program_options *options;
    dpti_program *program;
    dpt_error *error;
    int index, label; /* tensors: the records of this step, their labels or targets, */
    int row;          /* and where the records lie on the device */
    /* per node */
    size_t *root;
    size_t *consumers;          /* of a root: how many instructions read it, the loss included */
    size_t *pending;            /* of a root: consumers whose contribution is still missing */
    size_t *residual;           /* of a batch-norm: the root that is added to it, or SIZE_MAX */
    dpt_activation *activation; /* of a root: fused behind it */
    int *value, *gradient;      /* of a root: tensors */
    int *moments;               /* of a norm: likewise */
    int *sums;                  /* of a batch-norm: those of backward, once they are gathered */
    size_t held; /* a convolution whose filters' gradient waits for a meeting, or SIZE_MAX */
    /* Gradients of weights, in elements of the flat buffer: those from `written` on are written,
       and those from `bucketed` on are in a bucket. */
    size_t written, bucketed;
} dpti_compiler;

/* ---- Tensors and instructions (emit.c) ------------------------------------------------------- */

/* A tensor with `elements` of an activation or its gradient for each sample, in the program's type.
 */
DPT_CHECK_RESULT dpt_status dpti_add_activations(const dpti_compiler *c, size_t elements, int *out);
/* A tensor with `elements` of 4 bytes for each sample, or float32 in all. */
DPT_CHECK_RESULT dpt_status dpti_add_sampled(const dpti_compiler *c, size_t elements, int *out);
DPT_CHECK_RESULT dpt_status dpti_add_whole(const dpti_compiler *c, size_t elements, int *out);
/* What lies elsewhere: `offset` elements into a flat buffer. */
DPT_CHECK_RESULT dpt_status dpti_add_view(const dpti_compiler *c, dpti_home home, size_t offset,
                                          int *out);
/* A parameter's place in a flat buffer; DPTI_NO_TENSOR for SIZE_MAX. */
DPT_CHECK_RESULT dpt_status dpti_add_parameter(const dpti_compiler *c, dpti_home home,
                                               size_t parameter, int *out);

/* Tensors that are DPTI_NO_TENSOR are left out: slots are dense, in table order. */
DPT_CHECK_RESULT dpt_status dpti_emit(const dpti_compiler *c, dpti_instruction instruction,
                                      const int *in, size_t n_in, const int *out, size_t n_out);
#define DPTI_EMIT(c, instruction, in, out)                                                         \
    dpti_emit((c), (instruction), (in), sizeof(in) / sizeof *(in), (out),                          \
              sizeof(out) / sizeof *(out))

/* A layer's instruction in the program's type, with nothing fused: forward, until it is given
   another kind. */
dpti_instruction dpti_instruction_of(const dpti_compiler *c, const dpti_node *node);
/* An instruction of a batch-norm, without activation and residual. */
dpti_instruction dpti_batch_norm(const dpti_compiler *c, const dpti_node *node, dpt_op_kind kind);

/* Ends a segment behind the last instruction; first and last are filled in. */
DPT_CHECK_RESULT dpt_status dpti_end_segment(const dpti_compiler *c, dpti_segment segment);
/* Keeps a tensor until the last instruction so far, or the next. */
void dpti_keep(const dpti_compiler *c, int tensor);
/* A meeting at which parts are gathered that have been made: ends a segment where devices bring
   theirs, and yields the tensors of all parts; and, before what reads these, ends another one where
   they are taken.  What stands between the two is computed while others are on their way.  Where
   nothing is exchanged there is no meeting, and all parts are the part itself. */
DPT_CHECK_RESULT dpt_status dpti_contribute_parts(const dpti_compiler *c, dpti_part *parts,
                                                  size_t n);
DPT_CHECK_RESULT dpt_status dpti_take_parts(const dpti_compiler *c, const dpti_part *parts,
                                            size_t n);

/* The gradient of a linear layer's weights is computed in slices of rows, the last first: the first
   row of the slice that ends before row `end`, 0 where all is computed at once (buckets.c). */
size_t dpti_slice_begin(const dpti_compiler *c, const dpti_node *linear, size_t end);
/* The last instruction has written the gradient of this weight from element `from` on, all of it
   with 0: ends the segment with a bucket, if there is enough for one (buckets.c). */
DPT_CHECK_RESULT dpt_status dpti_end_bucket(dpti_compiler *c, size_t parameter, size_t from);

/* ---- Passes ---------------------------------------------------------------------------------- */

static inline bool dpti_is_training(const dpti_compiler *c)
{
    return c->options->purpose == DPTI_PURPOSE_TRAIN;
}

static inline size_t dpti_n_parts(const dpti_compiler *c)
{
    return c->options->n_parts > 1 ? c->options->n_parts : 1;
}

static inline uint32_t dpti_gradient_flags(const dpti_compiler *c)
{
    return c->options->accumulate ? DPT_RUN_ACCUMULATE : 0;
}

/* Finds roots and what is fused (fuse.c). */
void dpti_fuse(dpti_compiler *c);
/* Whether a node has instructions of its own. */
static inline bool dpti_computes(const dpti_compiler *c, size_t node)
{
    return c->root[node] == node && c->model->nodes[node].kind != DPTI_NODE_INPUT;
}

DPT_CHECK_RESULT dpt_status dpti_emit_gather(dpti_compiler *c); /* forward.c */
DPT_CHECK_RESULT dpt_status dpti_emit_forward(dpti_compiler *c, size_t node);
DPT_CHECK_RESULT dpt_status dpti_emit_loss(dpti_compiler *c);
DPT_CHECK_RESULT dpt_status dpti_emit_loss_backward(dpti_compiler *c); /* backward.c */
DPT_CHECK_RESULT dpt_status dpti_emit_backward(dpti_compiler *c, size_t node);
DPT_CHECK_RESULT dpt_status dpti_emit_held(dpti_compiler *c); /* what is held back, if anything */
DPT_CHECK_RESULT dpt_status dpti_emit_look(dpti_compiler *c); /* update.c: sets the halt word */
DPT_CHECK_RESULT dpt_status dpti_emit_update(dpti_compiler *c);

#endif
