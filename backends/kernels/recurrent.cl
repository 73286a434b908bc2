/* RECURRENT: recurrent layers (core/backend/op_list.h), a launch for each place of the sequence.

   A group computes a tile of SAMPLES x UNITS elements of the state: the products of the state (or
   of the gradient) before the place and the weights of GATES gates, then the cell.  Each sum is
   made in the order of its terms, whatever the other samples are.  States are float32, in the
   workspace, and there twice, because a group reads what others write.

   Options:
     GATES  the gates whose products a launch computes */
#include "activation.h"
#include "recurrent.h"

#define SAMPLES 8
#define UNITS   16
#define TERMS   16 /* of a slice */
#if DEVICE_IS_CPU
#define ITEMS_S 1
#define ITEMS_U 1
#else
#define ITEMS_S SAMPLES
#define ITEMS_U UNITS
#endif
#define ITEMS (ITEMS_S * ITEMS_U)
#define OWN_S (SAMPLES / ITEMS_S) /* of a work item */
#define OWN_U (UNITS / ITEMS_U)
#define PITCH (UNITS + 1) /* puts the terms of a line into different banks */

/* ---- The product ----------------------------------------------------------------------------- */

/* The tile of a group. */
typedef struct tile {
    u64 sample; /* the first ones */
    u32 unit;
} tile;

DEVICE tile tile_of(const recurrent_params *p)
{
    tile t;
    t.sample = (u64)(GROUP_ID(0) / p->unit_tiles) * SAMPLES;
    t.unit = GROUP_ID(0) % p->unit_tiles * UNITS;
    return t;
}

/* slice (TERMS, SAMPLES) */
DEVICE void fetch_a(LOCAL float *slice, GLOBAL const float *a, const tile t, u32 term,
                    const recurrent_params *p)
{
    for (u32 i = LOCAL_ID; i < SAMPLES * TERMS; i += ITEMS) {
        const u32 s = i / TERMS, k = i % TERMS;
        const bool inside = t.sample + s < p->n_samples && term + k < p->terms;
        slice[k * SAMPLES + s] = inside ? a[(t.sample + s) * p->terms + term + k] : NOTHING;
    }
}

/* slice (GATES, TERMS, PITCH) */
DEVICE void fetch_w(LOCAL float *slice, GLOBAL const float *w, const tile t, u32 term,
                    const recurrent_params *p)
{
    for (u32 g = 0; g < GATES; g++) {
        for (u32 i = LOCAL_ID; i < UNITS * TERMS; i += ITEMS) {
            const u32 u = p->w_term <= p->w_line ? i / TERMS : i % UNITS;
            const u32 k = p->w_term <= p->w_line ? i % TERMS : i / UNITS;
            const bool inside = t.unit + u < p->hidden && term + k < p->terms;
            const u64 at =
                p->w_block[g] + (u64)(t.unit + u) * p->w_line + (u64)(term + k) * p->w_term;
            slice[(g * TERMS + k) * PITCH + u] = inside ? w[at] : 0.0f;
        }
    }
}

/* sum (GATES, OWN_S, OWN_U) += the products of a slice */
DEVICE void multiply(float *sum, LOCAL const float *a, LOCAL const float *w)
{
    const u32 item_s = LOCAL_ID / ITEMS_U, item_u = LOCAL_ID % ITEMS_U;
    for (u32 k = 0; k < TERMS; k++) {
        UNROLL for (u32 g = 0; g < GATES; g++)
        {
            for (u32 s = 0; s < OWN_S; s++) {
                const float x = a[k * SAMPLES + item_s * OWN_S + s];
                for (u32 u = 0; u < OWN_U; u++) {
                    const u32 e = (g * OWN_S + s) * OWN_U + u;
                    sum[e] = FMA(x, w[(g * TERMS + k) * PITCH + item_u * OWN_U + u], sum[e]);
                }
            }
        }
    }
}

