/* The fields of the pipeline: a step that could not be submitted again.

   Only files of core/train/pipeline touch these fields. */
#ifndef DPTI_PIPELINE_STATE_H
#define DPTI_PIPELINE_STATE_H

#include "dpt_error.h"

/* The caller's thread alone reads and writes it. */
typedef struct dpti_trainer_pipeline {
    dpt_error unsubmitted; /* why a step that was in flight could not be submitted again behind one
                              that could; or status DPT_OK */
    float unsubmitted_lr;  /* the learning rate with which that step is tried again */
} dpti_trainer_pipeline;

#endif
