/* Gathers parameters for the programs of a replica (gathered.h). */
#include "graph/gathered.h"

#include "base/grow.h"
#include "device/buffer.h"
#include "dpt_error.h"
#include "graph/replica.h"

/* ---- What a device keeps --------------------------------------------------------------------- */

static size_t at_most(size_t value, size_t most)
{
    return value < most ? value : most;
}

/* The weights of the part [begin, end). */
static dpti_range weights_of(const dpt_model *model, size_t begin, size_t end)
{
    return (dpti_range){at_most(begin, model->flat_weights), at_most(end, model->flat_weights)};
}

size_t dpti_count_kept(const dpt_model *model, const dpti_optimizer *optimizer)
{
    const dpti_optimizer *o = optimizer;
    if (!o->divided_parameters) return model->flat_size;
    const size_t n = dpti_range_size(weights_of(model, o->begin, o->end)) + model->flat_gradients -
                     model->flat_weights;
    return n > 0 ? n : DPTI_PARAMETER_ALIGNMENT; /* a buffer is not empty */
}

dpti_kept_parameters dpti_replica_kept(const dpti_replica *replica)
{
    const dpti_replica *r = replica;
    return (dpti_kept_parameters){.own = weights_of(r->model, r->sums_begin, r->sums_end),
                                  .shared = {r->model->flat_weights, r->model->flat_gradients}};
}

dpti_place dpti_parameter_place(const dpti_replica *replica, size_t element)
{
    const dpti_replica *r = replica;
    size_t at = element;
    if (r->gathers) {
        const dpti_kept_parameters k = dpti_replica_kept(r);
        at = element < k.shared.begin ? element - k.own.begin
                                      : dpti_range_size(k.own) + element - k.shared.begin;
    }
    return (dpti_place){&r->parameters, at * sizeof(float)};
}

static dpt_status write_run(const dpti_replica *r, dpti_range what, size_t begin,
                            const float *values)
{
    if (what.begin >= what.end) return DPT_OK;
    const dpti_place to = dpti_parameter_place(r, what.begin);
    return dpti_upload(to.buffer, to.offset_bytes, values + what.begin - begin,
                       dpti_range_size(what) * sizeof *values);
}

dpt_status dpti_replica_write_kept(const dpti_replica *replica, size_t begin, const float *values,
                                   size_t n)
{
    const dpti_replica *r = replica;
    const dpti_range all = {begin, begin + n};
    const dpti_kept_parameters k = dpti_replica_kept(r);
    if (!r->gathers) return write_run(r, all, begin, values);
    DPT_TRY(write_run(r, dpti_range_common(all, k.own), begin, values));
    return write_run(r, dpti_range_common(all, k.shared), begin, values);
}

size_t dpti_replica_count_kept(const dpti_replica *replica, dpti_range what)
{
    if (!replica->gathers) return dpti_range_size(what);
    const dpti_kept_parameters k = dpti_replica_kept(replica);
    return dpti_range_size(dpti_range_common(what, k.own)) +
           dpti_range_size(dpti_range_common(what, k.shared));
}

/* ---- Finding --------------------------------------------------------------------------------- */

/* The work of finding: `reader` is the last instruction that has read gathered parameters, SIZE_MAX
   before there is one. */
typedef struct finder {
    dpti_executable *x;
    size_t reader;
    dpt_error *error;
} finder;

/* The instructions of chunks run again and again: they count as one. */
static dpti_range span_of(const dpti_executable *x, size_t i)
{
    const dpti_chunks *chunks = &x->program.chunks;
    if (i >= chunks->first && i < chunks->last)
        return (dpti_range){chunks->first, chunks->last - 1};
    return (dpti_range){i, i};
}

static bool is_gathered(const dpti_replica *r, dpti_range what)
{
    const dpti_kept_parameters k = dpti_replica_kept(r);
    if (what.begin >= k.shared.begin && what.begin < k.shared.end) return false;
    return what.begin < k.own.begin || what.end > k.own.end;
}

/* What is gathered already for an instruction, or for the one that has read last; NULL: nothing. */
static dpti_fetch *find_fetch(const finder *f, dpti_range what, size_t i)
{
    dpti_fetches *all = &f->x->fetches;
    for (size_t k = all->n; k-- > 0;) {
        dpti_fetch *fetch = &all->items[k];
        const bool is_there = fetch->last >= i || fetch->last == f->reader;
        if (is_there && fetch->begin == what.begin && fetch->count >= dpti_range_size(what))
            return fetch;
    }
    return NULL;
}

static dpt_status no_memory(const finder *f)
{
    return DPT_FAIL(f->error, DPT_E_NO_MEMORY, "no memory to gather parameters of model %s",
                    f->x->replica->model->name);
}

static dpt_status add_tensor(const finder *f, dpti_program_tensor tensor, int *out)
{
    dpti_program *p = &f->x->program;
    dpti_program_tensor *grown =
        dpti_grow(p->tensors, p->n_tensors, &p->tensors_capacity, sizeof *grown);
    if (!grown) return no_memory(f);
    p->tensors = grown;
    *out = (int)p->n_tensors;
    grown[p->n_tensors++] = tensor;
    return DPT_OK;
}

