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

/* Which values are computed again in the backward pass (recompute.c). */
typedef struct dpti_recomputation {
    size_t n_stages;
    size_t *stage;      /* per node */
    bool *kept;         /* per root: a later stage reads it */
    const bool *unread; /* per node: nothing reads what it would compute again; NULL: not known */
    size_t at;          /* the stage whose backward pass is being emitted */
    size_t again;       /* 1 + the node that is being computed again, or 0 */
} dpti_recomputation;

typedef struct dpti_deferral dpti_deferral; /* instructions that run later (deferred.c) */

typedef struct dpti_compiler {
    const dpt_model *model;
    const dpti_program_options *options;
    dpti_program *program;
    dpt_error *error;
    int index,
        label; /* tensors: the record numbers of this step; labels or targets of these records */
    int row;   /* tensor: the places of the records on the device */
    /* Tensors of a training that mixes samples: the partners' record numbers, places and labels,
       and what is drawn. */
    int partner, partner_row, partner_label, mix;
    /* per node */
    size_t *root;
    size_t *consumers; /* per root: number of instructions that read it, the loss included */
    size_t *pending;   /* per root: consumers whose contribution to the gradient is still missing */
    size_t *residual;  /* per batch-norm: the root that is added to it, or SIZE_MAX */
    dpt_activation *activation; /* per root: the activation that is fused into it */
    int *value, *gradient;      /* per root: tensors */
    int *moments;               /* per norm: tensors; per recurrence: its gates; per
                                   attention: the logarithmic sums */
    bool *reaches;              /* per root: the logits depend on it by a way with gradients */
    bool *needs;  /* per root: it has a gradient: it also depends on what is trained */
    bool *shared; /* per parameter: an instruction before has written its gradient */
    int *sums;    /* per batch-norm: tensors with the gathered sums of the backward pass; per
                     recurrence: its cells */
    size_t held;  /* a convolution whose gradient of the filters is delayed to a rendezvous, or
                     SIZE_MAX */
    /* Gradients of weights, in elements of the flat buffer: those from `written` on are written,
       and those from `bucketed` on are in a bucket. */
    size_t written, bucketed;
    size_t chunked; /* the layer whose rows are computed in chunks (chunks.c), or SIZE_MAX */
    dpti_recomputation *recompute; /* of a program with `recompute`, else NULL */
    dpti_deferral *deferral;       /* of a deterministic program, else NULL */
} dpti_compiler;

/* ---- Tensors and instructions (emit.c) ------------------------------------------------------- */

/* Adds a tensor with `elements` of an activation, or of its gradient, per sample, in the program's
   type. */
DPT_CHECK_RESULT dpt_status dpti_add_activations(const dpti_compiler *c, size_t elements, int *out);
/* The first function adds a tensor with `elements` of 4 bytes per sample; the second one adds a
   tensor of `elements` float32 in total. */
DPT_CHECK_RESULT dpt_status dpti_add_sampled(const dpti_compiler *c, size_t elements, int *out);
DPT_CHECK_RESULT dpt_status dpti_add_whole(const dpti_compiler *c, size_t elements, int *out);
/* The same for the part of a batch-norm.  In a deterministic program it has a row for each grain,
   unless one part of a batch is all there is. */
DPT_CHECK_RESULT dpt_status dpti_add_part(const dpti_compiler *c, size_t elements, int *out);
/* Adds a tensor that is a view: `offset` elements into a flat buffer. */
DPT_CHECK_RESULT dpt_status dpti_add_view(const dpti_compiler *c, dpti_home home, size_t offset,
                                          int *out);
/* Adds a tensor that is a parameter's place in a flat buffer; DPTI_NO_TENSOR for SIZE_MAX. */
DPT_CHECK_RESULT dpt_status dpti_add_parameter(const dpti_compiler *c, dpti_home home,
                                               size_t parameter, int *out);
/* Adds the place of elements of a parameter's gradient; DPTI_NO_TENSOR for SIZE_MAX.  That of a
   frozen parameter is a tensor that nothing reads. */
DPT_CHECK_RESULT dpt_status dpti_add_gradient(const dpti_compiler *c, size_t parameter, int *out);
typedef struct dpti_gradient_part {
    size_t parameter, first, n; /* n elements from `first` on */
} dpti_gradient_part;
DPT_CHECK_RESULT dpt_status dpti_add_gradient_part(const dpti_compiler *c, dpti_gradient_part part,
                                                   int *out);

