/* Error feedback in two buffers that change places. */
#include "collective/feedback.h"

#include <stdlib.h>
#include <string.h>

bool dpti_feedback_create(const dpti_packing *packing, size_t count, dpti_feedback *out)
{
    dpti_feedback f = {.packing = packing,
                       .count = count,
                       .residual = calloc(count + 1, sizeof *f.residual),
                       .owes = calloc(count + 1, sizeof *f.owes)};
    if (f.residual && f.owes)
        *out = f;
    else
        dpti_feedback_free(&f);
    return f.residual != NULL;
}

bool dpti_feedback_create_low_rank(dpti_low_rank *low_rank, dpti_feedback *out)
{
    dpti_feedback f;
    const bool complete = low_rank && dpti_feedback_create(NULL, low_rank->count, &f);
    if (!complete) {
        dpti_low_rank_destroy(low_rank);
        return false;
    }
    f.low_rank = low_rank;
    *out = f;
    return true;
}

void dpti_feedback_free(dpti_feedback *feedback)
{
    dpti_low_rank_destroy(feedback->low_rank);
    free(feedback->residual);
    free(feedback->owes);
    *feedback = (dpti_feedback){.count = 0};
}

void dpti_feedback_commit(dpti_feedback *feedback)
{
    float *paid = feedback->residual;
    feedback->residual = feedback->owes;
    feedback->owes = paid;
    if (feedback->low_rank) dpti_low_rank_commit(feedback->low_rank);
}

void dpti_feedback_commit_part(dpti_feedback *feedback, size_t begin, size_t count)
{
    if (count > 0)
        memcpy(feedback->residual + begin, feedback->owes + begin,
               count * sizeof *feedback->residual);
}
