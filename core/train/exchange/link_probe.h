/* Before programs are compiled: what sums between the processes of a trainer cost, and what is
   chosen by it (link.h).

   Where there is one process nothing travels: whoever comes to the end first sums, and what a
   bucket costs is the end of a segment on each device, which does not depend on a link.  Sizes are
   the default ones there, and so they are where the backend sums over processes, by a network of
   its own.  What is timed is sums of processes in host memory, so no device is called. */
#ifndef DPTI_LINK_PROBE_H
#define DPTI_LINK_PROBE_H

#include "train/exchange/bandwidth_model.h"

/* The same in all processes. */
typedef struct dpti_link_probe {
    bool done; /* the link was timed; if so: */
    dpti_bandwidth_model link;
    dpti_travel travel; /* chosen */
} dpti_link_probe;

/* How gradients travel between processes is chosen, and with `sizes` how large buckets are: in
   trainer->program.  In all processes alike, nothing under way.  On a slow link it takes half a
   second.  What fails has failed in all processes, or is the transport. */
DPT_CHECK_RESULT dpt_status dpti_link_probe_processes(dpt_trainer *trainer, bool sizes);

const char *dpti_route_name(dpti_route route); /* "direct", "ring" */
/* What was measured and chosen, for a person; cut if it is longer.  Empty if nothing was. */
void dpti_link_probe_words(const dpt_trainer *trainer, char *out, size_t n_bytes);

#endif
