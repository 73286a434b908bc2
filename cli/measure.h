/* dptrain plan --measure. */
#ifndef DPTRAIN_CLI_MEASURE_H
#define DPTRAIN_CLI_MEASURE_H

#include "session.h"

/* Trains until its shards have settled and then for `least_seconds`, at least CLI_LEAST_STEPS
   steps, and prints the time of a step, of an epoch, and of each device.  The session's trainer has
   made no step, and is of no use afterwards.  A signal that is caught ends it
   early, with what was timed so far.  measured_split: shards are measured.  *step_seconds becomes
   the time of a step, or 0 if none was timed.  Errors: of dpt_trainer_collect; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status cli_measure(const cli_session *session, double least_seconds,
                                        bool measured_split, double *step_seconds);

#endif
