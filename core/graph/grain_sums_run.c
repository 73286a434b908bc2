/* Sums over samples, grain by grain (grain_sums.h). */
#include "base/size.h"
#include "device/buffer.h"
#include "graph/chunks.h"
#include "graph/grain_sums.h"
#include "graph/replica.h"

#include <stdlib.h>

_Static_assert((int)DPTI_GRAINS <= (int)DPT_MOST_GRAINS, "an operator can add up any node");

/* Adds `count` elements of one sum to another. */
typedef struct adder {
    size_t count;
    dpti_op op;
} adder;

struct dpti_grain_sums {
    /* Each holds the sums of any one instruction whose operator does not add up grains itself. */
    dpti_buffer scratch[DPTI_GRAIN_SCRATCH];
    dpti_buffer apart; /* of an instruction that adds_terms */
    adder *adders;     /* with different counts */
    size_t n_adders;
};

dpti_grain_sums *dpti_grain_sums_create(void)
{
    return calloc(1, sizeof(dpti_grain_sums));
}

void dpti_grain_sums_destroy(dpti_grain_sums *sums)
{
    if (!sums) return;
    for (size_t i = 0; i < sums->n_adders; i++)
        dpti_release(&sums->adders[i].op);
    for (size_t i = 0; i < DPTI_GRAIN_SCRATCH; i++)
        dpti_free(&sums->scratch[i]);
    dpti_free(&sums->apart);
    free(sums->adders);
    free(sums);
}

size_t dpti_grain_sums_bytes(const dpti_grain_sums *sums)
{
    size_t n = sums ? sums->apart.n_bytes : 0;
    for (size_t i = 0; sums && i < DPTI_GRAIN_SCRATCH; i++)
        n += sums->scratch[i].n_bytes;
    return n;
}

/* ---- The outputs of an instruction ----------------------------------------------------------- */

static const dpti_program_tensor *output_of(const dpti_executable *x, size_t i, size_t s)
{
    return &x->program.tensors[x->program.instructions[i].out[s]];
}

/* Whether output s of instruction i is the gradient of a parameter, or a batch's contribution to a
   running statistic. */
static bool is_gradient(const dpti_executable *x, size_t i, size_t s)
{
    return output_of(x, i, s)->home == DPTI_HOME_GRADIENTS;
}

static size_t sum_bytes(const dpti_slot *slot)
{
    return slot->fixed * sizeof(float);
}

bool dpti_sums_over_grains(const dpti_executable *executable, size_t i)
{
    const dpti_executable *x = executable;
    const dpti_signature *signature = &x->ops[i].signature;
    if (!x->ops[i].device || x->program.instructions[i].per_step) return false;
    for (size_t s = 0; s < signature->n_out; s++)
        if (!signature->out[s].per_sample &&
            (is_gradient(x, i, s) || output_of(x, i, s)->row_bytes > 0))
            return true;
    return false;
}

/* Whether the operator adds each of its terms to what the output has, and not their sum.  Then the
   sum of a grain must be computed apart, before it is added to that of another. */
static bool adds_terms(const dpti_executable *x, size_t i)
{
    return x->program.instructions[i].desc.kind == DPT_OP_TAKE_BACKWARD &&
           !x->ops[i].info.has_grains;
}

/* ---- Checking -------------------------------------------------------------------------------- */

/* Whether a batch-norm writes the output for itself alone: the moments of all grains, which are the
   same each time, and the gradients of a scale that is no parameter, which nobody reads. */
static bool is_of_batch_norm(const dpti_instruction *instruction)
{
    return dpt_op_family_of(instruction->desc.kind) == DPT_FAMILY_BATCH_NORM;
}

bool dpti_writes_all(const dpt_op_desc *desc, const dpti_signature *signature, size_t s)
{
    const dpt_map_desc *d = &desc->u.map;
    size_t n = 1;
    if (dpt_op_family_of(desc->kind) != DPT_FAMILY_MAP)
        return !(dpt_op_traits_of(desc->kind).marks & DPT_MARK_UPDATES);
    for (size_t i = 0; i < d->rank; i++)
        if (d->out[s].stride[i] != 0) n *= d->extent[i];
    return d->out[s].offset == 0 && n == signature->out[s].fixed;
}

