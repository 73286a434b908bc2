/* Timing convolutions and linear layers on tensors of their own, to choose among the ways to do
 * one. */
#ifndef DPT_CPU_AUTOTUNE_H
#define DPT_CPU_AUTOTUNE_H

#include "state.h"

typedef struct dpt_cpu_autotune dpt_cpu_autotune;

/* A trial of an operator in several ways: their plans, which must outlive it.  Takes memory for
   tensors and computes only when the first is timed. */
DPT_CHECK_RESULT dpt_status dpt_cpu_autotune_create(dpt_device *device, const dpt_op *op,
                                                    const dpt_cpu_plan *plans, size_t n_plans,
                                                    dpt_cpu_autotune **out);
void dpt_cpu_autotune_destroy(dpt_cpu_autotune *autotune); /* accepts NULL */

/* All that the times depend on, as a line of text. */
void dpt_cpu_autotune_key(const dpt_cpu_autotune *autotune, char *out, size_t n_bytes);

/* How often each way is to be timed. */
size_t dpt_cpu_autotune_rounds(const dpt_cpu_autotune *autotune);

/* A dpt_choice_time: one run, or a few short ones; the candidate is a plan's algorithm. */
dpt_choice_time dpt_cpu_autotune_time;

#endif
