/* Shards that follow measured throughput.  Pure arithmetic: this file uses no device and no clock.

   There are four parts.  The time model estimates each device's busy time, t(n) = a + b n, from
   the steps that the device has done.  The comparison of recent steps tells, without a model,
   which device is certainly ahead of which.  The solver divides a batch so that the slowest device
   is as fast as possible.  The controller decides when another division is worth a change.

   Times are a device's own busy time in seconds, without waiting for others. */
#ifndef DPTI_BALANCE_H
#define DPTI_BALANCE_H

#include "dpt_types.h"

enum { DPTI_BALANCE_MAX_DEVICES = 256 };

/* ---- The model ------------------------------------------------------------------------------- */

/* A model of a device's busy time: t(n) = a + b n for n > 0.  It is estimated by recursive least
   squares with forgetting, in the form of a Kalman filter. time_model.c describes the process
   noise. */
typedef struct dpti_time_model {
    double a, b; /* seconds, and seconds per sample; both at least 0, and not both 0 after the first
                    observation */
    double p[3]; /* covariance of (a, b): p00, p01, p11 */
    double idle; /* seconds of a step without samples */
    double noise;     /* estimated standard deviation of the relative error */
    double lean;      /* running mean of the relative errors */
    double wandering; /* process noise of the speed, relative to `noise` */
    size_t n_seen;    /* number of observations */
    int n_suspects;   /* 1 or -1: the last observation was an outlier, too slow or too fast */
    bool stepped;     /* the last observation confirmed a step change */
} dpti_time_model;

/* Returns a model without observations. */
dpti_time_model dpti_time_model_new(void);
/* Returns whether a value can be the time of a step: 1e-9 to 1e9 seconds. */
bool dpti_is_step_time(double seconds);
/* Adds the observation that n samples took `seconds`.  A value that is not a step time is ignored.
   A single outlier changes nothing.  A second outlier in the same direction is a step change,
   which scales the model. */
void dpti_time_model_observe(dpti_time_model *model, size_t n, double seconds);
/* Returns the modelled seconds for n samples, never less than for 0 samples.  The result has no
   meaning before the first observation. */
double dpti_time_model_seconds(const dpti_time_model *model, size_t n);
/* Returns the standard error of that time, relative to the time. */
double dpti_time_model_error(const dpti_time_model *model, size_t n);

/* ---- Recent steps ---------------------------------------------------------------------------- */

enum { DPTI_RECENT_STEPS = 16, DPTI_RECENT_LEAST = 4 };

/* The busy seconds of the last steps with the same shards.  All zero: no steps. */
typedef struct dpti_recent {
    size_t n_steps, next; /* number of steps, at most DPTI_RECENT_STEPS; the index at which the next
                             step is written */
    double seconds[DPTI_RECENT_STEPS][DPTI_BALANCE_MAX_DEVICES];
} dpti_recent;

/* Adds a step (n_devices seconds) and replaces the oldest step if the table is full.  A step is
   ignored if a device with a shard has no valid step time. */
void dpti_recent_add(dpti_recent *recent, size_t n_devices, const size_t *shards,
                     const double *seconds);
/* Compares the devices. parts[i] (n_devices) is the largest plausible ratio of device i's time to
   the time of the slowest device: 1 for the slowest device, and for all devices that are not
   certainly ahead of it (three standard errors); 0 for devices without a shard.  Devices are
   compared within each step, so that a delay of all devices at once causes no error.  Returns
   false with fewer than DPTI_RECENT_LEAST steps. */
bool dpti_recent_compare(const dpti_recent *recent, size_t n_devices, const size_t *shards,
                         double *parts);

/* ---- The solver ------------------------------------------------------------------------------ */

typedef struct dpti_balance_problem {
    size_t n_devices;
    size_t n_samples;              /* samples to divide */
    size_t quantum;                /* at least 1; all shards but one are multiples of it */
    const dpti_time_model *models; /* (n_devices) */
    const size_t *bounds;          /* (n_devices) largest shard of each device */
    size_t *n_looks; /* NULL, or a counter of evaluations of a time model, for tests of the solver's
                        cost */
} dpti_balance_problem;

/* Finds the division with the least time of the slowest device, writes it to `shards` (n_devices)
   and that time to *seconds.  Of equally good divisions the same one is always chosen.  Returns
   false if the bounds together are below n_samples. */
bool dpti_balance_solve(const dpti_balance_problem *problem, size_t *shards, double *seconds);

/* ---- The controller -------------------------------------------------------------------------- */

typedef struct dpti_balance dpti_balance;

