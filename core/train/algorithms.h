/* The algorithms that the devices of all processes took.  They are in logs and in
   checkpoints.  Where algorithms are chosen by measurement the next process may choose others, and
   a training that goes on has the same bits only by the same algorithms. */
#ifndef DPTI_ALGORITHMS_H
#define DPTI_ALGORITHMS_H

#include "base/recorded.h"

typedef struct dpt_trainer dpt_trainer;

/* All processes tell each other whether they have failed (`mine`), and which algorithms their
   devices have: when the devices have been prepared, and before any process writes them down.  With
   one process it returns `mine`. */
DPT_CHECK_RESULT dpt_status dpti_algorithms_gather(dpt_trainer *trainer, dpt_status mine);
void dpti_algorithms_free(dpt_trainer *trainer); /* what was gathered */
/* The algorithms of a device of any process, to be freed; none of a device that is lost. */
DPT_CHECK_RESULT dpt_status dpti_algorithms_of(const dpt_trainer *trainer, size_t device,
                                               dpti_recorded_choices *out);

/* Records the algorithms of all devices in an empty list, for a checkpoint.  false if memory is
   short. */
DPT_CHECK_RESULT bool dpti_algorithms_note(const dpt_trainer *trainer, dpti_recorded_devices *out);
/* Makes devices take the algorithms that a checkpoint recorded.  A device takes them if it has the
   same description as the device in the list; an algorithm that it cannot have any more it chooses
   anew.  If any device of any process has to change its algorithms, all devices are prepared anew.
   The list is ignored if it has another number of devices, and in a replay, which brings its own
   algorithms.  No step may be in flight.  All processes call this, each with its own status
   (`mine`); a process whose status is a failure does not read the list.  Fails as
   dpti_trainer_rebuild does. */
DPT_CHECK_RESULT dpt_status dpti_algorithms_resume(dpt_trainer *trainer, dpt_status mine,
                                                   const dpti_recorded_devices *then);

#endif
