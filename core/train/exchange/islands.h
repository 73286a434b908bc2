/* Which of a trainer's devices form islands (collective/island.h), and for how long: all devices of
   one backend that take part in steps, as far as the backend can form one and a new communicator's
   sums are right.  With several processes it is one wide island of all their devices, if these are
   of one backend and distinct, and the backend can; else each process has islands of its own.  All
   processes decide that from the same numbers, and call these functions alike.

   Everything here happens on the caller's thread with nothing in flight, except abort and watch.

   No failure of an island is a failure of a call: without an island gradients go over the host.  An
   event tells of an island that could not be used, or that failed. */
#ifndef DPTI_ISLANDS_H
#define DPTI_ISLANDS_H

#include "collective/island.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct dpt_trainer dpt_trainer;

/* Islands are to be formed anew: devices have come or gone, or their workers were made anew. */
void dpti_islands_set_due(dpt_trainer *trainer);
/* Whether an island failed in a step, which is then to be retried without it. */
bool dpti_islands_failed(const dpt_trainer *trainer);

size_t dpti_islands_count(const dpt_trainer *trainer);
/* Writes the names of an island's devices, as messages show them; cut to n_bytes if it is longer.
 */
void dpti_islands_name(const dpt_trainer *trainer, const dpti_island *island, char *out,
                       size_t n_bytes);
/* "A, B sum gradients among themselves" for the i-th island; cut to n_bytes if it is longer. */
void dpti_islands_words(const dpt_trainer *trainer, size_t i, char *out, size_t n_bytes);
/* Whether there is one island of all processes. */
bool dpti_islands_are_wide(const dpt_trainer *trainer);
/* The number, from 1, of the island of a device of this process, or of any device in a wide island;
   0: none. */
size_t dpti_islands_number(const dpt_trainer *trainer, size_t device);

/* Called by the thread that waits for driver threads.  abort: one of them will not come, so the
   collectives of all islands end.  watch: so many seconds have passed, by which an island counts
   how long its own calls take. */
void dpti_islands_abort(const dpt_trainer *trainer);
void dpti_islands_watch(const dpt_trainer *trainer, double seconds);

#endif
