/* Parameters that a device gathers when operators need them (--shard parameters).

   A replica that gathers keeps, of the flat buffer of the parameters, these elements only:

   1. of the weights, [0, flat_weights), those of the device's part [sums_begin, sums_end);
   2. behind them [flat_weights, flat_gradients): biases, parameters of norms, running statistics.

   Other weights, and those that are frozen, [flat_gradients, flat_size), are gathered: before an
   instruction that reads them they are copied to a tensor of the arena, from the device's own part,
   and otherwise from the host's copy of all parameters (dpti_replica.source).  They stay until
   another instruction reads other gathered parameters.  So the memory plan places them like
   activations, and the memory of one layer's weights is that of another layer's afterwards.  The
   update reads and writes the device's own part in its place. */
#ifndef DPTI_GATHERED_H
#define DPTI_GATHERED_H

#include "base/range.h"
#include "device/operator.h"
#include "graph/program.h"

typedef struct dpti_executable dpti_executable;
typedef struct dpti_replica dpti_replica;

/* Parameters that are gathered before an instruction. */
typedef struct dpti_fetch {
    size_t before, last; /* the instruction, and the last one that reads them */
    int tensor;          /* of the arena */
    size_t begin, count; /* elements of the flat buffer */
    dpti_place place;    /* once memory is planned */
} dpti_fetch;

typedef struct dpti_fetches {
    dpti_fetch *items; /* (n) in the order of `before` */
    size_t n, capacity;
} dpti_fetches;

/* What a replica that gathers keeps, in elements of the flat buffer: its buffer of parameters has
   `own`, which may be empty, and behind it `shared`. */
typedef struct dpti_kept_parameters {
    dpti_range own, shared;
} dpti_kept_parameters;
dpti_kept_parameters dpti_replica_kept(const dpti_replica *replica);
/* The number of elements of the parameters that a device with this optimizer keeps. */
size_t dpti_count_kept(const dpt_model *model, const dpti_optimizer *optimizer);
/* [driver] Enqueues the upload of those of the elements [begin, begin + n) of the flat buffer that
   the device keeps; `values` (n) has all of them. */
DPT_CHECK_RESULT dpt_status dpti_replica_write_kept(const dpti_replica *replica, size_t begin,
                                                    const float *values, size_t n);
/* The number of elements that it would upload. */
size_t dpti_replica_count_kept(const dpti_replica *replica, dpti_range what);

/* Finds what the program gathers, and replaces the inputs of its instructions.  Between the
   preparation of the operators and the memory plan.  Nothing where the replica keeps all
   parameters.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_fetches_find(dpti_executable *executable, dpt_error *error);
/* Notes the places that the memory plan has given to gathered parameters. */
void dpti_fetches_place(dpti_executable *executable, const dpti_buffer *arena,
                        const dpti_plan *plan);
/* Whether a segment gathers parameters: it is then never recorded, because the host's copy may be
   elsewhere when the recording is started. */
bool dpti_fetches_any(const dpti_executable *executable, size_t segment);
/* [driver] Enqueues the copies that are due before an instruction. */
DPT_CHECK_RESULT dpt_status dpti_fetches_run(const dpti_executable *executable, size_t instruction);
/* Bytes that the program copies from the host in a micro-batch. */
size_t dpti_fetches_bytes(const dpti_executable *executable);

#endif
