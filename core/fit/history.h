/* The course of a training run, kept for its picture and its report. */
#ifndef DPTI_HISTORY_H
#define DPTI_HISTORY_H

#include "dpt_error.h"
#include "dptrain.h"

/* The history of a run.  All zero: empty. */
typedef struct dpti_history {
    size_t steps_before,
        epochs_before; /* steps and epochs of the training before this history began */
    size_t n_steps, steps_capacity, n_epochs, epochs_capacity;
    double *loss, *lr;
    size_t *epoch, *shards; /* shards (n_steps, n_devices) */
    bool *rebalanced;
    double *train_loss, *validation_loss, *test_loss; /* NaN: not measured, as below */
    double *train_accuracy, *validation_accuracy, *test_accuracy;
} dpti_history;

/* Adds a step.  Earlier steps are forgotten if the step does not follow them.  Returns false if
   there is no memory. */
DPT_CHECK_RESULT bool dpti_history_add_step(dpti_history *history, const dpt_step_metrics *step);
DPT_CHECK_RESULT bool dpti_history_add_epoch(dpti_history *history, const dpt_epoch_metrics *epoch);
/* Forgets the steps after `step` and the epochs from `epoch` on. */
void dpti_history_cut(dpti_history *history, size_t step, size_t epoch);
/* Adds the steps and epochs in the log of the run that is resumed, for n_devices devices. */
DPT_CHECK_RESULT dpt_status dpti_history_recall(dpti_history *history, const char *log,
                                                size_t n_devices, dpt_error *error);
void dpti_history_free(dpti_history *history);

/* Draws the history as an SVG file.  The context has the error. */
DPT_CHECK_RESULT dpt_status dpti_history_plot(const dpti_history *history,
                                              const dpt_trainer *trainer, double images_per_second,
                                              const char *path);

#endif