/* What hinders the sum of output s of instruction i; NULL: nothing. */
static const char *hindrance(const dpti_executable *x, size_t i, size_t s)
{
    const dpti_instruction *instruction = &x->program.instructions[i];
    const bool adds = (instruction->flags & DPT_RUN_ACCUMULATE) != 0;
    const bool gradient = is_gradient(x, i, s);
    if (instruction->per_step)
        return gradient && adds ? "several sums add up to one gradient" : NULL;
    if (x->ops[i].signature.out[s].per_sample) return NULL;
    if (gradient && adds) return "a parameter has several gradients, which add up";
    if (gradient && !x->ops[i].signature.out[s].accumulates)
        return "the gradient cannot be added to";
    if (gradient && !instruction->clears &&
        !dpti_writes_all(&instruction->desc, &x->ops[i].signature, s))
        return "the gradient is written in parts";
    if (gradient || output_of(x, i, s)->row_bytes > 0 || output_of(x, i, s)->discarded ||
        is_of_batch_norm(instruction))
        return NULL;
    return "a value that is computed from parameters has a gradient";
}

static dpt_status check(const dpti_executable *x, size_t i, dpt_error *error)
{
    const dpti_instruction *instruction = &x->program.instructions[i];
    for (size_t s = 0; s < x->ops[i].signature.n_out; s++) {
        const char *what = hindrance(x, i, s);
        if (what)
            return DPT_FAIL(error, DPT_E_UNSUPPORTED,
                            "layer %s (%s): %s, which deterministic training cannot do; train "
                            "without it",
                            instruction->layer, dpti_op_name(instruction->desc.kind), what);
    }
    return DPT_OK;
}

/* ---- Preparing ------------------------------------------------------------------------------- */

static adder *find_adder(const dpti_grain_sums *sums, size_t count)
{
    for (size_t i = 0; i < sums->n_adders; i++)
        if (sums->adders[i].count == count) return &sums->adders[i];
    return NULL;
}

static dpt_status prepare_adder(dpti_executable *x, size_t count, dpt_error *error)
{
    dpti_grain_sums *sums = x->sums;
    dpti_device *device = x->replica->device;
    const dpt_op_desc desc = {.kind = DPT_OP_ADD,
                              .u.elementwise = {.count = count, .alpha = 1.0f, .beta = 1.0f}};
    const dpt_op_request request = {.desc = &desc, .max_samples = 1, .deterministic = true};
    if (find_adder(sums, count)) return DPT_OK;
    adder *grown = realloc(sums->adders, (sums->n_adders + 1) * sizeof *grown);
    if (!grown) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to add up gradients");
    sums->adders = grown;
    grown[sums->n_adders] = (adder){.count = count};
    const dpt_status status = dpti_prepare_as(device, &request, &grown[sums->n_adders].op);
    if (status == DPT_OK)
        sums->n_adders++;
    else
        *error = device->base.error;
    return status;
}

/* Prepares what adds up the gradients of instruction i.  *most becomes the most scratch bytes that
   they take. */
static dpt_status prepare_instruction(dpti_executable *x, size_t i, size_t *most, dpt_error *error)
{
    const dpti_signature *signature = &x->ops[i].signature;
    size_t n_bytes = 0;
    for (size_t s = 0; s < signature->n_out; s++) {
        if (!is_gradient(x, i, s)) continue;
        DPT_TRY(prepare_adder(x, signature->out[s].fixed, error));
        n_bytes += dpti_round_up(sum_bytes(&signature->out[s]), 256);
    }
    /* In chunks no operator has more than one grain. */
    const bool adds_up = x->ops[i].info.has_grains && !dpti_is_divided(x, i);
    if (n_bytes > *most && !adds_up) *most = n_bytes;
    return DPT_OK;
}

static bool commits(const dpti_executable *x, size_t i)
{
    for (size_t s = 0; s < x->program.n_segments; s++)
        if (i >= x->program.segments[s].first && i < x->program.segments[s].last)
            return x->program.segments[s].commits;
    return false;
}

