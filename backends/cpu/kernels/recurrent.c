/* Recurrent layers (RECURRENT).  The samples of a batch do not depend on each other, so a thread
   walks along the sequence with a block of samples, and waits for no other thread on the way.  At
   each place it multiplies the states of its samples with the weights, by the tiles of our own
   product.  All threads together pack the weights, once for the whole sequence.  A BLAS would pack
   them again at every place, which takes as long as the product of a few rows.

   The sum of an element has a fixed order, so its bits do not depend on the blocks of samples. */
#include "recurrent.h"
#include "kinds.h"
#include "product.h"
#include "tile.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 64 }; /* samples of a block */

/* op->plan.state */
typedef struct recurrent {
    size_t wide;                   /* floats of all gates */
    size_t w_floats, w_new_floats; /* packed */
    size_t most_rows;
    size_t state_floats, wide_floats, packed_floats; /* of a block, in whole cache lines */
    size_t thread_floats;
} recurrent;

/* ---- Products -------------------------------------------------------------------------------- */

/* Weights as the right side of a product. */
typedef struct weights {
    const float *from;
    float *packed; /* panel by panel */
    size_t terms, columns;
    bool transposed; /* stored (columns, terms) */
} weights;

/* Packs this thread's part of the weights. */
static void pack(const weights *w, unsigned thread, unsigned n_threads)
{
    const dpt_cpu_range own = dpt_cpu_split(w->columns, PRODUCT_LANES, thread, n_threads);
    const gemm g = {.n = w->columns,
                    .k = w->terms,
                    .b = w->from,
                    .ldb = w->transposed ? w->terms : w->columns,
                    .b_transposed = w->transposed};
    if (own.begin < own.end)
        KERNEL(product_pack_b)(&g, own, 0, w->terms, w->packed + own.begin * w->terms);
}

/* Rows of a product: `a` (n_rows, terms) is the left side, and c the result. */
typedef struct block {
    size_t n_rows;
    const float *a;
    size_t lda;
    float *c;
    size_t ldc;
    bool accumulate;
    float *scratch; /* for a, packed */
} block;

static void multiply(const weights *w, const block *b)
{
    const gemm g = {.m = b->n_rows, .k = w->terms, .a = b->a, .lda = b->lda};
    KERNEL(product_pack_a)(&g, (dpt_cpu_range){0, b->n_rows}, 0, w->terms, b->scratch);
    for (size_t start = 0; start < w->columns; start += PRODUCT_LANES) {
        const size_t left = w->columns - start, lanes = left < PRODUCT_LANES ? left : PRODUCT_LANES;
        product_tile t = {.a = b->scratch,
                          .b = w->packed + start * w->terms,
                          .n_terms = w->terms,
                          .lanes = lanes,
                          .units = (lanes + LANES - 1) / LANES,
                          .ldc = b->ldc,
                          .accumulate = b->accumulate};
        for (size_t row = 0; row < b->n_rows; row += t.n_rows) {
            t.n_rows = tile_rows(b->n_rows - row, PRODUCT_ROWS);
            t.c = b->c + row * b->ldc + start;
            KERNEL(product_tile_run)(&t);
            t.a += t.n_rows * t.n_terms;
        }
    }
}

/* ---- Blocks of samples ----------------------------------------------------------------------- */

/* What a thread has for its block. */
typedef struct scratch {
    float *h, *c; /* (rows, hidden) states, or their gradients */
    float *reset; /* (rows, hidden) for GRU_BEFORE */
    float *q;     /* (rows, wide) */
    float *packed;
} scratch;

/* One call, seen by one thread. */
typedef struct walk {
    const dpt_cpu_call *call;
    const dpt_recurrent_desc *d;
    const recurrent *plan;
    weights w, w_new;
    scratch own;
    size_t first, n_rows; /* the block */
} walk;

