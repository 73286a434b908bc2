/* The optimizer's state in parts (state_parts.h). */
#include "train/replicas/state_parts.h"

#include "base/clock.h"
#include "base/left_behind.h"
#include "base/times.h"
#include "context/context.h"
#include "device/buffer.h"
#include "device/rehearsal.h"
#include "device/set.h"
#include "device/stream.h"
#include "train/exchange/exchange.h"
#include "train/membership/presence.h"
#include "train/replicas/parts_exchange.h"
#include "train/replicas/state_buffers.h"
#include "train/state/trainer.h"

#include <stdlib.h>
#include <string.h>

bool dpti_state_parts_possible(const dpt_trainer *trainer, dpt_shard what)
{
    const bool any = what >= DPT_SHARD_GRADIENTS ||
                     (what == DPT_SHARD_OPTIMIZER && dpti_trainer_n_state_buffers(trainer) > 1);
    return any && trainer->local_steps == 0 && trainer->n_devices > 1;
}

const char *dpti_state_parts_hindrance(const dpt_trainer *trainer)
{
    const dpt_trainer *t = trainer;
    if (t->compress == DPT_COMPRESS_LOWRANK)
        return "compress lowrank: a device keeps its gradients until the end of the step then, so "
               "take shard optimizer, or compress bf16 or int8";
    if (t->program.exchange_at_end)
        return "overlap off: a device keeps its gradients until the end of the step then";
    if (t->n_gradients > t->model->flat_gradients)
        return "deterministic in a model whose gradients follow from sums over the batch, such as "
               "weights that several layers share: every device needs all sums";
    return NULL;
}

static bool is_cpu(const dpti_device *device)
{
    return device->info.flags & DPT_DEVICE_IS_HOST_CPU;
}

const char *dpti_state_parts_lack_of_offload(const dpt_trainer *trainer, dpt_shard what)
{
    size_t n_cpus = 0;
    for (size_t i = 0; i < trainer->n_workers; i++)
        n_cpus += is_cpu(trainer->devices->devices[i]);
    if (n_cpus == 0)
        return "a CPU, which holds the optimizer's state of the other devices: add cpu to the "
               "devices";
    if (n_cpus == trainer->n_workers)
        return "a device that is no CPU, and all devices are CPUs: they can divide the optimizer's "
               "state with shard";
    if (!dpti_state_parts_possible(trainer, what))
        return "an optimizer with a state, which SGD without momentum has not: divide gradients, "
               "too (shard)";
    return NULL;
}

bool dpti_state_parts_offloaded(const dpt_trainer *trainer)
{
    const dpt_trainer *t = trainer;
    for (size_t i = 0; t->replicas.parts.offload && i < t->n_workers; i++)
        if (is_cpu(t->workers[i].device) && !dpti_is_lost(&t->workers[i])) return true;
    return false;
}

bool dpti_state_parts_end_offload(const dpt_trainer *trainer, size_t rank)
{
    return trainer->replicas.parts.offload && is_cpu(trainer->workers[rank].device) &&
           !dpti_state_parts_offloaded(trainer);
}

bool dpti_state_parts_on(const dpt_trainer *trainer)
{
    return trainer->replicas.parts.on;
}

bool dpti_state_parts_of_gradients(const dpt_trainer *trainer)
{
    return trainer->replicas.parts.gradients;
}

bool dpti_state_parts_of_parameters(const dpt_trainer *trainer)
{
    return trainer->replicas.parts.parameters;
}

dpt_status dpti_state_parts_begin(dpt_trainer *trainer, dpt_shard what, bool offload)
{
    dpti_state_parts *parts = &trainer->replicas.parts;
    parts->meet = dpti_rendezvous_create(trainer->n_workers);
    if (!parts->meet) return DPT_E_NO_MEMORY;
    parts->on = true;
    parts->gradients = what >= DPT_SHARD_GRADIENTS;
    parts->parameters = what == DPT_SHARD_PARAMETERS;
    parts->offload = offload;
    DPT_TRY(dpti_parts_exchange_create(trainer));
    return parts->gradients ? dpti_exchange_clip(trainer) : DPT_OK;
}

