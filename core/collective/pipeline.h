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

/* Looks once at what is under way and starts what can be started.  Collective number i (from 0, all
   that ever were) is ring[i % n_ring], for i below n_started; *n_over counts those that are over.
   *moved: something has happened, and it may pay to look again at once. */
DPT_CHECK_RESULT dpt_status dpti_pipeline_look(dpti_pipeline *pipeline, const dpti_collective *ring,
                                               size_t n_ring, size_t n_started, size_t *n_over,
                                               bool *moved, dpt_error *error);

#endif
