/* Gradients that are not finite (finite.h), and what is said of them. */
#include "train/finite.h"

#include "base/base.h"
#include "train/trainer.h"

#include <stdlib.h>
#include <string.h>

/* ---- A device's look at its own -------------------------------------------------------------- */

/* Long enough that a row is work, short enough that a small network has several. */
enum { ROW = 4096, PLACE = 256 };

static dpt_status prepare_run(const dpti_replica *r, size_t i, size_t first, size_t count,
                              dpti_finite *f)
{
    const dpt_op_desc desc = {.kind = DPT_OP_SQUARED_ERROR, .u.squared_error = {.count = count}};
    DPT_TRY(dpti_prepare(r->device, &desc, f->rows[i], &f->ops[i]));
    f->looks = true;
    if (f->ops[i].info.workspace_bytes > 0)
        return DPT_FAIL(&r->device->base.error, DPT_E_UNSUPPORTED, "a squared error with scratch");
    const dpti_place gradients = {&r->gradients, first * sizeof(float)};
    dpti_binding binding = {.in = {gradients, gradients}, .out = {{&f->results, f->places[i]}}};
    if (f->ops[i].signature.reads_step) binding.step = (dpti_place){&r->step, 0};
    return dpti_bind(&f->ops[i], f->rows[i], &binding, &f->args[i]);
}

static dpt_status create(const dpti_replica *r, size_t begin, size_t end, dpti_finite *f)
{
    const size_t n = end - begin, rest = n % ROW;
    const size_t counts[DPTI_FINITE_RUNS] = {ROW, rest}, firsts[] = {begin, end - rest};
    f->rows[0] = n / ROW;
    f->rows[1] = rest > 0;
    f->places[1] = dpti_round_up(f->rows[0] * 2 * sizeof(float), PLACE);
    const size_t n_bytes = f->places[1] + PLACE;
    void *host = NULL;
    DPT_TRY(dpti_alloc(r->device, n_bytes, &f->results));
    DPT_TRY(dpti_host_alloc(r->device, n_bytes, &host));
    f->host = host;
    for (size_t i = 0; i < DPTI_FINITE_RUNS; i++)
        if (f->rows[i] > 0) DPT_TRY(prepare_run(r, i, firsts[i], counts[i], f));
    return DPT_OK;
}

dpt_status dpti_finite_create(const dpti_replica *replica, size_t begin, size_t end,
                              dpti_finite *out)
{
    *out = (dpti_finite){.looks = false};
    if (begin == end) return DPT_OK;
    const dpt_status status = create(replica, begin, end, out);
    if (status != DPT_E_UNSUPPORTED) return status;
    dpti_finite_destroy(out);
    return DPT_OK;
}

void dpti_finite_destroy(dpti_finite *finite)
{
    dpti_device *device = finite->results.device;
    for (size_t i = 0; i < DPTI_FINITE_RUNS; i++)
        dpti_release(&finite->ops[i]);
    if (device) dpti_host_free(device, finite->host);
    dpti_free(&finite->results);
    *finite = (dpti_finite){.looks = false};
}

static size_t result_bytes(const dpti_finite *f)
{
    return f->places[1] + f->rows[1] * 2 * sizeof(float);
}

dpt_status dpti_finite_enqueue(const dpti_finite *finite)
{
    if (!finite->looks) return DPT_OK;
    for (size_t i = 0; i < DPTI_FINITE_RUNS; i++)
        if (finite->rows[i] > 0)
            DPT_TRY(dpti_run(&finite->ops[i], finite->rows[i], &finite->args[i]));
    return dpti_download(finite->host, &finite->results, 0, result_bytes(finite));
}

bool dpti_finite_all(const dpti_finite *finite)
{
    if (!finite->looks) return true;
    for (size_t i = 0; i < DPTI_FINITE_RUNS; i++)
        for (size_t k = 0; k < finite->rows[i]; k++)
            if (!(finite->host[finite->places[i] / sizeof(float) + 2 * k] == 0.0f)) return false;
    return true;
}

/* ---- In an island ---------------------------------------------------------------------------- */

/* Buckets lie next to each other: what is left lies before the last and behind the first. */
static dpt_status create_looks(const dpti_worker *w, dpti_looks *looks)
{
    const dpti_program *program = &w->train.program;
    size_t low = 0, high = w->replica.model->flat_size;
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
        DPT_TRY(dpti_finite_create(&w->replica, high, w->replica.model->flat_size, &at[1]));
    }
    return DPT_OK;
}

dpt_status dpti_looks_create(dpti_worker *worker)
{
    dpti_looks *looks = &worker->looks;
    if (looks->segments || worker->replica.capacity == 0) return DPT_OK;
    looks->n_segments = worker->train.program.n_segments;
    looks->segments = calloc(looks->n_segments, sizeof *looks->segments);
    if (!looks->segments)
        return DPT_FAIL(&worker->device->base.error, DPT_E_NO_MEMORY, "no memory for looks");
    return create_looks(worker, looks);
}