void dpti_state_parts_end(dpt_trainer *trainer)
{
    dpti_state_parts *parts = &trainer->replicas.parts;
    bool hangs = false;
    for (size_t i = 0; trainer->workers && i < trainer->n_workers; i++)
        hangs = hangs || dpti_is_hung(&trainer->workers[i]);
    for (size_t k = 0; k < DPTI_MAX_STATE_BUFFERS; k++) {
        if (hangs && parts->mirror[k])
            dpti_leave_behind(parts->mirror[k]);
        else
            free(parts->mirror[k]);
    }
    dpti_parts_exchange_destroy(trainer);
    dpti_rendezvous_destroy(parts->meet);
    *parts = (dpti_state_parts){.on = false};
}

/* ---- Dividing -------------------------------------------------------------------------------- */

static size_t reduce(size_t from, size_t by)
{
    return from > by ? from - by : 0;
}

static size_t memory_left(const dpti_worker *w)
{
    return reduce(dpti_memory_capacity(w->device), atomic_load(&w->device->memory_used_bytes));
}

/* The bytes of the mirror that are counted on a worker's device: a CPU that holds parts for other
   devices has the memory of the mirror, too.  What is in no part is divided evenly. */
static size_t mirror_bytes(const dpti_worker *w)
{
    const dpt_trainer *t = w->trainer;
    const size_t rest = t->model->flat_size - t->model->flat_trained;
    const dpti_state_part *part = &w->replicas.part;
    size_t n_cpus = 0;
    if (!dpti_state_parts_offloaded(t) || !is_cpu(w->device)) return 0;
    for (size_t i = 0; i < t->n_workers; i++)
        n_cpus += is_cpu(t->workers[i].device) && !dpti_is_lost(&t->workers[i]);
    const size_t n = part->end - part->begin + rest / n_cpus + (rest % n_cpus != 0);
    return n * dpti_trainer_n_state_buffers(t) * sizeof(float);
}

dpt_status dpti_state_parts_divide(dpt_trainer *trainer, bool measured)
{
    dpt_trainer *t = trainer;
    dpti_state_holder holders[DPTI_SPLIT_MAX_DEVICES] = {{.left = 0}};
    dpti_state_part parts[DPTI_SPLIT_MAX_DEVICES];
    const size_t replica_bytes = (t->model->flat_size + t->n_gradients) * sizeof(float);
    const bool offloaded = dpti_state_parts_offloaded(t);
    if (!t->replicas.parts.on) return DPT_OK;
    for (size_t i = 0; i < t->n_workers; i++) {
        const dpti_worker *w = &t->workers[i];
        holders[t->first_device + i] = (dpti_state_holder){
            .takes_part = !dpti_is_lost(w) && (!offloaded || is_cpu(w->device)),
            .left = measured ? w->replicas.left : reduce(memory_left(w), replica_bytes)};
    }
    DPT_TRY(dpti_parts_exchange_tell(t, holders));
    dpti_divide_state(t->model->flat_trained, t->n_devices, holders, parts);
    for (size_t i = 0; i < t->n_workers; i++)
        t->workers[i].replicas.part = parts[t->first_device + i];
    dpti_parts_exchange_divide(t, parts);
    return DPT_OK;
}

void dpti_state_parts_set_trial(dpt_trainer *trainer, dpti_trial trial)
{
    trainer->replicas.parts.trial = trial;
    for (size_t i = 0; trial != DPTI_NO_TRIAL && i < trainer->n_workers; i++)
        trainer->workers[i].replicas.part = (dpti_state_part){0, 0};
}

bool dpti_state_parts_takes_least(const dpt_trainer *trainer)
{
    return trainer->replicas.parts.trial == DPTI_TRIAL_LEAST;
}

/* Parts are rounded to DPTI_STATE_PART_ALIGNMENT elements: one device gets less for it, and another
   one more. */
void dpti_state_parts_measure(dpt_trainer *trainer)
{
    /* Those of the device and of the mirror, and the sums of gradients. */
    enum { BUFFERS = 2 * DPTI_MAX_STATE_BUFFERS + 1 };
    const size_t margin = DPTI_STATE_PART_ALIGNMENT * sizeof(float) * BUFFERS;
    for (size_t i = 0; i < trainer->n_workers; i++) {
        dpti_worker *w = &trainer->workers[i];
        w->replicas.left = reduce(memory_left(w), margin);
    }
}

