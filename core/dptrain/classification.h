/* What a network takes the samples of a data set for: figures of classes, AUC, the confusion matrix
   (docs/metrics.md).  Part of the public API: programs include dptrain.h. */
#ifndef DPTRAIN_CLASSIFICATION_H
#define DPTRAIN_CLASSIFICATION_H

#include "dptrain/trainer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dpt_classification dpt_classification;

enum { DPT_NO_AUC_BYTES = 128 };

/* Figures of all classes.  Their values are those of scikit-learn. */
typedef struct dpt_classification_info {
    size_t size; /* sizeof(dpt_classification_info), to be set before the call */
    size_t samples, classes;
    size_t hits, top5_hits;         /* samples whose class is the most likely one, or among the five
                                       most likely ones */
    double accuracy, top5_accuracy; /* top5_accuracy is NaN if there are at most five classes */
    /* Means over the classes that have a sample or that a sample is taken for: each counts once, or
       as often as it has samples. */
    double macro_precision, macro_recall, macro_f1;
    double weighted_precision, weighted_recall, weighted_f1;
    /* The area under the ROC curve: of two classes that of class 1, otherwise the mean over the
       classes, each against the rest.  NaN if a class has no sample. */
    double auc;
    char no_auc[DPT_NO_AUC_BYTES]; /* if auc is NaN: why */
} dpt_classification_info;

/* Figures of a class.  A part of nothing is 0. */
typedef struct dpt_class_info {
    size_t size;                     /* sizeof(dpt_class_info), to be set before the call */
    size_t samples, predicted, hits; /* of the class; that are taken for it; both */
    double precision, recall, f1;
    double auc; /* of the class against the rest; NaN if no sample or every sample is of it */
} dpt_class_info;

/* Computes the probabilities of all samples on all devices, and counts what the samples are taken
   for.  Of equal probabilities the first class is taken.  The result does not depend on devices,
   shares or processes, as far as probabilities do not.  With several processes all call it, and
   each has the result.  Memory beside the data set: at most 64 MiB for probabilities on their way
   from the devices, and 256 MiB for those of all samples; a float for each sample; and the
   confusion matrix.  If the probabilities of all samples do not fit, they are computed twice, with
   another 64 MiB instead.  The caller destroys `out`.

   Errors: those of dpt_trainer_predict; DPT_E_INVALID if the loss is not cross-entropy of classes,
   or if a sample does not have one label; DPT_E_NOT_FINITE if a probability is not a number. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_classify(dpt_trainer *trainer,
                                                         const dpt_dataset *data,
                                                         dpt_classification **out);
/* Accepts NULL.  Never fails. */
DPT_API void dpt_classification_destroy(dpt_classification *classification);

/* Never fails.  Does nothing if the size of `out` cannot be one that the program has set. */
DPT_API void dpt_classification_describe(const dpt_classification *classification,
                                         dpt_classification_info *out);
/* The same, of a class from 0 on.  Never fails.  Does nothing if there is no such class. */
DPT_API void dpt_classification_class(const dpt_classification *classification, size_t number,
                                      dpt_class_info *out);
/* Returns the confusion matrix (classes, classes): how many samples of class i are taken for class
   k.  NULL if there are more than 1024 classes.  It belongs to the classification.  Never fails. */
DPT_API const size_t *dpt_classification_confusion(const dpt_classification *classification);
/* Returns all of it as JSON (docs/metrics.md), which belongs to the classification.  Never fails.
 */
DPT_API const char *dpt_classification_json(const dpt_classification *classification);

#ifdef __cplusplus
}
#endif

#endif
