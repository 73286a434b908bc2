/* The samples of one call of a predictor that no device has taken yet.  Devices take runs of
   consecutive samples from several threads.  Uses no device. */
#ifndef DPTI_QUEUE_H
#define DPTI_QUEUE_H

#include "balance/split.h"

#include <pthread.h>

/* Consecutive samples [first, end). */
typedef struct dpti_samples {
    size_t first, end;
} dpti_samples;

typedef struct dpti_queue {
    pthread_mutex_t lock;
    size_t n_devices;
    bool fixed;          /* every device takes the samples of its own shard only */
    dpti_samples shared; /* samples that any device may take */
    dpti_samples own[DPTI_SPLIT_MAX_DEVICES]; /* fixed: the shards */
    /* Runs that a lost device has not computed; any device may take them.  A device is lost once,
       and leaves its run and its shard. */
    dpti_samples left[2 * DPTI_SPLIT_MAX_DEVICES];
    size_t n_left;
} dpti_queue;

/* Fills the queue with samples 0 to count - 1.  `split`: fixed shards; NULL: each device takes the
   next samples when it is ready.  Errors: DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_queue_create(dpti_queue *queue, const dpti_split *split,
                                              size_t n_devices, size_t count);
void dpti_queue_destroy(dpti_queue *queue);

/* What a device may take. */
typedef struct dpti_turn {
    size_t device;
    size_t most;     /* largest number of samples */
    double fraction; /* its part of the rate of all devices, in (0, 1] */
} dpti_turn;

/* Takes the next samples for a device; an empty run if there are none for it.  While there are
   enough samples the run has `most` of them.  Of the last ones the device gets its fraction, so
   that the devices end at about the same time. */
dpti_samples dpti_queue_take(dpti_queue *queue, const dpti_turn *turn);
/* A device is lost: the samples of this run, which may be empty, and of its shard go to the
   others. */
void dpti_queue_leave(dpti_queue *queue, size_t device, dpti_samples run);
/* Returns whether samples are left that some device must take. */
bool dpti_queue_is_empty(dpti_queue *queue);

#endif
