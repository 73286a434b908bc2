/* How a chunk of a collective goes through the processes: what the pipeline (pipeline.c) and its
   routes share.  A unit is one chunk.  A route says what this process does with it, phase by phase:
   a phase begins with arithmetic, and is over when its messages have come and gone. */
#ifndef DPTI_ROUTE_H
#define DPTI_ROUTE_H

#include "collective/collective.h"
#include "collective/link.h"
#include "collective/range.h"

/* Elements that travel at a time: 256 KiB.  What somebody waits for, such as batch-norm's
   statistics, is sent behind what is on its way already, and so no more than a window of that:
   about two chunks, 4 ms at 1 Gbit/s, where messages do not take long by themselves. */
enum { DPTI_CHUNK = 64 * 1024 };

typedef struct dpti_unit {
    const dpti_link *link;
    const dpti_collective *what;
    size_t chunk;
    unsigned channel;      /* nobody else's: units need not keep an order among each other */
    float *staging;        /* (n_staged of the route, DPTI_CHUNK) */
    dpt_message *messages; /* of the phase that begins: (2 (n - 1)), */
    size_t n_messages;     /* so many are there */
} dpti_unit;

typedef struct dpti_route_steps {
    /* Chunks of staging that a unit needs, of n processes. */
    size_t (*n_staged)(size_t n);
    /* Units of a collective; one at least. */
    size_t (*n_chunks)(const dpti_link *link, const dpti_collective *what);
    /* Does what phase k begins with, and adds its messages.  false: the unit is over. */
    bool (*begin)(dpti_unit *u, unsigned k);
} dpti_route_steps;

extern const dpti_route_steps dpti_route_direct, dpti_route_ring;

/* The slice of process r, and chunk k of a range, which is empty past its end. */
dpti_range dpti_slice_of(const dpti_link *link, const dpti_collective *what, size_t r);
dpti_range dpti_chunk_of(dpti_range range, size_t k);
/* Chunks of so many elements; one at least. */
size_t dpti_count_chunks(size_t n_elements);
/* Of the largest slice. */
size_t dpti_count_slice_chunks(const dpti_link *link, const dpti_collective *what);

static inline bool dpti_is_packed(const dpti_collective *what)
{
    return what->owes != NULL;
}

/* This process's part of these elements is there, in all but its rounding. */
void dpti_prepare_part(const dpti_unit *u, dpti_range elements);
/* Says so if a sum that has come is not finite. */
void dpti_look_at_sum(const dpti_unit *u, dpti_range elements);

/* Adds a message: these elements, which stand at `data`; none if there are none. */
void dpti_unit_send(dpti_unit *u, size_t peer, float *data, size_t n_elements);
void dpti_unit_receive(dpti_unit *u, size_t peer, float *data, size_t n_elements);

#endif