void dpti_looks_destroy(dpti_looks *looks)
{
    for (size_t s = 0; s < looks->n_segments; s++)
        for (size_t i = 0; i < DPTI_LOOK_PLACES; i++)
            dpti_finite_destroy(&looks->segments[s][i]);
    free(looks->segments);
    *looks = (dpti_looks){.n_segments = 0};
}

/* The i-th of what a device looks at behind a segment. */
static const dpti_finite *look_of(const dpti_worker *w, size_t segment, size_t i)
{
    static const dpti_finite none;
    if (dpti_in_island(w)) return w->looks.segments ? &w->looks.segments[segment][i] : &none;
    const bool ends = w->train.program.segments[segment].exchange == DPTI_EXCHANGE_GRADIENTS;
    return ends && i == 0 && dpti_is_alone(w) ? &w->finite : &none;
}

dpt_status dpti_worker_look(const dpti_worker *worker, size_t segment)
{
    for (size_t i = 0; i < DPTI_LOOK_PLACES; i++)
        DPT_TRY(dpti_finite_enqueue(look_of(worker, segment, i)));
    return DPT_OK;
}

bool dpti_worker_saw_finite(const dpti_worker *worker, size_t segment)
{
    for (size_t i = 0; i < DPTI_LOOK_PLACES; i++)
        if (!dpti_finite_all(look_of(worker, segment, i))) return false;
    return true;
}

/* ---- What is said ---------------------------------------------------------------------------- */

static const char *is_or_are(const char *flaw)
{
    return strcmp(flaw, "loss") == 0 ? "is" : "are";
}

dpt_status dpti_trainer_diverges(dpt_error *error, const char *flaw, size_t step, float lr)
{
    return DPT_FAIL(error, DPT_E_NOT_FINITE,
                    "the %s of step %zu %s not finite: training diverges; lower the learning rate "
                    "(now %g) or check the data",
                    flaw, step, is_or_are(flaw), (double)lr);
}

/* As many names as fit. */
static void name_culprits(const dpt_trainer *t, const dpti_flight *flight, char *names,
                          size_t n_bytes)
{
    size_t length = 0;
    names[0] = '\0';
    for (size_t i = 0; i < t->n_devices && length < n_bytes; i++) {
        const dpti_peer *peer = &t->peers[i];
        const char *separator = length > 0 ? ", " : "";
        if (flight->outcomes[i].status != DPT_E_NOT_FINITE) continue;
        const int n = t->processes
                          ? snprintf(names + length, n_bytes - length, "%s%s of process %zu (%s)",
                                     separator, peer->id, peer->process, peer->host)
                          : snprintf(names + length, n_bytes - length, "%s%s", separator, peer->id);
        length += n > 0 ? (size_t)n : 0;
    }
}

dpt_status dpti_trainer_fail_not_finite(dpt_trainer *trainer, dpti_flight *flight)
{
    dpt_trainer *t = trainer;
    size_t n_culprits = 0, n_contributing = 0;
    const char *flaw = "numbers"; /* of the first one */
    dpt_error error = {.status = DPT_OK};
    dpti_peers_take(t, flight);
    for (size_t i = 0; i < t->n_devices; i++) {
        const dpti_outcome *outcome = &flight->outcomes[i];
        n_contributing += flight->shards[i] > 0;
        if (outcome->status != DPT_E_NOT_FINITE) continue;
        if (n_culprits++ == 0) flaw = outcome->flaw;
    }
    (void)dpti_trainer_diverges(&error, flaw, flight->cursor.step + 1, flight->lr);
    /* All of them, or the sum of what each has: it is the training. */
    if (n_culprits == n_contributing) return dpti_context_fail(t->context, NULL, &error);
    for (size_t i = 0; i < t->n_devices; i++)
        if (flight->outcomes[i].status == DPT_E_NOT_FINITE)
            dpti_trainer_note_event(t, DPT_DEVICE_NOT_FINITE, i, &error);
    char names[200];
    name_culprits(t, flight, names, sizeof names);
    (void)DPT_FAIL(&error, DPT_E_NOT_FINITE,
                   "device%s %s: the %s of step %zu %s not finite there, and finite on the other "
                   "device%s: leave %s out if that comes again, or lower the learning rate (now "
                   "%g) or check the data",
                   n_culprits == 1 ? "" : "s", names, flaw, flight->cursor.step + 1,
                   is_or_are(flaw), n_contributing - n_culprits == 1 ? "" : "s",
                   n_culprits == 1 ? "it" : "them", (double)flight->lr);
    return dpti_context_fail(t->context, NULL, &error);
}
