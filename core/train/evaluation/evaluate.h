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

/* Sets whom evaluations and predictions ask whether they are to end; `ends` NULL: nobody.  The
   caller's thread asks at the beginning, and about ten times a second from then on.  If `ends`
   returns true, each device ends behind the micro-batch that it computes, and
   dpt_trainer_evaluate or dpt_trainer_predict returns DPT_E_CANCELLED.

   With several processes `ends` requests DPTI_RUN_REQUEST_STOP (peers.h) instead, and its result
   is not looked at.  All processes end the evaluation then, and have agreed on the request. */
void dpti_evaluation_listen(dpt_trainer *trainer, bool (*ends)(void *listener), void *listener);

#endif
