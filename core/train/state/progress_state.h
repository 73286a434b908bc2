/* The fields of progress: where training stands, and the records of the steps in flight.

   Only files of core/train/progress touch these fields.  Other concerns call the functions that
   in_flight.h declares. */
#ifndef DPTI_PROGRESS_STATE_H
#define DPTI_PROGRESS_STATE_H

#include "train/state/in_flight_step.h"

struct dpt_trainer;

/* The trainer's part.  The caller's thread alone writes it. */
typedef struct dpti_trainer_progress {
    dpt_status (*catch_up)(struct dpt_trainer *trainer); /* retries steps (pipeline/steps.c) */
    dpti_in_flight_step slots[DPTI_STEP_SLOTS]; /* step s, from 0, uses slot s % DPTI_STEP_SLOTS */
    size_t n_in_flight;
    dpti_cursor done;     /* behind the last committed step that was collected */
    dpti_cursor next;     /* before the next step to be submitted */
    size_t retry_to;      /* training has gone back, and retries the steps up to this one, from 1;
                             0: it has not */
    double last_finished; /* when the last collected step ended, by the host's clock */
    bool traced;          /* shards keep the spans of their times */
} dpti_trainer_progress;

typedef struct dpti_worker_progress {
    size_t last_step; /* the last step in which the device took part, from 1 */
} dpti_worker_progress;

#endif
