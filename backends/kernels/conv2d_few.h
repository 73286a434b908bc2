/* Parameters of conv2d_few.cl. */
#ifndef DPT_KERNELS_CONV2D_FEW_H
#define DPT_KERNELS_CONV2D_FEW_H

#include "dialect.h"

#define FEW_BAND   3072u /* the most elements of a band's input, which is in local memory */
#define FEW_ROUND  8u    /* sums of an item that a group adds up at once */
#define FEW_FILTER 4u    /* filters of an item */
#define FEW_AHEAD  4u    /* pixels whose gradients an item loads before it waits for the first */

/* A band is some rows of a sample's output. */
typedef struct conv2d_few_params {
    u64 part_size; /* of backward-weights: elements between the sums of two groups */
    u64 n_bands;   /* of all samples */
    u64 each;      /* bands of a group; the last groups may have fewer, or none */
    u32 bands;     /* of a sample */
    u32 rows;      /* of a band; the last band of a sample may have fewer */
    u32 in_h, in_w;
    u32 out_h, out_w, out_channels;
    u32 stride_h, stride_w;
    u32 pad_h, pad_w;
    u32 line; /* elements of a row of a band's input, with padding */
    u32 has_bias;
    u32 activation;
} conv2d_few_params;

#endif
