/* Error feedback: what rounding to a format of fewer bits, or a low rank, has dropped from this
   process's contributions to sums over processes (collective/collective.h).  It is part of
   the training state: a resumed training is exact only with it.  A run writes the new residual
   beside the old one, and only a committed run replaces the old one. */
#ifndef DPTI_FEEDBACK_H
#define DPTI_FEEDBACK_H

#include "collective/low_rank.h"
#include "collective/packing.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct dpti_feedback {
    const dpti_packing *packing; /* the format of elements; NULL: factors travel */
    dpti_low_rank *low_rank;     /* owned; NULL: elements travel */
    size_t count;                /* so many of the summed elements, from the first, are packed */
    float *residual, *owes;      /* (count) before the run, and after it; NULL: nothing is packed */
} dpti_feedback;

/* The residual is zero at first.  false if memory is short. */
bool dpti_feedback_create(const dpti_packing *packing, size_t count, dpti_feedback *out);
/* The same where factors travel; takes over *low_rank in any case, and accepts NULL. */
bool dpti_feedback_create_low_rank(dpti_low_rank *low_rank, dpti_feedback *out);
void dpti_feedback_free(dpti_feedback *feedback); /* accepts a zeroed struct; zeroes it */
/* Makes the new residual the residual.  Called after a run that is committed. */
void dpti_feedback_commit(dpti_feedback *feedback);
/* The same after a run that has summed only the elements [begin, begin + count). */
void dpti_feedback_commit_part(dpti_feedback *feedback, size_t begin, size_t count);

#endif