/* sum (GATES, OWN_S, OWN_U) += the products of all terms */
DEVICE void product(float *sum, LOCAL float *a_slice, LOCAL float *w_slice, GLOBAL const float *a,
                    GLOBAL const float *w, const tile t, const recurrent_params *p)
{
    for (u32 term = 0; term < p->terms; term += TERMS) {
        fetch_a(a_slice, a, t, term, p);
        fetch_w(w_slice, w, t, term, p);
        BARRIER();
        multiply(sum, a_slice, w_slice);
        BARRIER(); /* before the next slice lies there */
    }
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* One element of the state of one sample. */
typedef struct element {
    u64 sample, own; /* own: its place in a part of the workspace with rows of `hidden` */
    u32 unit;
} element;

/* The element of row s and column u of an item. */
DEVICE element element_of(const recurrent_params *p, const tile t, u32 s, u32 u)
{
    element e;
    e.sample = t.sample + LOCAL_ID / ITEMS_U * OWN_S + s;
    e.unit = t.unit + LOCAL_ID % ITEMS_U * OWN_U + u;
    e.own = e.sample * p->hidden + e.unit;
    return e;
}

DEVICE bool exists(const recurrent_params *p, const element *e)
{
    return e->sample < p->n_samples && e->unit < p->hidden;
}

DEVICE u64 place_of(const recurrent_row *row, const element *e)
{
    return e->sample * row->sample + row->at + e->unit;
}

typedef struct forward_tensors {
    GLOBAL act *y;
    GLOBAL act *gates;
    GLOBAL float *cells;
    GLOBAL float *state; /* the workspace */
    GLOBAL const act *x;
    GLOBAL const float *bias;
} forward_tensors;

DEVICE float from_x(const recurrent_params *p, const forward_tensors *t, const element *e, u32 gate)
{
    return GET(t->x, place_of(&p->x, e) + p->block[gate]);
}

DEVICE void save(const recurrent_params *p, const forward_tensors *t, const element *e, u32 slot,
                 float value)
{
    if (p->saves) PUT(t->gates, place_of(&p->gates, e) + slot * p->hidden, value);
}

DEVICE void put_state(const recurrent_params *p, const forward_tensors *t, const element *e,
                      float h)
{
    t->state[p->a_to + e->own] = h;
    PUT(t->y, place_of(&p->y, e), h);
}

DEVICE void put_gru(const recurrent_params *p, const forward_tensors *t, const element *e, float z,
                    float u)
{
    const float h = t->state[(p->pass == PASS_NEW ? p->cell : p->a_from) + e->own];
    save(p, t, e, 2, u);
    put_state(p, t, e, (1.0f - z) * u + z * h);
}

#if GATES == 4
DEVICE void cell(const recurrent_params *p, const forward_tensors *t, const element *e,
                 const float *q)
{
    const float i = activate(p->activation[0], from_x(p, t, e, 0) + q[0]);
    const float s = activate(p->activation[0], from_x(p, t, e, 1) + q[1]);
    const float u = activate(p->activation[1], from_x(p, t, e, 2) + q[2]);
    const float o = activate(p->activation[0], from_x(p, t, e, 3) + q[3]);
    const float c = s * t->state[p->cell + e->own] + i * u;
    t->state[p->cell + e->own] = c;
    save(p, t, e, 0, i);
    save(p, t, e, 1, s);
    save(p, t, e, 2, u);
    save(p, t, e, 3, o);
    if (p->saves) t->cells[place_of(&p->cells, e)] = c;
    put_state(p, t, e, o * activate(p->activation[2], c));
}
#elif GATES == 3
DEVICE float biased(const recurrent_params *p, const forward_tensors *t, const element *e, u32 gate,
                    float q)
{
    return p->has_bias ? q + t->bias[p->block[gate] + e->unit] : q;
}

DEVICE void cell(const recurrent_params *p, const forward_tensors *t, const element *e,
                 const float *q)
{
    const float r = activate(p->activation[0], from_x(p, t, e, 0) + biased(p, t, e, 0, q[0]));
    const float z = activate(p->activation[0], from_x(p, t, e, 1) + biased(p, t, e, 1, q[1]));
    const float inner = biased(p, t, e, 2, q[2]);
    save(p, t, e, 0, r);
    save(p, t, e, 1, z);
    save(p, t, e, 3, inner);
    put_gru(p, t, e, z, activate(p->activation[1], from_x(p, t, e, 2) + r * inner));
}
#elif GATES == 2
/* The first half of GRU_BEFORE. */
DEVICE void cell(const recurrent_params *p, const forward_tensors *t, const element *e,
                 const float *q)
{
    const float r = activate(p->activation[0], from_x(p, t, e, 0) + q[0]);
    const float z = activate(p->activation[0], from_x(p, t, e, 1) + q[1]);
    save(p, t, e, 0, r);
    save(p, t, e, 1, z);
    t->state[p->reset + e->own] = r * t->state[p->a_from + e->own];
    t->state[p->keep + e->own] = z;
}
#else
DEVICE void cell(const recurrent_params *p, const forward_tensors *t, const element *e,
                 const float *q)
{
    if (p->type == CELL_RNN)
        put_state(p, t, e, activate(p->activation[0], from_x(p, t, e, 0) + q[0]));
    else /* the second half of GRU_BEFORE */
        put_gru(p, t, e, t->state[p->keep + e->own],
                activate(p->activation[1], from_x(p, t, e, 2) + q[0]));
}
#endif

/* A place of the sequence, or half of it.  x (n,length,gates,hidden), w -> y (n,length,hidden),
   gates, cells. */
KERNEL GROUP_OF(ITEMS) void dpt_recurrent_forward(OUT(act, y), OUT(act, gates), OUT(float, cells),
                                                  OUT(float, state), IN(act, x), IN(float, w),
                                                  IN(float, bias), const recurrent_params given)
{
    SHARED float a_slice[TERMS * SAMPLES], w_slice[GATES * TERMS * PITCH];
    const recurrent_params *const p = &given;
    const tile own = tile_of(p);
    float sum[GATES * OWN_S * OWN_U];
    forward_tensors t;
    t.y = y_base + y_place;
    t.gates = gates_base + gates_place;
    t.cells = cells_base + cells_place;
    t.state = state_base + state_place;
    t.x = x_base + x_place;
    t.bias = bias_base + bias_place;
    for (u32 i = 0; i < GATES * OWN_S * OWN_U; i++)
        sum[i] = 0.0f;
    product(sum, a_slice, w_slice, t.state + p->a_from, w_base + w_place, own, p);
    for (u32 s = 0; s < OWN_S; s++) {
        for (u32 u = 0; u < OWN_U; u++) {
            float q[GATES];
            const element e = element_of(p, own, s, u);
            UNROLL for (u32 g = 0; g < GATES; g++) q[g] = sum[(g * OWN_S + s) * OWN_U + u];
            if (exists(p, &e)) cell(p, &t, &e, q);
        }
    }
}

/* ---- Backward -------------------------------------------------------------------------------- */

#if GATES == 1

typedef struct backward_tensors {
    GLOBAL act *dx;
    GLOBAL act *dq;
    GLOBAL float *state; /* the workspace */
    GLOBAL const act *dy;
    GLOBAL const act *y;
    GLOBAL const act *gates;
    GLOBAL const float *cells;
    GLOBAL const act *initial; /* the state h or c, (n, hidden) */
} backward_tensors;

DEVICE float saved(const recurrent_params *p, const backward_tensors *t, const element *e, u32 slot)
{
    return GET(t->gates, place_of(&p->gates, e) + slot * p->hidden);
}

DEVICE float state_before(const recurrent_params *p, const backward_tensors *t, const element *e)
{
    if (p->before == BEFORE_ZERO) return 0.0f;
    if (p->before == BEFORE_INITIAL) return GET(t->initial, e->own);
    return p->type == CELL_LSTM ? t->cells[place_of(&p->cells_before, e)]
                                : GET(t->y, place_of(&p->y_before, e));
}

/* x * the state before the place.  A state that is 0 gives +0, whatever x is. */
DEVICE float times_state_before(const recurrent_params *p, const backward_tensors *t,
                                const element *e, float x)
{
    return p->before == BEFORE_ZERO ? 0.0f : x * state_before(p, t, e);
}

/* dx of a gate, and dq, which goes to the next product, too. */
DEVICE void put_gradient(const recurrent_params *p, const backward_tensors *t, const element *e,
                         u32 gate, float dx, float dq)
{
    const u64 at = place_of(&p->x, e) + p->block[gate];
    PUT(t->dx, at, dx);
    if (p->has_dq) PUT(t->dq, at, dq);
    if (p->pass != PASS_NEW || gate != 2)
        t->state[p->a_to + e->sample * p->a_pitch + p->block[gate] + e->unit] = dq;
    else
        t->state[p->reset + e->own] = dx;
}

DEVICE void lstm_gradients(const recurrent_params *p, const backward_tensors *t, const element *e,
                           float dh)
{
    const float i = saved(p, t, e, 0), s = saved(p, t, e, 1), u = saved(p, t, e, 2);
    const float o = saved(p, t, e, 3);
    const float out = activate(p->activation[2], t->cells[place_of(&p->cells, e)]);
    const float dc = t->state[p->cell + e->own] + with_slope(p->activation[2], out, dh * o);
    const float di = with_slope(p->activation[0], i, dc * u);
    const float ds = with_slope(p->activation[0], s, times_state_before(p, t, e, dc));
    const float du = with_slope(p->activation[1], u, dc * i);
    const float d_o = with_slope(p->activation[0], o, dh * out);
    t->state[p->cell + e->own] = dc * s;
    t->state[p->keep + e->own] = 0.0f;
    put_gradient(p, t, e, 0, di, di);
    put_gradient(p, t, e, 1, ds, ds);
    put_gradient(p, t, e, 2, du, du);
    put_gradient(p, t, e, 3, d_o, d_o);
}

DEVICE void gru_gradients(const recurrent_params *p, const backward_tensors *t, const element *e,
                          float dh)
{
    const float z = saved(p, t, e, 1), u = saved(p, t, e, 2);
    const float dz = with_slope(p->activation[0], z, dh * (state_before(p, t, e) - u));
    const float du = with_slope(p->activation[1], u, dh * (1.0f - z));
    t->state[p->keep + e->own] = dh * z;
    put_gradient(p, t, e, 1, dz, dz);
    if (p->type == CELL_GRU) {
        const float r = saved(p, t, e, 0);
        const float dr = with_slope(p->activation[0], r, du * saved(p, t, e, 3));
        put_gradient(p, t, e, 0, dr, dr);
        put_gradient(p, t, e, 2, du, du * r);
    } else {
        put_gradient(p, t, e, 2, du, du);
    }
}

/* Begins the sums with what the gradient of h has already.  The gradient of r * h begins with 0. */
DEVICE void begin_sums(float *sum, const tile own, const backward_tensors *t,
                       const recurrent_params *p)
{
    for (u32 s = 0; s < OWN_S; s++) {
        for (u32 u = 0; u < OWN_U; u++) {
            const element e = element_of(p, own, s, u);
            const bool begins = p->pass != PASS_RESET && exists(p, &e);
            sum[s * OWN_U + u] = begins ? t->state[p->keep + e.own] : 0.0f;
        }
    }
}

/* sum: the gradient of h so far, by the gradients behind the place; or of r * h. */
DEVICE void gradients(const recurrent_params *p, const backward_tensors *t, const element *e,
                      float sum)
{
    const u64 keep = p->keep + e->own;
    if (p->pass == PASS_RESET) { /* the sum is the gradient of r * h */
        const float r = saved(p, t, e, 0);
        const float dr = with_slope(p->activation[0], r, times_state_before(p, t, e, sum));
        t->state[keep] += sum * r;
        put_gradient(p, t, e, 0, dr, dr);
        return;
    }
    if (p->pass == PASS_END) {
        t->state[keep] = sum;
        return;
    }
    const float dh = sum + GET(t->dy, place_of(&p->y, e));
    if (p->type == CELL_LSTM) {
        lstm_gradients(p, t, e, dh);
    } else if (p->type == CELL_RNN) {
        const float y = GET(t->y, place_of(&p->y, e));
        const float dx = with_slope(p->activation[0], y, dh);
        t->state[keep] = 0.0f;
        put_gradient(p, t, e, 0, dx, dx);
    } else {
        gru_gradients(p, t, e, dh);
    }
}

/* A place of the sequence, or half of it.  dy (n,length,hidden), y, gates, cells, w -> dx
   (n,length,gates,hidden), dq. */
KERNEL GROUP_OF(ITEMS) void dpt_recurrent_backward(OUT(act, dx), OUT(act, dq), OUT(float, state),
                                                   IN(act, dy), IN(act, y), IN(act, gates),
                                                   IN(float, cells), IN(act, initial), IN(float, w),
                                                   const recurrent_params given)
{
    SHARED float a_slice[TERMS * SAMPLES], w_slice[TERMS * PITCH];
    const recurrent_params *const p = &given;
    const tile own = tile_of(p);
    float sum[OWN_S * OWN_U];
    backward_tensors t;
    t.dx = dx_base + dx_place;
    t.dq = dq_base + dq_place;
    t.state = state_base + state_place;
    t.dy = dy_base + dy_place;
    t.y = y_base + y_place;
    t.gates = gates_base + gates_place;
    t.cells = cells_base + cells_place;
    t.initial = initial_base + initial_place;
    begin_sums(sum, own, &t, p);
    product(sum, a_slice, w_slice, t.state + p->a_from, w_base + w_place, own, p);
    for (u32 s = 0; s < OWN_S; s++) {
        for (u32 u = 0; u < OWN_U; u++) {
            const element e = element_of(p, own, s, u);
            if (exists(p, &e)) gradients(p, &t, &e, sum[s * OWN_U + u]);
        }
    }
}

/* ---- States ---------------------------------------------------------------------------------- */

/* A state before the first place, or 0 -> the workspace. */
KERNEL void dpt_recurrent_begin(OUT(float, state), IN(act, from), const recurrent_copy_params p)
{
    const u64 i = GLOBAL_ID;
    if (i >= p.count) return;
    const u64 sample = i / p.hidden, unit = i - sample * p.hidden;
    const u64 at = sample * p.row.sample + p.row.at + unit;
    state_base[state_place + p.state + i] = p.is_zero ? 0.0f : GET(from_base + from_place, at);
}

/* The workspace -> a state behind the last place. */
KERNEL void dpt_recurrent_end(OUT(act, to), IN(float, state), const recurrent_copy_params p)
{
    const u64 i = GLOBAL_ID;
    if (i >= p.count) return;
    const u64 sample = i / p.hidden, unit = i - sample * p.hidden;
    const u64 at = sample * p.row.sample + p.row.at + unit;
    PUT(to_base + to_place, at, state_base[state_place + p.state + i]);
}

#endif
