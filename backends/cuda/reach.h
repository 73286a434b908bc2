/* Several cards of one process: whether they reach each other's memory, and which card a thread has
   chosen. */
#ifndef DPT_CUDA_REACH_H
#define DPT_CUDA_REACH_H

#include "state.h"

/* Failures of the next two functions are recorded in the error of the group's first device. */

/* DPT_E_UNSUPPORTED unless every card of a group can reach the memory of every other card. */
DPT_CHECK_RESULT dpt_status dpt_cuda_reach_check(const dpt_group *group);
/* Opens the memory of each card, present and future allocations, to the other cards of the group
   that can reach it.  DPT_E_UNSUPPORTED, after all pairs were tried, if a card cannot.  Changes the
   card that the thread has chosen. */
DPT_CHECK_RESULT dpt_status dpt_cuda_reach_open(const dpt_group *group);

/* The card that this thread has chosen, for dpt_cuda_go_back.  -1 if it is the card of none of
   these devices: CUDA names card 0 to a thread that has chosen none, and choosing card 0 would make
   a context there. */
int dpt_cuda_chosen(dpt_device *const *devices, size_t n);
void dpt_cuda_go_back(int chosen); /* -1 changes nothing */

#endif