/* Adds the scale and the shift of a batch-norm: its parameters, or the constants that take their
   place. */
DPT_CHECK_RESULT dpt_status dpti_add_scale(const dpti_compiler *c, const dpti_node *norm, int *w,
                                           int *b);

/* The tensors that an instruction reads or writes. */
typedef struct dpti_tensor_ids {
    const int *ids; /* (n) */
    size_t n;
} dpti_tensor_ids;

/* Appends an instruction.  Tensors that are DPTI_NO_TENSOR are left out, so slots are dense and in
   table order. */
DPT_CHECK_RESULT dpt_status dpti_emit(const dpti_compiler *c, dpti_instruction instruction,
                                      dpti_tensor_ids in, dpti_tensor_ids out);
#define DPTI_EMIT(c, instruction, in, out)                                                         \
    dpti_emit((c), (instruction), (dpti_tensor_ids){(in), sizeof(in) / sizeof *(in)},              \
              (dpti_tensor_ids){(out), sizeof(out) / sizeof *(out)})

/* Returns a layer's instruction in the program's type, with nothing fused.  Its kind is the
   forward operator until the caller changes it. */
dpti_instruction dpti_instruction_of(const dpti_compiler *c, const dpti_node *node);
/* Gives the operands of a MAP or MAP_REDUCE their types: the program's if they have samples, else
   float32.  Integers stay what they are. */
void dpti_store_operands(const dpti_compiler *c, dpt_op_desc *desc);
/* Returns an instruction of a batch-norm, without activation and residual. */
dpti_instruction dpti_batch_norm(const dpti_compiler *c, const dpti_node *node, dpt_op_kind kind);

/* Ends a segment after the last instruction, and fills in `first` and `last`. */
DPT_CHECK_RESULT dpt_status dpti_end_segment(const dpti_compiler *c, dpti_segment segment);
/* Keeps a tensor alive until the last instruction so far, or the next one. */
void dpti_keep(const dpti_compiler *c, int tensor);
/* Adds a rendezvous at which devices gather parts that they have computed.  It ends one segment
   where devices contribute their parts, and returns the tensors of all parts.  Before the first
   instruction that reads these tensors it ends another segment, where devices take the parts.  The
   instructions between the two run while the parts of other devices are in transfer.  If nothing
   is exchanged, no segment ends, and each tensor of all parts is the part itself. */
DPT_CHECK_RESULT dpt_status dpti_contribute_parts(const dpti_compiler *c, dpti_part *parts,
                                                  size_t n);
DPT_CHECK_RESULT dpt_status dpti_take_parts(const dpti_compiler *c, const dpti_part *parts,
                                            size_t n);

/* The gradient of a linear layer's weights is computed in slices of rows, the last slice first.
   Returns the first row of the slice that ends before row `end`; 0 if all rows are computed at
   once (buckets.c). */
size_t dpti_slice_begin(const dpti_compiler *c, const dpti_node *linear, size_t end);
/* Tells that the last instruction has written the gradient of this weight from element `from` on,
   which is all of it if `from` is 0.  Ends the segment with a bucket if there is enough for one
   (buckets.c). */
DPT_CHECK_RESULT dpt_status dpti_end_bucket(dpti_compiler *c, size_t parameter, size_t from);

/* ---- Chunks (chunks.c) ----------------------------------------------------------------------- */

/* Finds the layer that is computed in chunks with the loss: the last one, if it is a linear layer
   over several rows of a sample and the loss is the cross-entropy of a label for each row. */
void dpti_find_chunked(dpti_compiler *c);
/* Around the instructions of chunks: the layer's, the loss's and, in training, those of the layer's
   gradients. */
void dpti_begin_chunks(const dpti_compiler *c);
void dpti_end_chunks(const dpti_compiler *c);
/* When the program is complete: finds the tensors that chunks alone use, and keeps the others alive
   over all chunks. */
void dpti_place_chunks(const dpti_compiler *c);

/* ---- Recomputation (recompute.c) ------------------------------------------------------------- */

/* `unread` may be NULL and must outlive the result.  Returns NULL if there is no memory. */
dpti_recomputation *dpti_recomputation_create(const dpt_model *model, const bool *unread);
void dpti_recomputation_destroy(dpti_recomputation *recomputation); /* accepts NULL */
/* Chooses the stages, if values are computed again.  Roots are known. */
DPT_CHECK_RESULT dpt_status dpti_cut_stages(dpti_compiler *c);
/* Before the backward pass of a node: emits the forward pass of the node's stage again, if the node
   is the first one of its stage in the backward pass.  Then c->value has the new tensors. */
