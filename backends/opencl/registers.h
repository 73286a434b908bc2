/* Convolutions for CPUs, where a work item is a thread's piece of work: the host code that the
   passes share.  Only conv2d_registers*.c include this header. */
#ifndef DPT_OPENCL_REGISTERS_H
#define DPT_OPENCL_REGISTERS_H

#include "conv2d.h"
#include "families.h"
#include "kernels/conv2d_registers.h"

/* The results that are held in registers: rows times units vectors of `width` floats. */
typedef struct dpt_cl_conv_tile {
    unsigned rows, units, width;
} dpt_cl_conv_tile;

static inline size_t dpt_cl_conv_lanes(const dpt_cl_conv_tile *tile)
{
    return (size_t)tile->units * tile->width;
}

/* A kernel that is compiled for a tile. */
typedef struct dpt_cl_conv_kernel {
    const char *file, *name;
    const char *option; /* beside the tile's options */
} dpt_cl_conv_kernel;

/* *out: a kernel, compiled for a tile.  Fails as dpt_kernel_get does. */
DPT_CHECK_RESULT dpt_status dpt_cl_conv_kernel_get(dpt_op *op, const dpt_cl_conv_tile *tile,
                                                   const dpt_cl_conv_kernel *kernel,
                                                   dpt_kernel **out);

/* Prepare a pass, as dpt_op_prepare does: gather is forward and backward-data, weights is
   backward-weights.  layer: as in dpt_conv2d_chains. */
DPT_CHECK_RESULT dpt_status dpt_cl_conv_prepare_gather(dpt_op *op, const dpt_cl_conv_tile *tile,
                                                       const dpt_conv2d_linear *layer);
DPT_CHECK_RESULT dpt_status dpt_cl_conv_prepare_weights(dpt_op *op, const dpt_cl_conv_tile *tile,
                                                        const dpt_conv2d_linear *layer);

/* What is added to a sum behind its last term: +0, so that no sum of a convolution is -0.  A linear
   layer keeps the sign of a zero. */
static inline float dpt_cl_conv_end(const dpt_conv2d_linear *layer)
{
    return layer ? -0.0f : 0.0f;
}

/* Zeros around samples of h x w pixels. */
typedef struct dpt_cl_conv_frame {
    size_t h, w, channels;
    size_t above, below, left, right; /* rows and columns of zeros */
} dpt_cl_conv_frame;

/* Floats of a sample in its frame. */
size_t dpt_cl_conv_frame_size(const dpt_cl_conv_frame *frame);
/* The number of samples, of `floats` each, that are treated at once if they are read several times:
   enough work for all cores, and so few that the last-level cache holds them. */
size_t dpt_cl_conv_chunk(const dpt_op *op, size_t floats);
/* A copy of samples into their frames. */
typedef struct dpt_cl_conv_copy {
    const dpt_cl_conv_frame *frame;
    dpt_location from, to;
    size_t n_samples;
} dpt_cl_conv_copy;

/* Enqueues a copy.  kernel: dpt_conv2d_frame. */
DPT_CHECK_RESULT dpt_status dpt_cl_conv_frame_run(dpt_stream *stream, dpt_kernel *kernel,
                                                  const dpt_cl_conv_copy *copy);

/* Enqueues n0 x n1 x n2 groups of one work item. */
DPT_CHECK_RESULT dpt_status dpt_cl_conv_launch(dpt_launch *launch, size_t n0, size_t n1, size_t n2);

static inline size_t dpt_cl_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t dpt_cl_max(size_t a, size_t b)
{
    return a > b ? a : b;
}

#endif
