/* The course of a training run, kept for its picture. */
#ifndef DPTI_HISTORY_H
#define DPTI_HISTORY_H

#include "dptrain.h"

/* All zero: empty. */
typedef struct dpti_history {
    size_t steps_before, epochs_before; /* of the training, when this began */
    size_t n_steps, steps_capacity, n_epochs, epochs_capacity;
    double *loss;
    size_t *epoch, *shards; /* shards (n_steps, n_devices) */
    bool *rebalanced;
    double *train_accuracy, *validation_accuracy, *test_accuracy;
} dpti_history;

/* false without memory. */
DPT_CHECK_RESULT bool dpti_history_add_step(dpti_history *history, const dpt_step_metrics *step);
DPT_CHECK_RESULT bool dpti_history_add_epoch(dpti_history *history, const dpt_epoch_metrics *epoch);
void dpti_history_free(dpti_history *history);

/* Draws it as an SVG file; the context's error tells. */
DPT_CHECK_RESULT dpt_status dpti_history_plot(const dpti_history *history,
                                              const dpt_trainer *trainer, double images_per_second,
                                              const char *path);

#endif
