/* Divided gradients of several micro-batches.

   A device with divided gradients has room for those of a few buckets (dpti_replica.windowed), and
   its micro-batches add to them.  So host memory keeps the gradients of each bucket from one
   micro-batch to the next.  The device adds to what it gets back, as if it had kept them: the bits
   are the same.  In deterministic training these are the gradients of each node of grains
   (graph/grain_nodes.h).  Gradients that are in no bucket stay on the device. */
#ifndef DPTI_WINDOW_H
#define DPTI_WINDOW_H

#include "train/state/in_flight_step.h"

typedef struct dpti_worker dpti_worker;

/* [driver] Behind the creation of the program of training: makes that host memory, for one node, if
   the worker needs it.  DPT_E_NO_MEMORY, or the device's failure. */
DPT_CHECK_RESULT dpt_status dpti_window_create(dpti_worker *worker);
/* [driver] Between steps: makes sure that it has room for so many nodes.  Fails as create does. */
DPT_CHECK_RESULT dpt_status dpti_window_hold(dpti_worker *worker, size_t n_nodes);
void dpti_window_destroy(dpti_worker *worker); /* [driver] */
size_t dpti_window_host_bytes(const dpti_worker *worker);

/* [driver] Before a segment of a micro-batch: enqueues the upload of the buckets that the segment
   writes first, of the first n_nodes nodes, and the clearing of these buckets of the other nodes.
 */
DPT_CHECK_RESULT dpt_status dpti_window_restore(const dpti_worker *worker, size_t segment,
                                                size_t n_nodes);
/* [driver] Behind a segment of a micro-batch that is not the last one: downloads the bucket that is
   complete now, of the first n_nodes nodes, and waits. */
DPT_CHECK_RESULT dpt_status dpti_window_keep(dpti_shard *shard, size_t segment, size_t n_nodes);

#endif