static scratch scratch_of(const dpt_cpu_call *call, unsigned thread)
{
    const recurrent *v = call->op->plan.state;
    float *at = call->workspace + v->w_floats + v->w_new_floats + thread * v->thread_floats;
    scratch s = {.h = at};
    s.c = s.h + v->state_floats;
    s.reset = s.c + v->state_floats;
    s.q = s.reset + v->state_floats;
    s.packed = s.q + v->wide_floats;
    return s;
}

/* The place of step i in the sequence. */
static size_t place_of(const dpt_recurrent_desc *d, size_t i)
{
    return d->reverse ? d->length - 1 - i : i;
}

/* Copies the states of a block, or zeros if there are none.  from: of sample 0 of the call, `step`
   floats from sample to sample. */
static void load_state(const walk *k, const float *from, size_t step, float *to)
{
    const size_t n = k->d->hidden;
    for (size_t s = 0; s < k->n_rows; s++) {
        if (from)
            memcpy(to + s * n, from + (k->first + s) * step, n * sizeof *to);
        else
            memset(to + s * n, 0, n * sizeof *to);
    }
}

static void store_state(const walk *k, const float *from, size_t step, float *to)
{
    const size_t n = k->d->hidden;
    for (size_t s = 0; s < k->n_rows && to; s++)
        memcpy(to + (k->first + s) * step, from + s * n, n * sizeof *to);
}

typedef void walk_block(const walk *k);

