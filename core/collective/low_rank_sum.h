/* Sums over processes of which factors of low rank travel (low_rank.h): two all-reduces, of all
   factors P with the tensors that are no matrix, and of all factors Q. */
#ifndef DPTI_LOW_RANK_SUM_H
#define DPTI_LOW_RANK_SUM_H

#include "collective/feedback.h"
#include "collective/processes.h"

/* What is summed. */
typedef struct dpti_low_rank_sum {
    const dpti_feedback *feedback; /* its `low_rank` has the matrices */
    const bool *contributes;       /* (processes) a process that does not keeps its residual */
    float *data;                   /* (feedback->count) this process's part, and then the sum */
    bool *finite; /* becomes false if the sum is not finite, in all processes or in none */
} dpti_low_rank_sum;

/* The first all-reduce is started, and waited for by the caller with what else is in flight. */
void dpti_low_rank_sum_start(dpti_processes *processes, const dpti_low_rank_sum *what);
/* Behind it: the second one, and the sum.  feedback->owes is written.  Fails as the transport does.
 */
DPT_CHECK_RESULT dpt_status dpti_low_rank_sum_finish(dpti_processes *processes,
                                                     const dpti_low_rank_sum *what,
                                                     dpt_error *error);

#endif
