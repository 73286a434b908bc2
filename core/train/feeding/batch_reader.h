/* The batch reader: reads the images of coming steps, where the data set reads images as they are
   needed (data/ahead.h). */
#ifndef DPTI_BATCH_READER_H
#define DPTI_BATCH_READER_H

#include "train/state/feeding_state.h"
#include "train/state/in_flight_step.h"

typedef struct dpt_trainer dpt_trainer;

DPT_CHECK_RESULT dpt_status dpti_batch_reader_create(dpt_trainer *trainer);
void dpti_batch_reader_destroy(dpt_trainer *trainer); /* accepts one that was not made */

/* By what the reader knows a step. */
uint64_t dpti_batch_reader_key(const dpt_trainer *trainer, const dpti_cursor *cursor);

/* Waits until this process's images of a step are read, and begins to read those of coming steps.
   The step is divided, and has these records.  A failure is that of dpti_ahead_wait: with one
   process the context tells it, with several this process's devices tell all in the step. */
DPT_CHECK_RESULT dpt_status dpti_batch_reader_step(dpt_trainer *trainer,
                                                   dpti_in_flight_step *inflight,
                                                   const uint32_t *records);
/* Why the shards of a step changed that could not be read: told with the step when it is tried
   again. */
dpti_balance_reason dpti_batch_reader_reason(const dpt_trainer *trainer);
void dpti_batch_reader_note_reason(dpt_trainer *trainer, dpti_balance_reason reason);

#endif
