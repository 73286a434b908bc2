/* Recurrent layers: launches of backends/kernels/recurrent.cl, one for each place of the sequence,
   and two for cells with two products that depend on each other. */
#include "recurrent.h"
#include "operators.h"

#include <stdio.h>

enum { SAMPLES = 8, UNITS = 16 }; /* of a group, as in the kernels */

typedef struct state {
    dpt_kernel *step, *reset, *begin, *end; /* reset: of the second product, or NULL */
    recurrent_params params;                /* complete except for what depends on the launch */
    size_t a_floats;     /* of the left side of the product, which is there twice */
    size_t state_floats; /* of one of the other parts */
} state;

static const dpt_recurrent_desc *desc_of(const dpt_call *call)
{
    return &call->op->desc.u.recurrent;
}

/* ---- Launching ------------------------------------------------------------------------------- */

static dpt_status launch(dpt_launch *l, const dpt_call *call, const recurrent_params *p)
{
    const size_t n_items = dpt_traits_of(call->op->device)->is_cpu ? 1 : SAMPLES * UNITS;
    const size_t n_groups = dpt_ceil_div(call->n_samples, SAMPLES) * p->unit_tiles;
    dpt_launch_value(l, p, sizeof *p);
    return dpt_launch_groups(l, (const size_t[3]){n_groups, 1, 1},
                             (const size_t[3]){n_items, 1, 1});
}

/* A state, and the tensor that it comes from or goes to; {NULL, 0}: zeros. */
typedef struct copy {
    dpt_location tensor;
    recurrent_row row;
    u64 state;
} copy;

static dpt_status copy_state(const dpt_call *call, dpt_kernel *kernel, const copy *c)
{
    const state *s = call->op->plan.state;
    const recurrent_copy_params p = {.count = call->n_samples * desc_of(call)->hidden,
                                     .state = c->state,
                                     .row = c->row,
                                     .hidden = (u32)desc_of(call)->hidden,
                                     .is_zero = !c->tensor.buffer};
    dpt_launch l = dpt_launch_begin(call->stream, kernel);
    if (kernel == s->begin) {
        dpt_launch_tensor(&l, call->args->workspace, DPT_F32);
        dpt_launch_tensor(&l, c->tensor, call->op->desc.type);
    } else {
        dpt_launch_tensor(&l, c->tensor, call->op->desc.type);
        dpt_launch_tensor(&l, call->args->workspace, DPT_F32);
    }
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_items(&l, p.count);
}

/* A state that is a tensor (n, hidden). */
static copy whole_state(const dpt_recurrent_desc *d, dpt_location tensor, u64 at)
{
    return (copy){tensor, {(u32)d->hidden, 0}, at};
}

/* The last row of y or dy, which is the cell's state. */
static copy last_cell(const dpt_recurrent_desc *d, dpt_location tensor, u64 at)
{
    const size_t n = d->hidden;
    return (copy){tensor, {(u32)((d->length + 1) * n), (u32)(d->length * n)}, at};
}

/* The place of step i in the sequence. */
static size_t place_of(const dpt_recurrent_desc *d, size_t i)
{
    return d->reverse ? d->length - 1 - i : i;
}

/* Sets the rows of a place. */
static void go_to(recurrent_params *p, const dpt_recurrent_desc *d, size_t place)
{
    const size_t n = d->hidden, wide = dpt_recurrent_gates(d->cell) * n;
    const size_t saved = dpt_recurrent_saved(d->cell) * n;
    p->x = (recurrent_row){(u32)(d->length * wide), (u32)(place * wide)};
    p->y = (recurrent_row){(u32)((d->length + d->gives_cell) * n), (u32)(place * n)};
    p->gates = (recurrent_row){(u32)(d->length * saved), (u32)(place * saved)};
    p->cells = (recurrent_row){(u32)(d->length * n), (u32)(place * n)};
}

/* ---- Forward --------------------------------------------------------------------------------- */

typedef struct forward_tensors {
    dpt_location x, w, w_new, bias, h0, c0, y, gates, cells;
} forward_tensors;

