/* Shares that follow measured throughput.  Pure arithmetic: knows no device and no clock.

   Four parts.  A model of each device's busy time, t(n) = a + b n, learnt from the steps that it
   has done.  What recent steps say without a model: who is ahead of whom, for certain.  A solver
   that divides a batch so that the slowest device is as fast as can be.  A controller that decides
   when another division is worth a change.

   Time is a device's own busy time, in seconds, without waiting for others. */
#ifndef DPTI_BALANCE_H
#define DPTI_BALANCE_H

#include "dpt_types.h"

enum { DPTI_BALANCE_MAX_DEVICES = 256 };

/* ---- The model ------------------------------------------------------------------------------- */

/* t(n) = a + b n for n > 0, by recursive least squares with forgetting, in the form of a Kalman
   filter (time_model.c says what wanders). */
typedef struct dpti_time_model {
    double a, b;      /* seconds, seconds a sample; both at least 0, not both 0 once seen */
    double p[3];      /* covariance of (a, b): p00, p01, p11 */
    double idle;      /* seconds of a step without samples */
    double noise;     /* standard deviation of the relative error, estimated */
    double lean;      /* running mean of the relative errors */
    double wandering; /* of the speed, relative to the noise */
    size_t n_seen;    /* observations taken in */
    int n_suspects;   /* 1 or -1: the last observation was far off, too slow or too fast */
    bool stepped;     /* the last observation confirmed a step change */
} dpti_time_model;

/* Nothing seen yet. */
dpti_time_model dpti_time_model_new(void);
/* Whether this can be the time of a step: 1e-9 to 1e9 seconds. */
bool dpti_is_step_time(double seconds);
/* Takes in that n samples took `seconds`.  What is no time of a step is passed over.  A single
   observation far off is an outlier and changes nothing; a second one in the same direction is a
   step change, which scales the model. */
void dpti_time_model_observe(dpti_time_model *model, size_t n, double seconds);
/* Seconds for n samples, never less than for none.  Meaningless before the first observation. */
double dpti_time_model_seconds(const dpti_time_model *model, size_t n);
/* Standard error of that, relative to it. */
double dpti_time_model_error(const dpti_time_model *model, size_t n);

/* ---- Recent steps ---------------------------------------------------------------------------- */

enum { DPTI_RECENT_STEPS = 16, DPTI_RECENT_LEAST = 4 };

/* Busy seconds of the last steps, all at the same shares.  All zero: none. */
typedef struct dpti_recent {
    size_t n_steps, next; /* at most DPTI_RECENT_STEPS; where the next one is written */
    double seconds[DPTI_RECENT_STEPS][DPTI_BALANCE_MAX_DEVICES];
} dpti_recent;

/* Adds a step, in place of the oldest where there is no room: (n_devices) seconds.  A step in which
   a device with a share has no time of a step is passed over. */
void dpti_recent_add(dpti_recent *recent, size_t n_devices, const size_t *shares,
                     const double *seconds);
/* parts (n_devices): the time of each, over that of the slowest, as large as it may well be: 1 for
   the slowest and for all that are not ahead of it for certain (three standard errors).  Devices
   are compared within each step, so that what slows all of them at once is no error.  0 for devices
   without a share.  false with fewer than DPTI_RECENT_LEAST steps. */
bool dpti_recent_compare(const dpti_recent *recent, size_t n_devices, const size_t *shares,
                         double *parts);

/* ---- The solver ------------------------------------------------------------------------------ */

typedef struct dpti_balance_problem {
    size_t n_devices;
    size_t n_samples;              /* to divide */
    size_t quantum;                /* at least 1; all shares but one are multiples of it */
    const dpti_time_model *models; /* (n_devices) */
    const size_t *bounds;          /* (n_devices) most samples of each */
    size_t *n_looks; /* NULL, or counts looks at a device's time: what solving costs */
} dpti_balance_problem;

/* shares (n_devices): the division with the least time of the slowest device, and *seconds that
   time.  Of equal ones any, always the same.  false if the bounds together hold less than
   n_samples. */
bool dpti_balance_solve(const dpti_balance_problem *problem, size_t *shares, double *seconds);

