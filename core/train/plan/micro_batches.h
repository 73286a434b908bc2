/* In how many passes a device works off its shard of a batch, whose gradients add up.

   A shard takes several passes where the device's memory holds no more at once, where a limit was
   given, and where the device's caches do not hold what it computes of all samples at once: a pass
   goes forward and backward while activations are in the caches.  The caches decide only without
   batch-norm, whose statistics would be of fewer samples, and only where parameters are so few that
   going over them once more costs less than is gained. */
#ifndef DPTI_MICRO_BATCHES_H
#define DPTI_MICRO_BATCHES_H

#include "dpt_error.h"
#include "dptrain.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct dpti_worker dpti_worker;

/* The number of passes of at most `most` >= 1 samples; one without samples, too. */
size_t dpti_count_passes(size_t n_samples, size_t most);
/* Samples of the next pass, of those that are left.  Passes differ by one sample at most, and later
   ones are smaller.  `most` may be 0 where `left` is. */
size_t dpti_next_pass(size_t left, size_t most);

typedef struct dpti_cached_work {
    size_t cache_bytes;     /* caches of all threads; 0: not known */
    unsigned n_threads;     /* 0: not known */
    size_t sample_bytes;    /* of activations that a pass computes for a sample */
    size_t parameter_bytes; /* that a pass goes over, whatever its samples */
} dpti_cached_work;

/* Whether passes may be a gain, whatever a sample's size. */
bool dpti_may_fit_cache(const dpti_cached_work *work);
/* Samples that the caches hold; SIZE_MAX where passes are no gain. */
size_t dpti_most_in_cache(const dpti_cached_work *work);

/* Sets the worker's limit of samples at once: as told, as in the log that is replayed, or what its
   caches hold.  *error tells of a failure. */
DPT_CHECK_RESULT dpt_status dpti_find_pass_limit(dpti_worker *worker, dpt_error *error);
/* That limit; SIZE_MAX: none.  And whether the caches set it. */
size_t dpti_pass_limit_of(const dpti_worker *worker);
bool dpti_is_limited_by_caches(const dpti_worker *worker);

#endif
