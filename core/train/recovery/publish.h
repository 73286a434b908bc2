/* Publishing: copying samples that the program has written (dpt_dataset_write) to the memories that
   hold the data set. */
#ifndef DPTI_PUBLISH_H
#define DPTI_PUBLISH_H

#include "train/components/data_store.h"

typedef struct dpt_trainer dpt_trainer;

/* Nothing in flight: publishes the samples that were written of a store's data set.  A device that
   fails at it is lost, if losses do not end the call. */
DPT_CHECK_RESULT dpt_status dpti_trainer_publish_data(dpt_trainer *trainer, dpti_data_store *store);
/* Nothing in flight, before a step: publishes written samples.  With several processes a failure
   ends the job, since the other processes are in the step already. */
DPT_CHECK_RESULT dpt_status dpti_feeding_settle(dpt_trainer *trainer);

#endif
