/* RECURRENT: recurrent layers.  Each number carries the size of its rounding error beside its
   value, in units of the precision: the values are the reference, the errors are the magnitudes. */
#include "reference.h"

#include <math.h>
#include <stdlib.h>

/* A value, and how large its rounding error may be. */
typedef struct number {
    double v, e;
} number;

static number exactly(double v)
{
    return (number){v, fabs(v)};
}

static number plus(number a, number b)
{
    return (number){a.v + b.v, a.e + b.e};
}

static number times(number a, number b)
{
    return (number){a.v * b.v, fabs(a.v) * b.e + a.e * fabs(b.v)};
}

/* 1 - a */
static number rest_of(number a)
{
    return (number){1.0 - a.v, 1.0 + a.e};
}

static number activated(dpt_activation kind, number x)
{
    const double y = reference_activate(kind, x.v);
    const double slope = kind == DPT_ACT_RELU ? 1.0 : fabs(reference_slope(kind, y));
    return (number){y, slope * x.e + fabs(y) + (kind == DPT_ACT_SIGMOID ? 1.0 : 0.0)};
}

/* dy times the derivative of an activation whose output is y. */
static number sloped(dpt_activation kind, number y, number dy)
{
    return times(dy, (number){reference_slope(kind, y.v), magnitude_slope(kind, y.v)});
}

/* ---- A sample -------------------------------------------------------------------------------- */

/* The tensors of a sample, and the states on the way. */
typedef struct walk {
    const dpt_recurrent_desc *d;
    size_t hidden, gates;
    const double *w, *w_new, *bias;
    number *h, *c;   /* (hidden) states; in the backward pass their gradients */
    number *q, *old; /* (gates, hidden), (hidden) */
} walk;

/* The sum over k of w[row * step_row + k * step_k] * h[k].  The errors of the h are independent. */
typedef struct line {
    const double *w;
    size_t step, n;
} line;

static number dot(line l, const number *h)
{
    number sum = {0.0, 0.0};
    double squares = 0.0;
    for (size_t k = 0; k < l.n; k++) {
        const double w = l.w[k * l.step];
        sum.v += w * h[k].v;
        sum.e += fabs(w * h[k].v);
        squares += w * w * h[k].e * h[k].e;
    }
    sum.e += sqrt(squares);
    return sum;
}

static size_t block_at(const walk *s, size_t gate, size_t j)
{
    return (size_t)s->d->place[gate] * s->hidden + j;
}

/* x + q of a gate, with q at s->q. */
static number sum_of(const walk *s, const double *x, size_t gate, size_t j)
{
    const size_t at = block_at(s, gate, j);
    return plus(exactly(x[at]), s->q[at]);
}

static void multiply(const walk *s)
{
    const size_t rows = dpt_recurrent_rows(s->d->cell) * s->hidden;
    for (size_t row = 0; row < rows; row++) {
        s->q[row] = dot((line){s->w + row * s->hidden, 1, s->hidden}, s->h);
        if (s->bias) s->q[row] = plus(s->q[row], exactly(s->bias[row]));
    }
}

static void put(double *to, number from, bool errors)
{
    *to = errors ? from.e : from.v;
}

/* Where a step's results go; NULL: nowhere. */
typedef struct results {
    double *y, *gates, *cells;
    bool errors;
} results;

static void save(const walk *s, const results *to, size_t slot, size_t j, number value)
{
    if (to->gates) put(to->gates + slot * s->hidden + j, value, to->errors);
}

static void lstm_step(const walk *s, const double *x, const results *to)
{
    const dpt_activation *f = s->d->activation;
    multiply(s);
    for (size_t j = 0; j < s->hidden; j++) {
        const number i = activated(f[0], sum_of(s, x, 0, j));
        const number keep = activated(f[0], sum_of(s, x, 1, j));
        const number u = activated(f[1], sum_of(s, x, 2, j));
        const number o = activated(f[0], sum_of(s, x, 3, j));
        s->c[j] = plus(times(keep, s->c[j]), times(i, u));
        s->h[j] = times(o, activated(f[2], s->c[j]));
        save(s, to, 0, j, i);
        save(s, to, 1, j, keep);
        save(s, to, 2, j, u);
        save(s, to, 3, j, o);
        if (to->cells) put(to->cells + j, s->c[j], to->errors);
    }
}

