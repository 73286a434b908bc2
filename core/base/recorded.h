/* Which algorithms a device took, as logs and checkpoints have it. */
#ifndef DPTI_RECORDED_H
#define DPTI_RECORDED_H

#include "dpt_types.h"

/* The algorithm of one operation: of what layer, of what kind (dpti_op_name). */
typedef struct dpti_recorded_choice {
    char *layer, *kind, *algorithm;
} dpti_recorded_choice;

/* Those of a program, in its order; n 0: none are recorded. */
typedef struct dpti_recorded_choices {
    size_t n;
    dpti_recorded_choice *items;
} dpti_recorded_choices;

/* Accepts a zeroed one; zeroes it. */
void dpti_recorded_choices_free(dpti_recorded_choices *choices);
/* None yet, with room for n.  false without memory. */
DPT_CHECK_RESULT bool dpti_recorded_choices_reserve(size_t n, dpti_recorded_choices *out);
/* Appends one, with copies of these texts; there is room.  false without memory: it is not there.
 */
DPT_CHECK_RESULT bool dpti_recorded_choices_add(dpti_recorded_choices *choices, const char *layer,
                                                const char *kind, const char *algorithm);
/* false without memory: *out is none then. */
DPT_CHECK_RESULT bool dpti_recorded_choices_copy(const dpti_recorded_choices *choices,
                                                 dpti_recorded_choices *out);
bool dpti_recorded_choices_equal(const dpti_recorded_choices *a, const dpti_recorded_choices *b);

#endif
