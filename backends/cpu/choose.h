/* The choice among the ways to do an operator (dpt_cpu_kernel_set.ways): the fastest on these
   cores, for its description, threads and about as many samples, found by measurement and
   remembered (common/choices.h).

   algorithm= of the device, or else $DPTRAIN_CPU_ALGORITHM, is the beginning of the name of the
   only ways to consider where they apply; a name that leaves one way makes that choice without
   measuring, and where no way has the name, the first is taken.  So it is where a call is shorter
   than a choice is worth.

   `wanted`, the whole name of a way, goes before all that: it is taken, or DPT_E_UNSUPPORTED. */
#ifndef DPT_CPU_CHOOSE_H
#define DPT_CPU_CHOOSE_H

#include "device.h"

/* Fills in op->plan, which is zeroed, from the rest of *op. */
DPT_CHECK_RESULT dpt_status dpt_cpu_prepare_best(dpt_device *device, dpt_op *op,
                                                 const char *wanted /* or NULL */);

/* The choices of machines like this one, NULL without memory. */
dpt_choices *dpt_cpu_choices_get(const dpt_cpu_host *host);

/* Whether a text is the beginning of an algorithm's name; fails with a line that lists them. */
DPT_CHECK_RESULT dpt_status dpt_cpu_check_algorithm(const char *source, const char *text,
                                                    dpt_error *error);

#endif
