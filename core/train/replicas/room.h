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

/* The most samples of a batch that a worker has held in a step that was committed; 0: none, or
   forgotten. */
size_t dpti_memory_held(const dpti_worker *worker);
void dpti_memory_note_held(dpti_worker *worker, size_t n);
void dpti_memory_forget_held(dpti_worker *worker);

#endif