static dpt_status allocate(const dpti_executable *x, size_t n_bytes, dpti_buffer *out,
                           dpt_error *error)
{
    if (n_bytes == 0) return DPT_OK;
    const dpt_status status = dpti_alloc(x->replica->device, n_bytes, out);
    if (status != DPT_OK) *error = x->replica->device->base.error;
    return status;
}

dpt_status dpti_grain_sums_prepare(dpti_executable *executable, dpt_error *error)
{
    dpti_executable *x = executable;
    size_t most = 0, apart = 0;
    for (size_t i = 0; i < x->program.n_instructions; i++) {
        if (!x->ops[i].device || commits(x, i)) continue;
        DPT_TRY(check(x, i, error));
        if (!dpti_sums_over_grains(x, i)) continue;
        DPT_TRY(prepare_instruction(x, i, &most, error));
        if (adds_terms(x, i)) DPT_TRY(prepare_instruction(x, i, &apart, error));
    }
    for (size_t k = 0; k < DPTI_GRAIN_SCRATCH; k++)
        DPT_TRY(allocate(x, most, &x->sums->scratch[k], error));
    return allocate(x, apart, &x->sums->apart, error);
}

/* ---- Running --------------------------------------------------------------------------------- */

/* The work of one instruction. */
typedef struct work {
    dpti_executable *x;
    size_t i;
    const dpti_grain_run *run;
    bool in_chunks; /* each grain is a chunk, which begins where the tensors of chunks begin */
} work;

enum { APART = DPTI_GRAIN_SCRATCH }; /* the index of the scratch memory `apart` */

/* Where the sum of output s is kept. */
static dpti_place place_of(const work *w, size_t s, dpti_grain_place at)
{
    const dpti_executable *x = w->x;
    const dpti_replica *r = x->replica;
    size_t before = 0;
    const size_t offset = output_of(x, w->i, s)->offset;
    if (!at.is_scratch && at.index == 0) return dpti_gradient_place(r, offset);
    if (!at.is_scratch)
        return (dpti_place){&r->nodes.buffers[at.index - 1],
                            dpti_node_place(&r->nodes.places, offset) * sizeof(float)};
    for (size_t k = 0; k < s; k++)
        if (is_gradient(x, w->i, k))
            before += dpti_round_up(sum_bytes(&x->ops[w->i].signature.out[k]), 256);
    return (dpti_place){at.index == APART ? &x->sums->apart : &x->sums->scratch[at.index], before};
}

/* Whether a tensor has the rows of one chunk, and begins with the grain's. */
static bool begins_anew(const work *w, int tensor)
{
    return w->in_chunks && w->x->program.tensors[tensor].chunk_row_bytes > 0;
}

static void move_on(dpt_location *location, const dpti_slot *slot, size_t n_samples)
{
    location->offset_bytes += n_samples * slot->per_sample * dpt_dtype_bytes(slot->dtype);
}

/* Runs the instruction for a node, which is one grain unless the operator adds up grains. */
static dpt_status run_node(const work *w, const dpti_grain_step *step)
{
    const dpti_executable *x = w->x;
    const dpti_op *op = &x->ops[w->i];
    const dpti_signature *signature = &op->signature;
    const dpti_grains *g = &w->run->grains;
    const dpti_instruction *instruction = &x->program.instructions[w->i];
    const size_t repeat = instruction->repeat;
    const size_t rows = repeat > 0 ? repeat : 1, begin = dpti_grain_begin(g, step->grains.begin);
    const size_t first = (begin - dpti_grain_begin(g, w->run->first)) * rows;
    dpt_op_args args = x->args[w->i];
    /* Rows of parts are written, and every gradient can be added to. */
    args.flags = step->adds && signature->may_accumulate ? DPT_RUN_ACCUMULATE : 0;
    args.grain = op->info.has_grains ? g->size * rows : 0;
    for (size_t s = 0; s < signature->n_in; s++)
        if (!begins_anew(w, instruction->in[s])) move_on(&args.in[s], &signature->in[s], first);
    for (size_t s = 0; s < signature->n_out; s++) {
        const dpti_program_tensor *tensor = output_of(x, w->i, s);
        if (!begins_anew(w, instruction->out[s])) move_on(&args.out[s], &signature->out[s], first);
        args.out[s].offset_bytes += (step->grains.begin - w->run->first) * tensor->row_bytes;
        if (!is_gradient(x, w->i, s)) continue;
        const dpti_place to = place_of(w, s, step->to);
        args.out[s] = (dpt_location){to.buffer->handle, to.offset_bytes};
        if (instruction->clears && !step->adds)
            DPT_TRY(dpti_fill(to.buffer, to.offset_bytes, 0, sum_bytes(&signature->out[s])));
    }
    return dpti_run(op, (dpti_grain_begin(g, step->grains.end) - begin) * rows, &args);
}

