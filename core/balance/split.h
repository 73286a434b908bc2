/* How the rows of a batch are divided among devices: parsed once, then pure arithmetic.  Knows no
   device. */
#ifndef DPTI_SPLIT_H
#define DPTI_SPLIT_H

#include "backend.h"
#include "dpt_types.h"

enum { DPTI_SPLIT_MAX_DEVICES = 256 };

typedef struct dpti_split {
    size_t n_devices; /* at least 1 */
    bool equal;       /* else in the proportions of `parts` */
    double parts[DPTI_SPLIT_MAX_DEVICES];
} dpti_split;

/* "equal" (or NULL), or "A:B:C" with one number of 0 or more for each device, not all zero.
   DPT_E_INVALID says what is wrong; any other word lists the known forms.  Replaying a log
   ("replay:LOG") and following throughput ("measured") are the trainer's business and unknown here.
 */
DPT_CHECK_RESULT dpt_status dpti_split_parse(const char *text, size_t n_devices, dpti_split *out,
                                             dpt_error *error);

/* rows[i], i < n_devices, with the exact sum n_rows.  Equal: chunks of ceil(n_rows / n_devices), so
   the last devices get less or nothing.  Proportions: rounded down, and the rest goes to the
   largest remainders, the first of equal ones.  A part of 0 gets no rows. */
void dpti_split_rows(const dpti_split *split, size_t n_rows, size_t *rows);

#endif
