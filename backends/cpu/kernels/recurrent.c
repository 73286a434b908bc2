/* Recurrent layers (RECURRENT).  The samples of a batch do not depend on each other, so a thread
   walks along the sequence with a block of samples, and waits for no other thread on the way.  At
   each place it multiplies the states of its samples with the weights, by the tiles of our own
   product.  All threads together pack the weights, once for the whole sequence.  A BLAS would pack
   them again at every place, which takes as long as the product of a few rows.

   The rows of a place are far apart in memory, often by a power of two, so that caches keep few of
   them.  A thread therefore has a copy of the rows in a buffer of its own.  It carries rows between
   tensors and buffers while it computes a product, which needs little of the memory's time.

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
    size_t saved;                  /* floats that are saved for the backward pass; 0: none */
    size_t w_floats, w_new_floats; /* packed */
    size_t most_rows;
    /* Of a block, in whole cache lines. */
    size_t state_floats, wide_floats, saved_floats, packed_floats;
    size_t thread_floats;
} recurrent;

/* ---- Carrying rows --------------------------------------------------------------------------- */

enum { SEGMENT = 64 /* floats that are carried at once */ };

/* Rows on their way between a tensor and a buffer. */
typedef struct carry {
    const float *from;
    float *to;
    size_t from_step, to_step; /* floats from row to row */
    size_t n_rows, columns;
    bool leaves;           /* `to` is the tensor */
    size_t segments;       /* of a part */
    size_t row, at;        /* of the segment that is carried next */
    size_t next_row, next; /* of the one that is asked for next */
} carry;

enum { MOST_CARRIES = 5 };

/* What is carried during a product. */
typedef struct load {
    carry all[MOST_CARRIES];
    size_t n;
} load;

/* Adds rows to the load, unless the tensor does not exist. */
static void add_carry(load *l, carry c)
{
    if (c.from && c.to && c.columns > 0) l->all[l->n++] = c;
}

static inline void next_segment(const carry *c, size_t *row, size_t *at)
{
    *at += SEGMENT;
    if (*at < c->columns) return;
    *at = 0;
    ++*row;
}

/* Asks for the segments of the next part. */
static inline void ask(carry *c)
{
    enum { LINE = 16 };
    for (size_t i = 0; i < c->segments && c->next_row < c->n_rows; i++) {
        const float *from = c->from + c->next_row * c->from_step + c->next;
        const float *to = c->to + c->next_row * c->to_step + c->next;
        for (size_t k = 0; k < SEGMENT && c->next + k < c->columns; k += LINE) {
            if (c->leaves)
                __builtin_prefetch(to + k, 1);
            else
                __builtin_prefetch(from + k, 0);
        }
        next_segment(c, &c->next_row, &c->next);
    }
}

static inline void carry_segments(carry *c)
{
    for (size_t i = 0; i < c->segments && c->row < c->n_rows; i++) {
        const size_t left = c->columns - c->at, n = left < SEGMENT ? left : SEGMENT;
        const float *from = c->from + c->row * c->from_step + c->at;
        float *to = c->to + c->row * c->to_step + c->at;
        if (n == SEGMENT)
            memcpy(to, from, SEGMENT * sizeof *to);
        else
            memcpy(to, from, n * sizeof *to);
        next_segment(c, &c->row, &c->at);
    }
}

/* Divides the load into parts. */
static void begin_parts(load *l, size_t n_parts)
{
    for (size_t i = 0; i < l->n; i++) {
        carry *c = &l->all[i];
        c->segments = dpt_cpu_ceil_div(c->n_rows * dpt_cpu_ceil_div(c->columns, SEGMENT), n_parts);
        ask(c);
    }
}

/* Carries the next part. */
static void carry_part(load *l)
{
    for (size_t i = 0; i < l->n; i++) {
        ask(&l->all[i]);
        carry_segments(&l->all[i]);
    }
}

static void carry_rest(load *l)
{
    for (size_t i = 0; i < l->n; i++)
        while (l->all[i].row < l->all[i].n_rows)
            carry_segments(&l->all[i]);
}

