/* Collectives over processes that are in flight.  They are made of messages that no thread blocks
   on. The communication thread works on them between calls and while it waits in a call
   (processes_thread.c). Collectives run in the order in which they were started, in chunks, several
   of which are in flight at the same time.

   All functions are called by the communication thread. */
#ifndef DPTI_PIPELINE_H
#define DPTI_PIPELINE_H

#include "collective/collective.h"
#include "collective/link.h"

typedef struct dpti_pipeline dpti_pipeline;

/* DPTI_CHANNEL_CALLS is the channel of everything that is not a chunk. */
enum { DPTI_CHANNEL_CALLS, DPTI_CHANNEL_UNITS /* and the next DPTI_MOST_WINDOW - 1 */ };

/* Returns NULL if memory is short. */
dpti_pipeline *dpti_pipeline_create(const dpti_link *link);
/* Accepts NULL.  If the transport has failed, memory of requests in flight is never freed. */
void dpti_pipeline_destroy(dpti_pipeline *pipeline);

/* After a failure of a transport that survives failures: waits until nothing is sent from memory of
   collectives, or received there.  The pipeline can only be destroyed then. */
void dpti_pipeline_end(dpti_pipeline *pipeline);

/* Changes the route and the window in two steps.  `reserve` allocates memory for *travel, which
   becomes what is possible; it returns false if memory is short.  `take` is called while nothing is
   in flight: chunks travel by the reserved *travel from then on; NULL: the reserved memory is
   freed. */
bool dpti_pipeline_reserve(dpti_pipeline *pipeline, dpti_travel *travel);
void dpti_pipeline_take(dpti_pipeline *pipeline, const dpti_travel *travel);
/* Returns the present route and window.  Any thread may call this while nothing is in flight. */
const dpti_travel *dpti_pipeline_travel(const dpti_pipeline *pipeline);

/* The collectives that were ever started, numbered from 0.  Collective i is items[i % n_items]. */
typedef struct dpti_ring {
    const dpti_collective *items;
    size_t n_items;
    size_t n_started, n_over;
} dpti_ring;

/* Looks once at the collectives in flight and starts what can be started.  Updates ring->n_over.
   *moved becomes true if something has happened, so that it may pay to look again at once.  Fails
   as the transport does. */
DPT_CHECK_RESULT dpt_status dpti_pipeline_look(dpti_pipeline *pipeline, dpti_ring *ring,
                                               bool *moved, dpt_error *error);

#endif
