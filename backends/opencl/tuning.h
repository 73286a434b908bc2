/* Choices that are measured once on a device and remembered: which tile, which algorithm.

   A choice is found by its key, a line of text that says all that it depends on ("conv2d forward
   28x28x64 3x3/1 64 n256"), and by the names of the candidates.  It is looked up in the device's
   own choices, then in the cache file of devices of this name and driver and of these kernels, and
   measured if neither has it.  Measuring is serialised over all devices of the process, because two
   that compute on the same cores would spoil each other's times; a second device of the same kind
   finds what the first has measured, so that both choose alike. */
#ifndef DPT_OPENCL_TUNING_H
#define DPT_OPENCL_TUNING_H

#include "device.h"

/* Runs a candidate once to warm up and some times more, and gives the seconds of one run.
   DPT_E_UNSUPPORTED or DPT_E_NO_MEMORY: not a candidate here.  Other failures end the choice. */
typedef dpt_status dpt_cl_time(void *argument, const char *candidate, double *seconds);

typedef struct dpt_cl_choice {
    const char *key;               /* without line breaks */
    const char *const *candidates; /* names without spaces; static strings or outliving the call */
    size_t n_candidates;           /* at least 1; a single one is taken without measuring */
    dpt_cl_time *time;
    void *argument;
} dpt_cl_choice;

/* *out: the index of the fastest candidate. */
DPT_CHECK_RESULT dpt_status dpt_cl_choose(dpt_device *device, const dpt_cl_choice *choice,
                                          size_t *out);

/* Times enqueued work on the device's own queue: calls `enqueue` until it has run for about
   `budget_seconds` and at least twice, and gives the fastest run. */
DPT_CHECK_RESULT dpt_status dpt_cl_measure(dpt_device *device, double budget_seconds,
                                           dpt_status (*enqueue)(void *argument,
                                                                 dpt_stream *stream),
                                           void *argument, double *seconds);

DPT_CHECK_RESULT dpt_status dpt_cl_tuning_create(dpt_device *device, dpt_cl_tuning **out);
void dpt_cl_tuning_destroy(dpt_cl_tuning *tuning); /* accepts NULL */

#endif
