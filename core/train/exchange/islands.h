/* Which of a trainer's devices form islands (collective/island.h), and for how long: all devices of
   a backend that are there, as far as the backend can and a new communicator's sums are right.
   Where there are several processes it is one wide island of all their devices, if these are of one
   backend and distinct and it can; else each process has islands of its own.  All decide that by
   the same numbers, and call what is here alike.

   Everything here happens on the caller's thread with nothing in flight, but for abort and watch.

   What an island does is no failure of a call: without one gradients go over the host.  An event
   tells of one that was not to be used, or that failed. */
#ifndef DPTI_ISLANDS_H
#define DPTI_ISLANDS_H

#include "collective/island.h"

typedef struct dpt_trainer dpt_trainer;

typedef struct dpti_islands {
    dpti_island **items; /* room for n_workers */
    size_t n;
    bool due; /* devices have come or gone, or their workers were made anew */
} dpti_islands;

/* Before a step, so that nobody waits for it who only evaluates: gives up islands that have failed,
   and forms them where it is due.  Devices that hang at it are left hung, and it is due again. */
void dpti_islands_form(dpt_trainer *trainer);
/* This worker leaves, in good order or not: its island ends. */
void dpti_islands_leave(dpt_trainer *trainer, size_t rank);
void dpti_islands_end(dpt_trainer *trainer); /* all of them */
/* Whether one was ended by what happened in a step, which is then to be done again without it. */
bool dpti_islands_failed(const dpt_trainer *trainer);

/* "A, B sum gradients among themselves", of the i-th; cut if it is longer. */
void dpti_islands_words(const dpt_trainer *trainer, size_t i, char *out, size_t n_bytes);
/* Whether it is one of all processes. */
bool dpti_islands_are_wide(const dpt_trainer *trainer);
/* The number of the island of a device that is this process's, or of any in a wide one, from 1; 0:
   none. */
size_t dpti_islands_number(const dpt_trainer *trainer, size_t device);

/* From the thread that waits for drivers: one of them will not come; so many seconds have passed.
 */
void dpti_islands_abort(const dpt_trainer *trainer);
void dpti_islands_watch(const dpt_trainer *trainer, double seconds);

#endif
