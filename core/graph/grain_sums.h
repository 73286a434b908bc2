/* The instructions of a deterministic program that sum over samples: gradients of parameters, and
   the parts of batch-norms.  Such an instruction runs once for each grain of the samples, and the
   gradients of the grains are added up along the tree (base/grains.h).  An operator that treats
   the grains itself (dpt_op_info.has_grains) runs once for each node, and writes the parts of all
   grains of the node.  The gradients of the first node of the shard are in the replica's
   `gradients`, those of the others in grain_nodes.h's buffers. */
#ifndef DPTI_GRAIN_SUMS_H
#define DPTI_GRAIN_SUMS_H

#include "base/grains.h"
#include "device/slots.h"
#include "dpt_error.h"
#include "graph/call.h"

/* Whether an instruction with this description writes every element of output s, which has no
   sample axis. */
bool dpti_writes_all(const dpt_op_desc *desc, const dpti_signature *signature, size_t s);

/* The grains of the samples for which a segment of a deterministic program is run. */
typedef struct dpti_grain_run {
    dpti_grains grains;     /* of the batch */
    size_t first;           /* the grain with which the samples begin */
    dpti_grain_list before; /* the nodes of the samples of the shard before these; unused nodes are
                               zero */
} dpti_grain_run;

/* What adds up the gradients of one executable. */
typedef struct dpti_grain_sums dpti_grain_sums;

/* Returns NULL if there is no memory. */
dpti_grain_sums *dpti_grain_sums_create(void);
void dpti_grain_sums_destroy(dpti_grain_sums *sums); /* accepts NULL */
/* The device memory in which instructions add up grains; 0 for NULL. */
size_t dpti_grain_sums_bytes(const dpti_grain_sums *sums);

/* [driver] Checks that the order of all sums of the program is defined, and prepares what adds them
   up.  The program is bound.  DPT_E_UNSUPPORTED with the layer that has another sum; or as the
   device fails. */
DPT_CHECK_RESULT dpt_status dpti_grain_sums_prepare(dpti_executable *executable, dpt_error *error);

/* Whether instruction i sums over samples. */
bool dpti_sums_over_grains(const dpti_executable *executable, size_t i);
/* [driver] Enqueues instruction i, which does, for n_samples samples, a whole number of grains. */
DPT_CHECK_RESULT dpt_status dpti_grain_sums_run(dpti_executable *executable, size_t i,
                                                size_t n_samples, const dpti_grain_run *run);
/* The grains of n_samples samples of a run. */
dpti_grain_node dpti_grains_of_run(const dpti_grain_run *run, size_t n_samples);
/* [driver] Enqueues one step of the work of instruction i of chunks, each of which is one grain. */
DPT_CHECK_RESULT dpt_status dpti_grain_sums_run_step(dpti_executable *executable, size_t i,
                                                     const dpti_grain_run *run,
                                                     const dpti_grain_step *step);

#endif