static forward_tensors forward_tensors_of(const dpt_call *call)
{
    const dpt_recurrent_desc *d = desc_of(call);
    const dpt_op_args *a = call->args;
    const bool lstm = d->cell == DPT_CELL_LSTM, saves = !d->no_gradient;
    size_t in = 2, out = 1;
    forward_tensors t = {.x = a->in[0], .w = a->in[1], .y = a->out[0]};
    if (d->cell == DPT_CELL_GRU_BEFORE) t.w_new = a->in[in++];
    if (d->has_bias) t.bias = a->in[in++];
    if (d->has_initial) t.h0 = a->in[in++];
    if (d->has_initial && lstm) t.c0 = a->in[in];
    if (saves && d->cell != DPT_CELL_RNN) t.gates = a->out[out++];
    if (saves && lstm) t.cells = a->out[out];
    return t;
}

static dpt_status launch_forward(const dpt_call *call, const forward_tensors *t,
                                 const recurrent_params *p)
{
    const state *s = call->op->plan.state;
    const dpt_dtype type = call->op->desc.type;
    const bool is_new = p->pass == PASS_NEW;
    dpt_launch l = dpt_launch_begin(call->stream, is_new ? s->reset : s->step);
    dpt_launch_tensor(&l, t->y, type);
    dpt_launch_tensor(&l, t->gates, type);
    dpt_launch_tensor(&l, t->cells, DPT_F32);
    dpt_launch_tensor(&l, call->args->workspace, DPT_F32);
    dpt_launch_tensor(&l, t->x, type);
    dpt_launch_tensor(&l, is_new ? t->w_new : t->w, DPT_F32);
    dpt_launch_tensor(&l, t->bias, DPT_F32);
    return launch(&l, call, p);
}

static dpt_status forward_place(const dpt_call *call, const forward_tensors *t,
                                const recurrent_params *whole)
{
    recurrent_params half = *whole;
    if (whole->type != CELL_GRU_BEFORE) return launch_forward(call, t, whole);
    half.pass = PASS_RESET;
    DPT_TRY(launch_forward(call, t, &half));
    half.pass = PASS_NEW;
    half.cell = whole->a_from; /* the state */
    half.a_from = whole->reset;
    half.w_block[0] = 0;
    return launch_forward(call, t, &half);
}

static dpt_status run_forward(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const dpt_recurrent_desc *d = desc_of(call);
    const forward_tensors t = forward_tensors_of(call);
    recurrent_params p = s->params;
    p.n_samples = call->n_samples;
    const copy h0 = whole_state(d, t.h0, p.a_from), c0 = whole_state(d, t.c0, p.cell);
    DPT_TRY(copy_state(call, s->begin, &h0));
    if (d->cell == DPT_CELL_LSTM) DPT_TRY(copy_state(call, s->begin, &c0));
    for (size_t i = 0; i < d->length; i++) {
        go_to(&p, d, place_of(d, i));
        DPT_TRY(forward_place(call, &t, &p));
        const u64 from = p.a_from;
        p.a_from = p.a_to;
        p.a_to = from;
    }
    const copy last = last_cell(d, t.y, p.cell);
    return d->gives_cell ? copy_state(call, s->end, &last) : DPT_OK;
}

/* ---- Backward -------------------------------------------------------------------------------- */

typedef struct backward_tensors {
    dpt_location dy, y, gates, cells, w, w_new, initial, dx, dq, dh0, dc0;
} backward_tensors;

static backward_tensors backward_tensors_of(const dpt_call *call)
{
    const dpt_recurrent_desc *d = desc_of(call);
    const dpt_op_args *a = call->args;
    const bool lstm = d->cell == DPT_CELL_LSTM, rnn = d->cell == DPT_CELL_RNN;
    size_t in = 1, out = 1;
    backward_tensors t = {.dy = a->in[0], .dx = a->out[0]};
    if (!lstm) t.y = a->in[in++];
    if (!rnn) t.gates = a->in[in++];
    if (lstm) t.cells = a->in[in++];
    t.w = a->in[in++];
    if (d->cell == DPT_CELL_GRU_BEFORE) t.w_new = a->in[in++];
    if (d->has_initial && !rnn) t.initial = a->in[in];
    if (d->cell == DPT_CELL_GRU) t.dq = a->out[out++];
    if (d->has_initial) t.dh0 = a->out[out++];
    if (d->has_initial && lstm) t.dc0 = a->out[out];
    return t;
}

