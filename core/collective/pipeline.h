/* Collectives over processes that are under way, made of messages that nobody waits for: what the
   communication thread does between calls and while it waits in one (processes.c).  One after the
   other in the order in which they were started, in chunks, some of which are under way at the same
   time.

   All functions are for the communication thread. */
#ifndef DPTI_PIPELINE_H
#define DPTI_PIPELINE_H

#include "collective/collective.h"
#include "collective/link.h"

typedef struct dpti_pipeline dpti_pipeline;

/* The channel of everything else. */
enum { DPTI_CHANNEL_CALLS, DPTI_CHANNEL_UNITS /* and the next DPTI_MOST_WINDOW - 1 */ };

/* NULL without memory. */
dpti_pipeline *dpti_pipeline_create(const dpti_link *link);
/* Accepts NULL.  What is under way, of a transport that has failed, is left behind. */
void dpti_pipeline_destroy(dpti_pipeline *pipeline);

/* Memory to travel so: *travel becomes what can be.  false without it.  Then take: from now on they
   do, nothing being under way, or not at all, where it is NULL. */
bool dpti_pipeline_reserve(dpti_pipeline *pipeline, dpti_travel *travel);
void dpti_pipeline_take(dpti_pipeline *pipeline, const dpti_travel *travel);
/* [any thread, nothing under way] How they do. */
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
