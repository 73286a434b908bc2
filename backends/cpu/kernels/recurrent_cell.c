/* The arithmetic of recurrent cells (recurrent.h).  A long sequence has so many activations that
   they would take longer than the products if they were computed one by one.  So exp and tanh are
   those of vec_functions.h. */
#include "recurrent.h"

#include "exact_loops.h"
#include "vec_functions.h"

/* ---- Activations ----------------------------------------------------------------------------- */

DPT_CPU_INLINE vec load(const float *x, const size_t lanes)
{
    return lanes == LANES ? vec_load(x) : vec_load_n(x, lanes);
}

DPT_CPU_INLINE void store(float *y, vec x, const size_t lanes)
{
    if (lanes == LANES)
        vec_store(y, x);
    else
        vec_store_n(y, x, lanes);
}

/* y = f(x) of n vectors.  All arguments but the addresses are constants, unless a single vector is
   not whole. */
DPT_CPU_INLINE void activate_vectors(const dpt_activation kind, float *y, const float *x,
                                     const size_t n, const size_t lanes)
{
    vec of[VEC_MOST];
    VEC_EACH of[k] = load(x + k * LANES, lanes);
    if (kind == DPT_ACT_SIGMOID)
        vec_sigmoid(of, n);
    else
        vec_tanh(of, n);
    VEC_EACH store(y + k * LANES, of[k], lanes);
}

DPT_CPU_INLINE void activate_all(const dpt_activation kind, float *y, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + VEC_MOST * LANES <= n; i += VEC_MOST * LANES)
        activate_vectors(kind, y + i, x + i, VEC_MOST, LANES);
    for (; i + LANES <= n; i += LANES)
        activate_vectors(kind, y + i, x + i, 1, LANES);
    if (i < n) activate_vectors(kind, y + i, x + i, 1, n - i);
}

static void activate(bool exact, dpt_activation kind, float *y, const float *x, size_t n)
{
    if (exact && kind == DPT_ACT_SIGMOID && KERNEL(exact_apply)(DPT_MAP_SIGMOID, y, x, NULL, n))
        return;
    if (exact && kind == DPT_ACT_TANH && KERNEL(exact_apply)(DPT_MAP_TANH, y, x, NULL, n)) return;
    switch (kind) {
    case DPT_ACT_SIGMOID: activate_all(DPT_ACT_SIGMOID, y, x, n); return;
    case DPT_ACT_TANH: activate_all(DPT_ACT_TANH, y, x, n); return;
    default: /* ReLU; keeps NaN */
        for (size_t i = 0; i < n; i++)
            y[i] = x[i] < 0.0f ? 0.0f : x[i];
    }
}

/* d[i] *= f'(y[i]) */
static void differentiate(dpt_activation kind, float *restrict d, const float *restrict y, size_t n)
{
    switch (kind) {
    case DPT_ACT_SIGMOID:
        for (size_t i = 0; i < n; i++)
            d[i] *= y[i] * (1.0f - y[i]);
        return;
    case DPT_ACT_TANH:
        for (size_t i = 0; i < n; i++)
            d[i] *= 1.0f - y[i] * y[i];
        return;
    default:
        for (size_t i = 0; i < n; i++)
            d[i] = y[i] > 0.0f ? d[i] : 0.0f;
    }
}

/* ---- Parts of a row -------------------------------------------------------------------------- */

static inline size_t block_of(const dpt_recurrent_desc *d, size_t gate)
{
    return d->place[gate] * d->hidden;
}

/* q = f(x + q) in the block of a gate.  Returns the block. */
static const float *open_gate(const dpt_recurrent_desc *d, const cell_forward *row, size_t gate,
                              dpt_activation f)
{
    float *restrict q = row->q + block_of(d, gate);
    const float *restrict x = row->x + block_of(d, gate);
    for (size_t j = 0; j < d->hidden; j++)
        q[j] += x[j];
    activate(row->exact, f, q, q, d->hidden);
    return q;
}

static void save(const dpt_recurrent_desc *d, const cell_forward *row, size_t slot,
                 const float *from)
{
    if (row->gates) memcpy(row->gates + slot * d->hidden, from, d->hidden * sizeof *from);
}