static void gru_step(const walk *s, const double *x, const results *to)
{
    const dpt_activation *f = s->d->activation;
    const bool behind = s->d->cell == DPT_CELL_GRU;
    multiply(s);
    for (size_t j = 0; j < s->hidden; j++) {
        s->old[j] = s->h[j];
        if (!behind) s->h[j] = times(activated(f[0], sum_of(s, x, 0, j)), s->old[j]);
    }
    for (size_t j = 0; j < s->hidden; j++) {
        const number r = activated(f[0], sum_of(s, x, 0, j));
        const number z = activated(f[0], sum_of(s, x, 1, j));
        const number q = behind ? s->q[block_at(s, 2, j)]
                                : dot((line){s->w_new + j * s->hidden, 1, s->hidden}, s->h);
        const number from_x = exactly(x[block_at(s, 2, j)]);
        const number u = activated(f[1], plus(from_x, behind ? times(r, q) : q));
        s->c[j] = plus(times(rest_of(z), u), times(z, s->old[j]));
        save(s, to, 0, j, r);
        save(s, to, 1, j, z);
        save(s, to, 2, j, u);
        if (behind) save(s, to, 3, j, q);
    }
    for (size_t j = 0; j < s->hidden; j++)
        s->h[j] = s->c[j];
}

static void forward_step(const walk *s, const double *x, const results *to)
{
    if (s->d->cell == DPT_CELL_LSTM) {
        lstm_step(s, x, to);
    } else if (s->d->cell != DPT_CELL_RNN) {
        gru_step(s, x, to);
    } else {
        multiply(s);
        for (size_t j = 0; j < s->hidden; j++)
            s->h[j] = activated(s->d->activation[0], sum_of(s, x, 0, j));
    }
    for (size_t j = 0; j < s->hidden; j++)
        put(to->y + j, s->h[j], to->errors);
}

/* ---- Inputs ---------------------------------------------------------------------------------- */

/* Takes the next input or output if there is one. */
typedef struct slots {
    const reference_args *args;
    size_t in, out;
} slots;

static const double *next_in(slots *s, bool is_there)
{
    return is_there ? s->args->in[s->in++] : NULL;
}

static double *next_out(slots *s, bool is_there)
{
    return is_there ? s->args->out[s->out++] : NULL;
}

static number *numbers(size_t n)
{
    number *out = calloc(n + 1, sizeof *out);
    if (!out) abort();
    return out;
}

static walk walk_of(const dpt_recurrent_desc *d)
{
    return (walk){.d = d,
                  .hidden = d->hidden,
                  .gates = dpt_recurrent_gates(d->cell),
                  .h = numbers(d->hidden),
                  .c = numbers(d->hidden),
                  .q = numbers(DPT_RECURRENT_GATES * d->hidden),
                  .old = numbers(d->hidden)};
}

static void walk_end(walk *s)
{
    free(s->h);
    free(s->c);
    free(s->q);
    free(s->old);
}

static void begin_states(const walk *s, size_t sample, const double *h0, const double *c0)
{
    for (size_t j = 0; j < s->hidden; j++) {
        s->h[j] = exactly(h0 ? h0[sample * s->hidden + j] : 0.0);
        s->c[j] = exactly(c0 ? c0[sample * s->hidden + j] : 0.0);
    }
}

/* The place of the step i in the sequence. */
static size_t place_of(const dpt_recurrent_desc *d, size_t i)
{
    return d->reverse ? d->length - 1 - i : i;
}

static double *row_of(double *tensor, size_t row, size_t width)
{
    return tensor ? tensor + row * width : NULL;
}

static void forward(const dpt_recurrent_desc *d, size_t n, const reference_args *args, bool errors)
{
    const bool lstm = d->cell == DPT_CELL_LSTM, saves = !d->no_gradient;
    const size_t saved = dpt_recurrent_saved(d->cell), length = d->length, hidden = d->hidden;
    slots of = {.args = args};
    walk s = walk_of(d);
    const double *x = next_in(&of, true);
    s.w = next_in(&of, true);
    s.w_new = next_in(&of, d->cell == DPT_CELL_GRU_BEFORE);
    s.bias = next_in(&of, d->has_bias);
    const double *h0 = next_in(&of, d->has_initial), *c0 = next_in(&of, d->has_initial && lstm);
    double *y = next_out(&of, true), *gates = next_out(&of, saves && saved > 0);
    double *cells = next_out(&of, saves && lstm);
    for (size_t sample = 0; sample < n; sample++) {
        double *own = y + sample * (length + d->gives_cell) * hidden;
        begin_states(&s, sample, h0, c0);
        for (size_t i = 0; i < length; i++) {
            const size_t t = place_of(d, i), row = sample * length + t;
            forward_step(&s, x + row * s.gates * hidden,
                         &(results){.y = own + t * hidden,
                                    .gates = row_of(gates, row, saved * hidden),
                                    .cells = row_of(cells, row, hidden),
                                    .errors = errors});
        }
        for (size_t j = 0; j < hidden && d->gives_cell; j++)
            put(own + length * hidden + j, s.c[j], errors);
    }
    walk_end(&s);
}

