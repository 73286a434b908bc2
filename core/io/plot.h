/* A training run as one SVG picture: loss per step, accuracy per epoch, share of each device over
   time.  Knows numbers only. */
#ifndef DPTI_PLOT_H
#define DPTI_PLOT_H

#include "backend.h"

typedef struct dpti_plot {
    const char *title, *subtitle;
    size_t steps_before; /* and epochs_before: of the training, that are not in the picture */
    size_t n_steps;
    const double *loss;             /* (n_steps) of the training batches */
    const size_t *epoch;            /* (n_steps) from 1 */
    size_t epochs_before, n_epochs; /* completed ones; the arrays below have as many entries */
    const double *train_accuracy;
    const double *validation_accuracy, *test_accuracy; /* NaN where it was not measured */
    size_t n_devices;
    const char *const *devices;
    const size_t *shards;   /* (n_steps, n_devices) */
    const bool *rebalanced; /* (n_steps) whether shares were changed for the step; NULL: never */
} dpti_plot;

/* Writes atomically.  Long runs are thinned to what a picture can show. */
DPT_CHECK_RESULT dpt_status dpti_plot_write(const char *path, const dpti_plot *plot,
                                            dpt_error *error);

#endif
