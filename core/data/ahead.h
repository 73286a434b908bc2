/* Reads images of coming steps before they are needed, for a data set whose images are read on
   demand.  The unit is a run of samples, such as a batch.

   One thread at a time may call these functions.  The threads of the reader do the reading. */
#ifndef DPTI_AHEAD_H
#define DPTI_AHEAD_H

#include "data/data.h"

typedef struct dpti_ahead dpti_ahead;

/* Keeps the images of at most n_runs runs of these data, whose reader it uses, made for what `use`
   says (NULL: as they are) but for the epoch.  NULL without memory. */
dpti_ahead *dpti_ahead_create(const dpt_dataset *data, size_t n_runs, const dpti_image_use *use);
void dpti_ahead_destroy(dpti_ahead *ahead); /* accepts NULL */

/* Begins to read a run of this epoch, 0 being none, which goes by this key, in the place of the one
   that was begun longest ago. Nothing if there is a run of this key already, or no memory: waiting
   for it tries again. */
void dpti_ahead_begin(dpti_ahead *ahead, uint64_t key, size_t epoch, const uint32_t *records,
                      size_t n);
/* Whether there is a run of this key. */
bool dpti_ahead_has(const dpti_ahead *ahead, uint64_t key);

/* Until these records of the run are there: what it was not begun with is read now, and so is what
   could not be read before.  DPT_E_FORMAT, or DPT_E_IO for any other failure, lack of memory among
   them: the message says which. */
DPT_CHECK_RESULT dpt_status dpti_ahead_wait(dpti_ahead *ahead, uint64_t key, size_t epoch,
                                            const uint32_t *records, size_t n, dpt_error *error);

/* Copies the images of records that were waited for, under this key and last. */
void dpti_ahead_copy(dpti_ahead *ahead, uint64_t key, const uint32_t *records, size_t n,
                     uint8_t *to);

#endif
