/* The choices (choices.h) of a device that tunes its kernels: in the cache file of devices of this
   name and driver and of these kernels, timed on a stream of its own. */
#ifndef DPT_COMMON_TUNING_H
#define DPT_COMMON_TUNING_H

#include "choices.h"

/* Runs a candidate once to warm up and some times more, and gives the seconds of one run. */
typedef dpt_choice_time dpt_time;

/* *out: the index of the fastest candidate. */
DPT_CHECK_RESULT dpt_status dpt_choose(dpt_device *device, const dpt_choice *choice, size_t *out);

/* How long something is timed: for about so many seconds, and a quarter of them, three runs at
   least, where the fastest run until then takes more than `hopeless_seconds` (0: however long). */
typedef struct dpt_budget {
    double seconds, hopeless_seconds;
} dpt_budget;

/* Times enqueued work on the tuner's stream: calls `enqueue` as often as the budget allows and at
   least twice, and gives the fastest run.  What a device that is no CPU
   does in so little time that enqueuing it and waiting for it would be most of that is enqueued
   several times for each wait, where possible as a recording, as in training. */
DPT_CHECK_RESULT dpt_status dpt_measure(dpt_device *device, const dpt_budget *budget,
                                        dpt_status (*enqueue)(void *argument, dpt_stream *stream),
                                        void *argument, double *seconds);

/* ---- What a backend provides ----------------------------------------------------------------- */

/* The choices of one kind of device; they outlive the devices. */
typedef dpt_choices dpt_tuning;

typedef struct dpt_tuner {
    dpt_tuning *tuning;
    dpt_stream *stream;    /* of the device's own, on which candidates are timed */
    const char *algorithm; /* algorithm= of the device string, or NULL (alternatives.h) */
    bool trying; /* candidates are being timed: what is compiled may never be used again */
    const dpt_capture_ops *capture; /* or NULL: the device records nothing */
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