/* ---- The controller -------------------------------------------------------------------------- */

typedef struct dpti_balance dpti_balance;

typedef struct dpti_balance_options {
    size_t n_devices;
    size_t batch_size;
    size_t quantum;           /* at least 1 */
    const size_t *capacities; /* (n_devices) most samples of each; together at least a batch */
} dpti_balance_options;

/* Why shares changed. */
typedef enum dpti_balance_reason {
    DPTI_BALANCE_SAME, /* they did not */
    DPTI_BALANCE_START,
    DPTI_BALANCE_CALIBRATION,
    DPTI_BALANCE_GAIN,        /* another division is faster by more than the noise */
    DPTI_BALANCE_LAG,         /* a device is behind for certain, whatever the models say */
    DPTI_BALANCE_STEP_CHANGE, /* a device has become faster or slower at once */
    DPTI_BALANCE_PROBE,       /* for one step: a device without samples is tried again */
    DPTI_BALANCE_PROBE_END,
    DPTI_BALANCE_MEMORY,   /* a device cannot hold its share */
    DPTI_BALANCE_LOST,     /* a device takes no part any more */
    DPTI_BALANCE_RETURNED, /* one that was lost takes part again */
    DPTI_BALANCE_STANDBY,  /* the others are faster without one, or may be (rest.h) */
    DPTI_BALANCE_WAKE,     /* it takes part again */
} dpti_balance_reason;

const char *dpti_balance_reason_words(dpti_balance_reason reason);

/* NULL without memory. */
dpti_balance *dpti_balance_create(const dpti_balance_options *options);
void dpti_balance_destroy(dpti_balance *balance); /* accepts NULL */

/* The shares of the next step.  n_samples below batch_size is a ragged batch: the same models, and
   no change of the shares of full batches. */
dpti_balance_reason dpti_balance_next(dpti_balance *balance, size_t n_samples, size_t *shares);
/* What a step has taken: (n_devices) shares and busy seconds, in the order of steps.  Steps may be
   chosen before earlier ones are observed. */
void dpti_balance_observe(dpti_balance *balance, const size_t *shares, const double *seconds);
/* A device could not hold a share: from now on it gets at most `most` samples.  false, and nothing
   has changed: what would be left does not hold a batch. */
bool dpti_balance_bound(dpti_balance *balance, size_t device, size_t most);
/* A device takes no part any more: no samples, and a rate of 0.  false, and nothing has changed:
   the others do not hold a batch. */
bool dpti_balance_lose(dpti_balance *balance, size_t device);
/* Likewise, for a time; wake ends it, with the capacity that it had: it is tried with samples at
   once. */
bool dpti_balance_exclude(dpti_balance *balance, size_t device);
void dpti_balance_wake(dpti_balance *balance, size_t device);
/* The capacity that a device which rests will have then, or has since it does not. */
size_t dpti_balance_excluded(const dpti_balance *balance, size_t device);
/* It takes part again, with this capacity: its share is solved anew by what is known of it, or even
   until it is measured. */
void dpti_balance_readmit(dpti_balance *balance, size_t device, size_t capacity);
/* Seconds of a full batch, as modelled, if those in `absent` took no part, (n_devices); one that is
   left alone is without its seconds of `exchange`, (n_devices).  INFINITY if the others do not hold
   a batch, or one of them has not been measured. */
double dpti_balance_without(const dpti_balance *balance, const bool *absent,
                            const double *exchange);
/* What it has learnt, for a later process: the models and the shares of full batches, (n_devices).
   false if it has no shares yet.  `calibrated` says whether they were chosen by measurement. */
bool dpti_balance_learnt(const dpti_balance *balance, dpti_time_model *models, size_t *shares,
                         bool *calibrated);
/* Goes on with that: shares that add up to a batch.  What a device's first step takes is passed
   over again.  false, and nothing has changed: they do not fit the batch or a capacity. */
bool dpti_balance_resume(dpti_balance *balance, const dpti_time_model *models, const size_t *shares,
                         bool calibrated);
/* Samples per second of each device at its present share, as modelled: false until shares have been
   chosen or confirmed by measurement. */
bool dpti_balance_rates(const dpti_balance *balance, double *rates);

#endif
