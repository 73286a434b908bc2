/* The checks that a device in an island makes of its gradients (looks.h). */
#include "train/exchange/looks.h"

#include "dpt_error.h"
#include "train/components/finite_check.h"
#include "train/state/trainer.h"

#include <stdlib.h>

/* Buckets lie next to each other: what is left lies before the last and behind the first. */
static dpt_status create(const dpti_worker *w, dpti_looks *looks)
{
    const dpti_program *program = &w->train.program;
    size_t low = 0, high = w->replica.model->flat_gradients;
    bool any = false;
    for (size_t s = 0; s < program->n_segments; s++) {
        const dpti_segment *segment = &program->segments[s];
        dpti_finite *at = looks->segments[s];
        if (segment->exchange == DPTI_EXCHANGE_BUCKET) {
            DPT_TRY(dpti_finite_create(&w->replica, segment->begin, segment->end, &at[0]));
            high = any ? high : segment->end;
            low = segment->begin;
            any = true;
        }
        if (segment->exchange != DPTI_EXCHANGE_GRADIENTS) continue;
        DPT_TRY(dpti_finite_create(&w->replica, 0, any ? low : high, &at[0]));
        DPT_TRY(dpti_finite_create(&w->replica, high, w->replica.model->flat_gradients, &at[1]));
    }
    return DPT_OK;
}

dpt_status dpti_looks_create(dpti_worker *worker)
{
    dpti_looks *looks = &worker->exchange.looks;
    if (looks->segments || worker->replica.capacity == 0) return DPT_OK;
    looks->n_segments = worker->train.program.n_segments;
    looks->segments = calloc(looks->n_segments, sizeof *looks->segments);
    if (!looks->segments)
        return DPT_FAIL(&worker->device->base.error, DPT_E_NO_MEMORY, "no memory for looks");
    return create(worker, looks);
}

void dpti_looks_destroy(dpti_worker *worker)
{
    dpti_looks *looks = &worker->exchange.looks;
    for (size_t s = 0; s < looks->n_segments; s++)
        for (size_t i = 0; i < DPTI_LOOK_PLACES; i++)
            dpti_finite_destroy(&looks->segments[s][i]);
    free(looks->segments);
    *looks = (dpti_looks){.n_segments = 0};
}

const dpti_finite *dpti_looks_at(const dpti_worker *worker, size_t segment)
{
    const dpti_looks *looks = &worker->exchange.looks;
    return looks->segments ? looks->segments[segment] : NULL;
}
