/* The fields of feeding: in which order samples are taken, where they are, and how they reach the
   devices.

   Only files of core/train/feeding touch these fields.  Other concerns call the functions that
   feeding.h, batch_reader.h and publish.h declare. */
#ifndef DPTI_FEEDING_STATE_H
#define DPTI_FEEDING_STATE_H

#include "balance/balance.h"
#include "data/ahead.h"
#include "train/components/data_store.h"
#include "train/components/feed.h"
#include "train/components/order.h"

/* Reads the images of coming steps, where the data set reads images as they are needed. */
typedef struct dpti_batch_reader {
    dpti_ahead *ahead;          /* NULL: all images are in memory */
    dpti_order order;           /* of steps that are not submitted yet */
    uint32_t *records;          /* room for the records of a step */
    size_t steps_ahead;         /* whose images are read */
    dpti_balance_reason reason; /* why the shards of a step are new whose images could not be read:
                                   told with the step when it is tried again */
} dpti_batch_reader;

typedef struct dpti_feeding {
    dpti_order order; /* of samples, in each epoch */
    dpti_batch_reader reader;
    dpti_data_store store; /* copies of the training data in the devices' memories */
} dpti_feeding;

typedef struct dpti_worker_feeding {
    dpti_feed feed; /* in use where the data set is not in the device's memory */
} dpti_worker_feeding;

#endif
