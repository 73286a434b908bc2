/* The results of the last steps, for the log of a process that writes it after another one has
   died: the lines that this one did not write, or did not get to the file. */
#ifndef DPTI_LAST_STEPS_H
#define DPTI_LAST_STEPS_H

#include "dptrain.h"

#include <stdint.h>

enum { DPTI_LAST_STEPS = 4 };

typedef struct dpti_last_steps {
    size_t n_devices, n; /* of each step; steps, at most DPTI_LAST_STEPS */
    uint8_t *records;    /* the oldest first */
} dpti_last_steps;

/* Adds a step; arrays of it that are NULL count as zeros.  The oldest step is dropped if there are
   too many, and all are if they have another number of devices.  A step for which there is no
   memory is not added. */
void dpti_last_steps_add(dpti_last_steps *recent, const dpt_step_metrics *step);
/* Returns step i < n.  Its arrays are those of *recent; it does not say why shards have changed. */
dpt_step_metrics dpti_last_steps_step(const dpti_last_steps *recent, size_t i);
/* Returns the bytes of all records. */
size_t dpti_last_steps_bytes(const dpti_last_steps *recent);
void dpti_last_steps_free(dpti_last_steps *recent); /* accepts a zeroed struct; sets it to zero */

#endif
