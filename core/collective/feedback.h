/* Error feedback: what this process owes to sums that travel as bfloat16 (collective/processes.h).
   It lasts: a training goes on exactly only with it.  A run writes what will be owed beside what
   is, and only a run that counts makes the one the other. */
#ifndef DPTI_FEEDBACK_H
#define DPTI_FEEDBACK_H

#include <stdbool.h>
#include <stddef.h>

typedef struct dpti_feedback {
    size_t count;           /* of the elements summed, those that are packed: the first so many */
    float *residual, *owes; /* (count) before this run, and behind it; NULL: nothing is packed */
} dpti_feedback;

/* Owes nothing at first.  false without memory. */
bool dpti_feedback_create(size_t count, dpti_feedback *out);
void dpti_feedback_free(dpti_feedback *feedback); /* accepts a zeroed one; zeroes it */
/* The run counts. */
void dpti_feedback_commit(dpti_feedback *feedback);

#endif
