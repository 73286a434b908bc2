/* MAP and MAP_REDUCE: launches of map.cl and map_reduce.cl. */
#include "map_params.h"
#include "map_plan.h"
#include "operators.h"
#include "span.h"

#define SAME_NUMBER(name, ...) _Static_assert(MAP_##name == DPT_MAP_##name, "kernels/map_params.h");
DPT_MAP_LIST(SAME_NUMBER)
#undef SAME_NUMBER
_Static_assert(REDUCE_MAXIMUM == DPT_REDUCE_MAXIMUM && MAP_BF16 == DPT_BF16,
               "kernels/map_params.h");

typedef struct state {
    dpt_kernel *kernel, *merge; /* merge: of a reduction */
    dpt_map_plan plan;
    map_params params;        /* complete except for what depends on the call */
    size_t n_reduced, n_kept; /* of a sample, or of all if there is no axis of samples */
} state;

/* ---- Parameters ------------------------------------------------------------------------------ */

static void set_operand(map_params *p, const dpt_map_plan *plan, unsigned from, unsigned to)
{
    for (size_t axis = 0; axis < plan->rank; axis++)
        p->stride[to][axis] = (i32)plan->stride[from][axis];
    p->offset[to] = (u32)plan->offset[from];
    p->type[to] = (u32)plan->type[from];
}

static void set_program(map_params *p, const dpt_map_plan *plan)
{
    p->n_steps = plan->n_steps;
    for (unsigned i = 0; i < plan->n_steps; i++) {
        const dpt_map_step *s = &plan->steps[i];
        p->step[i] = MAP_STEP(s->code, s->to, s->a, s->b, s->c);
        p->number[i] = s->constant;
    }
}

static map_params params_of(const dpt_map_plan *plan)
{
    map_params p = {.rank = (u32)plan->rank, .n_outputs = plan->n_operands - plan->n_in};
    for (size_t axis = 0; axis < plan->rank; axis++)
        p.extent[axis] = (u32)plan->extent[axis];
    for (unsigned i = 0; i < plan->n_in; i++)
        set_operand(&p, plan, i, i);
    for (unsigned i = plan->n_in; i < plan->n_operands; i++) {
        set_operand(&p, plan, i, MAP_INPUTS + i - plan->n_in);
        p.result[i - plan->n_in] = plan->result[i - plan->n_in];
    }
    set_program(&p, plan);
    return p;
}

static void add_inputs(dpt_launch *l, const dpt_call *call)
{
    for (unsigned i = 0; i < MAP_INPUTS; i++)
        dpt_launch_tensor(l, call->args->in[i], DPT_U8);
}

/* ---- MAP ------------------------------------------------------------------------------------- */

static dpt_status run_map(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    map_params p = s->params;
    p.n_rows = (u32)(call->n_samples * s->plan.extent[0]);
    p.count = call->n_samples * s->n_kept;
    p.accumulate = call->accumulate;
    dpt_launch l = dpt_launch_begin(call->stream, s->kernel);
    for (unsigned i = 0; i < DPT_MAX_OUTPUTS; i++)
        dpt_launch_tensor(&l, call->args->out[i], DPT_U8);
    add_inputs(&l, call);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_elements(&l, p.count, 1);
}

/* Operands have types of their own, so there is one program for all types. */
static dpt_status map_kernel(const dpt_op *op, const char *file, const char *name, dpt_kernel **out)
{
    if (op->deterministic) return dpt_kernel_deterministic(op->device, file, name, out);
    return dpt_kernel_of(op->device, file, name, out);
}

static dpt_status prepare_map(dpt_op *op, state *s)
{
    op->plan.run = run_map;
    op->plan.algorithm = "an interpreter";
    s->n_kept = 1;
    for (size_t axis = 0; axis < s->plan.rank; axis++)
        s->n_kept *= s->plan.extent[axis];
    return map_kernel(op, "map.cl", "dpt_map", &s->kernel);
}

/* ---- MAP_REDUCE ------------------------------------------------------------------------------ */

/* How the indices of a call are divided. */
typedef struct division {
    size_t n_kept, n_reduced, n_tiles, n_pieces, piece_length;
} division;

