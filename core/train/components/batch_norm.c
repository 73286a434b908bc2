/* The names of the modes of batch-norm. */
#include "train/components/batch_norm.h"

const char *const dpti_batch_norm_names[DPTI_BATCH_NORM_MODES] = {
    [DPT_BATCH_NORM_SYNC] = "sync",
    [DPT_BATCH_NORM_LOCAL] = "local",
    [DPT_BATCH_NORM_FROZEN] = "frozen",
};
