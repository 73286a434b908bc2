/* What samples are taken for: counts of classes, and the figures that follow from them.  The
   figures are those of scikit-learn (docs/metrics.md).  Counts are integers, so they do not depend
   on the order in which samples are counted. */
#ifndef DPTI_CLASS_COUNTS_H
#define DPTI_CLASS_COUNTS_H

#include <stdbool.h>
#include <stddef.h>

enum {
    /* With more classes there is no table of classes against classes. */
    DPTI_MOST_CONFUSED = 1024,
    DPTI_TOP = 5,
};

typedef struct dpti_class_counts {
    size_t n_classes, n_samples;
    size_t hits;                       /* samples whose class has the largest probability */
    size_t top_hits;                   /* whose class is among the DPTI_TOP most likely ones */
    size_t *samples, *predicted, *own; /* (n_classes) of the class; taken for it; both */
    size_t *confusion;                 /* (n_classes, n_classes) samples of class i that are taken
                                          for class k; NULL: more than DPTI_MOST_CONFUSED classes */
} dpti_class_counts;

/* Makes counts of 0.  Returns false if there is no memory; *out is then empty. */
bool dpti_class_counts_create(size_t n_classes, dpti_class_counts *out);
/* Accepts a zeroed struct; sets it to zero. */
void dpti_class_counts_free(dpti_class_counts *counts);
/* Counts a sample of class `label` with these probabilities (n_classes).  Returns the class that it
   is taken for: of equal probabilities the first, as NumPy's argmax.  Of equal probabilities the
   later classes count as more likely for `top_hits`, as scikit-learn's top_k_accuracy_score has it.
 */
size_t dpti_class_counts_add(dpti_class_counts *counts, size_t label, const float *probabilities);

/* Figures of a class, or means over classes.  What would be divided by 0 is 0. */
typedef struct dpti_class_figures {
    double precision, recall, f1;
} dpti_class_figures;

dpti_class_figures dpti_class_figures_of(const dpti_class_counts *counts, size_t class);
/* The means over all classes that have a sample or for which a sample is taken: each class counts
   once (macro), or as often as it has samples (weighted). */
dpti_class_figures dpti_class_means(const dpti_class_counts *counts, bool weighted);

#endif