DPT_CHECK_RESULT dpt_status dpti_emit_stage_again(dpti_compiler *c, size_t node);
/* unread[i]: nothing reads what node i computes again in this program, which is complete. */
DPT_CHECK_RESULT dpt_status dpti_find_unread(const dpt_model *model, const dpti_program *program,
                                             bool *unread);
static inline bool dpti_is_again(const dpti_compiler *c)
{
    return c->recompute && c->recompute->again > 0;
}

/* ---- Deferred instructions of a deterministic program (deferred.c) ----------------------------
 */

/* Returns NULL if there is no memory. */
dpti_deferral *dpti_deferral_create(const dpt_model *model);
void dpti_deferral_destroy(dpti_deferral *deferral); /* accepts NULL */
/* Begins with the backward pass: what dpti_emit gets from now on goes through dpti_defer. */
void dpti_deferral_begin(const dpti_compiler *c);
/* Takes an instruction of the backward pass, whose tensors are filled in.  *defers: it was
   deferred, and must not be appended now.  Otherwise its outputs may have other places. */
DPT_CHECK_RESULT dpt_status dpti_defer(const dpti_compiler *c, dpti_instruction *instruction,
                                       bool *defers);
/* Appends what was deferred, as a segment that every device runs; nothing if nothing was deferred.
   Fills in the program's n_gradients. */
DPT_CHECK_RESULT dpt_status dpti_emit_deferred(const dpti_compiler *c);

/* ---- Passes ---------------------------------------------------------------------------------- */

static inline bool dpti_is_training(const dpti_compiler *c)
{
    return c->options->purpose == DPTI_PURPOSE_TRAIN;
}

static inline size_t dpti_n_parts(const dpti_compiler *c)
{
    return c->options->n_parts > 1 ? c->options->n_parts : 1;
}

/* Whether devices exchange the parts of batch-norms. */
static inline bool dpti_meets(const dpti_compiler *c)
{
    return dpti_n_parts(c) > 1 && !c->options->alone;
}

static inline uint32_t dpti_gradient_flags(const dpti_compiler *c)
{
    return c->options->accumulate ? DPT_RUN_ACCUMULATE : 0;
}

/* Finds the roots, what is fused into them, and which of them have gradients (fuse.c). */
void dpti_fuse(dpti_compiler *c);
/* Returns whether a parameter, or running statistic, keeps its bits; true for SIZE_MAX.  No
   instruction that only computes the gradients of such parameters is emitted.  They have no place
   in the buffers of gradients and of optimizer state (dpti_model_arrange). */
bool dpti_is_frozen(const dpti_compiler *c, size_t parameter);
/* Returns whether a node is there before the first instruction. */
static inline bool dpti_is_leaf(const dpti_node *node)
{
    return node->kind == DPTI_NODE_INPUT || node->kind == DPTI_NODE_PARAMETER ||
           node->kind == DPTI_NODE_CONSTANT;
}
/* Returns whether a node has instructions of its own. */
static inline bool dpti_computes(const dpti_compiler *c, size_t node)
{
    const dpti_node *n = &c->model->nodes[node];
    return c->root[node] == node && !dpti_is_leaf(n) && !n->unused;
}
/* Adds the tensor of a node's value, or of its gradient: an activation, or float32 without
   samples. */
DPT_CHECK_RESULT dpt_status dpti_add_value(const dpti_compiler *c, size_t node, int *out);
/* The flags of an instruction that writes a parameter's gradient: the first one may write over what
   is there. */
uint32_t dpti_parameter_flags(dpti_compiler *c, size_t parameter);

DPT_CHECK_RESULT dpt_status dpti_emit_gather(dpti_compiler *c);                 /* forward.c */
DPT_CHECK_RESULT dpt_status dpti_emit_join(dpti_compiler *c, size_t node);      /* join.c */
DPT_CHECK_RESULT dpt_status dpti_emit_embedding(dpti_compiler *c, size_t node); /* embedding.c */
DPT_CHECK_RESULT dpt_status dpti_emit_embedding_backward(dpti_compiler *c, size_t node);
DPT_CHECK_RESULT dpt_status dpti_emit_call(dpti_compiler *c, size_t node); /* call_layer.c */
DPT_CHECK_RESULT dpt_status dpti_emit_call_backward(dpti_compiler *c, size_t node);
/* The loss of the program's own: (n, 2) losses and hits, and the gradient of the logits or
   DPTI_NO_TENSOR. */
