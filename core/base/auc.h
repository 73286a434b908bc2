/* Areas under ROC curves, each class against all others, from the probabilities of samples.

   The area of a class is the part of all pairs of a sample of the class and another sample in which
   the sample of the class has the larger probability of the class.  A pair with equal probabilities
   counts half.  Pairs are counted as integers, so areas do not depend on the order of samples.

   Every sample is seen twice: at first its probability of its own class is kept, and then its
   probabilities of the other classes are compared with those that were kept.  So the memory is a
   float for each sample, and not for each sample and class. */
#ifndef DPTI_AUC_H
#define DPTI_AUC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: nothing. */
typedef struct dpti_auc {
    size_t n_classes;
    size_t *begins;  /* (n_classes + 1) the first of each class's in `own` */
    size_t *n_kept;  /* (n_classes) of these have been kept */
    float *own;      /* (begins[n_classes]) after dpti_auc_sort ascending in each class */
    uint64_t *pairs; /* (n_classes) twice the number of pairs */
} dpti_auc;

/* `samples` (n_classes): how many samples each class has.  Returns false if there is no memory;
 *out is then empty. */
bool dpti_auc_create(size_t n_classes, const size_t *samples, dpti_auc *out);
void dpti_auc_free(dpti_auc *auc);
/* Keeps a sample of class `label`, whose probability of this class is `probability` (not NaN). */
void dpti_auc_keep(dpti_auc *auc, size_t label, float probability);
/* Called when all samples have been kept. */
void dpti_auc_sort(dpti_auc *auc);
/* Then, for each sample: compares its probabilities (n_classes, not NaN) of other classes. */
void dpti_auc_compare(dpti_auc *auc, size_t label, const float *probabilities);
/* Returns the area of a class; NaN if the class has no sample or all of them. */
double dpti_auc_of(const dpti_auc *auc, size_t class);

#endif