enum { ITEMS_OF_UNIT = 1024, ITEMS_OF_CORE = 4, LEAST_LENGTH = 64, LANES_OF_CPU = 64 };

/* Work items that fill the device. */
static size_t items_of(const dpt_traits *traits)
{
    return (size_t)traits->n_units * (traits->is_cpu ? ITEMS_OF_CORE : ITEMS_OF_UNIT);
}

static size_t lanes_of(const dpt_traits *traits)
{
    return traits->is_cpu ? LANES_OF_CPU : 1;
}

/* The sums of all pieces: there are several pieces only while the tiles are fewer than the items,
   and then at most as many tiles of all pieces as items.  0: there is always one piece. */
static size_t sums_bytes(const dpt_device *device, const state *s, size_t max_samples)
{
    const dpt_traits *traits = dpt_traits_of(device);
    const bool keeps_samples = (s->params.kept & 1u) != 0;
    const size_t n_reduced = dpt_size_mul(s->n_reduced, keeps_samples ? 1 : max_samples);
    if (n_reduced < 2 * LEAST_LENGTH) return 0;
    return items_of(traits) * lanes_of(traits) * sizeof(float);
}

static division divide(const dpt_device *device, const state *s, size_t n_samples)
{
    const dpt_traits *traits = dpt_traits_of(device);
    const size_t last = s->plan.rank - 1, lanes = lanes_of(traits);
    const bool keeps_samples = (s->params.kept & 1u) != 0;
    division d = {.n_kept = s->n_kept * (keeps_samples ? n_samples : 1),
                  .n_reduced = s->n_reduced * (keeps_samples ? 1 : n_samples)};
    d.n_tiles = d.n_kept;
    if (s->params.kept >> last & 1u) {
        const size_t extent = s->plan.extent[last] * (last == 0 ? n_samples : 1);
        d.n_tiles = extent > 0 ? d.n_kept / extent * dpt_ceil_div(extent, lanes) : 0;
    }
    const size_t wanted = d.n_tiles > 0 ? items_of(traits) / d.n_tiles : 1;
    const size_t most = d.n_reduced / LEAST_LENGTH;
    d.n_pieces = wanted < most ? wanted : most;
    if (d.n_pieces < 1) d.n_pieces = 1;
    d.piece_length = dpt_ceil_div(d.n_reduced, d.n_pieces);
    if (d.piece_length > 0) d.n_pieces = dpt_ceil_div(d.n_reduced, d.piece_length);
    return d;
}

static dpt_status merge(const dpt_call *call, const map_params *p)
{
    const state *s = call->op->plan.state;
    dpt_launch l = dpt_launch_begin(call->stream, s->merge);
    dpt_launch_tensor(&l, call->args->out[0], DPT_U8);
    dpt_launch_tensor(&l, call->args->workspace, DPT_F32);
    dpt_launch_value(&l, p, sizeof *p);
    return dpt_launch_items(&l, p->n_kept);
}

static dpt_status run_reduce(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const division d = divide(call->op->device, s, call->n_samples);
    map_params p = s->params;
    p.n_rows = (u32)(call->n_samples * s->plan.extent[0]);
    p.count = d.n_reduced;
    p.accumulate = call->accumulate;
    p.n_kept = (u32)d.n_kept;
    p.n_pieces = (u32)d.n_pieces;
    p.n_tiles = (u32)d.n_tiles;
    p.piece_length = (u32)d.piece_length;
    dpt_launch l = dpt_launch_begin(call->stream, s->kernel);
    dpt_launch_tensor(&l, call->args->out[0], DPT_U8);
    dpt_launch_tensor(&l, call->args->workspace, DPT_F32);
    add_inputs(&l, call);
    dpt_launch_value(&l, &p, sizeof p);
    DPT_TRY(dpt_launch_items(&l, d.n_tiles * d.n_pieces));
    return d.n_pieces > 1 ? merge(call, &p) : DPT_OK;
}

/* ---- Deterministic MAP_REDUCE ---------------------------------------------------------------- */

