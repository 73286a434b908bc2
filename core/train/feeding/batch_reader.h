/* The batch reader: reads the images of coming steps, where the data set reads images as they are
   needed (data/ahead.h). */
#ifndef DPTI_BATCH_READER_H
#define DPTI_BATCH_READER_H

#include "train/state/feeding_state.h"
#include "train/state/in_flight_step.h"

typedef struct dpt_trainer dpt_trainer;

/* Makes the reader, if the data set reads images as they are needed.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_batch_reader_create(dpt_trainer *trainer);
void dpti_batch_reader_destroy(dpt_trainer *trainer); /* accepts one that was not made */

/* The number by which the reader tells the images of a step from those of other steps. */
uint64_t dpti_batch_reader_key(const dpt_trainer *trainer, const dpti_cursor *cursor);

/* Waits until this process's images of a step are read, and begins to read those of coming steps.
   The step is divided, and has these records.  A failure is that of dpti_ahead_wait: with one
   process the context tells it, with several this process's devices tell all in the step. */
DPT_CHECK_RESULT dpt_status dpti_batch_reader_step(dpt_trainer *trainer,
                                                   dpti_in_flight_step *inflight,
                                                   const uint32_t *records);
/* A step whose images could not be read is tried again later.  If its shards differ from those of
   the step before, this is the reason, which is told with the step then. */
dpti_balance_reason dpti_batch_reader_reason(const dpt_trainer *trainer);
void dpti_batch_reader_note_reason(dpt_trainer *trainer, dpti_balance_reason reason);

#endif
