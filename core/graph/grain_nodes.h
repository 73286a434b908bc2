/* A replica's memory for the nodes of grains behind the first one (base/node_places.h).  Where sums
   of gradients are divided (dpti_optimizer.divided_sums) the replica's own gradients have the same
   places: they are needed only until their bucket is summed. */
#ifndef DPTI_GRAIN_NODES_H
#define DPTI_GRAIN_NODES_H

#include "base/grains.h"
#include "base/node_places.h"
#include "device/buffer.h"
#include "dpt_error.h"
#include "graph/call.h"

typedef struct dpti_replica dpti_replica;

typedef struct dpti_grain_nodes {
    dpti_buffer buffers[DPTI_GRAIN_HELD - 1]; /* (places.n_elements) float32, of one node each */
    size_t n;                                 /* the first n buffers are there */
    dpti_node_places places;
    size_t first_in[DPTI_NODE_BUCKETS]; /* the segment that writes the bucket first */
    bool cleared[DPTI_NODE_BUCKETS];    /* that segment begins with clearing the bucket */
} dpti_grain_nodes;

/* Finds the places of the replica's nodes for its program of training, whose operators are
   prepared. With `whole`, every element keeps its place until the end of a step, as several
   micro-batches need it. */
void dpti_grain_nodes_place(const dpti_executable *executable, bool whole);
/* [driver] Makes sure that the replica has the buffers of n nodes behind the first one, with zeros
   in new buffers.  Fails as dpti_alloc does. */
DPT_CHECK_RESULT dpt_status dpti_grain_nodes_hold(dpti_replica *replica, size_t n);
void dpti_grain_nodes_free(dpti_grain_nodes *nodes); /* [driver] */
/* The bytes of the buffers of n nodes, in device memory. */
size_t dpti_grain_nodes_bytes(const dpti_grain_nodes *nodes, size_t n);

/* How many buckets must be summed before the segments behind this one, up to the next bucket, may
   write what has these places. */
size_t dpti_grain_nodes_after(const dpti_executable *executable, size_t segment);
/* [driver] Enqueues the clearing of buckets of which no instruction writes some elements, such as
   those between two parameters, in the first segment that writes others. */
DPT_CHECK_RESULT dpt_status dpti_grain_nodes_clear(const dpti_executable *executable,
                                                   size_t segment);

#endif
