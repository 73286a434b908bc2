/* The fields of programs: which data sets the devices are prepared to evaluate.  A worker's program
   of training is a field of the worker itself (trainer.h).

   Only files of core/train/programs touch these fields.  Other concerns call the functions that
   bound.h declares. */
#ifndef DPTI_PROGRAMS_STATE_H
#define DPTI_PROGRAMS_STATE_H

#include "graph/replica.h"
#include "train/components/data_store.h"
#include "train/components/feed.h"

/* Data sets that stay bound: validation data, test data and the samples of a report take turns
   every epoch. */
enum { DPTI_TESTS = 3 };

/* A data set that programs of evaluation are bound to. */
typedef struct dpti_test {
    const dpt_dataset *data; /* NULL: the slot is free */
    uint64_t serial;         /* of the data; the address may be that of later data */
    dpti_purpose purpose;
    dpti_data_store store; /* copies of the data, where they are not the training data */
    uint64_t used;         /* when it was used last, by the clock below */
} dpti_test;

typedef struct dpti_trainer_programs {
    dpti_test tests[DPTI_TESTS];
    uint64_t clock; /* counts uses, so that the least recently used data set is replaced */
} dpti_trainer_programs;

/* One worker's program for one of these data sets. */
typedef struct dpti_worker_test {
    dpti_executable evaluate;
    dpti_feed own_feed; /* where the data are not in the device's memory, and the feed of training
                           has no room for them */
    const dpti_feed *feed; /* the feed in use, own or training's; NULL: the data are in memory */
} dpti_worker_test;

typedef struct dpti_worker_programs {
    dpti_worker_test tests[DPTI_TESTS]; /* as the trainer's */
} dpti_worker_programs;

#endif
