/* The inside of a predictor: one worker for each device, with the weights and the program of the
   forward pass. */
#ifndef DPTI_PREDICTOR_H
#define DPTI_PREDICTOR_H

#include "balance/split.h"
#include "data/ahead.h"
#include "device/set.h"
#include "graph/replica.h"
#include "predict/queue.h"
#include "train/components/feed.h"

/* A device of a predictor.  Allocated on its own, since a device that hangs keeps it. */
typedef struct dpti_predict_worker {
    const dpt_predictor *predictor;
    dpti_device *device;
    size_t rank;
    dpti_replica replica;
    dpti_feed feed;
    dpti_executable forward;
    uint8_t *staging; /* host memory of the step buffer */
    float *result;    /* host memory of the results of a micro-batch */
    size_t most;      /* largest number of samples at once */
    double rate;      /* samples per second in the call before; 0: not known */
    double measured;  /* [driver] the same, of this call */
    double fraction;  /* its part of the rate of all devices that are left, set before each call */
    bool lost;        /* the thread that makes the call reads and writes it */
    dpt_error error;  /* why it was lost */
} dpti_predict_worker;

struct dpt_predictor {
    dpt_context *context;
    const dpt_model *model;
    dpt_device_set *devices;
    dpt_dataset samples; /* what the samples are: shape, type and normalisation; without images */
    bool logits, sigmoid, deterministic;
    bool fixed; /* `split` has fixed shards; else devices take samples when they are ready */
    dpti_split split;
    double device_timeout;
    pthread_mutex_t lock; /* of calls: one at a time */
    size_t n_workers;
    dpti_predict_worker **workers;
};

/* What a call computes. */
typedef struct dpti_predict_call {
    dpt_predictor *predictor;
    const dpt_dataset *data; /* the samples: those of the data set from `first` on */
    size_t first, count;
    float *outputs; /* (count, labels, classes) */
    dpti_queue queue;
} dpti_predict_call;

/* [driver] Prepares a worker for at most `micro_batch` samples, or for fewer if memory is short.
   `weights`: flat_size float32; NULL: the model's own.  After a failure the caller releases the
   worker. */
DPT_CHECK_RESULT dpt_status dpti_predict_worker_create(dpti_predict_worker *worker,
                                                       size_t micro_batch, const float *weights,
                                                       dpt_error *error);
/* [driver] Frees what a worker has on its device; accepts one whose preparation failed. */
void dpti_predict_worker_release(dpti_predict_worker *worker);
/* [driver] Computes samples of the queue until none is left for this worker.  A device that fails
   leaves its samples to the others.  Returns DPT_OK, or the failure, whose details are in
   worker->error, and which is not a loss if *unread is set: images could not be read. */
DPT_CHECK_RESULT dpt_status dpti_predict_worker_run(dpti_predict_worker *worker,
                                                    dpti_predict_call *call, bool *unread);

#endif
