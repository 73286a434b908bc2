/* The choice among the algorithms of an operator: those of dpt_cpu_kernel_set.prepare and .ways.
   The fastest algorithm on these cores is found by measurement, for the operator's description, the
   number of threads and about the number of samples, and is remembered (common/choices.h).

   A person can limit the choice: algorithm= of the device, or else $DPTRAIN_CPU_ALGORITHM, is the
   beginning of the names that are considered.
   - If no algorithm of the operator has such a name, the first one is taken.
   - If only one algorithm is left, it is taken without a measurement.
   - A call that is shorter than a measurement is worth takes the first of those that are left. */
#ifndef DPT_CPU_CHOOSE_H
#define DPT_CPU_CHOOSE_H

#include "state.h"

/* Fills in op->plan, which the caller has zeroed, from the rest of *op.  `wanted` is the whole name
   of an algorithm, or NULL.  It has precedence over every other rule: that algorithm is taken, or
   the call fails with DPT_E_UNSUPPORTED. */
DPT_CHECK_RESULT dpt_status dpt_cpu_prepare_best(dpt_device *device, dpt_op *op,
                                                 const char *wanted);

/* The remembered choices of machines with this processor and kernel set.  NULL if there is no
   memory.  Never freed. */
dpt_choices *dpt_cpu_choices_get(const dpt_cpu_host *host);

#endif