/* A device that is left alone exchanges nothing: it has all gradients, and all parameters. */
static bool divides_sums(const dpt_trainer *t)
{
    size_t n = t->n_devices - t->n_workers;
    for (size_t i = 0; i < t->n_workers; i++)
        n += !dpti_is_lost(&t->workers[i]);
    return t->replicas.parts.gradients && n > 1;
}

void dpti_state_parts_own(const dpti_worker *worker, dpti_optimizer *out)
{
    out->divided = worker->trainer->replicas.parts.on;
    out->divided_sums = divides_sums(worker->trainer);
    out->divided_parameters = out->divided_sums && worker->trainer->replicas.parts.parameters;
    out->begin = worker->replicas.part.begin;
    out->end = worker->replicas.part.end;
}

/* ---- The mirror ------------------------------------------------------------------------------ */

static size_t buffer_of_kind(dpt_tensor_kind kind)
{
    size_t k = 0;
    while (k < DPTI_MAX_STATE_BUFFERS && dpti_state_buffer_kind(k) != kind)
        k++;
    return k;
}

static float *mirror_of(const dpt_trainer *t, dpt_tensor_kind kind)
{
    const size_t k = buffer_of_kind(kind);
    return k < DPTI_MAX_STATE_BUFFERS ? t->replicas.parts.mirror[k] : NULL;
}

dpt_status dpti_state_parts_make_mirror(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    dpt_error error = {.status = DPT_OK};
    if (!t->replicas.parts.on) return DPT_OK;
    for (size_t k = 0; k < dpti_trainer_n_state_buffers(t); k++) {
        t->replicas.parts.mirror[k] = dpti_trainer_make_flat(t);
        if (!t->replicas.parts.mirror[k]) return DPT_E_NO_MEMORY;
    }
    const dpti_initial initial = {t->init, t->seed};
    if (dpti_initialize(t->model, &initial, t->replicas.parts.mirror[0], &error) == DPT_OK)
        return dpti_parts_exchange_make(t);
    return dpti_context_fail(t->context, NULL, &error);
}

void dpti_state_parts_read(const dpt_trainer *trainer, dpt_tensor_kind kind, float *flat, size_t n)
{
    memcpy(flat, mirror_of(trainer, kind), n * sizeof *flat);
}

bool dpti_state_parts_have(const dpt_trainer *trainer, dpti_range what, const float *parameters)
{
    const float *mirror = trainer->replicas.parts.mirror[0];
    return memcmp(mirror + what.begin, parameters, dpti_range_size(what) * sizeof *mirror) == 0;
}

void dpti_state_parts_write(dpt_trainer *trainer, dpt_tensor_kind kind, const float *flat, size_t n)
{
    float *mirror = mirror_of(trainer, kind);
    if (!mirror) return;
    memcpy(mirror, flat, n * sizeof *flat);
    dpti_parts_exchange_write(trainer, buffer_of_kind(kind), flat, n);
}

/* ---- Where driver threads meet --------------------------------------------------------------- */

void dpti_state_parts_set_present(dpt_trainer *trainer, size_t rank, bool present)
{
    dpti_rendezvous *meet = trainer->replicas.parts.meet;
    if (meet) dpti_rendezvous_set_present(meet, rank, present);
}

void dpti_state_parts_break(dpt_trainer *trainer)
{
    if (trainer->replicas.parts.meet) dpti_rendezvous_break(trainer->replicas.parts.meet);
}

void dpti_state_parts_mend(dpt_trainer *trainer)
{
    if (trainer->replicas.parts.meet) dpti_rendezvous_mend(trainer->replicas.parts.meet);
}

/* ---- In the update --------------------------------------------------------------------------- */

/* What a device writes to one buffer of the mirror. */
typedef struct own_run {
    const dpti_buffer *buffer; /* of the replica, */
    size_t place;              /* where the run begins at this element */
    size_t begin, count;       /* elements of the flat buffer */
    float *mirror;             /* the buffer that is or becomes the mirror's; NULL: not made yet */
    const float *view;         /* the replica's buffer as the host sees it; NULL: it does not */
} own_run;

