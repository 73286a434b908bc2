/* The arithmetic of recurrent cells (recurrent.h).  A long sequence has so many activations that
   they would take longer than the products if they were computed one by one.  So exp and tanh are
   those of functions.h, in loops that the compiler turns into vectors. */
#include "recurrent.h"

#include "functions.h"

/* The iterations of the loop that follows do not depend on each other.  A compiler that cannot see
   that of so many arrays would not make vectors of it. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* ---- Activations ----------------------------------------------------------------------------- */

static void activate(dpt_activation kind, float *y, const float *x, size_t n)
{
    switch (kind) {
    case DPT_ACT_SIGMOID:
        for (size_t i = 0; i < n; i++)
            y[i] = function_sigmoid(x[i]);
        return;
    case DPT_ACT_TANH:
        for (size_t i = 0; i < n; i++)
            y[i] = function_tanh(x[i]);
        return;
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
    activate(f, q, q, d->hidden);
    return q;
}

static void save(const dpt_recurrent_desc *d, const cell_forward *row, size_t slot,
                 const float *from)
{
    if (row->gates) memcpy(row->gates + slot * d->hidden, from, d->hidden * sizeof *from);
}

/* ---- Forward --------------------------------------------------------------------------------- */

static void lstm_forward(const dpt_recurrent_desc *d, const cell_forward *row)
{
    const dpt_activation *f = d->activation;
    const size_t n = d->hidden;
    const float *restrict i = open_gate(d, row, 0, f[0]), *restrict s = open_gate(d, row, 1, f[0]);
    const float *restrict u = open_gate(d, row, 2, f[1]), *restrict o = open_gate(d, row, 3, f[0]);
    float *restrict c = row->c, *restrict h = row->h;
    for (size_t j = 0; j < n; j++)
        c[j] = s[j] * c[j] + i[j] * u[j];
    activate(f[2], h, c, n);
    for (size_t j = 0; j < n; j++)
        h[j] *= o[j];
    const float *const all[] = {i, s, u, o};
    for (size_t slot = 0; slot < 4; slot++)
        save(d, row, slot, all[slot]);
    if (row->cells) memcpy(row->cells, c, n * sizeof *c);
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
    activate(f[1], u, u, n);
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
    memcpy(row->y, row->h, d->hidden * sizeof(float));
}

/* ---- Backward -------------------------------------------------------------------------------- */

static const float *saved_of(const dpt_recurrent_desc *d, const cell_backward *row, size_t slot)
{
    return row->gates + slot * d->hidden;
}

/* Whether an LSTM has the activations that nearly all have. */
static bool is_usual(const dpt_recurrent_desc *d)
{
    return d->activation[0] == DPT_ACT_SIGMOID && d->activation[1] == DPT_ACT_TANH &&
           d->activation[2] == DPT_ACT_TANH;
}

/* lstm_backward with the usual activations, in one loop.  With a constant `begins` there are no
   branches. */
static inline void lstm_backward_usual(const dpt_recurrent_desc *d, const cell_backward *row,
                                       const bool begins)
{
    const size_t n = d->hidden;
    const float *restrict gates = row->gates, *restrict cell = row->cell;
    const float *restrict before = row->c_before;
    float *restrict di = row->dx + block_of(d, 0), *restrict ds = row->dx + block_of(d, 1);
    float *restrict du = row->dx + block_of(d, 2), *restrict d_o = row->dx + block_of(d, 3);
    float *restrict dh = row->dh, *restrict dc = row->dc;
    INDEPENDENT
    for (size_t j = 0; j < n; j++) {
        const float i = gates[j], s = gates[n + j], u = gates[2 * n + j], o = gates[3 * n + j];
        const float y = function_tanh(cell[j]);
        const float change = dc[j] + dh[j] * o * (1.0f - y * y);
        d_o[j] = y * dh[j] * (o * (1.0f - o));
        di[j] = change * u * (i * (1.0f - i));
        du[j] = change * i * (1.0f - u * u);
        ds[j] = begins ? 0.0f : change * before[j] * (s * (1.0f - s));
        dc[j] = change * s;
        dh[j] = 0.0f;
    }
}

static void lstm_backward(const dpt_recurrent_desc *d, const cell_backward *row)
{
    if (is_usual(d)) {
        if (row->c_before)
            lstm_backward_usual(d, row, false);
        else
            lstm_backward_usual(d, row, true);
        return;
    }
    const dpt_activation *f = d->activation;
    const size_t n = d->hidden;
    const float *restrict i = saved_of(d, row, 0), *restrict s = saved_of(d, row, 1);
    const float *restrict u = saved_of(d, row, 2), *restrict o = saved_of(d, row, 3);
    float *restrict di = row->dx + block_of(d, 0), *restrict ds = row->dx + block_of(d, 1);
    float *restrict du = row->dx + block_of(d, 2), *restrict d_o = row->dx + block_of(d, 3);
    float *restrict dh = row->dh, *restrict dc = row->dc;
    const float *restrict before = row->c_before;
    activate(f[2], d_o, row->cell, n); /* the output of the cell */
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
    float *restrict dh = row->dh;
    const float *restrict dy = row->dy;
    for (size_t j = 0; j < d->hidden; j++)
        dh[j] += dy[j];
    switch (d->cell) {
    case DPT_CELL_LSTM: lstm_backward(d, row); break;
    case DPT_CELL_RNN:
        memcpy(row->dx, dh, d->hidden * sizeof *dh);
        differentiate(d->activation[0], row->dx, row->y, d->hidden);
        memset(dh, 0, d->hidden * sizeof *dh);
        break;
    default: gru_backward(d, row);
    }
}
