/* Timing the algorithms of a convolution, a linear layer or a product, on scratch tensors. */
#ifndef DPT_CPU_AUTOTUNE_H
#define DPT_CPU_AUTOTUNE_H

#include "state.h"

typedef struct dpt_cpu_autotune dpt_cpu_autotune;

/* An operator, and the plans of its algorithms. */
typedef struct dpt_cpu_autotune_args {
    const dpt_op *op;
    const dpt_cpu_plan *plans; /* (n_plans); they must outlive the measurement */
    size_t n_plans;
} dpt_cpu_autotune_args;

/* Begins the measurement of an operator.  Scratch tensors are allocated when the first algorithm is
   timed.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpt_cpu_autotune_create(dpt_device *device,
                                                    const dpt_cpu_autotune_args *args,
                                                    dpt_cpu_autotune **out);
void dpt_cpu_autotune_destroy(dpt_cpu_autotune *autotune); /* accepts NULL */

/* Writes everything that the times depend on, as a line of text of at most n_bytes. */
void dpt_cpu_autotune_key(const dpt_cpu_autotune *autotune, char *out, size_t n_bytes);

/* How often each algorithm is to be timed. */
size_t dpt_cpu_autotune_rounds(const dpt_cpu_autotune *autotune);

/* A dpt_choice_time whose argument is the measurement and whose candidate is the name of a plan's
   algorithm.  Times one run, or several short ones.  DPT_E_NO_MEMORY. */
dpt_choice_time dpt_cpu_autotune_time;

#endif
