/* How a chunk of a collective travels through the processes: what the pipeline (pipeline.c) and the
   routes share.  A unit is one chunk in flight.  A route says what this process does with a unit,
   phase by phase: a phase begins with arithmetic, and is over when its messages have been sent and
   received. */
#ifndef DPTI_ROUTE_H
#define DPTI_ROUTE_H

#include "base/range.h"
#include "collective/collective.h"
#include "collective/link.h"

/* The most elements of a chunk: 256 KiB.  A call that somebody waits for, such as the exchange of
   batch-norm's statistics, is sent behind the chunks in flight.  It waits for no more than a window
   of chunks: about two chunks, or 4 ms at 1 Gbit/s, if the network's latency is low. */
enum { DPTI_CHUNK = 64 * 1024 };

typedef struct dpti_unit {
    const dpti_link *link;
    const dpti_collective *what;
    size_t chunk;
    unsigned channel;      /* used by no other unit, so units need no order among each other */
    float *staging;        /* (n_staged of the route, DPTI_CHUNK) */
    dpt_message *messages; /* (dpti_most_messages) messages of the phase that begins, */
    size_t n_messages;     /* of which there are so many */
} dpti_unit;

typedef struct dpti_route_steps {
    /* Returns how many chunks of staging memory a unit needs with n processes. */
    size_t (*n_staged)(size_t n);
    /* Returns the number of units of a collective, at least 1. */
    size_t (*n_chunks)(const dpti_link *link, const dpti_collective *what);
    /* Does the arithmetic of phase k and adds its messages.  Returns false if the unit is over. */
    bool (*begin)(dpti_unit *u, unsigned k);
} dpti_route_steps;

extern const dpti_route_steps dpti_route_direct, dpti_route_ring;

/* The most messages of a phase with n processes: one to each other process and one from it, or one
   for each node of the sender. */
static inline size_t dpti_most_messages(size_t n)
{
    return (n - 1) * DPTI_GRAIN_HELD + DPTI_GRAINS + n - 1;
}

/* Return the slice of process r, and chunk k of a range, in chunks of `size` elements; the chunk is
   empty past the range's end. */
dpti_range dpti_slice_of(const dpti_link *link, const dpti_collective *what, size_t r);
dpti_range dpti_chunk_of(dpti_range range, size_t k, size_t size);
/* Returns how many chunks so many elements make, at least 1. */
size_t dpti_count_chunks(size_t n_elements, size_t size);
/* Returns how many chunks the largest slice makes. */
size_t dpti_count_slice_chunks(const dpti_link *link, const dpti_collective *what, size_t size);

static inline bool dpti_is_packed(const dpti_collective *what)
{
    return what->packing != NULL;
}

/* Makes sure that this process's part of these elements has been written (dpti_collective.prepare).
   Rounding, if the collective is packed, comes later. */
void dpti_prepare_part(const dpti_unit *u, dpti_range elements);
/* Checks a sum that has arrived, and clears *finite if the sum is not finite. */
void dpti_look_at_sum(const dpti_unit *u, dpti_range elements);

/* Add a message of these elements, which are at `data`.  They add nothing if n_elements is 0. */
void dpti_unit_send(dpti_unit *u, size_t peer, float *data, size_t n_elements);
void dpti_unit_receive(dpti_unit *u, size_t peer, float *data, size_t n_elements);

#endif