static dpt_status launch_backward(const dpt_call *call, const backward_tensors *t,
                                  const recurrent_params *p)
{
    const state *s = call->op->plan.state;
    const dpt_dtype type = call->op->desc.type;
    dpt_launch l = dpt_launch_begin(call->stream, s->step);
    dpt_launch_tensor(&l, t->dx, type);
    dpt_launch_tensor(&l, t->dq, type);
    dpt_launch_tensor(&l, call->args->workspace, DPT_F32);
    dpt_launch_tensor(&l, t->dy, type);
    dpt_launch_tensor(&l, t->y, type);
    dpt_launch_tensor(&l, t->gates, type);
    dpt_launch_tensor(&l, t->cells, DPT_F32);
    dpt_launch_tensor(&l, t->initial, type);
    dpt_launch_tensor(&l, p->pass == PASS_RESET ? t->w_new : t->w, DPT_F32);
    return launch(&l, call, p);
}

static dpt_status backward_place(const dpt_call *call, const backward_tensors *t,
                                 const recurrent_params *whole)
{
    recurrent_params half = *whole;
    if (whole->type != CELL_GRU_BEFORE) return launch_backward(call, t, whole);
    half.pass = PASS_NEW;
    DPT_TRY(launch_backward(call, t, &half));
    half.pass = PASS_RESET;
    half.a_from = whole->reset;
    half.terms = whole->hidden;
    return launch_backward(call, t, &half);
}

/* The gradients of the initial states. */
static dpt_status finish_backward(const dpt_call *call, const backward_tensors *t,
                                  recurrent_params *p)
{
    const state *s = call->op->plan.state;
    const dpt_recurrent_desc *d = desc_of(call);
    const copy dh0 = whole_state(d, t->dh0, p->keep), dc0 = whole_state(d, t->dc0, p->cell);
    if (!d->has_initial) return DPT_OK;
    p->pass = PASS_END;
    DPT_TRY(launch_backward(call, t, p));
    DPT_TRY(copy_state(call, s->end, &dh0));
    return d->cell == DPT_CELL_LSTM ? copy_state(call, s->end, &dc0) : DPT_OK;
}

static dpt_status begin_backward(const dpt_call *call, const backward_tensors *t,
                                 const recurrent_params *p)
{
    const state *s = call->op->plan.state;
    const dpt_recurrent_desc *d = desc_of(call);
    const copy nothing = {.state = p->keep};
    copy dc = last_cell(d, t->dy, p->cell);
    if (!d->gives_cell) dc.tensor = (dpt_location){NULL, 0};
    DPT_TRY(copy_state(call, s->begin, &nothing));
    return d->cell == DPT_CELL_LSTM ? copy_state(call, s->begin, &dc) : DPT_OK;
}

static dpt_status run_backward(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const dpt_recurrent_desc *d = desc_of(call);
    const backward_tensors t = backward_tensors_of(call);
    recurrent_params p = s->params;
    const u32 terms = p.terms;
    p.n_samples = call->n_samples;
    p.terms = 0; /* behind the last place there is no gradient */
    DPT_TRY(begin_backward(call, &t, &p));
    for (size_t i = d->length; i-- > 0;) {
        go_to(&p, d, place_of(d, i));
        p.before = i > 0 ? BEFORE_PLACE : d->has_initial ? BEFORE_INITIAL : BEFORE_ZERO;
        if (i > 0) {
            const u32 before = (u32)(place_of(d, i - 1) * d->hidden);
            p.y_before = (recurrent_row){p.y.sample, before};
            p.cells_before = (recurrent_row){p.cells.sample, before};
        }
        DPT_TRY(backward_place(call, &t, &p));
        const u64 from = p.a_from;
        p.a_from = p.a_to;
        p.a_to = from;
        p.terms = terms;
    }
    return finish_backward(call, &t, &p);
}

/* ---- Preparing ------------------------------------------------------------------------------- */

