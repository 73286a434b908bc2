/* The divisions of a step's samples that a trainer's devices have computed recently.  If a
   division is new to a device, the device's libraries load kernels and the work is recorded.  That
   may wait for the work of other devices, or make them wait. */
#ifndef DPTI_SETTLED_H
#define DPTI_SETTLED_H

#include <stdbool.h>
#include <stddef.h>

/* Largest number of remembered divisions: a full batch and the ragged last batch.  Devices keep
   recordings for at least this many divisions; each may have two micro-batches. */
enum { DPTI_SETTLED = 2 };

typedef struct dpti_settled {
    size_t n_devices, n_kept;
    size_t *shards;                 /* (DPTI_SETTLED, n_devices) */
    unsigned n_steps[DPTI_SETTLED]; /* 0: free */
    size_t used[DPTI_SETTLED]; /* when the slot was used last, for replacing the least recently used
                                  one */
    size_t clock;
} dpti_settled;

/* Remembers n_kept divisions, at most DPTI_SETTLED.  Returns false if there is no memory. */
bool dpti_settled_create(size_t n_devices, size_t n_kept, dpti_settled *out);
void dpti_settled_destroy(dpti_settled *settled); /* accepts a zeroed struct */
/* Called when a step with these shards (n_devices) is about to be submitted.  Returns whether two
   such steps were submitted before, of which one has ended when this step begins. */
bool dpti_settled_step(dpti_settled *settled, const size_t *shards);
/* Forgets all divisions: the devices have changed or begin anew. */
void dpti_settled_forget(dpti_settled *settled);

#endif
