/* Shared code of the gradient checks by central differences. */
#ifndef DPT_TEST_GRADIENT_H
#define DPT_TEST_GRADIENT_H

#include "harness.h"

#include <math.h>
#include <stdlib.h>

static inline double *values(size_t n)
{
    double *out = calloc(n + 1, sizeof *out);
    if (!out) abort();
    return out;
}

static inline void fill(test_random *random, double *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = test_random_normal(random);
}

/* Computes the scalar that is differentiated, from variables that its argument tells of. */
typedef double objective_fn(void *argument);

/* d(objective)/d(variable), one difference of step 2h an element. */
static inline void central_differences(objective_fn *objective, void *argument, double h,
                                       double *variable, size_t n, double *out)
{
    for (size_t i = 0; i < n; i++) {
        const double kept = variable[i];
        variable[i] = kept + h;
        const double above = objective(argument);
        variable[i] = kept - h;
        const double below = objective(argument);
        variable[i] = kept;
        out[i] = (above - below) / (2.0 * h);
    }
    (void)objective(argument); /* everything as it was */
}

/* The largest |analytic - numeric| relative to the largest gradient. */
static inline double worst(const double *analytic, const double *numeric, size_t n)
{
    double error = 0.0, scale = 1.0;
    for (size_t i = 0; i < n; i++) {
        const double here = fabs(analytic[i] - numeric[i]);
        if (!(here <= error)) error = here;
        scale = fmax(scale, fabs(numeric[i]));
    }
    return error / scale;
}

#endif
