/* Comparing the run logs of two trainings (docs/log.md).
   Part of the public API: programs include dptrain.h. */
#ifndef DPTRAIN_LOG_H
#define DPTRAIN_LOG_H

#include "dptrain/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What two logs, A (index 0) and B (index 1), have in common, and where they first differ. */
typedef struct dpt_log_comparison {
    size_t size;                        /* sizeof(dpt_log_comparison), to be set before the call */
    size_t steps[2], epochs[2];         /* number of steps and epochs in each log */
    size_t common_steps, common_epochs; /* number of those that both logs have */
    size_t common_weights;              /* epochs for which both logs have weights_sha256 */
    bool differs;
    /* The first difference; only if `differs`. */
    size_t step;        /* the step, or the last step of the epoch */
    size_t epoch;       /* the epoch, if the difference is in an epoch's results; 0: it is in the
                           step's own */
    char key[32];       /* "loss", "weights_sha256": the key in the log */
    char values[2][80]; /* of the key, as the logs have them; cut if they are longer */
    /* The largest difference of the losses of a step in both logs, divided by the larger of the two
       losses; NaN if no step has two finite losses. */
    double largest_loss_difference;
    size_t largest_loss_step; /* the first step that has it */
    /* Names of settings that are not the same, with ", " between them; cut if they are too long.
       "": none.  Different settings alone are no difference. */
    char settings[256];
} dpt_log_comparison;

/* Compares two logs step by step and epoch by epoch.  Of a step these keys are compared: epoch,
   loss, lr, samples, labels, hits.  Of an epoch: losses, accuracies and weights_sha256.  Neither
   times, nor shards, nor devices are compared.  Steps that only one log has are skipped, and so are
   keys that only one log has.  Numbers are compared as the logs have them, with nine significant
   digits.  Errors: DPT_E_NOT_FOUND; DPT_E_IO; DPT_E_NO_MEMORY; DPT_E_FORMAT with file and line if a
   file is no log, or if steps are not in order (an incomplete last line is accepted);
   DPT_E_INVALID if no step is in both logs. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_compare_logs(dpt_context *context, const char *a,
                                                     const char *b, dpt_log_comparison *out);

#ifdef __cplusplus
}
#endif

#endif
