/* Images of coming steps, where the data set's are read as they are needed (data/ahead.h). */
#ifndef DPTI_SUPPLY_H
#define DPTI_SUPPLY_H

#include "balance/balance.h"
#include "data/ahead.h"
#include "train/order.h"

typedef struct dpti_flight dpti_flight;

/* The flaw of a step whose images could not be read: weights are what they were. */
#define DPTI_FLAW_UNREAD "images"

typedef struct dpti_supply {
    dpti_ahead *ahead;          /* NULL: images are in memory */
    dpti_order order;           /* of steps that are not submitted yet */
    uint32_t *records;          /* room for those of a step */
    size_t steps_ahead;         /* that are read */
    dpti_balance_reason reason; /* for new shares of a step whose images could not be read */
} dpti_supply;

DPT_CHECK_RESULT dpt_status dpti_supply_create(dpt_trainer *trainer);
void dpti_supply_destroy(dpti_supply *supply); /* accepts a zeroed one */

/* What a step goes by in `ahead`. */
uint64_t dpti_supply_key(const dpt_trainer *trainer, const dpti_cursor *cursor);

/* Waits until this process's images of a step are there, which has been divided and whose records
   these are, and begins to read those of coming steps.  Failures are those of dpti_ahead_wait: with
   one process they are the context's, with several this process's devices tell all in the step. */
DPT_CHECK_RESULT dpt_status dpti_supply_step(dpt_trainer *trainer, dpti_flight *flight,
                                             const uint32_t *records);

#endif
