/* Comparing weights between processes.  All processes call these functions alike. */
#ifndef DPTI_PEER_WEIGHTS_H
#define DPTI_PEER_WEIGHTS_H

#include "train/state/in_flight_step.h"

typedef struct dpt_trainer dpt_trainer;

/* Compares weights now.  DPT_E_INVALID unless all processes begin with the same weights, at the
 * same step. */
DPT_CHECK_RESULT dpt_status dpti_peers_check_weights(dpt_trainer *trainer);
/* Nothing in flight, before a step: where weights were written since they were compared, takes a
   checksum of them, which is compared when the step is over. */
DPT_CHECK_RESULT dpt_status dpti_peers_begin_step(dpt_trainer *trainer,
                                                  dpti_in_flight_step *inflight);

#endif
