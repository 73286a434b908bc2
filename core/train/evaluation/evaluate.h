/* Evaluation: loss and accuracy over a data set, and predictions.  dpt_trainer_evaluate and
   dpt_trainer_predict are defined in evaluate.c. */
#ifndef DPTI_EVALUATE_H
#define DPTI_EVALUATE_H

#include "dptrain.h"
#include "train/components/data_store.h"

typedef struct dpt_trainer dpt_trainer;
typedef struct dpti_worker dpti_worker;

/* DPT_E_INVALID if the data do not fit the model's input and classes, or the loss. */
DPT_CHECK_RESULT dpt_status dpti_trainer_check_test(dpt_trainer *trainer, const dpt_dataset *data);
/* DPT_E_INVALID if the data lack the labels or targets that the loss compares with. */
DPT_CHECK_RESULT dpt_status dpti_trainer_check_answers(dpt_trainer *trainer,
                                                       const dpt_dataset *data);

#endif
