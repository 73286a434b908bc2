/* What the modes of batch-norm have in common. */
#ifndef DPTI_BATCH_NORM_H
#define DPTI_BATCH_NORM_H

#include "graph/model.h"

enum { DPTI_BATCH_NORM_MODES = DPT_BATCH_NORM_FROZEN + 1 };

/* Returns whether there is such a mode. */
static inline bool dpti_batch_norm_mode_exists(dpt_batch_norm_mode mode)
{
    return (int)mode >= 0 && (int)mode < DPTI_BATCH_NORM_MODES;
}

/* The names of the modes, under their numbers.  Checkpoints store these names, and --batchnorm
   takes them. */
extern const char *const dpti_batch_norm_names[DPTI_BATCH_NORM_MODES];

/* Returns whether batch-norms of the model normalise by statistics of the samples that are computed
   together.  Training then depends on how many samples a device computes at once. */
static inline bool dpti_takes_batch_statistics(const dpt_model *model, dpt_batch_norm_mode mode)
{
    return mode != DPT_BATCH_NORM_FROZEN && dpti_model_has_batch_norm(model);
}

#endif
