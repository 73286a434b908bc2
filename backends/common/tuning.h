/* Autotuning for the backends that use the portable kernels: the choices (choices.h) of a device,
   and how candidates are timed on a stream of the device. */
#ifndef DPT_COMMON_TUNING_H
#define DPT_COMMON_TUNING_H

#include "choices.h"

/* *out: the index of the fastest candidate.  Fails as dpt_choices_find does. */
DPT_CHECK_RESULT dpt_status dpt_choose(dpt_device *device, const dpt_choice *choice, size_t *out);

/* How long something is timed. */
typedef struct dpt_budget {
    double seconds; /* about this long */
    /* Timing ends after a quarter of `seconds` and at least three runs if the fastest run took
       longer than this.  0: no such limit. */
    double hopeless_seconds;
} dpt_budget;

/* Work that is timed. */
typedef struct dpt_timed_work {
    dpt_status (*enqueue)(void *argument, dpt_stream *stream);
    void *argument;
} dpt_timed_work;

/* *seconds: the time of the fastest run of some work on the tuner's stream.  work->enqueue is
   called once to warm up, then as often as the budget allows and at least twice.  On a device that
   is no CPU, enqueuing and waiting may take longer than short work.  Short work is therefore
   enqueued several times for each wait, as a recording if the device records.  Fails as
   work->enqueue and tuner->finish do. */
DPT_CHECK_RESULT dpt_status dpt_measure(dpt_device *device, const dpt_budget *budget,
                                        const dpt_timed_work *work, double *seconds);

/* ---- What a backend provides ----------------------------------------------------------------- */

typedef struct dpt_tuner {
    dpt_choices *choices;  /* of this kind of device; they outlive the device */
    dpt_stream *stream;    /* of the device; candidates are timed on it */
    const char *algorithm; /* algorithm= of the device string, or NULL (alternatives.h) */
    bool trying;           /* a candidate is being prepared: its programs may never be used again */
    const dpt_capture_ops *capture; /* NULL: the device records nothing */
    /* Waits for the stream.  A failure makes the candidate unusable, and not yet the device. */
    dpt_status (*finish)(dpt_stream *stream);
    /* Whether an alternative is considered if no name is asked for. */
    bool (*suits)(const dpt_device *device, const char *name);
} dpt_tuner;

/* The backend defines this. */
dpt_tuner *dpt_tuner_of(const dpt_device *device);

/* *out: the choices of a cache file, which are never freed.  The file's name identifies the kind of
   device, its driver and the version of all candidates: "opencl/tuning-0123.txt".
   DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpt_tuning_open(dpt_device *device, const char *file,
                                            dpt_choices **out);

#endif
