/* What a model takes samples for: visiting the probabilities of all samples of a data set.
   dpt_trainer_classify is defined in classify.c. */
#ifndef DPTI_CLASSIFY_H
#define DPTI_CLASSIFY_H

#include "dptrain.h"

/* Returns whether the model's outputs are the probabilities of classes. */
bool dpti_classifies(const dpt_trainer *trainer);
/* Returns whether predictions can be counted: the model classifies, and each sample has one label
   in memory. */
bool dpti_classifies_samples(const dpt_trainer *trainer, const dpt_dataset *data);

/* DPT_E_INVALID if predictions cannot be counted. */
DPT_CHECK_RESULT dpt_status dpti_trainer_check_classes(const dpt_trainer *trainer,
                                                       const dpt_dataset *data);

/* Gets the class of a sample and its probabilities (dpt_model_outputs). */
typedef void dpti_classify_visit(void *user, size_t sample, size_t label, const float *p);

/* Computes the probabilities of all samples on the trainer's devices, a part of them at a time, and
   calls `visit` for each sample in order.  dpti_classifies_samples holds, and no step is in flight.
   With several processes all call it, and each visits all samples.  Errors: those of
   dpt_trainer_predict; DPT_E_NO_MEMORY.  DPT_E_CANCELLED as in evaluate.h. */
DPT_CHECK_RESULT dpt_status dpti_trainer_visit(dpt_trainer *trainer, const dpt_dataset *data,
                                               dpti_classify_visit *visit, void *user);

/* dpt_trainer_classify, where the probabilities of all samples are kept if they need no more bytes
   than these, and else computed twice. */
DPT_CHECK_RESULT dpt_status dpti_trainer_classify_within(dpt_trainer *trainer,
                                                         const dpt_dataset *data, size_t n_bytes,
                                                         dpt_classification **out);

#endif
