/* Sums along the tree of grains of sums that stand side by side in memory. */
#ifndef DPT_COMMON_TREE_H
#define DPT_COMMON_TREE_H

#include "operators.h"

typedef struct dpt_tree_parts {
    size_t n;           /* parts, at least 1 and at most DPT_MOST_GRAINS */
    size_t size;        /* float32 elements from one part to the next */
    size_t count;       /* elements of a part that are added up */
    dpt_location parts; /* (n, size) */
    dpt_location to;    /* (count) */
    bool accumulate;    /* the sums are added to those of `to` */
} dpt_tree_parts;

/* Fails as dpt_kernel_get does. */
DPT_CHECK_RESULT dpt_status dpt_tree_prepare(dpt_device *device, dpt_kernel **out);
/* Enqueues the sums. */
DPT_CHECK_RESULT dpt_status dpt_tree_add(dpt_kernel *kernel, dpt_stream *stream,
                                         const dpt_tree_parts *parts);

/* The grains of a call: at least 1. */
size_t dpt_grains_of(const dpt_call *call);
/* Samples of each grain of a call but the last. */
size_t dpt_grain_of(const dpt_call *call);

#endif
