/* Winograd convolutions: the plan, its transforms and its run.  The products of the transformed
   tensors are those of the file that prepares the plan: conv2d_winograd_local.c, or the backend's
   own.  kernels/winograd.h describes the transforms and layouts.

   conv2d_winograd.c makes the plan, and conv2d_winograd_run.c enqueues it. */
#ifndef DPT_COMMON_CONV2D_WINOGRAD_H
#define DPT_COMMON_CONV2D_WINOGRAD_H

#include "column_sums.h"
#include "tree.h"
#include "winograd.h"

typedef struct dpt_winograd dpt_winograd;

/* Some samples of a call, and the complete parameters of their images. */
typedef struct dpt_winograd_block {
    const dpt_call *call;
    size_t first, n_samples;
    winograd_images source, results;
} dpt_winograd_block;

/* Enqueues the products of a block.  Of backward-weights they are added to the sums of the blocks
   before, if there are any. */
typedef dpt_status dpt_winograd_multiply(const dpt_winograd_block *block);

/* Grains among the tiles of a block of backward-weights. */
typedef struct dpt_winograd_grains {
    size_t first;      /* tile of the block with which they begin */
    size_t n;          /* grains, at least 1 */
    size_t each, last; /* tiles of each grain but the last, and of the last */
    bool resumes;      /* the first grain has begun in the block before; n is 1 */
} dpt_winograd_grains;

/* Enqueues the products of grains of a block.  Each grain has sums of its own, grain_stride
   elements apart. */
typedef dpt_status dpt_winograd_multiply_grains(const dpt_winograd_block *block,
                                                const dpt_winograd_grains *grains);

/* Enqueues the products of grains of a block, transforms their sums to gradients, and adds these up
   along the tree, as *weights says.  The grains have not begun before. */
typedef dpt_status dpt_winograd_sum_grains(const dpt_winograd_block *block,
                                           const dpt_winograd_grains *grains,
                                           const winograd_weights *weights);

/* The part of a plan that the products decide. */
typedef struct dpt_winograd_form {
    size_t tile;  /* a tile has tile x tile results */
    size_t width; /* lanes of a vector; 1: neighbouring work items are neighbouring channels */
    size_t rows, panel; /* rows and vectors of a product's tile; 1 if the width is 1 */
    size_t block_bytes; /* of the transformed tiles of a block of samples */
    /* Backward-data is the adjoint of forward.  Otherwise it is a forward with rotated filters.
       Deterministic operators are the adjoint. */
    bool adjoint;
    dpt_winograd_multiply *multiply;
    /* Of deterministic backward-weights, in place of `multiply`.  NULL: the plan has no grains. */
    dpt_winograd_multiply_grains *multiply_grains;
    /* The same in place of the products and transforms of grains that fit a block.  It may be NULL.
       The sums of one grain stand in memory at a time, if any. */
    dpt_winograd_sum_grains *sum_grains;
    /* 0, or sum_grains is only for calls whose grains have at most so many tiles and are one block.
       It then adds up no gradients that stand apart. */
    size_t few_tiles;
} dpt_winograd_form;

/* The memory of deterministic backward-weights. */
typedef struct dpt_winograd_sums {
    size_t n_weights, n_biases; /* of a gradient */
    size_t grain_stride;        /* elements between the sums of two grains */
    size_t most;                /* grains whose sums stand side by side; a power of two */
    size_t cuts;                /* of an operator that is not deterministic: grains of a call */
    bool is_tree;               /* a few gradients wait for others; if not, all stand apart */
    size_t weights_at;          /* bytes in the workspace: the gradients */
    size_t biases_at;           /* the same: the gradients of the bias of all grains */
    dpt_kernel *tree;
} dpt_winograd_sums;

/* The beginning of op->plan.state.  Samples are treated in blocks, whose transformed tiles stay in
   a cache.  The source is what is transformed and multiplied by filters: x, or dy in backward-data.
   Backward-weights multiplies the transformed x, the source, by the transformed dy, the results. */
struct dpt_winograd {
    dpt_winograd_form form;
    size_t taps, points;             /* along an edge; all points of a tile */
    size_t source_c, result_c;       /* channels, padded as products need */
    size_t tiles_h, tiles_w;         /* of a sample */
    size_t block_samples;            /* the most samples of a block */
    size_t matrix_stride;            /* elements between points of the filters, or of their sums */
    winograd_images source, results; /* complete except for what depends on the samples */
    winograd_filters filters;        /* of forward and backward-data */
    size_t source_at, results_at;    /* bytes in the workspace; filters or sums are at 0 */
    size_t scratch_at;               /* bytes in the workspace, of what the products need */
    dpt_kernel *transform_source, *transform_results;
    dpt_kernel *transform_filters; /* of forward and backward-data */
    dpt_kernel *weights_back;      /* of backward-weights */
    dpt_kernel *bias;              /* of deterministic backward-weights with a bias */
    dpt_column_sums sums;          /* of other backward-weights with a bias */
    dpt_winograd_sums grains;      /* of backward-weights with grains */
};

/* ---- Preparing ------------------------------------------------------------------------------- */

/* Sets *w, the beginning of op->plan.state, except for the memory.  DPT_E_UNSUPPORTED if the
   convolution has no tiles of this size, or is too large. */
DPT_CHECK_RESULT dpt_status dpt_winograd_prepare(dpt_op *op, const dpt_winograd_form *form,
                                                 dpt_winograd *w);
/* Completes the plan: kernels and memory, with scratch_bytes for the products.  is_fused: tiles are
   in the scratch of the products only. */
DPT_CHECK_RESULT dpt_status dpt_winograd_complete(dpt_op *op, dpt_winograd *w, size_t scratch_bytes,
                                                  bool is_fused);

/* Elements between the points of a transformed tensor, each of which has n elements.  It is no
   multiple of a page, because the points of a tile would then share few lines of a cache. */
size_t dpt_winograd_stride(size_t n);

/* ---- Running --------------------------------------------------------------------------------- */

dpt_op_run dpt_winograd_run;         /* forward and backward-data */
dpt_op_run dpt_winograd_run_weights; /* backward-weights */

/* Enqueues the transform of the filters. */
DPT_CHECK_RESULT dpt_status dpt_winograd_transform_filters(const dpt_call *call);

/* The transformed source and results of a call, and the filters or their sums. */
dpt_location dpt_winograd_source(const dpt_call *call);
dpt_location dpt_winograd_results(const dpt_call *call);
dpt_location dpt_winograd_matrices(const dpt_call *call);
/* The gradients of grains that stand apart or wait. */
dpt_location dpt_winograd_gradients(const dpt_call *call);
/* The image of a tensor with which a block begins.  {NULL, 0} stays. */
dpt_location dpt_winograd_images_at(dpt_location tensor, const winograd_images *images,
                                    size_t first);

/* ---- Deterministic operators ----------------------------------------------------------------- */

/* Fills in op->plan with a Winograd convolution whose products are those of matmul.cl.  tile: as
   dpt_winograd_edge (winograd_rule.h) says. */
DPT_CHECK_RESULT dpt_status dpt_winograd_local_chains(dpt_op *op, size_t tile);
/* The backend defines this.  The same by the backend's fastest products. */
DPT_CHECK_RESULT dpt_status dpt_winograd_chains(dpt_op *op, size_t tile);

#endif
