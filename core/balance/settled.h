/* Which divisions of a step's samples a trainer's devices have been through of late.  At one that
   is new to a device its libraries load kernels, and what it does is recorded, which may wait for
   other devices' work, or make them wait. */
#ifndef DPTI_SETTLED_H
#define DPTI_SETTLED_H

#include <stdbool.h>
#include <stddef.h>

/* Those that are remembered, at most: a full batch and the ragged last one.  Devices keep
   recordings for at least so many, each of which may be two passes. */
enum { DPTI_SETTLED = 2 };

typedef struct dpti_settled {
    size_t n_devices, n_kept;
    size_t *shares;                 /* (DPTI_SETTLED, n_devices) */
    unsigned n_steps[DPTI_SETTLED]; /* 0: free */
    size_t used[DPTI_SETTLED];      /* when, for replacing the least recently used */
    size_t clock;
} dpti_settled;

/* Remembers n_kept of them, at most DPTI_SETTLED.  false without memory. */
bool dpti_settled_create(size_t n_devices, size_t n_kept, dpti_settled *out);
void dpti_settled_destroy(dpti_settled *settled); /* accepts a zeroed one */
/* A step with these shares, (n_devices), is about to be submitted: whether two such were before, of
   which one has ended when this one begins. */
bool dpti_settled_step(dpti_settled *settled, const size_t *shares);
/* Devices are others, or begin anew. */
void dpti_settled_forget(dpti_settled *settled);

#endif