/* Carries everything. */
static void carry_all(load *l)
{
    enum { PARTS = 16 };
    begin_parts(l, PARTS);
    for (size_t i = 0; i < PARTS; i++)
        carry_part(l);
    carry_rest(l);
}

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
    bool unbroken;  /* deterministic: an element is one sum, which begins with 0, or with c if it is
                       accumulated */
    float *scratch; /* for a, packed */
} block;

/* Some terms of all products. */
typedef struct term_range {
    size_t first, n, all;
} term_range;

/* Adds the terms to a panel's products, and carries a part of *l with every tile. */
static void multiply_terms(const block *b, const product_tile *columns, term_range of, load *l)
{
    product_tile t = *columns;
    t.n_terms = of.n;
    const float *a = b->scratch; /* all terms of the tile */
    for (size_t row = 0; row < b->n_rows; row += t.n_rows) {
        t.n_rows = tile_rows(b->n_rows - row, PRODUCT_ROWS);
        t.a = a + of.first * t.n_rows;
        t.c = columns->c + row * b->ldc;
        KERNEL(product_tile_run)(&t);
        carry_part(l);
        a += t.n_rows * of.all;
    }
}

/* l: what is carried meanwhile. */
static void multiply(const weights *w, const block *b, load *l)
{
    /* So many terms of a panel stay in the first-level cache while all tiles use them. */
    enum { TERMS = 256 };
    const size_t n_blocks = dpt_cpu_ceil_div(w->terms, TERMS);
    const size_t most = dpt_cpu_ceil_div(w->terms, n_blocks);
    const size_t n_tiles = dpt_cpu_ceil_div(b->n_rows, PRODUCT_ROWS);
    const gemm g = {.m = b->n_rows, .k = w->terms, .a = b->a, .lda = b->lda};
    KERNEL(product_pack_a)(&g, (dpt_cpu_range){0, b->n_rows}, 0, w->terms, b->scratch);
    begin_parts(l, dpt_cpu_ceil_div(w->columns, PRODUCT_LANES) * n_tiles * n_blocks);
    for (size_t start = 0; start < w->columns; start += PRODUCT_LANES) {
        const size_t left = w->columns - start, lanes = left < PRODUCT_LANES ? left : PRODUCT_LANES;
        const size_t units = (lanes + LANES - 1) / LANES;
        for (size_t first = 0; first < w->terms; first += most) {
            const size_t left_terms = w->terms - first;
            const term_range of = {first, left_terms < most ? left_terms : most, w->terms};
            const product_tile t = {.b = w->packed + start * w->terms + first * units * LANES,
                                    .c = b->c + start,
                                    .lanes = lanes,
                                    .units = units,
                                    .ldc = b->ldc,
                                    .continues = b->unbroken && (b->accumulate || first > 0),
                                    .accumulate = !b->unbroken && (b->accumulate || first > 0)};
            multiply_terms(b, &t, of, l);
        }
    }
    carry_rest(l);
}

/* ---- Blocks of samples ----------------------------------------------------------------------- */

