/* Whether samples are what a model reads. */
#ifndef DPTI_TRAIN_FEEDING_FITS_H
#define DPTI_TRAIN_FEEDING_FITS_H

#include "train/state/trainer.h"

/* Checks that the records are those of the model, if the model or the data have several inputs,
   or the program has declared the data's only one.  Errors: DPT_E_INVALID. */
DPT_CHECK_RESULT dpt_status dpti_check_inputs(const dpt_trainer *trainer, const dpt_dataset *data);
/* Checks that the data are ids if the model reads ids, and that every id is in all of its tables.
   Errors: DPT_E_INVALID. */
DPT_CHECK_RESULT dpt_status dpti_check_ids(const dpt_trainer *trainer, const dpt_dataset *data);
/* Checks that the data have as many labels a sample as the model scores.  Errors: DPT_E_INVALID. */
DPT_CHECK_RESULT dpt_status dpti_check_labels(const dpt_trainer *trainer, const dpt_dataset *data);
/* The number of labels of all samples, without ignored ones. */
size_t dpti_count_all_labels(const dpt_dataset *data);

#endif
