/* Divided gradients of several micro-batches (window.h). */
#include "train/compute/window.h"

#include "base/clock.h"
#include "base/times.h"
#include "device/buffer.h"
#include "device/stream.h"
#include "train/plan/micro_batches.h"
#include "train/state/trainer.h"

/* Elements of all buckets, which follow each other. */
static size_t count_elements(const dpti_node_places *p)
{
    return p->n_buckets > 0 ? p->buckets[0].end - p->buckets[p->n_buckets - 1].begin : 0;
}

dpt_status dpti_window_create(dpti_worker *worker)
{
    dpti_worker *w = worker;
    const size_t n = count_elements(&w->replica.nodes.places);
    void *host = NULL;
    if (!w->replica.windowed || !w->train.program.accumulates || n == 0) return DPT_OK;
    DPT_TRY(dpti_host_alloc(w->device, n * sizeof(float), &host));
    w->compute.kept = host;
    return DPT_OK;
}

void dpti_window_destroy(dpti_worker *worker)
{
    float *kept = worker->compute.kept;
    worker->compute.kept = NULL;
    dpti_host_free(worker->device, kept);
}

size_t dpti_window_host_bytes(const dpti_worker *worker)
{
    const size_t n = count_elements(&worker->replica.nodes.places);
    return worker->compute.kept ? n * sizeof(float) : 0;
}

/* A bucket in the three memories. */
typedef struct bucket {
    size_t at, n_bytes; /* in the window */
    float *kept;
} bucket;

static bucket find_bucket(const dpti_worker *w, size_t k)
{
    const dpti_node_places *p = &w->replica.nodes.places;
    const dpti_node_bucket *b = &p->buckets[k];
    return (bucket){.at = b->at * sizeof(float),
                    .n_bytes = (b->end - b->begin) * sizeof(float),
                    .kept = w->compute.kept + (b->begin - p->buckets[p->n_buckets - 1].begin)};
}

dpt_status dpti_window_restore(const dpti_worker *worker, size_t segment, bool first)
{
    const dpti_worker *w = worker;
    const dpti_grain_nodes *nodes = &w->replica.nodes;
    const dpti_buffer *gradients = &w->replica.gradients;
    for (size_t k = 0; w->compute.kept && k < nodes->places.n_buckets; k++) {
        const bucket b = find_bucket(w, k);
        if (nodes->first_in[k] != segment) continue;
        DPT_TRY(first ? dpti_fill(gradients, b.at, 0, b.n_bytes)
                      : dpti_upload(gradients, b.at, b.kept, b.n_bytes));
    }
    return DPT_OK;
}

dpt_status dpti_window_keep(dpti_shard *shard, size_t segment)
{
    dpti_worker *w = shard->worker;
    const dpti_node_places *p = &w->replica.nodes.places;
    const size_t k = dpti_node_bucket_of(p, w->train.program.segments[segment].begin);
    const double began = dpti_seconds();
    if (!w->compute.kept || k == p->n_buckets) return DPT_OK;
    const bucket b = find_bucket(w, k);
    DPT_TRY(dpti_download(b.kept, &w->replica.gradients, b.at, b.n_bytes));
    DPT_TRY(dpti_sync(w->device));
    (void)dpti_times_add_since(&shard->times, DPTI_SPAN_EXCHANGE, began);
    return DPT_OK;
}