DPT_CHECK_RESULT dpt_status dpti_emit_call_loss(dpti_compiler *c, int result, int gradient);
DPT_CHECK_RESULT dpt_status dpti_emit_projection(dpti_compiler *c,
                                                 size_t node); /* recurrent_emit.c */
DPT_CHECK_RESULT dpt_status dpti_emit_projection_backward(dpti_compiler *c, size_t node);
DPT_CHECK_RESULT dpt_status dpti_emit_recurrent(dpti_compiler *c, size_t node);
DPT_CHECK_RESULT dpt_status dpti_emit_recurrent_backward(dpti_compiler *c, size_t node);
DPT_CHECK_RESULT dpt_status dpti_emit_attention(dpti_compiler *c,
                                                size_t node); /* attention_emit.c */
DPT_CHECK_RESULT dpt_status dpti_emit_attention_backward(dpti_compiler *c, size_t node);

/* A contribution to the gradient of a root, or of a parameter that is read as a value: the tensor,
   and the flags with which an operator that writes all of it must run. */
typedef struct dpti_gradient {
    int tensor;
    uint32_t flags;
    dpt_activation mask; /* for dpti_end_gradient */
} dpti_gradient;
/* Before and behind the instruction that writes the contribution.  Each input of a node contributes
   once.  The root must have a gradient (`needs`). */
DPT_CHECK_RESULT dpt_status dpti_begin_gradient(dpti_compiler *c, size_t root, dpti_gradient *out);
DPT_CHECK_RESULT dpt_status dpti_end_gradient(dpti_compiler *c, size_t root,
                                              const dpti_gradient *gradient);
/* The gradient of a root that an operator is about to write as a whole, even if it cannot add to
   what is there (target.c).  One that nobody wants is written to a tensor that is never read. */
typedef struct dpti_target {
    size_t root;
    bool is_wanted;
    dpti_gradient gradient;
    int tensor; /* what the operator writes: the gradient's, or another one that is added to it */
} dpti_target;
DPT_CHECK_RESULT dpt_status dpti_open_target(dpti_compiler *c, size_t root, dpti_target *out);
DPT_CHECK_RESULT dpt_status dpti_close_target(dpti_compiler *c, const dpti_node *node,
                                              const dpti_target *of);
/* The gradient of weights that are input `w` of a node, and of its bias (value_weights.c). */
typedef struct dpti_weights_gradient {
    dpt_op_desc desc; /* LINEAR_BACKWARD_WEIGHTS or CONV2D_BACKWARD_WEIGHTS; the type, and whether
                         there is a bias, are filled in */
    int dy, x;        /* tensors */
    size_t w, bias;   /* inputs of the node; SIZE_MAX: no bias */
    size_t repeat;    /* as dpti_instruction.repeat */
} dpti_weights_gradient;
DPT_CHECK_RESULT dpt_status dpti_emit_weights_gradient(dpti_compiler *c, const dpti_node *node,
                                                       const dpti_weights_gradient *of);
/* Gives an instruction that moves an input of a JOIN to its place, or the gradient back. */
dpt_op_desc dpti_join_move(const dpti_compiler *c, const dpti_node *join, size_t input, bool back);
/* A MAP that writes a value into all elements of a tensor of this many elements. */
dpt_op_desc dpti_fill_with(size_t size, bool sampled, float value);
DPT_CHECK_RESULT dpt_status dpti_emit_forward(dpti_compiler *c, size_t node);
DPT_CHECK_RESULT dpt_status dpti_emit_loss(dpti_compiler *c); /* loss.c */
/* backward.c: of the loss; of a layer, and of the layer that is computed in chunks. */
DPT_CHECK_RESULT dpt_status dpti_emit_loss_backward(dpti_compiler *c);
DPT_CHECK_RESULT dpt_status dpti_emit_chunked_backward(dpti_compiler *c);
DPT_CHECK_RESULT dpt_status dpti_emit_backward(dpti_compiler *c, size_t node);
DPT_CHECK_RESULT dpt_status
dpti_emit_held(dpti_compiler *c); /* the delayed instruction, if there is one */
DPT_CHECK_RESULT dpt_status dpti_emit_look(dpti_compiler *c); /* update.c: sets the halt word */
DPT_CHECK_RESULT dpt_status dpti_emit_update(dpti_compiler *c);

#endif
