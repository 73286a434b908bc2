/* Cards beside each other: which reach whose memory, and which one a thread has chosen. */
#ifndef DPT_CUDA_REACH_H
#define DPT_CUDA_REACH_H

#include "state.h"

/* Failures of both stand in the error of the group's first device. */

/* DPT_E_UNSUPPORTED unless every card of a group can reach the memory of every other. */
DPT_CHECK_RESULT dpt_status dpt_cuda_reach_check(const dpt_group *group);
/* Opens each card's memory, what it has allocated and will, to the others of a group that can reach
   it.  All pairs are gone through: DPT_E_UNSUPPORTED if one cannot, behind the last.  The thread's
   card may be another one then. */
DPT_CHECK_RESULT dpt_status dpt_cuda_reach_open(const dpt_group *group);

/* The card that this thread has chosen, to go back to; -1 if it is none of these devices'.  A
   thread that has chosen none is told 0, and choosing that would make a context there. */
int dpt_cuda_chosen(dpt_device *const *devices, size_t n);
void dpt_cuda_go_back(int chosen);

#endif
