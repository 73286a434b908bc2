/* Choices that are measured once on a device and remembered: which tile, which algorithm.

   A choice is found by its key, a line of text that says all that it depends on ("conv2d forward
   28x28x64 3x3/1 64 n256"), and by the names of the candidates.  It is looked up in the device's
   own choices, then in the cache file of devices of this name and driver and of these kernels, and
   measured if neither has it.  Measuring is serialised over all devices of the process, because two
   that compute on the same cores would spoil each other's times; a second device of the same kind
   finds what the first has measured, so that both choose alike. */
#ifndef DPT_COMMON_TUNING_H
#define DPT_COMMON_TUNING_H

#include "backend.h"

/* Runs a candidate once to warm up and some times more, and gives the seconds of one run.
   DPT_E_UNSUPPORTED or DPT_E_NO_MEMORY: not a candidate here.  Other failures end the choice. */
typedef dpt_status dpt_time(void *argument, const char *candidate, double *seconds);

typedef struct dpt_choice {
    const char *key;               /* without line breaks */
    const char *const *candidates; /* names without spaces; static strings or outliving the call */
    size_t n_candidates;           /* at least 1; a single one is taken without measuring */
    dpt_time *time;
    void *argument;
} dpt_choice;

/* *out: the index of the fastest candidate. */
DPT_CHECK_RESULT dpt_status dpt_choose(dpt_device *device, const dpt_choice *choice, size_t *out);

/* Times enqueued work on the tuner's stream: calls `enqueue` until it has run for about
   `budget_seconds` and at least twice, and gives the fastest run. */
DPT_CHECK_RESULT dpt_status dpt_measure(dpt_device *device, double budget_seconds,
                                        dpt_status (*enqueue)(void *argument, dpt_stream *stream),
                                        void *argument, double *seconds);

/* ---- What a backend provides ----------------------------------------------------------------- */

/* The choices of one kind of device; they outlive the devices. */
typedef struct dpt_tuning dpt_tuning;

typedef struct dpt_tuner {
    dpt_tuning *tuning;
    dpt_stream *stream;    /* of the device's own, on which candidates are timed */
    const char *algorithm; /* algorithm= of the device string, or NULL (alternatives.h) */
    bool trying; /* candidates are being timed: what is compiled may never be used again */
    /* Waits for the stream.  Failures are the candidate's, not yet the device's loss. */
    dpt_status (*finish)(dpt_stream *stream);
    /* Whether an alternative is considered where nothing is asked for by name. */
    bool (*suits)(const dpt_device *device, const char *name);
} dpt_tuner;

/* The backend's. */
dpt_tuner *dpt_tuner_of(const dpt_device *device);

/* What is remembered in a file of the cache, whose name says the kind of device, its driver and the
   version of everything that is chosen among: "opencl/tuning-0123.txt".  Never freed. */
DPT_CHECK_RESULT dpt_status dpt_tuning_open(dpt_device *device, const char *file, dpt_tuning **out);

#endif
