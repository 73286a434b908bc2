/* Before programs are compiled: times sums between the processes of a trainer, and chooses by these
   times (bandwidth_model.h).

   With one process nothing travels: a thread that comes to the end first sums, and what a bucket
   costs is the end of a segment on each device, which does not depend on a link.  Sizes are the
   default ones there.  So they are where the backend sums over processes by a network of its own.
   The sums that are timed lie in host memory, so no device is called. */
#ifndef DPTI_LINK_PROBE_H
#define DPTI_LINK_PROBE_H

#include "dptrain.h"
#include "train/state/exchange_state.h"

/* Chooses how gradients travel between processes and, with `sizes`, how large buckets are: in
   trainer->program.  All processes call it, with nothing in flight.  On a slow link it takes half a
   second.  A failure is one of any process, told to all, or of the transport; the context tells it.
 */
DPT_CHECK_RESULT dpt_status dpti_link_probe_processes(dpt_trainer *trainer, bool sizes);

/* What was measured and chosen. */
const dpti_link_probe *dpti_link_probe_of(const dpt_trainer *trainer);
const char *dpti_route_name(dpti_route route); /* "direct", "ring" */
/* What was measured and chosen, for a person; cut if it is longer.  Empty if nothing was. */
void dpti_link_probe_words(const dpt_trainer *trainer, char *out, size_t n_bytes);

#endif
