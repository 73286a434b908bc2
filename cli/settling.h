/* The steps of a training that is timed: those before its timed part, and how they are made. */
#ifndef DPTRAIN_CLI_SETTLING_H
#define DPTRAIN_CLI_SETTLING_H

#include "cli.h"

enum { CLI_LEAST_STEPS = 5 }; /* the least number of timed steps, however slow they are */

/* The learning rate of a training that is only timed.  Speed does not depend on it.  A small one
   keeps the loss finite. */
#define CLI_HARMLESS_RATE 1e-3

/* All zero but `measured`: no step so far. */
typedef struct cli_settling {
    bool measured;  /* shards are measured, and may change */
    bool settled;   /* false after the last step: shards still change */
    size_t n_steps; /* so far */
    size_t n_steady;
} cli_settling;

/* Keeps two steps in flight, as in training, so that devices never wait for the host, and collects
   the next one. */
DPT_CHECK_RESULT dpt_status cli_next_step(dpt_trainer *trainer, dpt_step_metrics *out);

/* Counts a step of a whole batch.  Returns whether it was the last before the timed part: the third
   with fixed shards; else the eighth in a row without a change, or the fortieth. */
DPT_CHECK_RESULT bool cli_settling_step(cli_settling *settling, const dpt_step_metrics *step);

#endif