/* The running statistics are written with the last part, which ends where they begin. */
static size_t end_of_parameters(const dpti_worker *w)
{
    const dpt_model *m = w->trainer->model;
    const dpti_state_part *part = &w->replicas.part;
    return part->begin < part->end && part->end == m->flat_trained ? m->flat_gradients : part->end;
}

static own_run run_of_buffer(const dpti_worker *w, size_t k)
{
    const dpti_replica *r = &w->replica;
    const dpti_state_parts *parts = &w->trainer->replicas.parts;
    const dpti_buffer *buffers[DPTI_MAX_STATE_BUFFERS] = {&r->parameters, &r->velocity,
                                                          &r->squares};
    const size_t begin = w->replicas.part.begin;
    const size_t end = k == 0 ? end_of_parameters(w) : w->replicas.part.end;
    return (own_run){.buffer = buffers[k],
                     .place =
                         k == 0 ? dpti_parameter_place(r, begin).offset_bytes / sizeof(float) : 0,
                     .begin = begin,
                     .count = end - begin,
                     .mirror = parts->between.next[k] ? parts->between.next[k] : parts->mirror[k],
                     .view = w->replicas.views[k]};
}

void dpti_state_parts_lend(dpti_worker *worker)
{
    worker->replica.source = &worker->trainer->replicas.parts.mirror[0];
}

/* The elements of all buffers that the device writes to the mirror. */
static size_t count_own(const dpti_worker *w)
{
    size_t n = 0;
    for (size_t k = 0; k < dpti_trainer_n_state_buffers(w->trainer); k++)
        n += run_of_buffer(w, k).count;
    return n;
}

/* Counts the part of the mirror. */
static dpt_status charge(dpti_worker *w)
{
    const size_t n_bytes = mirror_bytes(w);
    DPT_TRY(dpti_charge(w->device, n_bytes));
    w->replicas.charged = n_bytes;
    return DPT_OK;
}

dpt_status dpti_state_parts_create(dpti_worker *worker)
{
    void *host = NULL;
    DPT_TRY(charge(worker));
    if (!worker->trainer->replicas.parts.on || worker->replicas.views[0]) return DPT_OK;
    const size_t n = count_own(worker);
    if (n == 0) return DPT_OK;
    DPT_TRY(dpti_host_alloc(worker->device, n * sizeof(float), &host));
    worker->replicas.fetched = host;
    return DPT_OK;
}

void dpti_state_parts_destroy(dpti_worker *worker)
{
    float *fetched = worker->replicas.fetched;
    worker->replicas.fetched = NULL;
    dpti_host_free(worker->device, fetched);
    dpti_discharge(worker->device, worker->replicas.charged);
    worker->replicas.charged = 0;
}

size_t dpti_state_parts_mirror_bytes(const dpti_worker *worker)
{
    return worker->replicas.charged;
}

dpt_status dpti_state_parts_fetch(dpti_shard *shard)
{
    dpti_worker *w = shard->worker;
    float *to = w->replicas.fetched;
    const double began = dpti_seconds();
    if (!to) return DPT_OK;
    for (size_t k = 0; k < dpti_trainer_n_state_buffers(w->trainer); k++) {
        const own_run run = run_of_buffer(w, k);
        DPT_TRY(dpti_download(to, run.buffer, run.place * sizeof *to, run.count * sizeof *to));
        to += run.count;
    }
    DPT_TRY(dpti_sync(w->device));
    (void)dpti_times_add_since(&shard->times, DPTI_SPAN_EXCHANGE, began);
    return DPT_OK;
}

static void write_mirror(const dpti_worker *w)
{
    const float *fetched = w->replicas.fetched;
    for (size_t k = 0; k < dpti_trainer_n_state_buffers(w->trainer); k++) {
        const own_run run = run_of_buffer(w, k);
        const float *from = fetched ? fetched : run.view ? run.view + run.place : NULL;
        if (run.count == 0) continue;
        memcpy(run.mirror + run.begin, from, run.count * sizeof *from);
        if (fetched) fetched += run.count;
    }
}

