/* Copies of the training state in memory that outlives processes: a checkpoint in a folder of a
   file system in memory, one on each host (docs/design/processes.md).  When a job is started again
   after the loss of a process or a host, it goes on from the newest copy that is left. */
#ifndef DPTI_COPIES_H
#define DPTI_COPIES_H

#include "checkpoint/keeper.h"

typedef struct dpti_fit dpti_fit;

typedef struct dpti_copies {
    dpti_keeper *keeper; /* NULL: none, or another process of this host keeps the copy */
    size_t steps;        /* of the training, when the last copy was taken */
    double at, cost;     /* when that was; the seconds that the last one took, in all */
} dpti_copies;

/* The functions do nothing, and find nothing, if the options have no `copies`.  All processes call
   them. */

/* Opens the folder; the process with the lowest rank of a host keeps its copy in most cases. `mine`
   is this process's status so far; all get the first failure.  Errors: DPT_E_INVALID if the folder
   has no room; those of dpti_keeper_create_copies. */
DPT_CHECK_RESULT dpt_status dpti_copies_open(dpti_fit *f, dpt_status mine);
/* Gives the newest copy of any host to all processes.  *found: false: no copy is left, or a
   checkpoint in the folder of process 0 is of a later step.  The caller closes *out. */
DPT_CHECK_RESULT dpt_status dpti_copies_find(dpti_fit *f, bool *found, dpti_checkpoint *out);
/* Keeps the state before the first step, and waits until it is kept.  A failure to write it is a
   failure. */
DPT_CHECK_RESULT dpt_status dpti_copies_begin(dpti_fit *f);
/* Returns whether a copy is due, by the clock of this process. */
bool dpti_copies_are_due(const dpti_fit *f);
/* Keeps the present state; no step is in flight.  A copy that cannot be written is a warning, and
   the one before stays. */
DPT_CHECK_RESULT dpt_status dpti_copies_keep(dpti_fit *f);
void dpti_copies_close(dpti_fit *f);

#endif
