/* How many processors this process may use at once. */
#ifndef DPTI_PROCESSORS_H
#define DPTI_PROCESSORS_H

#include "base/control_group.h"

/* Returns how many threads the system runs at once without making them wait: the least of the
   processors that the calling thread may run on (at most 4096 are counted), those of the cpusets of
   the process's control groups, and the whole part of the quotas of these groups; at least 1.  A
   thread that is bound to a core sees that core only: the number is therefore found at the first
   call, and later calls return the same. */
size_t dpti_processors(void);

/* The same of another tree, of a process that may run on n_allowed processors. */
size_t dpti_processors_of(const dpti_group_tree *tree, size_t n_allowed);

#endif