/* ---- Backward -------------------------------------------------------------------------------- */

/* What a step's gradients are computed from: rows of a sample. */
typedef struct given {
    const double *y, *gates, *cell, *h_before, *c_before; /* the last two: NULL for zeros */
} given;

static number saved_at(const walk *s, const given *from, size_t slot, size_t j)
{
    return exactly(from->gates[slot * s->hidden + j]);
}

static number before_at(const double *state, size_t j)
{
    return exactly(state ? state[j] : 0.0);
}

/* Gradients of a step: (gates, hidden) each. */
typedef struct changes {
    number *dx, *dq;
} changes;

static void lstm_back(const walk *s, const given *from, const changes *to)
{
    const dpt_activation *f = s->d->activation;
    for (size_t j = 0; j < s->hidden; j++) {
        const number i = saved_at(s, from, 0, j), keep = saved_at(s, from, 1, j),
                     u = saved_at(s, from, 2, j), o = saved_at(s, from, 3, j);
        const number out = activated(f[2], exactly(from->cell[j]));
        const number dc = plus(s->c[j], sloped(f[2], out, times(s->h[j], o)));
        to->dx[block_at(s, 0, j)] = sloped(f[0], i, times(dc, u));
        to->dx[block_at(s, 1, j)] = sloped(f[0], keep, times(dc, before_at(from->c_before, j)));
        to->dx[block_at(s, 2, j)] = sloped(f[1], u, times(dc, i));
        to->dx[block_at(s, 3, j)] = sloped(f[0], o, times(s->h[j], out));
        s->c[j] = times(dc, keep);
        s->h[j] = (number){0.0, 0.0};
    }
}

static void gru_back(const walk *s, const given *from, const changes *to)
{
    const dpt_activation *f = s->d->activation;
    const bool behind = s->d->cell == DPT_CELL_GRU;
    for (size_t j = 0; j < s->hidden; j++) {
        const number z = saved_at(s, from, 1, j), u = saved_at(s, from, 2, j);
        const number h = before_at(from->h_before, j);
        const number apart = plus(h, (number){-u.v, u.e});
        to->dx[block_at(s, 1, j)] = sloped(f[0], z, times(s->h[j], apart));
        to->dx[block_at(s, 2, j)] = sloped(f[1], u, times(s->h[j], rest_of(z)));
        s->h[j] = times(s->h[j], z);
    }
    for (size_t j = 0; j < s->hidden; j++) {
        const number r = saved_at(s, from, 0, j), h = before_at(from->h_before, j);
        const number du = to->dx[block_at(s, 2, j)];
        if (behind) {
            const number q = saved_at(s, from, 3, j);
            to->dx[block_at(s, 0, j)] = sloped(f[0], r, times(du, q));
            to->dq[block_at(s, 2, j)] = times(du, r);
        } else { /* of r * h */
            const number d =
                dot((line){s->w_new + j, s->hidden, s->hidden}, to->dx + 2 * s->hidden);
            to->dx[block_at(s, 0, j)] = sloped(f[0], r, times(d, h));
            s->h[j] = plus(s->h[j], times(d, r));
        }
    }
    for (size_t j = 0; j < s->hidden && behind; j++) {
        to->dq[block_at(s, 0, j)] = to->dx[block_at(s, 0, j)];
        to->dq[block_at(s, 1, j)] = to->dx[block_at(s, 1, j)];
    }
}

/* s->h is the gradient of h(t), and becomes that of the state before it. */
static void backward_step(const walk *s, const given *from, const changes *to)
{
    const number *inner = s->d->cell == DPT_CELL_GRU ? to->dq : to->dx;
    if (s->d->cell == DPT_CELL_LSTM) {
        lstm_back(s, from, to);
    } else if (s->d->cell != DPT_CELL_RNN) {
        gru_back(s, from, to);
    } else {
        for (size_t j = 0; j < s->hidden; j++) {
            to->dx[j] = sloped(s->d->activation[0], exactly(from->y[j]), s->h[j]);
            s->h[j] = (number){0.0, 0.0};
        }
    }
    const size_t rows = dpt_recurrent_rows(s->d->cell) * s->hidden;
    for (size_t j = 0; j < s->hidden; j++)
        s->h[j] = plus(s->h[j], dot((line){s->w + j, s->hidden, rows}, inner));
}

