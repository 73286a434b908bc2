/* What the model takes the samples of a data set for, at the end of a training, for its report. */
#ifndef DPTI_SAMPLES_H
#define DPTI_SAMPLES_H

#include "io/report.h"
#include "train/state/trainer.h"

/* Classes of data with more classes have no table of classes against classes. */
enum { DPTI_MOST_CONFUSED = 1024 };

/* All zero: nothing was looked at. */
typedef struct dpti_samples {
    dpti_report_classes classes; /* its arrays belong to this struct; n_samples 0: none */
    size_t *counts;              /* samples, predicted and hits of each class */
    size_t *confusion;
    dpti_report_sample *worst;
} dpti_samples;

/* Returns whether predictions can be counted: the loss is cross-entropy, and each sample has one
   label in memory. */
bool dpti_samples_fit(const dpt_trainer *trainer, const dpt_dataset *data);

/* Computes the predictions of all samples on the trainer's devices, counts them and keeps the
   samples with the largest losses, with thumbnails if they are pictures.  No step may be in flight.
   With several processes all call it, and all succeed or none does; *out is for each.  `part` is
   the name of the data, of static lifetime.  Errors: of dpt_trainer_predict and of reading
   pictures; DPT_E_NO_MEMORY.  After a failure *out is empty. */
DPT_CHECK_RESULT dpt_status dpti_samples_look(dpt_trainer *trainer, const dpt_dataset *data,
                                              const char *part, dpti_samples *out);
void dpti_samples_free(dpti_samples *samples);

#endif