enum { FIXED_LANES = 256 }; /* REDUCE_LANES of map_reduce_fixed.cl */

/* The work items of an output whose last axis is reduced: a power of two. */
static size_t team_of(const dpt_traits *traits, size_t extent)
{
    size_t team = 1;
    while (team < extent && team < FIXED_LANES && 2 * team <= traits->group_size)
        team *= 2;
    return traits->is_cpu ? 1 : team;
}

static dpt_status run_fixed_reduce(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const dpt_traits *traits = dpt_traits_of(call->op->device);
    const size_t last = s->plan.rank - 1;
    const division d = divide(call->op->device, s, call->n_samples);
    const size_t extent = s->plan.extent[last] * (last == 0 ? call->n_samples : 1);
    const bool keeps_last = (s->params.kept >> last & 1u) != 0;
    const size_t team = keeps_last ? 1 : team_of(traits, extent);
    map_params p = s->params;
    p.n_rows = (u32)(call->n_samples * s->plan.extent[0]);
    p.count = d.n_reduced;
    p.accumulate = call->accumulate;
    p.n_kept = (u32)d.n_kept;
    p.n_tiles = (u32)d.n_tiles;
    p.n_pieces = (u32)team;
    dpt_launch l = dpt_launch_begin(call->stream, s->kernel);
    dpt_launch_tensor(&l, call->args->out[0], DPT_U8);
    add_inputs(&l, call);
    dpt_launch_value(&l, &p, sizeof p);
    return team > 1 ? dpt_launch_items(&l, d.n_kept * team) : dpt_launch_rows(&l, d.n_tiles, 1);
}

static dpt_status prepare_fixed_reduce(dpt_op *op, state *s)
{
    const bool keeps_last = (s->params.kept >> (s->plan.rank - 1) & 1u) != 0;
    op->plan.run = run_fixed_reduce;
    op->plan.algorithm = "an interpreter, sums in double precision";
    return map_kernel(op, "map_reduce_fixed.cl",
                      keeps_last ? "dpt_map_reduce_fixed_kept" : "dpt_map_reduce_fixed_lanes",
                      &s->kernel);
}

/* ---- Preparing a MAP_REDUCE ------------------------------------------------------------------ */

static dpt_status prepare_reduce(dpt_op *op, state *s)
{
    op->plan.run = run_reduce;
    op->plan.algorithm = "an interpreter, in pieces";
    s->n_kept = s->n_reduced = 1;
    for (size_t axis = 0; axis < s->plan.rank; axis++) {
        const bool keeps = s->params.stride[MAP_INPUTS][axis] != 0;
        *(keeps ? &s->n_kept : &s->n_reduced) *= s->plan.extent[axis];
        if (keeps) s->params.kept |= 1u << axis;
    }
    s->params.how = op->desc.u.map.reduction;
    if (op->deterministic) return prepare_fixed_reduce(op, s);
    op->plan.workspace_bytes = sums_bytes(op->device, s, op->max_samples);
    DPT_TRY(dpt_kernel_of(op->device, "map_reduce.cl", "dpt_map_merge", &s->merge));
    return dpt_kernel_of(op->device, "map_reduce.cl", "dpt_map_reduce", &s->kernel);
}

/* ---- Both ------------------------------------------------------------------------------------ */

static dpt_status check_size(dpt_op *op, const dpt_map_plan *plan)
{
    size_t count = op->max_samples;
    for (size_t axis = 0; axis < plan->rank; axis++)
        count = dpt_size_mul(count, plan->extent[axis]);
    if (count < (size_t)INT32_MAX) return DPT_OK;
    return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED, "%zu samples have 2^31 indices or more",
                    op->max_samples);
}

dpt_status dpt_prepare_map(dpt_op *op)
{
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    dpt_map_plan_make(&op->desc, &s->plan);
    s->params = params_of(&s->plan);
    op->plan.exact = s->plan.is_exact;
    DPT_TRY(check_size(op, &s->plan));
    return op->desc.kind == DPT_OP_MAP ? prepare_map(op, s) : prepare_reduce(op, s);
}
