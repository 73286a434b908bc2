/* Reads images of coming steps before they are needed, for a data set whose images are read on
   demand.  The unit is a run of samples, such as a batch.

   One thread at a time may call these functions.  The threads of the reader do the reading. */
#ifndef DPTI_AHEAD_H
#define DPTI_AHEAD_H

#include "data/data.h"

typedef struct dpti_ahead dpti_ahead;

/* Creates a read-ahead of at most n_runs runs of these data.  It uses the data set's reader.
   `use` tells what the images are for, except the epoch; NULL: the images unchanged.  Returns NULL
   if there is no memory. */
dpti_ahead *dpti_ahead_create(const dpt_dataset *data, size_t n_runs, const dpti_image_use *use);
void dpti_ahead_destroy(dpti_ahead *ahead); /* accepts NULL */

/* A run of records. */
typedef struct dpti_ahead_run {
    uint64_t key;            /* the caller's name of the run */
    size_t epoch;            /* of training, from 1; 0: no epoch */
    const uint32_t *records; /* (n) */
    size_t n;
} dpti_ahead_run;

/* Starts to read a run.  The run replaces the run that was started first.  Does nothing if a run
   with this key exists, or if there is no memory; dpti_ahead_wait then tries again. */
void dpti_ahead_begin(dpti_ahead *ahead, const dpti_ahead_run *run);
/* Returns whether a run with this key exists. */
bool dpti_ahead_has(const dpti_ahead *ahead, uint64_t key);

/* Waits until these records of the run are read.  Records that the run does not contain are read
   now, and so are records that could not be read before.  Errors: DPT_E_FORMAT; DPT_E_IO for every
   other failure, lack of memory included; the message says which. */
DPT_CHECK_RESULT dpt_status dpti_ahead_wait(dpti_ahead *ahead, const dpti_ahead_run *run,
                                            dpt_error *error);

/* Copies the images of the run's records, which the last wait with this key has read, and their
   labels if they are read (dpt_dataset.reads_labels); NULL: no labels are copied. */
void dpti_ahead_copy(dpti_ahead *ahead, const dpti_ahead_run *run, uint8_t *to, uint8_t *labels);

#endif
