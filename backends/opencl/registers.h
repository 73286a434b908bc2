/* Convolutions for CPUs, where a work item is a thread's piece of work: what the passes share on
   the host.  Only conv2d_registers*.c include this. */
#ifndef DPT_OPENCL_REGISTERS_H
#define DPT_OPENCL_REGISTERS_H

#include "families.h"
#include "kernels/conv2d_registers.h"

/* Results that are held in registers: rows times units vectors of `width` floats. */
typedef struct dpt_cl_conv_tile {
    unsigned rows, units, width;
} dpt_cl_conv_tile;

static inline size_t dpt_cl_conv_lanes(const dpt_cl_conv_tile *tile)
{
    return (size_t)tile->units * tile->width;
}

/* The kernel `name` of conv2d_registers_FILE.cl, compiled for a tile (NULL: for any) with a further
   option. */
DPT_CHECK_RESULT dpt_status dpt_cl_conv_kernel(dpt_op *op, const dpt_cl_conv_tile *tile,
                                               const char *file, const char *option,
                                               const char *name, dpt_kernel **out);

/* Passes. */
DPT_CHECK_RESULT dpt_status dpt_cl_conv_prepare_gather(dpt_op *op, const dpt_cl_conv_tile *tile);
DPT_CHECK_RESULT dpt_status dpt_cl_conv_prepare_weights(dpt_op *op, const dpt_cl_conv_tile *tile);

/* Zeros around samples of h x w pixels. */
typedef struct dpt_cl_conv_frame {
    size_t h, w, channels;
    size_t above, below, left, right; /* rows and columns of zeros */
} dpt_cl_conv_frame;

/* Floats of a sample in its frame. */
size_t dpt_cl_conv_frame_size(const dpt_cl_conv_frame *frame);
/* How many samples of so many floats are treated at once where they are read several times: enough
   work for all cores, and the last-level cache still holds them. */
size_t dpt_cl_conv_chunk(const dpt_op *op, size_t floats);
/* Enqueues the copy of n samples. */
DPT_CHECK_RESULT dpt_status dpt_cl_conv_frame_run(dpt_stream *stream, dpt_kernel *kernel,
                                                  const dpt_cl_conv_frame *frame, dpt_location from,
                                                  dpt_location to, size_t n_samples);

/* Launches n[0] x n[1] x n[2] groups of one work item. */
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
