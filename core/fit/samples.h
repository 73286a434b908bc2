/* What the model takes the samples of a data set for, at the end of a training, for its report. */
#ifndef DPTI_SAMPLES_H
#define DPTI_SAMPLES_H

#include "io/report.h"
#include "train/state/trainer.h"

/* All zero: nothing was looked at. */
typedef struct dpti_samples {
    dpti_report_classes classes; /* its counts and the samples belong to this struct */
    dpti_report_sample *worst;   /* NULL: nothing was looked at */
} dpti_samples;

/* Computes the predictions of all samples on the trainer's devices, counts them and keeps the
   samples with the largest losses, with thumbnails if they are pictures.  dpti_classifies_samples
   holds, and no step is in flight.
   With several processes all call it, and all succeed or none does; *out is for each.  `part` is
   the name of the data, of static lifetime.  Errors: of dpt_trainer_predict and of reading
   pictures; DPT_E_NO_MEMORY.  After a failure *out is empty. */
DPT_CHECK_RESULT dpt_status dpti_samples_look(dpt_trainer *trainer, const dpt_dataset *data,
                                              const char *part, dpti_samples *out);
void dpti_samples_free(dpti_samples *samples);

#endif
