/* In how many passes a device works off its share of a batch, whose gradients add up.

   More than one where its memory holds no more, where a micro-batch was told, and where its caches
   do not hold what it computes of all at once: a pass goes forward and backward while activations
   are still in them.  That last only without batch-norm, whose statistics would be of fewer
   samples; and not where parameters are so many that going over them once more costs what is
   gained. */
#ifndef DPTI_MICRO_BATCHES_H
#define DPTI_MICRO_BATCHES_H

#include "dpt_error.h"
#include "dptrain.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct dpti_worker dpti_worker;

/* Passes of at most `most` >= 1 samples; without samples one all the same. */
size_t dpti_count_passes(size_t n_samples, size_t most);
/* Samples of the next one of those that are left: they differ by one at most, the later ones are
   the smaller ones.  `most` may be 0 where `left` is. */
size_t dpti_next_pass(size_t left, size_t most);

typedef struct dpti_cached_work {
    size_t cache_bytes;     /* of all threads; 0: not known */
    unsigned n_threads;     /* 0: not known */
    size_t sample_bytes;    /* that a pass computes, a sample */
    size_t parameter_bytes; /* that it goes over, whatever its samples */
} dpti_cached_work;

/* Whether passes may be a gain, whatever a sample's size. */
bool dpti_may_fit_cache(const dpti_cached_work *work);
/* Samples that the caches hold; SIZE_MAX where passes are no gain. */
size_t dpti_most_in_cache(const dpti_cached_work *work);

/* Sets the worker's pass_limit: as told, as the log has it that is replayed, or as its caches hold
   (`cached`). */
DPT_CHECK_RESULT dpt_status dpti_find_pass_limit(dpti_worker *worker, dpt_error *error);

#endif
