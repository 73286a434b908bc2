/* What the samples of a data set are taken for, as the public API has it. */
#ifndef DPTI_CLASSIFICATION_H
#define DPTI_CLASSIFICATION_H

#include "base/class_counts.h"
#include "dptrain.h"

struct dpt_classification {
    dpti_class_counts counts;
    double *auc;     /* (n_classes) NaN: none */
    double mean_auc; /* of two classes that of class 1; NaN: none */
    char no_auc[DPT_NO_AUC_BYTES];
    char *json; /* dpt_classification_json */
};

#endif
