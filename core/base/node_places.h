/* Where a device keeps the sums of the nodes of grains behind the first one (grains.h).

   The sums of the first node are in the flat buffer of the gradients.  Each other node has a buffer
   of its own, which is smaller.  Gradients are exchanged in buckets, which are runs of the flat
   buffer, and a node's sums of a bucket are needed only from their computation until the bucket is
   summed over the devices.  So the buffer of a node begins with a ring, in which buckets take the
   places of buckets that are summed.  Elements that are in no bucket are exchanged at the end.
   Each of them has a place of its own behind the ring. */
#ifndef DPTI_NODE_PLACES_H
#define DPTI_NODE_PLACES_H

#include <stddef.h>

enum { DPTI_NODE_BUCKETS = 64 }; /* the most */

typedef struct dpti_node_bucket {
    size_t begin, end; /* elements of the flat buffer */
    size_t n_before;   /* so many buckets are contributed before any of these elements is written */
    size_t at;         /* where the bucket is in the ring */
    size_t after;      /* so many buckets must be summed before any of these elements is written */
} dpti_node_bucket;

typedef struct dpti_node_places {
    size_t n_elements; /* of the buffer of a node */
    size_t ring;       /* elements of the ring */
    size_t n_buckets;  /* without buckets an element has the place that it has in the flat buffer */
    dpti_node_bucket buckets[DPTI_NODE_BUCKETS];
} dpti_node_places;

/* Finds the places of the elements of a flat buffer of `count` elements.  The buckets' begin, end
   and n_before are filled in.  The first bucket is the last one in the flat buffer, and each other
   bucket ends where the one before it begins. */
void dpti_place_nodes(dpti_node_places *places, size_t count);
/* The bucket that has an element of the flat buffer; n_buckets if none has. */
size_t dpti_node_bucket_of(const dpti_node_places *places, size_t element);
/* The place of an element of the flat buffer in the buffer of a node.  The elements of one bucket
   follow each other, and so do those before all buckets, and those behind them. */
size_t dpti_node_place(const dpti_node_places *places, size_t element);

#endif
