/* Images of coming steps, where the data set's are read as they are needed (data/ahead.h). */
#ifndef DPTI_BATCH_READER_H
#define DPTI_BATCH_READER_H

#include "balance/balance.h"
#include "data/ahead.h"
#include "train/feeding/order.h"

typedef struct dpti_in_flight_step dpti_in_flight_step;

/* The flaw of a step whose images could not be read: weights are what they were. */
#define DPTI_FLAW_UNREAD "images"

typedef struct dpti_batch_reader {
    dpti_ahead *ahead;          /* NULL: images are in memory */
    dpti_order order;           /* of steps that are not submitted yet */
    uint32_t *records;          /* room for those of a step */
    size_t steps_ahead;         /* that are read */
    dpti_balance_reason reason; /* for new shares of a step whose images could not be read */
} dpti_batch_reader;

DPT_CHECK_RESULT dpt_status dpti_batch_reader_create(dpt_trainer *trainer);
void dpti_batch_reader_destroy(dpti_batch_reader *reader); /* accepts a zeroed one */

/* What a step goes by in `ahead`. */
uint64_t dpti_batch_reader_key(const dpt_trainer *trainer, const dpti_cursor *cursor);

/* Waits until this process's images of a step are there, which has been divided and whose records
   these are, and begins to read those of coming steps.  Failures are those of dpti_ahead_wait: with
   one process they are the context's, with several this process's devices tell all in the step. */
DPT_CHECK_RESULT dpt_status dpti_batch_reader_step(dpt_trainer *trainer,
                                                   dpti_in_flight_step *inflight,
                                                   const uint32_t *records);

#endif