/* What a thread has for its block. */
typedef struct scratch {
    float *h, *c;     /* (rows, hidden) states, or their gradients */
    float *reset;     /* (rows, hidden) for GRU_BEFORE */
    float *q;         /* (rows, wide) */
    float *x;         /* (rows, wide) x; or dx */
    float *gates;     /* (rows, saved) */
    float *dy;        /* (rows, hidden) */
    float *states[2]; /* (rows, hidden) the states at a place, and at the place before it */
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
    s.dy = s.reset + v->state_floats;
    s.states[0] = s.dy + v->state_floats;
    s.states[1] = s.states[0] + v->state_floats;
    s.q = s.states[1] + v->state_floats;
    s.x = s.q + v->wide_floats;
    s.gates = s.x + v->wide_floats;
    s.packed = s.gates + v->saved_floats;
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

static cell_forward forward_row(const walk *k, const forward_tensors *t, size_t s)
{
    const size_t n = k->d->hidden, wide = k->plan->wide;
    return (cell_forward){.x = k->own.x + s * wide,
                          .q = k->own.q + s * wide,
                          .h = k->own.h + s * n,
                          .c = k->own.c + s * n,
                          .gates = t->gates ? k->own.gates + s * k->plan->saved : NULL,
                          .exact = k->call->op->deterministic};
}

/* Adds the rows of a place to the load: from a tensor (samples, places, columns) to a buffer, or
   with `leaves` the other way. */
typedef struct rows_of {
    const float *in; /* one of both */
    float *out;
    size_t places, columns;
} rows_of;

static void add_rows(const walk *k, load *l, rows_of of, size_t place, float *buffer)
{
    const size_t step = of.places * of.columns, at = k->first * step + place * of.columns;
    carry c = {.n_rows = k->n_rows, .columns = of.columns};
    if (of.out) {
        c.leaves = true;
        c.from = buffer;
        c.from_step = of.columns;
        c.to = of.out + at;
        c.to_step = step;
    } else if (of.in) {
        c.from = of.in + at;
        c.from_step = step;
        c.to = buffer;
        c.to_step = of.columns;
    }
    add_carry(l, c);
}

/* What a place gives. */
static void add_results(const walk *k, const forward_tensors *t, size_t place, load *l)
{
    const dpt_recurrent_desc *d = k->d;
    const size_t n = d->hidden, length = d->length;
    add_rows(k, l, (rows_of){.out = t->y, .places = length + d->gives_cell, .columns = n}, place,
             k->own.h);
    add_rows(k, l, (rows_of){.out = t->gates, .places = length, .columns = k->plan->saved}, place,
             k->own.gates);
    add_rows(k, l, (rows_of){.out = t->cells, .places = length, .columns = n}, place, k->own.c);
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
                             .unbroken = k->call->op->deterministic,
                             .scratch = k->own.packed};
    block of_reset = of_states;
    of_reset.a = k->own.reset;
    of_reset.c = k->own.q + 2 * n;
    load_state(k, t.h0, n, k->own.h);
    load_state(k, t.c0, n, k->own.c);
    for (size_t i = 0; i < d->length; i++) {
        load l = {.n = 0}, none = {.n = 0};
        if (i > 0) add_results(k, &t, place_of(d, i - 1), &l);
        add_rows(k, &l, (rows_of){.in = t.x, .places = d->length, .columns = wide}, place_of(d, i),
                 k->own.x);
        multiply(&k->w, &of_states, &l);
        if (t.bias) add_bias(k, t.bias);
        for (size_t s = 0; s < k->n_rows && k->w_new.from; s++) {
            const cell_forward row = forward_row(k, &t, s);
            KERNEL(cell_reset)(d, &row, k->own.reset + s * n);
        }
        if (k->w_new.from) multiply(&k->w_new, &of_reset, &none);
        for (size_t s = 0; s < k->n_rows; s++) {
            const cell_forward row = forward_row(k, &t, s);
            KERNEL(cell_forward)(d, &row);
        }
    }
    load last = {.n = 0};
    if (d->length > 0) add_results(k, &t, place_of(d, d->length - 1), &last);
    carry_all(&last);
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

/* The states of step i, to a buffer: the cells of an LSTM, or y. */
static void add_states(const walk *k, const backward_tensors *t, size_t i, load *l)
{
    const dpt_recurrent_desc *d = k->d;
    const float *from = t->cells ? t->cells : t->y;
    add_rows(k, l, (rows_of){.in = from, .places = d->length, .columns = d->hidden}, place_of(d, i),
             k->own.states[i % 2]);
}

/* What step i reads besides the states. */
static void add_inputs(const walk *k, const backward_tensors *t, size_t i, load *l)
{
    const dpt_recurrent_desc *d = k->d;
    const size_t place = place_of(d, i), n = d->hidden;
    add_rows(k, l, (rows_of){.in = t->dy, .places = d->length + d->gives_cell, .columns = n}, place,
             k->own.dy);
    add_rows(k, l, (rows_of){.in = t->gates, .places = d->length, .columns = k->plan->saved}, place,
             k->own.gates);
}

/* What step i gives. */
static void add_gradients(const walk *k, const backward_tensors *t, size_t i, load *l)
{
    const size_t length = k->d->length, wide = k->plan->wide, place = place_of(k->d, i);
    add_rows(k, l, (rows_of){.out = t->dx, .places = length, .columns = wide}, place, k->own.x);
    add_rows(k, l, (rows_of){.out = t->dq, .places = length, .columns = wide}, place, k->own.q);
}

/* The state before step i of row s. */
static const float *state_before(const walk *k, const float *initial, size_t s, size_t i)
{
    const size_t n = k->d->hidden;
    if (i > 0) return k->own.states[(i - 1) % 2] + s * n;
    return initial ? initial + (k->first + s) * n : NULL;
}

static cell_backward backward_row(const walk *k, const backward_tensors *t, size_t s, size_t i)
{
    const size_t n = k->d->hidden, wide = k->plan->wide;
    const float *state = k->own.states[i % 2] + s * n;
    return (cell_backward){.dy = k->own.dy + s * n,
                           .y = state,
                           .gates = k->own.gates + s * k->plan->saved,
                           .cell = state,
                           .h_before = state_before(k, t->h0, s, i),
                           .c_before = state_before(k, t->c0, s, i),
                           .dh = k->own.h + s * n,
                           .dc = k->own.c + s * n,
                           .dx = k->own.x + s * wide,
                           .dq = k->own.q + s * wide,
                           .exact = k->call->op->deterministic};
}

/* The products of GRU_BEFORE that the gradient of r is made of. */
static void reset_backward(const walk *k, const backward_tensors *t, size_t i)
{
    const dpt_recurrent_desc *d = k->d;
    const size_t n = d->hidden;
    load none = {.n = 0};
    multiply(&k->w_new,
             &(block){.n_rows = k->n_rows,
                      .a = k->own.x + 2 * n,
                      .lda = k->plan->wide,
                      .c = k->own.reset,
                      .ldc = n,
                      .unbroken = k->call->op->deterministic,
                      .scratch = k->own.packed},
             &none);
    for (size_t s = 0; s < k->n_rows; s++) {
        const cell_backward of = backward_row(k, t, s, i);
        KERNEL(cell_reset_backward)(d, &of, k->own.reset + s * n);
    }
}

static void backward_block(const walk *k)
{
    const dpt_recurrent_desc *d = k->d;
    const backward_tensors t = backward_tensors_of(k->call);
    const size_t n = d->hidden, places = d->length + d->gives_cell;
    const block of_gates = {.n_rows = k->n_rows,
                            .a = t.dq ? k->own.q : k->own.x,
                            .lda = k->plan->wide,
                            .c = k->own.h,
                            .ldc = n,
                            .accumulate = true,
                            .unbroken = k->call->op->deterministic,
                            .scratch = k->own.packed};
    load_state(k, NULL, 0, k->own.h);
    load_state(k, d->gives_cell ? t.dy + d->length * n : NULL, places * n, k->own.c);
    load first = {.n = 0};
    if (d->length > 0) add_inputs(k, &t, d->length - 1, &first);
    for (size_t i = d->length; i-- > 0 && i + 2 >= d->length;)
        add_states(k, &t, i, &first);
    carry_all(&first);
    for (size_t i = d->length; i-- > 0;) {
        load l = {.n = 0};
        for (size_t s = 0; s < k->n_rows; s++) {
            const cell_backward row = backward_row(k, &t, s, i);
            KERNEL(cell_backward)(d, &row);
        }
        if (t.w_new) reset_backward(k, &t, i);
        add_gradients(k, &t, i, &l);
        if (i > 0) add_inputs(k, &t, i - 1, &l);
        if (i > 1) add_states(k, &t, i - 2, &l);
        if (i > 0 || t.dh0)
            multiply(&k->w, &of_gates, &l);
        else
            carry_all(&l);
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
    v.saved = dpt_recurrent_saved(d->cell) * n;
    v.wide_floats = dpt_cpu_round(dpt_cpu_mul(v.most_rows, v.wide));
    v.saved_floats = dpt_cpu_round(dpt_cpu_mul(v.most_rows, v.saved));
    v.packed_floats =
        dpt_cpu_round(dpt_cpu_add(dpt_cpu_mul(v.most_rows, is_forward ? n : rows), LANES));
    v.thread_floats = dpt_cpu_add(dpt_cpu_add(dpt_cpu_mul(6, v.state_floats), v.packed_floats),
                                  dpt_cpu_add(dpt_cpu_mul(2, v.wide_floats), v.saved_floats));
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
