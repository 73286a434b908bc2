/* What a trainer is told: defaults, and checks of options and data against the model. */
#ifndef DPTI_OPTIONS_H
#define DPTI_OPTIONS_H

#include "dptrain.h"

#include <stdbool.h>
#include <stddef.h>

/* Fills every default in, for a data set of n_samples.  The learning rate is scaled to the samples
   of a step.  A bucket_bytes of 0 stays 0. */
void dpti_trainer_resolve(dpt_trainer_options *options, size_t n_samples);
/* Whether bucket sizes are chosen by measurement: they are not given, the results do not depend on
   them, as they do where gradients are compressed, and no nodes of grains are held. */
bool dpti_trainer_chooses_buckets(const dpt_trainer_options *options);
/* Checks resolved options and data against the model, and writes them to the trainer.  The context
   tells the error: DPT_E_INVALID, or DPT_E_STATE for a model that is not finished. */
DPT_CHECK_RESULT dpt_status dpti_trainer_take_options(dpt_trainer *trainer,
                                                      const dpt_trainer_options *options);
/* Checks what resolved options say of local steps, for a training over several processes.
 *takes_rounds: whether it takes rounds and not synchronous steps.  DPT_E_INVALID. */
DPT_CHECK_RESULT dpt_status dpti_trainer_check_rounds(dpt_trainer *trainer,
                                                      const dpt_trainer_options *options,
                                                      bool *takes_rounds);
/* When the workers are made: DPT_E_INVALID if a batch-norm would take its own statistics over a
   single value in some micro-batch; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_trainer_check_shards(dpt_trainer *trainer);

#endif
