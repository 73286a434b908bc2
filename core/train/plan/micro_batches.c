/* How many samples a device computes at once, and so in how many micro-batches (micro_batches.h).
 */
#include "train/plan/micro_batches.h"

#include "base/grains.h"
#include "dpt_error.h"
#include "graph/chunks.h"
#include "train/components/batch_norm.h"
#include "train/state/trainer.h"

#include <stdlib.h>

/* A thread's samples in a micro-batch, below which its kernels lack work; how many times what a
   micro-batch computes must be as large as the parameters, which it reads twice and whose gradients
   it adds to.
 */
enum { LEAST_OF_A_THREAD = 8, LEAST_PER_PARAMETER = 4 };

size_t dpti_count_micro_batches(size_t n_samples, size_t most)
{
    return n_samples <= most ? 1 : n_samples / most + (n_samples % most != 0);
}

size_t dpti_next_micro_batch(size_t left, size_t most)
{
    const size_t n = dpti_count_micro_batches(left, most);
    return left / n + (left % n != 0);
}

size_t dpti_next_grains(const dpti_grains *grains, dpti_grain_node left, size_t most)
{
    const size_t n_samples =
        dpti_grain_begin(grains, left.end) - dpti_grain_begin(grains, left.begin);
    const size_t most_grains = most > grains->size ? most / grains->size : 1;
    size_t size = 1;
    if (n_samples <= most) return left.end - left.begin;
    while (2 * size <= most_grains)
        size *= 2;
    return (left.begin + most_grains) / size * size - left.begin;
}

size_t dpti_most_nodes(const dpti_grains *grains, dpti_grain_node shard, size_t most)
{
    dpti_grain_list list = {.n = 0};
    size_t most_nodes = 0;
    for (dpti_grain_node left = shard; left.begin < left.end;) {
        const size_t end = left.begin + dpti_next_grains(grains, left, most);
        const size_t n =
            dpti_grains_plan(&list, (dpti_grain_node){left.begin, end}, grains->n, NULL);
        if (n > most_nodes) most_nodes = n;
        left.begin = end;
    }
    return most_nodes;
}

bool dpti_may_fit_cache(const dpti_cached_work *work)
{
    return work->cache_bytes > 0 &&
           work->parameter_bytes <= work->cache_bytes / LEAST_PER_PARAMETER;
}

size_t dpti_most_in_cache(const dpti_cached_work *work)
{
    const dpti_cached_work *w = work;
    const size_t n_threads = w->n_threads > 0 ? w->n_threads : 1;
    if (!dpti_may_fit_cache(w) || w->sample_bytes == 0) return SIZE_MAX;
    const size_t most = w->cache_bytes / w->sample_bytes;
    return most < LEAST_OF_A_THREAD * n_threads ? SIZE_MAX : most;
}

/* Of the arena; without workspaces, which are not known before operators are prepared. */
static dpt_status find_sample_bytes(const dpti_worker *w, size_t *out, dpt_error *error)
{
    enum { SAMPLES = 64 }; /* whatever the shard: a limit stays where shards change */
    dpti_program_options options = w->trainer->program;
    dpti_program program = {0};
    dpti_plan plan = {0};
    options.type = w->device->info.activations;
    options.recompute = w->recomputes;
    dpti_choose_chunk_rows(w->trainer->model, w->device, &options);
    options.norms_mask =
        (w->device->info.flags & DPT_DEVICE_NORMS_MASK) != 0 && !options.deterministic;
    dpt_status status = dpti_compile(w->trainer->model, &options, &program, error);
    size_t *none = status == DPT_OK ? calloc(program.n_instructions, sizeof *none) : NULL;
    if (status == DPT_OK && !none)
        status =
            DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to plan model %s", w->trainer->model->name);
    if (status == DPT_OK)
        status = dpti_plan_memory(&(dpti_plan_request){&program, SAMPLES, none}, &plan, error);
    if (status == DPT_OK) *out = plan.arena_bytes / SAMPLES;
    dpti_plan_free(&plan);
    free(none);
    dpti_program_free(&program);
    return status;
}

/* The worker's part of each of the batches that were joined, in whole grains. */
static size_t part_of_joined(const dpti_worker *w)
{
    const size_t grain = dpti_grains_of(w->trainer->batch_size).size;
    const size_t per_part = grain * w->trainer->joined;
    return grain * (w->capacity / per_part + (w->capacity % per_part != 0));
}

static dpt_status find_limit(dpti_worker *worker, dpt_error *error)
{
    dpti_worker *w = worker;
    const dpt_trainer *t = w->trainer;
    const dpt_device_properties *info = &w->device->info;
    dpti_cached_work work = {.cache_bytes = info->cache_bytes,
                             .n_threads = info->n_threads,
                             .parameter_bytes = t->model->flat_size * sizeof(float)};
    w->plan.micro_batch_limit =
        (dpti_micro_batch_limit){.most = t->micro_batch, .reason = DPTI_LIMIT_GIVEN};
    if (t->micro_batch == 0 && t->replay.n_steps > 0 && !t->program.deterministic)
        w->plan.micro_batch_limit.most = t->replay.at_once[t->first_device + w->rank];
    if (w->plan.micro_batch_limit.most > 0) return DPT_OK;
    w->plan.micro_batch_limit = (dpti_micro_batch_limit){.most = SIZE_MAX};
    if (!dpti_may_fit_cache(&work) || dpti_takes_batch_statistics(t->model, t->batch_norm))
        return DPT_OK;
    DPT_TRY(find_sample_bytes(w, &work.sample_bytes, error));
    const size_t most = dpti_most_in_cache(&work);
    if (most < SIZE_MAX)
        w->plan.micro_batch_limit =
            (dpti_micro_batch_limit){.most = most, .reason = DPTI_LIMIT_CACHES};
    return DPT_OK;
}

dpt_status dpti_find_micro_batch_limit(dpti_worker *worker, dpt_error *error)
{
    dpti_micro_batch_limit *limit = &worker->plan.micro_batch_limit;
    DPT_TRY(find_limit(worker, error));
    if (worker->trainer->joined == 1) return DPT_OK;
    const size_t part = part_of_joined(worker);
    if (part < limit->most) *limit = (dpti_micro_batch_limit){part, DPTI_LIMIT_GIVEN};
    return DPT_OK;
}

size_t dpti_micro_batch_limit_of(const dpti_worker *worker)
{
    return worker->plan.micro_batch_limit.most;
}

bool dpti_is_limited_by_caches(const dpti_worker *worker)
{
    return worker->plan.micro_batch_limit.reason == DPTI_LIMIT_CACHES;
}
