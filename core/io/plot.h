/* A training run as one SVG picture: loss per step, accuracy per epoch, shard of each device over
   time.  The input is numbers only. */
#ifndef DPTI_PLOT_H
#define DPTI_PLOT_H

#include "dpt_error.h"

typedef struct dpti_plot {
    const char *title, *subtitle;
    size_t steps_before; /* steps, and epochs_before epochs, of the training that are not in the
                            picture */
    size_t n_steps;
    const double *loss;             /* (n_steps) of the training batches */
    const size_t *epoch;            /* (n_steps) from 1 */
    size_t epochs_before, n_epochs; /* completed epochs; the arrays below have n_epochs entries */
    const double *train_accuracy;
    const double *validation_accuracy, *test_accuracy; /* NaN where it was not measured */
    size_t n_devices;
    const char *const *devices;
    const size_t *shards;   /* (n_steps, n_devices) */
    const bool *rebalanced; /* (n_steps) whether shards changed for the step; NULL: never */
} dpti_plot;

/* Writes the picture atomically.  Long runs are thinned to what a picture can show. */
DPT_CHECK_RESULT dpt_status dpti_plot_write(const char *path, const dpti_plot *plot,
                                            dpt_error *error);

#endif
