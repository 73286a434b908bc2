/* The rule that divides the rows of a batch among devices.  The text is parsed once; the division
   is pure arithmetic and uses no device. */
#ifndef DPTI_SPLIT_H
#define DPTI_SPLIT_H

#include "dpt_error.h"
#include "dptrain/split.h"

enum { DPTI_SPLIT_MAX_DEVICES = 256 };

typedef struct dpti_split {
    size_t n_devices; /* at least 1 */
    bool equal;       /* true: equal chunks; false: the proportions in `parts` */
    double parts[DPTI_SPLIT_MAX_DEVICES];
} dpti_split;

/* Parses "equal" (or NULL), or "A:B:C" with one number of at least 0 for each device, not all 0.
   DPT_E_INVALID: the message says what is wrong; for any other word it lists the known forms.  The
   trainer handles "replay:LOG" and "measured", which are errors here. */
DPT_CHECK_RESULT dpt_status dpti_split_parse(const char *text, size_t n_devices, dpti_split *out,
                                             dpt_error *error);
/* The same for a split of the public API: equal, or proportions.  Errors: DPT_E_INVALID as above,
   or if the value is NULL, or for another kind. */
DPT_CHECK_RESULT dpt_status dpti_split_fixed(dpt_split split, size_t n_devices, dpti_split *out,
                                             dpt_error *error);
/* Returns the text that dpt_split_from reads as this split, for logs and messages; NULL if there is
   no memory.  The caller frees it.  An unknown kind, or a missing value, gives a text that
   dpti_split_parse refuses. */
char *dpti_split_text(dpt_split split);

/* Writes the counts of rows to `rows` (n_devices), whose sum is exactly n_rows.  Equal: chunks of
   ceil(n_rows / n_devices), so that the last devices get fewer rows or none.  Proportions: quotas
   are rounded down, and the remaining rows go to the largest remainders, the first of equal ones.
   A part of 0 gets no rows. */
void dpti_split_rows(const dpti_split *split, size_t n_rows, size_t *rows);

#endif
