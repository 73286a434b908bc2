/* Arrays that grow as items are added. */
#ifndef DPTI_GROW_H
#define DPTI_GROW_H

#include "dpt_types.h"

/* Makes room for one more item behind the first n of `items`, an allocated array of *capacity
   items (NULL: of none).  A full array gets twice its capacity.  Returns the array, which may have
   moved; NULL without memory: `items` and *capacity are as before. */
DPT_CHECK_RESULT void *dpti_grow(void *items, size_t n, size_t *capacity, size_t item_bytes);

#endif
