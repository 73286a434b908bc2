/* Two buffers in turns. */
#include "collective/feedback.h"

#include <stdlib.h>

bool dpti_feedback_create(size_t count, dpti_feedback *out)
{
    dpti_feedback f = {.count = count,
                       .owed = calloc(count + 1, sizeof *f.owed),
                       .owes = calloc(count + 1, sizeof *f.owes)};
    if (f.owed && f.owes)
        *out = f;
    else
        dpti_feedback_free(&f);
    return f.owed != NULL;
}

void dpti_feedback_free(dpti_feedback *feedback)
{
    free(feedback->owed);
    free(feedback->owes);
    *feedback = (dpti_feedback){.count = 0};
}

void dpti_feedback_commit(dpti_feedback *feedback)
{
    float *paid = feedback->owed;
    feedback->owed = feedback->owes;
    feedback->owes = paid;
}
