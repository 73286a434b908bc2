/* How many samples fit on a device at once: as many as its replica was made for, until it has run
   out of memory. */
#ifndef DPTI_ROOM_H
#define DPTI_ROOM_H

#include "dptrain.h"

typedef struct dpti_worker dpti_worker;

/* A worker's replica was made: its capacity is what fits, until it has run out of memory. */
void dpti_memory_begin(dpti_worker *worker);
/* Most samples at once that fit in evaluation; at most n from now on. */
size_t dpti_memory_room(const dpti_worker *worker);
void dpti_memory_limit_room(dpti_worker *worker, size_t n);

#endif