/* Packs the weights, and gives blocks of samples to the threads. */
static void run_blocks(walk *k, walk_block *along, unsigned thread, unsigned n_threads)
{
    const dpt_cpu_call *call = k->call;
    const size_t n = call->n_samples;
    k->d = &call->op->desc.u.recurrent;
    k->plan = call->op->plan.state;
    k->own = scratch_of(call, thread);
    pack(&k->w, thread, n_threads);
    if (k->w_new.from) pack(&k->w_new, thread, n_threads);
    dpt_cpu_barrier(call->team, thread, n_threads);
    const size_t most = k->plan->most_rows;
    const size_t least = dpt_cpu_ceil_div(n, most);
    const size_t n_blocks = dpt_cpu_ceil_div(least, n_threads) * n_threads;
    const size_t rows = n_blocks > 0 ? dpt_cpu_ceil_div(n, n_blocks) : 0;
    dpt_cpu_pieces pieces =
        dpt_cpu_pieces_of(call->team, rows > 0 ? dpt_cpu_ceil_div(n, rows) : 0, thread, n_threads);
    for (size_t i; dpt_cpu_take(&pieces, &i);) {
        k->first = i * rows;
        k->n_rows = n - k->first < rows ? n - k->first : rows;
        along(k);
    }
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* The inputs and outputs that this description has, in the order of op_list.h. */
typedef struct forward_tensors {
    const float *x, *bias, *h0, *c0;
    float *y, *gates, *cells;
} forward_tensors;

static forward_tensors forward_tensors_of(const dpt_cpu_call *call)
{
    const dpt_recurrent_desc *d = &call->op->desc.u.recurrent;
    const bool lstm = d->cell == DPT_CELL_LSTM, saves = !d->no_gradient;
    size_t in = d->cell == DPT_CELL_GRU_BEFORE ? 3 : 2, out = 1;
    forward_tensors t = {.x = call->in[0], .y = call->out[0]};
    if (d->has_bias) t.bias = call->in[in++];
    if (d->has_initial) t.h0 = call->in[in++];
    if (d->has_initial && lstm) t.c0 = call->in[in];
    if (saves && d->cell != DPT_CELL_RNN) t.gates = call->out[out++];
    if (saves && lstm) t.cells = call->out[out];
    return t;
}

static cell_forward forward_row(const walk *k, const forward_tensors *t, size_t s, size_t place)
{
    const dpt_recurrent_desc *d = k->d;
    const size_t n = d->hidden, wide = k->plan->wide, sample = k->first + s;
    const size_t row = sample * d->length + place;
    return (cell_forward){.x = t->x + row * wide,
                          .q = k->own.q + s * wide,
                          .h = k->own.h + s * n,
                          .c = k->own.c + s * n,
                          .y = t->y + (sample * (d->length + d->gives_cell) + place) * n,
                          .gates =
                              t->gates ? t->gates + row * dpt_recurrent_saved(d->cell) * n : NULL,
                          .cells = t->cells ? t->cells + row * n : NULL};
}

static void add_bias(const walk *k, const float *bias)
{
    const size_t wide = k->plan->wide;
    for (size_t s = 0; s < k->n_rows; s++) {
        float *restrict q = k->own.q + s * wide;
        for (size_t j = 0; j < wide; j++)
            q[j] += bias[j];
    }
}

static void forward_block(const walk *k)
{
    const dpt_recurrent_desc *d = k->d;
    const forward_tensors t = forward_tensors_of(k->call);
    const size_t n = d->hidden, wide = k->plan->wide;
    const block of_states = {.n_rows = k->n_rows,
                             .a = k->own.h,
                             .lda = n,
                             .c = k->own.q,
                             .ldc = wide,
                             .scratch = k->own.packed};
    block of_reset = of_states;
    of_reset.a = k->own.reset;
    of_reset.c = k->own.q + 2 * n;
    load_state(k, t.h0, n, k->own.h);
    load_state(k, t.c0, n, k->own.c);
    for (size_t i = 0; i < d->length; i++) {
        const size_t place = place_of(d, i);
        multiply(&k->w, &of_states);
        if (t.bias) add_bias(k, t.bias);
        for (size_t s = 0; s < k->n_rows && k->w_new.from; s++) {
            const cell_forward row = forward_row(k, &t, s, place);
            KERNEL(cell_reset)(d, &row, k->own.reset + s * n);
        }
        if (k->w_new.from) multiply(&k->w_new, &of_reset);
        for (size_t s = 0; s < k->n_rows; s++) {
            const cell_forward row = forward_row(k, &t, s, place);
            KERNEL(cell_forward)(d, &row);
        }
    }
    if (d->gives_cell) store_state(k, k->own.c, (d->length + 1) * n, t.y + d->length * n);
}

/* x (n,length,wide), w (rows,hidden) -> y (n,length,hidden) */
static void forward(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_recurrent_desc *d = &call->op->desc.u.recurrent;
    const recurrent *v = call->op->plan.state;
    const bool has_new = d->cell == DPT_CELL_GRU_BEFORE;
    walk k = {.call = call};
    k.w = (weights){.from = call->in[1],
                    .packed = call->workspace,
                    .terms = d->hidden,
                    .columns = dpt_recurrent_rows(d->cell) * d->hidden,
                    .transposed = true};
    k.w_new = (weights){.from = has_new ? call->in[2] : NULL,
                        .packed = call->workspace + v->w_floats,
                        .terms = d->hidden,
                        .columns = d->hidden,
                        .transposed = true};
    run_blocks(&k, forward_block, thread, n_threads);
}

/* ---- Backward -------------------------------------------------------------------------------- */

typedef struct backward_tensors {
    const float *dy, *y, *gates, *cells, *w, *w_new, *h0, *c0;
    float *dx, *dq, *dh0, *dc0;
} backward_tensors;

static backward_tensors backward_tensors_of(const dpt_cpu_call *call)
{
    const dpt_recurrent_desc *d = &call->op->desc.u.recurrent;
    const bool lstm = d->cell == DPT_CELL_LSTM, rnn = d->cell == DPT_CELL_RNN;
    size_t in = 1, out = 1;
    backward_tensors t = {.dy = call->in[0], .dx = call->out[0]};
    if (!lstm) t.y = call->in[in++];
    if (!rnn) t.gates = call->in[in++];
    if (lstm) t.cells = call->in[in++];
    t.w = call->in[in++];
    if (d->cell == DPT_CELL_GRU_BEFORE) t.w_new = call->in[in++];
    if (d->has_initial && !lstm && !rnn) t.h0 = call->in[in];
    if (d->has_initial && lstm) t.c0 = call->in[in];
    if (d->cell == DPT_CELL_GRU) t.dq = call->out[out++];
    if (d->has_initial) t.dh0 = call->out[out++];
    if (d->has_initial && lstm) t.dc0 = call->out[out];
    return t;
}

/* The state before step i: of the place before, or the initial one. */
static const float *state_before(const walk *k, const float *rows, const float *initial, size_t s,
                                 size_t i)
{
    const dpt_recurrent_desc *d = k->d;
    const size_t sample = k->first + s;
    if (i == 0) return initial ? initial + sample * d->hidden : NULL;
    if (!rows) return NULL;
    return rows + (sample * d->length + place_of(d, i - 1)) * d->hidden;
}

static cell_backward backward_row(const walk *k, const backward_tensors *t, size_t s, size_t i)
{
    const dpt_recurrent_desc *d = k->d;
    const size_t n = d->hidden, wide = k->plan->wide, sample = k->first + s, place = place_of(d, i);
    const size_t row = sample * d->length + place;
    const size_t out = (sample * (d->length + d->gives_cell) + place) * n;
    return (cell_backward){.dy = t->dy + out,
                           .y = t->y ? t->y + out : NULL,
                           .gates =
                               t->gates ? t->gates + row * dpt_recurrent_saved(d->cell) * n : NULL,
                           .cell = t->cells ? t->cells + row * n : NULL,
                           .h_before = state_before(k, t->y, t->h0, s, i),
                           .c_before = state_before(k, t->cells, t->c0, s, i),
                           .dh = k->own.h + s * n,
                           .dc = k->own.c + s * n,
                           .dx = t->dx + row * wide,
                           .dq = t->dq ? t->dq + row * wide : NULL};
}

/* The products of GRU_BEFORE that the gradient of r is made of. */
static void reset_backward(const walk *k, const backward_tensors *t, size_t i)
{
    const dpt_recurrent_desc *d = k->d;
    const size_t n = d->hidden, wide = k->plan->wide;
    const size_t row = k->first * d->length + place_of(d, i);
    multiply(&k->w_new, &(block){.n_rows = k->n_rows,
                                 .a = t->dx + row * wide + 2 * n,
                                 .lda = d->length * wide,
                                 .c = k->own.reset,
                                 .ldc = n,
                                 .scratch = k->own.packed});
    for (size_t s = 0; s < k->n_rows; s++) {
        const cell_backward of = backward_row(k, t, s, i);
        KERNEL(cell_reset_backward)(d, &of, k->own.reset + s * n);
    }
}

static void backward_block(const walk *k)
{
    const dpt_recurrent_desc *d = k->d;
    const backward_tensors t = backward_tensors_of(k->call);
    const size_t n = d->hidden, wide = k->plan->wide, places = d->length + d->gives_cell;
    load_state(k, NULL, 0, k->own.h);
    load_state(k, d->gives_cell ? t.dy + d->length * n : NULL, places * n, k->own.c);
    for (size_t i = d->length; i-- > 0;) {
        for (size_t s = 0; s < k->n_rows; s++) {
            const cell_backward row = backward_row(k, &t, s, i);
            KERNEL(cell_backward)(d, &row);
        }
        if (t.w_new) reset_backward(k, &t, i);
        const size_t row = k->first * d->length + place_of(d, i);
        if (i > 0 || t.dh0)
            multiply(&k->w, &(block){.n_rows = k->n_rows,
                                     .a = (t.dq ? t.dq : t.dx) + row * wide,
                                     .lda = d->length * wide,
                                     .c = k->own.h,
                                     .ldc = n,
                                     .accumulate = true,
                                     .scratch = k->own.packed});
    }
    store_state(k, k->own.h, n, t.dh0);
    store_state(k, k->own.c, n, t.dc0);
}

/* dy (n,length,hidden), gates, w -> dx (n,length,wide) */
static void backward(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_recurrent_desc *d = &call->op->desc.u.recurrent;
    const recurrent *v = call->op->plan.state;
    const backward_tensors t = backward_tensors_of(call);
    walk k = {.call = call};
    k.w = (weights){.from = t.w,
                    .packed = call->workspace,
                    .terms = dpt_recurrent_rows(d->cell) * d->hidden,
                    .columns = d->hidden};
    k.w_new = (weights){.from = t.w_new,
                        .packed = call->workspace + v->w_floats,
                        .terms = d->hidden,
                        .columns = d->hidden};
    run_blocks(&k, backward_block, thread, n_threads);
}

/* ---- Preparing ------------------------------------------------------------------------------- */

/* n columns rounded up to whole vectors, in bytes or floats that overflow to SIZE_MAX. */
static size_t packed_floats(size_t terms, size_t columns)
{
    return dpt_cpu_round(dpt_cpu_mul(terms, dpt_cpu_ceil_div(columns, LANES) * LANES));
}

static recurrent plan_of(const dpt_op *op, bool is_forward)
{
    const dpt_recurrent_desc *d = &op->desc.u.recurrent;
    const size_t n = d->hidden, rows = dpt_recurrent_rows(d->cell) * n;
    recurrent v = {.wide = dpt_recurrent_gates(d->cell) * n};
    const size_t even = dpt_cpu_ceil_div(op->max_samples, op->n_threads);
    v.most_rows = even < 1 ? 1 : even < MOST_ROWS ? even : MOST_ROWS;
    v.w_floats = is_forward ? packed_floats(n, rows) : packed_floats(rows, n);
    if (d->cell == DPT_CELL_GRU_BEFORE) v.w_new_floats = packed_floats(n, n);
    v.state_floats = dpt_cpu_round(dpt_cpu_mul(v.most_rows, n));
    v.wide_floats = is_forward ? dpt_cpu_round(dpt_cpu_mul(v.most_rows, v.wide)) : 0;
    v.packed_floats =
        dpt_cpu_round(dpt_cpu_add(dpt_cpu_mul(v.most_rows, is_forward ? n : rows), LANES));
    v.thread_floats =
        dpt_cpu_add(dpt_cpu_add(dpt_cpu_mul(3, v.state_floats), v.wide_floats), v.packed_floats);
    return v;
}

static dpt_status prepare(dpt_op *op, bool is_forward, dpt_error *error)
{
    const dpt_recurrent_desc *d = &op->desc.u.recurrent;
    recurrent *v = malloc(sizeof *v);
    if (!v) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the plan of a recurrent layer");
    op->plan.state = v;
    *v = plan_of(op, is_forward);
    const double length = (double)d->length, wide = (double)v->wide;
    const size_t all = dpt_cpu_add(dpt_cpu_add(v->w_floats, v->w_new_floats),
                                   dpt_cpu_mul(op->n_threads, v->thread_floats));
    op->plan.kernel = is_forward ? forward : backward;
    op->plan.workspace_bytes = dpt_cpu_mul(all, sizeof(float));
    op->plan.flops = 2.0 * length * wide * (double)d->hidden;
    op->plan.work = op->plan.flops / 20.0 + length * wide;
    op->plan.algorithm = "blocks of samples";
    return DPT_OK;
}

dpt_status KERNEL(prepare_recurrent_forward)(dpt_op *op, dpt_error *error)
{
    return prepare(op, true, error);
}

dpt_status KERNEL(prepare_recurrent_backward)(dpt_op *op, dpt_error *error)
{
    return prepare(op, false, error);
}