/* All tensors of a backward pass. */
typedef struct tensors {
    const double *dy, *y, *gates, *cells, *h0, *c0;
    double *dx, *dq, *dh0, *dc0;
    bool errors;
} tensors;

static const double *before(const double *rows, const double *initial, size_t place, size_t width)
{
    return place == SIZE_MAX ? initial : rows ? rows + place * width : NULL;
}

static void backward_sample(const walk *s, size_t sample, const tensors *a, const changes *to)
{
    const dpt_recurrent_desc *d = s->d;
    const size_t length = d->length, hidden = d->hidden, wide = s->gates * hidden;
    const size_t places = length + d->gives_cell, saved = dpt_recurrent_saved(d->cell) * hidden;
    const double *dy = a->dy + sample * places * hidden;
    const double *y = a->y ? a->y + sample * places * hidden : NULL;
    const double *cells = a->cells ? a->cells + sample * length * hidden : NULL;
    begin_states(s, 0, NULL, d->gives_cell ? dy + length * hidden : NULL);
    for (size_t i = length; i-- > 0;) {
        const size_t t = place_of(d, i), row = sample * length + t;
        const size_t last = i == 0 ? SIZE_MAX : place_of(d, i - 1);
        const given from = {
            .y = y ? y + t * hidden : NULL,
            .gates = a->gates ? a->gates + row * saved : NULL,
            .cell = cells ? cells + t * hidden : NULL,
            .h_before = before(y, a->h0 ? a->h0 + sample * hidden : NULL, last, hidden),
            .c_before = before(cells, a->c0 ? a->c0 + sample * hidden : NULL, last, hidden)};
        for (size_t j = 0; j < hidden; j++)
            s->h[j] = plus(s->h[j], exactly(dy[t * hidden + j]));
        backward_step(s, &from, to);
        for (size_t k = 0; k < wide; k++) {
            put(a->dx + row * wide + k, to->dx[k], a->errors);
            if (a->dq) put(a->dq + row * wide + k, to->dq[k], a->errors);
        }
    }
    for (size_t j = 0; j < hidden; j++) {
        if (a->dh0) put(a->dh0 + sample * hidden + j, s->h[j], a->errors);
        if (a->dc0) put(a->dc0 + sample * hidden + j, s->c[j], a->errors);
    }
}

static void backward(const dpt_recurrent_desc *d, size_t n, const reference_args *args, bool errors)
{
    const bool lstm = d->cell == DPT_CELL_LSTM, rnn = d->cell == DPT_CELL_RNN;
    slots of = {.args = args};
    walk s = walk_of(d);
    tensors a = {.errors = errors, .dy = next_in(&of, true), .y = NULL};
    a.y = next_in(&of, !lstm);
    a.gates = next_in(&of, !rnn);
    a.cells = next_in(&of, lstm);
    s.w = next_in(&of, true);
    s.w_new = next_in(&of, d->cell == DPT_CELL_GRU_BEFORE);
    a.h0 = next_in(&of, d->has_initial && !lstm && !rnn);
    a.c0 = next_in(&of, d->has_initial && lstm);
    a.dx = next_out(&of, true);
    a.dq = next_out(&of, d->cell == DPT_CELL_GRU);
    a.dh0 = next_out(&of, d->has_initial);
    a.dc0 = next_out(&of, d->has_initial && lstm);
    const changes to = {numbers(s.gates * d->hidden), numbers(s.gates * d->hidden)};
    for (size_t sample = 0; sample < n; sample++)
        backward_sample(&s, sample, &a, &to);
    free(to.dx);
    free(to.dq);
    walk_end(&s);
}

void reference_recurrent(const dpt_op_desc *desc, size_t n, const reference_args *args)
{
    if (desc->kind == DPT_OP_RECURRENT_FORWARD)
        forward(&desc->u.recurrent, n, args, false);
    else
        backward(&desc->u.recurrent, n, args, false);
}

void magnitude_recurrent(const dpt_op_desc *desc, size_t n, const reference_args *args)
{
    if (desc->kind == DPT_OP_RECURRENT_FORWARD)
        forward(&desc->u.recurrent, n, args, true);
    else
        backward(&desc->u.recurrent, n, args, true);
}