static dpt_status add_fetch(const finder *f, dpti_range what, dpti_range span, dpti_fetch **out)
{
    dpti_fetches *all = &f->x->fetches;
    dpti_fetch *grown = dpti_grow(all->items, all->n, &all->capacity, sizeof *grown);
    const size_t n = dpti_range_size(what);
    int tensor = DPTI_NO_TENSOR;
    if (!grown) return no_memory(f);
    all->items = grown;
    DPT_TRY(add_tensor(f,
                       (dpti_program_tensor){.home = DPTI_HOME_ARENA,
                                             .fixed_bytes = n * sizeof(float),
                                             .first = span.begin,
                                             .last = span.end},
                       &tensor));
    *out = &grown[all->n++];
    **out = (dpti_fetch){
        .before = span.begin, .last = span.end, .tensor = tensor, .begin = what.begin, .count = n};
    return DPT_OK;
}

/* Input s of instruction i, if it is of parameters that the device does not keep. */
static dpt_status find_input(const finder *f, size_t i, size_t s, bool *reads)
{
    dpti_executable *x = f->x;
    int *input = &x->program.instructions[i].in[s];
    const dpti_program_tensor *t = &x->program.tensors[*input];
    const dpti_range what = {t->offset, t->offset + x->ops[i].signature.in[s].fixed};
    const dpti_range span = span_of(x, i);
    if (t->home != DPTI_HOME_PARAMETERS || !is_gathered(x->replica, what)) return DPT_OK;
    dpti_fetch *fetch = find_fetch(f, what, span.begin);
    if (!fetch) DPT_TRY(add_fetch(f, what, span, &fetch));
    fetch->last = x->program.tensors[fetch->tensor].last = span.end;
    *input = fetch->tensor;
    *reads = true;
    return DPT_OK;
}

/* Segments that commit read and write what the device keeps. */
dpt_status dpti_fetches_find(dpti_executable *executable, dpt_error *error)
{
    dpti_executable *x = executable;
    finder f = {.x = x, .reader = SIZE_MAX, .error = error};
    if (!x->replica->gathers) return DPT_OK;
    for (size_t k = 0; k < x->program.n_segments; k++) {
        const dpti_segment *segment = &x->program.segments[k];
        for (size_t i = segment->first; i < segment->last && !segment->commits; i++) {
            bool reads = false;
            for (size_t s = 0; x->ops[i].device && s < x->ops[i].signature.n_in; s++)
                DPT_TRY(find_input(&f, i, s, &reads));
            if (reads) f.reader = span_of(x, i).end;
        }
    }
    return DPT_OK;
}

void dpti_fetches_place(dpti_executable *executable, const dpti_buffer *arena,
                        const dpti_plan *plan)
{
    dpti_fetches *all = &executable->fetches;
    for (size_t k = 0; k < all->n; k++)
        all->items[k].place = (dpti_place){arena, plan->tensor_offsets[all->items[k].tensor]};
}

/* ---- Running --------------------------------------------------------------------------------- */

bool dpti_fetches_any(const dpti_executable *executable, size_t segment)
{
    const dpti_segment *s = &executable->program.segments[segment];
    const dpti_fetches *all = &executable->fetches;
    for (size_t k = 0; k < all->n; k++)
        if (all->items[k].before >= s->first && all->items[k].before < s->last) return true;
    return false;
}

/* Copies a run of what is fetched from the host. */
static dpt_status from_host(const dpti_replica *r, const dpti_fetch *f, dpti_range what)
{
    if (what.begin >= what.end) return DPT_OK;
    return dpti_upload(f->place.buffer,
                       f->place.offset_bytes + (what.begin - f->begin) * sizeof(float),
                       *r->source + what.begin, dpti_range_size(what) * sizeof(float));
}

static dpt_status from_own(const dpti_replica *r, const dpti_fetch *f, dpti_range what)
{
    if (what.begin >= what.end) return DPT_OK;
    const dpti_place from = dpti_parameter_place(r, what.begin);
    const dpti_slice slice = {from.buffer, from.offset_bytes,
                              dpti_range_size(what) * sizeof(float)};
    return dpti_copy(f->place.buffer,
                     f->place.offset_bytes + (what.begin - f->begin) * sizeof(float), &slice);
}

/* What of it is the device's own; both ends lie within `all`. */
static dpti_range own_of(const dpti_replica *r, dpti_range all)
{
    const dpti_range own = dpti_range_common(all, dpti_replica_kept(r).own);
    return own.begin < own.end ? own : (dpti_range){all.end, all.end};
}

static dpt_status fetch(const dpti_replica *r, const dpti_fetch *f)
{
    const dpti_range all = {f->begin, f->begin + f->count}, own = own_of(r, all);
    if (!*r->source)
        return DPT_FAIL(&r->device->base.error, DPT_E_INTERNAL,
                        "parameters are gathered before the host has them");
    DPT_TRY(from_host(r, f, (dpti_range){all.begin, own.begin}));
    DPT_TRY(from_own(r, f, own));
    return from_host(r, f, (dpti_range){own.end, all.end});
}

dpt_status dpti_fetches_run(const dpti_executable *executable, size_t instruction)
{
    const dpti_fetches *all = &executable->fetches;
    for (size_t k = 0; k < all->n && all->items[k].before <= instruction; k++)
        if (all->items[k].before == instruction)
            DPT_TRY(fetch(executable->replica, &all->items[k]));
    return DPT_OK;
}

size_t dpti_fetches_bytes(const dpti_executable *executable)
{
    const dpti_fetches *all = &executable->fetches;
    size_t n = 0;
    for (size_t k = 0; k < all->n; k++) {
        const dpti_fetch *f = &all->items[k];
        const dpti_range what = {f->begin, f->begin + f->count};
        n += f->count - dpti_range_size(own_of(executable->replica, what));
    }
    return n * sizeof(float);
}