static dpt_status add(const work *w, const dpti_grain_step *step)
{
    const dpti_signature *signature = &w->x->ops[w->i].signature;
    for (size_t s = 0; s < signature->n_out; s++) {
        if (!is_gradient(w->x, w->i, s)) continue;
        const dpti_op *op = &find_adder(w->x->sums, signature->out[s].fixed)->op;
        const dpti_place to = place_of(w, s, step->to);
        const dpti_binding binding = {.in = {to, place_of(w, s, step->from)}, .out = {to}};
        dpt_op_args args;
        DPT_TRY(dpti_bind(op, 1, &binding, &args));
        DPT_TRY(dpti_run(op, 1, &args));
    }
    return DPT_OK;
}

static dpt_status run_step(const work *w, const dpti_grain_step *step)
{
    const dpti_grain_place apart = {.is_scratch = true, .index = APART};
    dpti_grain_step alone = *step, sum = *step;
    if (step->is_sum) return add(w, step);
    if (!step->adds || !adds_terms(w->x, w->i)) return run_node(w, step);
    alone.to = sum.from = apart;
    alone.adds = false;
    DPT_TRY(run_node(w, &alone));
    return add(w, &sum);
}

dpti_grain_node dpti_grains_of_run(const dpti_grain_run *run, size_t n_samples)
{
    const size_t end = dpti_grain_begin(&run->grains, run->first) + n_samples;
    dpti_grain_node of = {run->first, run->first};
    while (of.end < run->grains.n && dpti_grain_begin(&run->grains, of.end) < end)
        of.end++;
    return of;
}

/* Clears the parts of grains that the batch does not have, behind the n that it has. */
static dpt_status clear_parts(const work *w, size_t n)
{
    const dpti_executable *x = w->x;
    const dpti_buffer *arena = x->arena.handle ? &x->arena : &x->replica->arena;
    for (size_t s = 0; s < x->ops[w->i].signature.n_out; s++) {
        const size_t row_bytes = output_of(x, w->i, s)->row_bytes;
        const size_t at = x->args[w->i].out[s].offset_bytes + n * row_bytes;
        if (row_bytes > 0) DPT_TRY(dpti_fill(arena, at, 0, (DPTI_GRAINS - n) * row_bytes));
    }
    return DPT_OK;
}

dpt_status dpti_grain_sums_run(dpti_executable *executable, size_t i, size_t n_samples,
                               const dpti_grain_run *run)
{
    const work w = {.x = executable, .i = i, .run = run};
    dpti_grain_list list = run->before;
    dpti_grain_work steps;
    const dpti_grain_node range = dpti_grains_of_run(run, n_samples);
    if (executable->ops[i].info.has_grains)
        dpti_grains_plan_nodes(&list, range, run->grains.n, &steps);
    else
        (void)dpti_grains_plan(&list, range, run->grains.n, &steps);
    for (size_t k = 0; k < steps.n_steps; k++)
        DPT_TRY(run_step(&w, &steps.steps[k]));
    /* A device that has the whole batch may not exchange parts: then these are the parts of all. */
    if (run->first > 0 || range.end < run->grains.n || range.end == DPTI_GRAINS) return DPT_OK;
    return clear_parts(&w, range.end);
}

dpt_status dpti_grain_sums_run_step(dpti_executable *executable, size_t i,
                                    const dpti_grain_run *run, const dpti_grain_step *step)
{
    const work w = {.x = executable, .i = i, .run = run, .in_chunks = true};
    return run_step(&w, step);
}
