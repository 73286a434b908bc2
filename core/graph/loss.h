/* What the losses of dpt_loss have in common. */
#ifndef DPTI_LOSS_H
#define DPTI_LOSS_H

#include "dptrain.h"

#include <stdbool.h>

enum { DPTI_LOSSES = DPT_LOSS_OUTPUT + 1 };

/* Returns whether there is such a loss. */
static inline bool dpti_loss_exists(dpt_loss loss)
{
    return (int)loss >= 0 && (int)loss < DPTI_LOSSES;
}

/* Returns whether the loss compares the outputs with the targets of the data, not with labels. */
static inline bool dpti_loss_has_targets(dpt_loss loss)
{
    return loss != DPT_LOSS_CROSS_ENTROPY && loss != DPT_LOSS_OWN_OF_LABELS &&
           loss != DPT_LOSS_OUTPUT;
}

/* Returns whether the loss is a function of the program. */
static inline bool dpti_loss_is_own(dpt_loss loss)
{
    return loss == DPT_LOSS_OWN_OF_TARGETS || loss == DPT_LOSS_OWN_OF_LABELS;
}

/* The names of the losses, under their numbers.  Checkpoints store these names. */
extern const char *const dpti_loss_names[DPTI_LOSSES];

/* Writes the table of class weights that a program reads, (n, 2): the weight of each class, and 1.
   A replica holds the table behind the model's constants. */
void dpti_class_table(const float *weights, size_t n, float *out);

#endif