/* Whether an LSTM has the activations that nearly all have. */
static bool is_usual(const dpt_recurrent_desc *d)
{
    return d->activation[0] == DPT_ACT_SIGMOID && d->activation[1] == DPT_ACT_TANH &&
           d->activation[2] == DPT_ACT_TANH;
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* A gate of n vectors of elements from j on, which is saved. */
DPT_CPU_INLINE void lstm_gate(const dpt_recurrent_desc *d, const cell_forward *row, size_t gate,
                              size_t j, vec of[VEC_MOST], const dpt_activation f, const size_t n,
                              const size_t lanes)
{
    const float *q = row->q + block_of(d, gate) + j, *x = row->x + block_of(d, gate) + j;
    VEC_EACH of[k] = vec_add(load(q + k * LANES, lanes), load(x + k * LANES, lanes));
    if (f == DPT_ACT_SIGMOID)
        vec_sigmoid(of, n);
    else
        vec_tanh(of, n);
    float *saved = row->gates ? row->gates + gate * d->hidden + j : NULL;
    VEC_EACH if (saved) store(saved + k * LANES, of[k], lanes);
}

/* The new cells and states of n vectors of elements from j on. */
DPT_CPU_INLINE void lstm_vectors(const dpt_recurrent_desc *d, const cell_forward *row, size_t j,
                                 const size_t n, const size_t lanes)
{
    float *c = row->c + j, *h = row->h + j;
    vec i[VEC_MOST], s[VEC_MOST], cell[VEC_MOST], of[VEC_MOST];
    lstm_gate(d, row, 0, j, i, DPT_ACT_SIGMOID, n, lanes);
    lstm_gate(d, row, 2, j, of, DPT_ACT_TANH, n, lanes);
    VEC_EACH i[k] = vec_mul(i[k], of[k]);
    lstm_gate(d, row, 1, j, s, DPT_ACT_SIGMOID, n, lanes);
    VEC_EACH cell[k] = vec_add(vec_mul(s[k], load(c + k * LANES, lanes)), i[k]);
    VEC_EACH store(c + k * LANES, cell[k], lanes);
    vec_tanh(cell, n);
    lstm_gate(d, row, 3, j, of, DPT_ACT_SIGMOID, n, lanes);
    VEC_EACH store(h + k * LANES, vec_mul(cell[k], of[k]), lanes);
}

/* lstm_forward with the usual activations, in one loop. */
static void lstm_forward_usual(const dpt_recurrent_desc *d, const cell_forward *row)
{
    const cell_forward own = *row; /* stores do not change it */
    const size_t n = d->hidden;
    size_t j = 0;
    for (; j + VEC_MOST * LANES <= n; j += VEC_MOST * LANES)
        lstm_vectors(d, &own, j, VEC_MOST, LANES);
    for (; j + LANES <= n; j += LANES)
        lstm_vectors(d, &own, j, 1, LANES);
    if (j < n) lstm_vectors(d, &own, j, 1, n - j);
}

static void lstm_forward(const dpt_recurrent_desc *d, const cell_forward *row)
{
    if (is_usual(d) && !row->exact) {
        lstm_forward_usual(d, row);
        return;
    }
    const dpt_activation *f = d->activation;
    const size_t n = d->hidden;
    const float *restrict i = open_gate(d, row, 0, f[0]), *restrict s = open_gate(d, row, 1, f[0]);
    const float *restrict u = open_gate(d, row, 2, f[1]), *restrict o = open_gate(d, row, 3, f[0]);
    float *restrict c = row->c, *restrict h = row->h;
    for (size_t j = 0; j < n; j++)
        c[j] = s[j] * c[j] + i[j] * u[j];
    activate(row->exact, f[2], h, c, n);
    for (size_t j = 0; j < n; j++)
        h[j] *= o[j];
    const float *const all[] = {i, s, u, o};
    for (size_t slot = 0; slot < 4; slot++)
        save(d, row, slot, all[slot]);
}

void KERNEL(cell_reset)(const dpt_recurrent_desc *d, const cell_forward *row, float *reset)
{
    const float *restrict r = open_gate(d, row, 0, d->activation[0]), *restrict h = row->h;
    float *restrict to = reset;
    (void)open_gate(d, row, 1, d->activation[0]);
    for (size_t j = 0; j < d->hidden; j++)
        to[j] = r[j] * h[j];
}

static void gru_forward(const dpt_recurrent_desc *d, const cell_forward *row)
{
    const dpt_activation *f = d->activation;
    const size_t n = d->hidden;
    const float *restrict r = row->q + block_of(d, 0), *restrict z = row->q + block_of(d, 1);
    const float *restrict x = row->x + block_of(d, 2);
    float *restrict u = row->q + block_of(d, 2), *restrict h = row->h;
    if (d->cell == DPT_CELL_GRU) {
        (void)open_gate(d, row, 0, f[0]);
        (void)open_gate(d, row, 1, f[0]);
        save(d, row, 3, u); /* the product */
        for (size_t j = 0; j < n; j++)
            u[j] = x[j] + r[j] * u[j];
    } else {
        for (size_t j = 0; j < n; j++)
            u[j] += x[j];
    }
    activate(row->exact, f[1], u, u, n);
    for (size_t j = 0; j < n; j++)
        h[j] = (1.0f - z[j]) * u[j] + z[j] * h[j];
    save(d, row, 0, r);
    save(d, row, 1, z);
    save(d, row, 2, u);
}

void KERNEL(cell_forward)(const dpt_recurrent_desc *d, const cell_forward *row)
{
    switch (d->cell) {
    case DPT_CELL_LSTM: lstm_forward(d, row); break;
    case DPT_CELL_RNN:
        memcpy(row->h, open_gate(d, row, 0, d->activation[0]), d->hidden * sizeof(float));
        break;
    default: gru_forward(d, row);
    }
}

/* ---- Backward -------------------------------------------------------------------------------- */

/* dh += dy */
static void add_given(const dpt_recurrent_desc *d, const cell_backward *row)
{
    float *restrict dh = row->dh;
    const float *restrict dy = row->dy;
    for (size_t j = 0; j < d->hidden; j++)
        dh[j] += dy[j];
}

static const float *saved_of(const dpt_recurrent_desc *d, const cell_backward *row, size_t slot)
{
    return row->gates + slot * d->hidden;
}

/* lstm_backward with the usual activations, for a vector of elements.  y: tanh of the cell. */
DPT_CPU_INLINE void lstm_gradients(const dpt_recurrent_desc *d, const cell_backward *row, size_t j,
                                   vec y, const size_t lanes)
{
    const size_t n = d->hidden;
    const float *gates = row->gates + j;
    const vec one = vec_set(1.0f), zero = vec_set(0.0f);
    const vec i = load(gates, lanes), s = load(gates + n, lanes);
    const vec u = load(gates + 2 * n, lanes), o = load(gates + 3 * n, lanes);
    const vec dh = vec_add(load(row->dh + j, lanes), load(row->dy + j, lanes));
    const vec of_cell = vec_mul(vec_mul(dh, o), vec_sub(one, vec_mul(y, y)));
    const vec change = vec_add(load(row->dc + j, lanes), of_cell);
    const vec before = row->c_before ? load(row->c_before + j, lanes) : zero;
    const vec di = vec_mul(vec_mul(change, u), vec_mul(i, vec_sub(one, i)));
    const vec ds = vec_mul(vec_mul(change, before), vec_mul(s, vec_sub(one, s)));
    const vec du = vec_mul(vec_mul(change, i), vec_sub(one, vec_mul(u, u)));
    const vec d_o = vec_mul(vec_mul(y, dh), vec_mul(o, vec_sub(one, o)));
    store(row->dx + block_of(d, 0) + j, di, lanes);
    store(row->dx + block_of(d, 1) + j, row->c_before ? ds : zero, lanes);
    store(row->dx + block_of(d, 2) + j, du, lanes);
    store(row->dx + block_of(d, 3) + j, d_o, lanes);
    store(row->dc + j, vec_mul(change, s), lanes);
    store(row->dh + j, zero, lanes);
}

DPT_CPU_INLINE void lstm_backward_vectors(const dpt_recurrent_desc *d, const cell_backward *row,
                                          size_t j, const size_t n, const size_t lanes)
{
    vec y[VEC_MOST];
    VEC_EACH y[k] = load(row->cell + j + k * LANES, lanes);
    vec_tanh(y, n);
    VEC_EACH lstm_gradients(d, row, j + k * LANES, y[k], lanes);
}

static void lstm_backward_usual(const dpt_recurrent_desc *d, const cell_backward *row)
{
    const cell_backward own = *row; /* stores do not change it */
    const size_t n = d->hidden;
    size_t j = 0;
    for (; j + VEC_MOST * LANES <= n; j += VEC_MOST * LANES)
        lstm_backward_vectors(d, &own, j, VEC_MOST, LANES);
    for (; j + LANES <= n; j += LANES)
        lstm_backward_vectors(d, &own, j, 1, LANES);
    if (j < n) lstm_backward_vectors(d, &own, j, 1, n - j);
}

static void lstm_backward(const dpt_recurrent_desc *d, const cell_backward *row)
{
    if (is_usual(d) && !row->exact) {
        lstm_backward_usual(d, row);
        return;
    }
    add_given(d, row);
    const dpt_activation *f = d->activation;
    const size_t n = d->hidden;
    const float *restrict i = saved_of(d, row, 0), *restrict s = saved_of(d, row, 1);
    const float *restrict u = saved_of(d, row, 2), *restrict o = saved_of(d, row, 3);
    float *restrict di = row->dx + block_of(d, 0), *restrict ds = row->dx + block_of(d, 1);
    float *restrict du = row->dx + block_of(d, 2), *restrict d_o = row->dx + block_of(d, 3);
    float *restrict dh = row->dh, *restrict dc = row->dc;
    const float *restrict before = row->c_before;
    activate(row->exact, f[2], d_o, row->cell, n); /* the output of the cell */
    for (size_t j = 0; j < n; j++)
        di[j] = dh[j] * o[j];
    differentiate(f[2], di, d_o, n);
    for (size_t j = 0; j < n; j++) {
        const float change = dc[j] + di[j];
        d_o[j] *= dh[j];
        di[j] = change * u[j];
        du[j] = change * i[j];
        ds[j] = before ? change * before[j] : 0.0f;
        dc[j] = change * s[j];
        dh[j] = 0.0f;
    }
    differentiate(f[0], di, i, n);
    differentiate(f[0], ds, s, n);
    differentiate(f[1], du, u, n);
    differentiate(f[0], d_o, o, n);
}

static void gru_backward(const dpt_recurrent_desc *d, const cell_backward *row)
{
    const dpt_activation *f = d->activation;
    const size_t n = d->hidden;
    const float *restrict z = saved_of(d, row, 1), *restrict u = saved_of(d, row, 2);
    const float *restrict before = row->h_before;
    float *restrict dz = row->dx + block_of(d, 1), *restrict du = row->dx + block_of(d, 2);
    float *restrict dh = row->dh;
    add_given(d, row);
    for (size_t j = 0; j < n; j++) {
        dz[j] = dh[j] * ((before ? before[j] : 0.0f) - u[j]);
        du[j] = dh[j] * (1.0f - z[j]);
        dh[j] *= z[j];
    }
    differentiate(f[0], dz, z, n);
    differentiate(f[1], du, u, n);
    if (d->cell != DPT_CELL_GRU) return;
    const float *restrict r = saved_of(d, row, 0), *restrict q = saved_of(d, row, 3);
    float *restrict dr = row->dx + block_of(d, 0);
    float *restrict dq = row->dq + block_of(d, 2);
    for (size_t j = 0; j < n; j++) {
        dr[j] = du[j] * q[j];
        dq[j] = du[j] * r[j];
    }
    differentiate(f[0], dr, r, n);
    memcpy(row->dq + block_of(d, 0), dr, n * sizeof *dr);
    memcpy(row->dq + block_of(d, 1), dz, n * sizeof *dz);
}

void KERNEL(cell_reset_backward)(const dpt_recurrent_desc *d, const cell_backward *row,
                                 const float *reset)
{
    const float *restrict r = saved_of(d, row, 0), *restrict before = row->h_before;
    const float *restrict given = reset;
    float *restrict dr = row->dx + block_of(d, 0), *restrict dh = row->dh;
    for (size_t j = 0; j < d->hidden; j++) {
        dr[j] = before ? given[j] * before[j] : 0.0f;
        dh[j] += given[j] * r[j];
    }
    differentiate(d->activation[0], dr, r, d->hidden);
}

void KERNEL(cell_backward)(const dpt_recurrent_desc *d, const cell_backward *row)
{
    float *dh = row->dh;
    switch (d->cell) {
    case DPT_CELL_LSTM: lstm_backward(d, row); break;
    case DPT_CELL_RNN:
        add_given(d, row);
        memcpy(row->dx, dh, d->hidden * sizeof *dh);
        differentiate(d->activation[0], row->dx, row->y, d->hidden);
        memset(dh, 0, d->hidden * sizeof *dh);
        break;
    default: gru_backward(d, row);
    }
}
