/* In how many micro-batches a device computes its shard of a batch.  Their gradients add up.

   A shard takes several micro-batches where the device's memory holds no more samples at once,
   where a limit was given, and where the device's caches do not hold what it computes of all
   samples at once: a micro-batch goes forward and backward while activations are in the caches. The
   caches decide only where no batch-norm takes statistics, which would be of fewer samples, and
   where parameters are so few that going over them once more costs less than is gained.

   A deterministic step of several batches is computed as one batch.  A device then computes no more
   at once than its part of one of these batches, rounded up to whole grains (base/grains.h). */
#ifndef DPTI_MICRO_BATCHES_H
#define DPTI_MICRO_BATCHES_H

#include "base/grains.h"
#include "dpt_error.h"
#include "dptrain.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct dpti_worker dpti_worker;

/* The number of micro-batches of at most `most` >= 1 samples; one without samples, too. */
size_t dpti_count_micro_batches(size_t n_samples, size_t most);
/* Samples of the next micro-batch, of those that are left.  Micro-batches differ by one sample at
   most, and later ones are smaller.  `most` may be 0 where `left` is. */
size_t dpti_next_micro_batch(size_t left, size_t most);

/* In deterministic training: how many of the grains `left`, of which there is at least one, are in
   the next micro-batch, which has at most `most` samples, or one grain.  It ends at a multiple of a
   power of two, so that the grains before it are few nodes of the tree. */
size_t dpti_next_grains(const dpti_grains *grains, dpti_grain_node left, size_t most);
/* The most nodes that a device has at once that computes the grains `shard`; 0 without grains. */
size_t dpti_most_nodes(const dpti_grains *grains, dpti_grain_node shard, size_t most);

typedef struct dpti_cached_work {
    size_t cache_bytes;     /* caches of all threads; 0: not known */
    unsigned n_threads;     /* 0: not known */
    size_t sample_bytes;    /* of activations that are computed for a sample */
    size_t parameter_bytes; /* that a micro-batch goes over, whatever its samples */
} dpti_cached_work;

/* Whether micro-batches may be a gain, whatever a sample's size. */
bool dpti_may_fit_cache(const dpti_cached_work *work);
/* Samples that the caches hold; SIZE_MAX where micro-batches are no gain. */
size_t dpti_most_in_cache(const dpti_cached_work *work);

/* Sets the worker's limit of samples at once: as told, as in the log that is replayed, or what its
   caches hold.  *error tells of a failure. */
DPT_CHECK_RESULT dpt_status dpti_find_micro_batch_limit(dpti_worker *worker, dpt_error *error);
/* That limit; SIZE_MAX: none.  And whether the caches set it. */
size_t dpti_micro_batch_limit_of(const dpti_worker *worker);
bool dpti_is_limited_by_caches(const dpti_worker *worker);

#endif