static recurrent_params params_of(const dpt_op *op, bool is_forward)
{
    const dpt_recurrent_desc *d = &op->desc.u.recurrent;
    const size_t n = d->hidden, rows = dpt_recurrent_rows(d->cell) * n;
    recurrent_params p = {.hidden = (u32)n,
                          .terms = (u32)(is_forward ? n : rows),
                          .unit_tiles = (u32)dpt_ceil_div(n, UNITS),
                          .a_pitch = (u32)rows,
                          .w_line = is_forward ? (u32)n : 1,
                          .w_term = is_forward ? 1 : (u32)n,
                          .type = (u32)d->cell,
                          .pass = PASS_WHOLE,
                          .has_bias = d->has_bias,
                          .saves = !d->no_gradient && d->cell != DPT_CELL_RNN,
                          .has_dq = d->cell == DPT_CELL_GRU && !is_forward};
    for (size_t i = 0; i < DPT_RECURRENT_GATES; i++) {
        p.block[i] = (u32)(d->place[i] * n);
        p.w_block[i] = is_forward ? (u32)(d->place[i] * n * n) : 0;
    }
    for (size_t i = 0; i < DPT_RECURRENT_ACTIVATIONS; i++)
        p.activation[i] = (u32)d->activation[i];
    return p;
}

/* Places the parts of the workspace. */
static void divide(dpt_op *op, state *s, bool is_forward)
{
    const dpt_recurrent_desc *d = &op->desc.u.recurrent;
    const size_t a_row = is_forward ? d->hidden : dpt_recurrent_rows(d->cell) * d->hidden;
    recurrent_params *p = &s->params;
    s->a_floats = dpt_size_align(dpt_size_mul(op->max_samples, a_row));
    s->state_floats = dpt_size_align(dpt_size_mul(op->max_samples, d->hidden));
    p->a_from = 0;
    p->a_to = s->a_floats;
    p->cell = 2 * p->a_to;
    p->keep = p->cell + s->state_floats;
    p->reset = p->keep + s->state_floats;
    const size_t all = dpt_size_add(dpt_size_mul(2, s->a_floats), dpt_size_mul(3, s->state_floats));
    op->plan.workspace_bytes = dpt_size_mul(all, sizeof(float));
}

static dpt_status get_kernel(const dpt_op *op, size_t gates, const char *name, dpt_kernel **out)
{
    dpt_program_key key = {.file = "recurrent.cl"};
    snprintf(key.options, sizeof key.options, "-DGATES=%zu", gates);
    dpt_program_key_store(&key, op->desc.type);
    if (op->deterministic) dpt_program_key_deterministic(&key);
    return dpt_kernel_get(op->device, &key, name, out);
}

static dpt_status get_kernels(const dpt_op *op, state *s, bool is_forward)
{
    const dpt_recurrent_cell cell = op->desc.u.recurrent.cell;
    DPT_TRY(get_kernel(op, 1, "dpt_recurrent_begin", &s->begin));
    DPT_TRY(get_kernel(op, 1, "dpt_recurrent_end", &s->end));
    if (!is_forward) return get_kernel(op, 1, "dpt_recurrent_backward", &s->step);
    DPT_TRY(get_kernel(op, dpt_recurrent_rows(cell), "dpt_recurrent_forward", &s->step));
    if (cell != DPT_CELL_GRU_BEFORE) return DPT_OK;
    return get_kernel(op, 1, "dpt_recurrent_forward", &s->reset);
}

dpt_status dpt_prepare_recurrent(dpt_op *op)
{
    const dpt_recurrent_desc *d = &op->desc.u.recurrent;
    const bool is_forward = op->desc.kind == DPT_OP_RECURRENT_FORWARD;
    const size_t wide = dpt_recurrent_gates(d->cell) * d->hidden;
    DPT_TRY(dpt_check_sample(op, dpt_size_mul(d->length + 1, dpt_size_mul(4, d->hidden))));
    DPT_TRY(dpt_check_sample(op, dpt_size_mul(d->hidden, wide)));
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    s->params = params_of(op, is_forward);
    if (!dpt_traits_of(op->device)->is_cpu &&
        dpt_traits_of(op->device)->most_group_size < SAMPLES * UNITS)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "recurrent layers need groups of %d work items, and %s has fewer",
                        SAMPLES * UNITS, dpt_traits_of(op->device)->name);
    if (dpt_size_mul(op->max_samples / SAMPLES + 1, s->params.unit_tiles) > INT32_MAX)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "%zu samples have 2^31 tiles or more", op->max_samples);
    divide(op, s, is_forward);
    DPT_TRY(get_kernels(op, s, is_forward));
    op->plan.run = is_forward ? run_forward : run_backward;
    op->plan.flops = 2.0 * (double)d->length * (double)wide * (double)d->hidden;
    op->plan.algorithm = "a launch a place";
    return DPT_OK;
}