typedef struct dpti_balance_options {
    size_t n_devices;
    size_t batch_size;
    size_t quantum; /* at least 1 */
    const size_t
        *capacities; /* (n_devices) largest shard of each device; together at least a batch */
} dpti_balance_options;

/* The reason for a change of shards. */
typedef enum dpti_balance_reason {
    DPTI_BALANCE_SAME, /* no change */
    DPTI_BALANCE_START,
    DPTI_BALANCE_CALIBRATION,
    DPTI_BALANCE_GAIN,        /* another division is faster by more than the noise */
    DPTI_BALANCE_LAG,         /* a device certainly lags, whatever the models say */
    DPTI_BALANCE_STEP_CHANGE, /* the speed of a device has changed suddenly */
    DPTI_BALANCE_PROBE,       /* for one step: a device without samples is tried again */
    DPTI_BALANCE_PROBE_END,
    DPTI_BALANCE_MEMORY,   /* a device cannot hold its shard */
    DPTI_BALANCE_LOST,     /* a device was lost */
    DPTI_BALANCE_RETURNED, /* a lost device was readmitted */
    DPTI_BALANCE_STANDBY,  /* a device was put on standby (standby_policy.h) */
    DPTI_BALANCE_PRESENT,  /* a standby device takes part again */
} dpti_balance_reason;

const char *dpti_balance_reason_words(dpti_balance_reason reason);

/* Takes other shards (n_devices) of a whole batch in place of those that dpti_balance_next gave:
   rounded ones, which are used from now on. */
void dpti_balance_adopt(dpti_balance *balance, const size_t *shards);
/* Returns NULL if there is no memory. */
dpti_balance *dpti_balance_create(const dpti_balance_options *options);
void dpti_balance_destroy(dpti_balance *balance); /* accepts NULL */

/* Computes the shards of the next step.  If n_samples is below batch_size, the batch is ragged:
   the same models are used, and the shards of full batches do not change. */
dpti_balance_reason dpti_balance_next(dpti_balance *balance, size_t n_samples, size_t *shards);
/* Adds the (n_devices) shards and busy seconds of a step, in the order of steps.  The shards of
   later steps may be chosen before this call. */
void dpti_balance_observe(dpti_balance *balance, const size_t *shards, const double *seconds);
/* A device could not hold a shard: from now on it gets at most `most` samples.  Returns false, and
   changes nothing, if the remaining capacities do not hold a batch. */
bool dpti_balance_bound(dpti_balance *balance, size_t device, size_t most);
/* A device is lost: it gets no samples, and its rate is 0.  Returns false, and changes nothing, if
   the other devices do not hold a batch. */
bool dpti_balance_lose(dpti_balance *balance, size_t device);
/* A device is put on standby, as by dpti_balance_lose but until dpti_balance_readd, which restores
   its capacity; the device then gets samples at once. */
bool dpti_balance_exclude(dpti_balance *balance, size_t device);
void dpti_balance_readd(dpti_balance *balance, size_t device);
/* Returns the capacity of a device: for a device on standby, the capacity that it will have
   afterwards. */
size_t dpti_balance_excluded(const dpti_balance *balance, size_t device);
/* A lost device takes part again with this capacity.  Its shard is computed from what is known of
   it, or is an even shard until it is measured. */
void dpti_balance_readmit(dpti_balance *balance, size_t device, size_t capacity);
/* Returns the modelled seconds of a full batch if the devices in `absent` (n_devices) took no
   part.  If one device would be left alone, its seconds of `exchange` (n_devices) are subtracted.
   INFINITY if the others do not hold a batch, or one of them has not been measured. */
double dpti_balance_without(const dpti_balance *balance, const bool *absent,
                            const double *exchange);
/* Writes what a later process can resume from: the models and the shards of full batches
   (n_devices).  Returns false if there are no shards yet.  `calibrated`: the shards were chosen by
   measurement. */
bool dpti_balance_learnt(const dpti_balance *balance, dpti_time_model *models, size_t *shards,
                         bool *calibrated);
/* Resumes with these models, and shards that add up to a batch.  The time of each device's first
   step is ignored again.  Returns false, and changes nothing, if the shards do not fit the batch
   or a capacity. */
bool dpti_balance_resume(dpti_balance *balance, const dpti_time_model *models, const size_t *shards,
                         bool calibrated);
/* Writes the modelled samples per second of each device at its present shard.  Returns false until
   shards have been chosen or confirmed by measurement. */
bool dpti_balance_rates(const dpti_balance *balance, double *rates);

#endif