/* With several processes what a device writes is not the mirror yet. */
dpt_status dpti_state_parts_vote(dpti_shard *shard, dpt_status mine)
{
    const dpti_worker *w = shard->worker;
    const bool shared = dpti_parts_exchange_on(w->trainer);
    double began = dpti_seconds();
    if (shared && mine == DPT_OK) {
        write_mirror(w);
        began = dpti_times_add_since(&shard->times, DPTI_SPAN_EXCHANGE, began);
    }
    const dpt_status verdict = dpti_rendezvous_meet(w->trainer->replicas.parts.meet, w->rank, mine);
    if (shared) return dpti_parts_exchange_run(shard, verdict, began);
    (void)dpti_times_add_since(&shard->times, DPTI_SPAN_WAITING, began);
    return verdict;
}

void dpti_state_parts_decline(const dpti_shard *shard)
{
    const dpt_trainer *t = shard->worker->trainer;
    if (t->replicas.parts.on && dpti_parts_exchange_on(t)) dpti_parts_exchange_decline(shard);
}

/* Enqueues the upload of those of the parameters [begin, end) that the device keeps. */
static dpt_status take_over(const dpti_worker *w, size_t begin, size_t end)
{
    const float *mirror = w->trainer->replicas.parts.mirror[0];
    if (begin >= end) return DPT_OK;
    return dpti_replica_write_kept(&w->replica, begin, mirror + begin, end - begin);
}

dpt_status dpti_state_parts_share(dpti_shard *shard)
{
    const dpti_worker *w = shard->worker;
    const dpti_state_part *part = &w->replicas.part;
    dpti_stopwatch watch = dpti_stopwatch_start(&shard->times);
    if (!dpti_parts_exchange_on(w->trainer)) {
        write_mirror(w);
        dpti_stopwatch_lap(&watch, DPTI_SPAN_EXCHANGE);
        /* Between the vote and here no thread calls a device, so none can hang. */
        DPT_TRY(dpti_rendezvous_meet(w->trainer->replicas.parts.meet, w->rank, DPT_OK));
        dpti_stopwatch_lap(&watch, DPTI_SPAN_WAITING);
    }
    DPT_TRY(take_over(w, 0, part->begin));
    DPT_TRY(take_over(w, part->end, w->trainer->model->flat_trained));
    DPT_TRY(dpti_sync(w->device));
    dpti_stopwatch_lap(&watch, DPTI_SPAN_EXCHANGE);
    return DPT_OK;
}

size_t dpti_state_parts_update_bytes(const dpti_worker *worker)
{
    const dpti_worker *w = worker;
    const dpti_state_part *part = &w->replicas.part;
    if (!w->trainer->replicas.parts.on) return 0;
    const size_t n_taken =
        dpti_replica_count_kept(&w->replica, (dpti_range){0, part->begin}) +
        dpti_replica_count_kept(&w->replica,
                                (dpti_range){part->end, w->trainer->model->flat_trained});
    return (n_taken + (w->replicas.fetched ? count_own(w) : 0)) * sizeof(float);
}

size_t dpti_state_parts_peer_bytes(const dpt_trainer *trainer, size_t device)
{
    const size_t n_kinds = dpti_trainer_n_state_buffers(trainer) - 1;
    if (!trainer->replicas.parts.on) return 0;
    return n_kinds * dpti_parts_exchange_count(trainer, device) * sizeof(float);
}

size_t dpti_state_parts_whole_bytes(const dpt_trainer *trainer)
{
    const dpt_trainer *t = trainer;
    if (!t->replicas.parts.on) return 0;
    return dpti_trainer_n_state_buffers(t) * t->model->flat_size * sizeof(float);
}

size_t dpti_state_parts_shared_bytes(const dpt_trainer *trainer)
{
    const dpt_trainer *t = trainer;
    const size_t n_others = dpti_trainer_n_state_buffers(t) - 1;
    if (!t->replicas.parts.on) return 0;
    return (t->model->flat_gradients + n_others * t->model->flat_trained) * sizeof(float);
}
