/* Workers: a device's replica and programs, made for as many samples at once as the device's memory
   holds. */
#ifndef DPTI_WORKER_H
#define DPTI_WORKER_H

#include "device/device.h"
#include "graph/replica.h"

typedef struct dpt_trainer dpt_trainer;
typedef struct dpti_worker dpti_worker;

/* The device that could not do something, and why. */
typedef struct dpti_failing_rank {
    size_t rank; /* n_workers: none */
    dpt_error error;
} dpti_failing_rank;

/* With what weights a worker is made. */
typedef enum dpti_begin {
    DPTI_BEGIN_INITIAL, /* the initial weights of the trainer */
    DPTI_BEGIN_EMPTY,   /* zeros: the caller writes the training state next */
} dpti_begin;

/* Makes every worker's replica and programs.  Where a
   device's memory does not hold them beside the data, the data are sent to it with each step; where
   it does not hold them then either, they are made for as many samples at once as it holds.  All
   processes call it.  After a failure *failing names the device, and destroy_workers frees what was
   made. */
DPT_CHECK_RESULT dpt_status dpti_trainer_create_workers(dpt_trainer *trainer, dpti_begin begin,
                                                        dpti_failing_rank *failing);
/* Destroys what all workers hold that are not lost. */
void dpti_trainer_destroy_workers(dpt_trainer *trainer);
/* Makes one worker, for its capacity.  *error tells of a failure; DPT_E_DEVICE_LOST if the device
   hangs.  What was made is destroyed with the worker. */
DPT_CHECK_RESULT dpt_status dpti_trainer_create_worker(dpt_trainer *trainer, size_t rank,
                                                       dpti_begin begin, dpt_error *error);
void dpti_worker_destroy(dpti_worker *worker); /* [driver] */
void dpti_worker_destroy_job(dpti_device *device, void *worker);
/* The options and the places of data of a worker's program of training, in segments. */
void dpti_worker_program(const dpti_worker *worker, dpti_executable_options *options);
/* Whether a device of any process computes its shard in several micro-batches. */
bool dpti_any_has_micro_batches(const dpt_trainer *trainer);

#endif
