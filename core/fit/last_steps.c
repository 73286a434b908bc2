/* The results of the last steps (last_steps.h). */
#include "fit/last_steps.h"

#include <stdlib.h>
#include <string.h>

/* A record: the metrics, then four arrays. */
enum { N_REALS = 3 };

static size_t record_bytes(const dpti_last_steps *r)
{
    return sizeof(dpt_step_metrics) + r->n_devices * (N_REALS * sizeof(double) + sizeof(size_t));
}

size_t dpti_last_steps_bytes(const dpti_last_steps *recent)
{
    return recent->n * record_bytes(recent);
}

void dpti_last_steps_free(dpti_last_steps *recent)
{
    free(recent->records);
    *recent = (dpti_last_steps){.n = 0};
}

static uint8_t *put(uint8_t *at, const void *from, size_t n_bytes)
{
    if (from)
        memcpy(at, from, n_bytes);
    else
        memset(at, 0, n_bytes);
    return at + n_bytes;
}

void dpti_last_steps_add(dpti_last_steps *recent, const dpt_step_metrics *step)
{
    dpti_last_steps *r = recent;
    if (r->n_devices != step->n_devices) dpti_last_steps_free(r);
    r->n_devices = step->n_devices;
    const size_t each = record_bytes(r), reals = r->n_devices * sizeof(double);
    if (!r->records) r->records = calloc(DPTI_LAST_STEPS, each);
    if (!r->records) return;
    if (r->n == DPTI_LAST_STEPS) memmove(r->records, r->records + each, --r->n * each);
    uint8_t *at = put(r->records + r->n++ * each, step, sizeof *step);
    at = put(at, step->device_seconds, reals);
    at = put(at, step->exchange_seconds, reals);
    at = put(at, step->waiting_seconds, reals);
    (void)put(at, step->shards, r->n_devices * sizeof *step->shards);
}

dpt_step_metrics dpti_last_steps_step(const dpti_last_steps *recent, size_t i)
{
    const uint8_t *at = recent->records + i * record_bytes(recent);
    dpt_step_metrics m;
    memcpy(&m, at, sizeof m);
    const double *reals = (const double *)(const void *)(at + sizeof m);
    m.device_seconds = reals;
    m.exchange_seconds = reals + recent->n_devices;
    m.waiting_seconds = reals + 2 * recent->n_devices;
    m.shards = (const size_t *)(const void *)(reals + N_REALS * recent->n_devices);
    m.rebalance = NULL;
    m.throughput = NULL;
    return m;
}
