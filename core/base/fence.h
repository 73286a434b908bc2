/* Whether this process has stood still, so that other processes have left it behind and its files
   are theirs now.  One thread ticks (collective/pulse.h).  Who is about to change a file passes the
   fence first.  The clock goes on while a process is stopped and while the machine sleeps. */
#ifndef DPTI_FENCE_H
#define DPTI_FENCE_H

#include <stdbool.h>

/* From now on more than `limit` seconds without a tick are too long; the first tick is now.  0:
   none is too long, as at first. */
void dpti_fence_begin(double limit);
/* Returns whether the last tick was too long ago.  A signal handler may call it. */
bool dpti_fence_overdue(void);
/* Ticks.  Returns false, and does not tick, if the last tick was too long ago. */
bool dpti_fence_tick(void);
/* Returns at once, or never if the last tick was too long ago: the process is about to end. */
void dpti_fence_pass(void);

#endif
