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

dpt_status dpti_window_hold(dpti_worker *worker, size_t n_nodes)
{
    dpti_worker *w = worker;
    const size_t n = count_elements(&w->replica.nodes.places);
    void *host = NULL;
    if (!w->replica.kept || n_nodes <= w->compute.n_kept) return DPT_OK;
    dpti_window_destroy(w);
    DPT_TRY(dpti_host_alloc(w->device, n_nodes * n * sizeof(float), &host));
    w->compute.kept = host;
    w->compute.n_kept = n_nodes;
    return DPT_OK;
}

dpt_status dpti_window_create(dpti_worker *worker)
{
    dpti_worker *w = worker;
    dpti_replica *r = &w->replica;
    const bool grains = w->trainer->program.deterministic;
    const bool several = grains ? dpti_has_micro_batches(w) : w->train.program.accumulates;
    r->kept = r->windowed && several && count_elements(&r->nodes.places) > 0;
    return dpti_window_hold(w, 1);
}

void dpti_window_destroy(dpti_worker *worker)
{
    float *kept = worker->compute.kept;
    worker->compute.kept = NULL;
    worker->compute.n_kept = 0;
    dpti_host_free(worker->device, kept);
}

size_t dpti_window_host_bytes(const dpti_worker *worker)
{
    return worker->compute.n_kept * count_elements(&worker->replica.nodes.places) * sizeof(float);
}

/* A bucket of a node: in its buffer on the device, and in host memory. */
typedef struct bucket {
    const dpti_buffer *buffer;
    size_t at, n_bytes;
    float *kept; /* valid if there is room for the node */
} bucket;

static bucket find_bucket(const dpti_worker *w, size_t k, size_t node)
{
    const dpti_grain_nodes *nodes = &w->replica.nodes;
    const dpti_node_places *p = &nodes->places;
    const dpti_node_bucket *b = &p->buckets[k];
    const size_t before = node * count_elements(p) + b->begin - p->buckets[p->n_buckets - 1].begin;
    return (bucket){.buffer = node > 0 ? &nodes->buffers[node - 1] : &w->replica.gradients,
                    .at = b->at * sizeof(float),
                    .n_bytes = (b->end - b->begin) * sizeof(float),
                    .kept = node < w->compute.n_kept ? w->compute.kept + before : NULL};
}

dpt_status dpti_window_restore(const dpti_worker *worker, size_t segment, size_t n_nodes)
{
    const dpti_worker *w = worker;
    const dpti_grain_nodes *nodes = &w->replica.nodes;
    for (size_t k = 0; w->replica.kept && k < nodes->places.n_buckets; k++)
        for (size_t i = 0; nodes->first_in[k] == segment && i <= nodes->n; i++) {
            const bucket b = find_bucket(w, k, i);
            DPT_TRY(i < n_nodes ? dpti_upload(b.buffer, b.at, b.kept, b.n_bytes)
                                : dpti_fill(b.buffer, b.at, 0, b.n_bytes));
        }
    return DPT_OK;
}

dpt_status dpti_window_keep(dpti_shard *shard, size_t segment, size_t n_nodes)
{
    dpti_worker *w = shard->worker;
    const dpti_node_places *p = &w->replica.nodes.places;
    const size_t k = dpti_node_bucket_of(p, w->train.program.segments[segment].begin);
    const double began = dpti_seconds();
    if (!w->replica.kept || k == p->n_buckets) return DPT_OK;
    for (size_t i = 0; i < n_nodes; i++) {
        const bucket b = find_bucket(w, k, i);
        DPT_TRY(dpti_download(b.kept, b.buffer, b.at, b.n_bytes));
    }
    DPT_TRY(dpti_sync(w->device));
    (void)dpti_times_add_since(&shard->times, DPTI_SPAN_EXCHANGE, began);
    return DPT_OK;
}
