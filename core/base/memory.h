/* Memory of the host: aligned allocation, and how much memory this process may use. */
#ifndef DPTI_MEMORY_H
#define DPTI_MEMORY_H

#include "base/control_group.h"

/* Allocates memory that is aligned to 64 bytes: a cache line, and the widest vector of a CPU.  free
   releases it.  NULL if memory is short. */
DPT_CHECK_RESULT void *dpti_alloc_aligned(size_t n_bytes);
/* Returns how many bytes of the machine's memory this process may use; SIZE_MAX if that is not
   known.  Linux grants more memory than there is and ends a process that uses it.  Code that
   allocates what a file asks for therefore compares the size with this number first. */
size_t dpti_machine_memory(void);
/* Returns the least memory limit of the control groups of a tree.  SIZE_MAX if there is no limit.
 */
size_t dpti_group_memory(const dpti_group_tree *tree);

#endif
