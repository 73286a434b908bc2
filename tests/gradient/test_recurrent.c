/* Tests RECURRENT of the reference: the gradients that BACKWARD computes equal the central
   differences of FORWARD, for every cell, with every option, by every input. */
#include "gradient.h"
#include "reference/reference.h"

#include <string.h>

enum { N = 2, LENGTH = 3, HIDDEN = 3, MOST_INPUTS = 6 };

/* The objective is the sum of g * y. */
typedef struct problem {
    dpt_op_desc forward;
    size_t n_in[MOST_INPUTS], n_y;
    double *in[MOST_INPUTS]; /* in the order of the operator's slots */
    double *g, *y, *gates, *cells;
} problem;

static double objective(void *argument)
{
    problem *p = argument;
    reference_args args = {.out = {p->y}};
    for (size_t i = 0; i < MOST_INPUTS; i++)
        args.in[i] = p->in[i];
    args.out[1] = p->gates ? p->gates : p->cells;
    args.out[2] = p->gates ? p->cells : NULL;
    reference_run(&p->forward, N, &args);
    double sum = 0.0;
    for (size_t i = 0; i < p->n_y; i++)
        sum += p->g[i] * p->y[i];
    return sum;
}

/* The inputs of the forward pass by name; SIZE_MAX: there is none. */
typedef struct slots {
    size_t x, w, w_new, bias, h0, c0;
} slots;

static slots slots_of(const dpt_recurrent_desc *d)
{
    slots s = {0, 1, SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX};
    size_t next = 2;
    if (d->cell == DPT_CELL_GRU_BEFORE) s.w_new = next++;
    if (d->has_bias) s.bias = next++;
    if (d->has_initial) s.h0 = next++;
    if (d->has_initial && d->cell == DPT_CELL_LSTM) s.c0 = next++;
    return s;
}

static problem create(const dpt_recurrent_desc *d, uint64_t seed)
{
    problem p = {.forward = {.kind = DPT_OP_RECURRENT_FORWARD, .u.recurrent = *d}};
    const slots s = slots_of(d);
    const size_t wide = dpt_recurrent_gates(d->cell) * HIDDEN;
    test_random random = {seed};
    p.n_y = (size_t)N * (LENGTH + d->gives_cell) * HIDDEN;
    p.n_in[s.x] = N * LENGTH * wide;
    p.n_in[s.w] = dpt_recurrent_rows(d->cell) * HIDDEN * HIDDEN;
    if (s.w_new != SIZE_MAX) p.n_in[s.w_new] = HIDDEN * HIDDEN;
    if (s.bias != SIZE_MAX) p.n_in[s.bias] = wide;
    if (s.h0 != SIZE_MAX) p.n_in[s.h0] = N * HIDDEN;
    if (s.c0 != SIZE_MAX) p.n_in[s.c0] = N * HIDDEN;
    for (size_t i = 0; i < MOST_INPUTS; i++) {
        p.in[i] = values(p.n_in[i]);
        fill(&random, p.in[i], p.n_in[i]);
    }
    p.g = values(p.n_y);
    fill(&random, p.g, p.n_y);
    p.y = values(p.n_y);
    if (d->cell != DPT_CELL_RNN)
        p.gates = values(N * LENGTH * dpt_recurrent_saved(d->cell) * HIDDEN);
    if (d->cell == DPT_CELL_LSTM) p.cells = values(N * LENGTH * HIDDEN);
    return p;
}

static void destroy(problem *p)
{
    for (size_t i = 0; i < MOST_INPUTS; i++)
        free(p->in[i]);
    free(p->g);
    free(p->y);
    free(p->gates);
    free(p->cells);
}

/* What BACKWARD puts out; dq is dx where the operator has no dq. */
typedef struct gradients {
    double *dx, *dq, *dh0, *dc0;
} gradients;

static void run_backward(problem *p, const gradients *to)
{
    const dpt_recurrent_desc *d = &p->forward.u.recurrent;
    const slots s = slots_of(d);
    const bool lstm = d->cell == DPT_CELL_LSTM;
    const dpt_op_desc backward = {.kind = DPT_OP_RECURRENT_BACKWARD, .u.recurrent = *d};
    reference_args args = {.in = {p->g}};
    size_t in = 1, out = 0;
    if (!lstm) args.in[in++] = p->y;
    if (p->gates) args.in[in++] = p->gates;
    if (p->cells) args.in[in++] = p->cells;
    args.in[in++] = p->in[s.w];
    if (s.w_new != SIZE_MAX) args.in[in++] = p->in[s.w_new];
    if (d->has_initial && !lstm && d->cell != DPT_CELL_RNN) args.in[in++] = p->in[s.h0];
    if (s.c0 != SIZE_MAX) args.in[in++] = p->in[s.c0];
    args.out[out++] = to->dx;
    if (d->cell == DPT_CELL_GRU) args.out[out++] = to->dq;
    if (d->has_initial) args.out[out++] = to->dh0;
    if (s.c0 != SIZE_MAX) args.out[out++] = to->dc0;
    reference_run(&backward, N, &args);
}

/* The state before a place of a sample. */
static const double *state_before(const problem *p, size_t sample, size_t t)
{
    const dpt_recurrent_desc *d = &p->forward.u.recurrent;
    static const double zeros[HIDDEN];
    const size_t places = LENGTH + d->gives_cell;
    const bool is_first = t == (d->reverse ? LENGTH - 1 : 0);
    if (is_first) return d->has_initial ? p->in[slots_of(d).h0] + sample * HIDDEN : zeros;
    return p->y + (sample * places + (d->reverse ? t + 1 : t - 1)) * HIDDEN;
}

/* dw = the sum of dq times the state before; for the rows first .. first + n - 1 of the gates. With
   `reset` the state is multiplied by the gate r first. */
typedef struct rows {
    size_t first, n;
    bool reset;
} rows;

static void weights_gradient(const problem *p, const double *dq, rows of, double *dw)
{
    const dpt_recurrent_cell cell = p->forward.u.recurrent.cell;
    const size_t wide = dpt_recurrent_gates(cell) * HIDDEN;
    const size_t saved = dpt_recurrent_saved(cell) * HIDDEN;
    memset(dw, 0, of.n * HIDDEN * sizeof *dw);
    for (size_t i = 0; i < N * LENGTH; i++) {
        const double *h = state_before(p, i / LENGTH, i % LENGTH);
        for (size_t e = 0; e < of.n * HIDDEN; e++) {
            const size_t k = e % HIDDEN;
            const double r = of.reset ? p->gates[i * saved + k] : 1.0;
            dw[e] += dq[i * wide + of.first + e / HIDDEN] * r * h[k];
        }
    }
}

static void compare(test *t, problem *p, size_t input, const double *analytic)
{
    const size_t n = p->n_in[input];
    double *numeric = values(n);
    central_differences(objective, p, 1e-5, p->in[input], n, numeric);
    const double error = worst(analytic, numeric, n);
    if (!CHECK(error <= 2e-8)) FAIL("input %zu: off by %.3g of the largest gradient", input, error);
    free(numeric);
}

static void check(test *t, const dpt_recurrent_desc *d, uint64_t seed)
{
    const slots s = slots_of(d);
    problem p = create(d, seed);
    const size_t wide = dpt_recurrent_gates(d->cell) * HIDDEN, n = (size_t)N * LENGTH * wide;
    gradients g = {values(n), values(n), values(N * HIDDEN), values(N * HIDDEN)};
    double *dw = values(4 * HIDDEN * HIDDEN);
    (void)objective(&p);
    run_backward(&p, &g);
    const double *dq = d->cell == DPT_CELL_GRU ? g.dq : g.dx;
    compare(t, &p, s.x, g.dx);
    weights_gradient(&p, dq, (rows){.n = dpt_recurrent_rows(d->cell) * HIDDEN}, dw);
    compare(t, &p, s.w, dw);
    if (s.w_new != SIZE_MAX) {
        weights_gradient(&p, dq, (rows){2 * HIDDEN, HIDDEN, true}, dw);
        compare(t, &p, s.w_new, dw);
    }
    if (s.h0 != SIZE_MAX) compare(t, &p, s.h0, g.dh0);
    if (s.c0 != SIZE_MAX) compare(t, &p, s.c0, g.dc0);
    if (s.bias != SIZE_MAX) {
        double db[3 * HIDDEN] = {0};
        for (size_t i = 0; i < n; i++)
            db[i % wide] += dq[i];
        compare(t, &p, s.bias, db);
    }
    destroy(&p);
    free(g.dx);
    free(g.dq);
    free(g.dh0);
    free(g.dc0);
    free(dw);
}

/* Sigmoid and tanh in all places that a cell has. */
static void choose_activations(dpt_recurrent_desc *d, unsigned bits)
{
    const size_t n = d->cell == DPT_CELL_RNN ? 1 : d->cell == DPT_CELL_LSTM ? 3 : 2;
    for (size_t i = 0; i < n; i++)
        d->activation[i] = bits >> i & 1u ? DPT_ACT_TANH : DPT_ACT_SIGMOID;
}

static void check_cell(test *t, dpt_recurrent_cell cell)
{
    static const uint8_t orders[2][4][4] = {{{0}, {0, 1, 2, 3}, {0, 1, 2}, {0, 1, 2}},
                                            {{0}, {0, 2, 3, 1}, {1, 2, 0}, {1, 0, 2}}};
    for (unsigned i = 0; i < 32; i++) {
        dpt_recurrent_desc d = {.cell = cell,
                                .length = LENGTH,
                                .hidden = HIDDEN,
                                .reverse = i & 1u,
                                .has_initial = i & 2u,
                                .has_bias = cell == DPT_CELL_GRU && (i & 4u),
                                .gives_cell = cell == DPT_CELL_LSTM && (i & 4u)};
        memcpy(d.place, orders[i >> 3 & 1u][cell], sizeof d.place);
        choose_activations(&d, i * 5 + 6);
        check(t, &d, 50 + i);
    }
}

static void rnn(test *t)
{
    check_cell(t, DPT_CELL_RNN);
}

static void lstm(test *t)
{
    check_cell(t, DPT_CELL_LSTM);
}

static void gru(test *t)
{
    check_cell(t, DPT_CELL_GRU);
}

static void gru_before(test *t)
{
    check_cell(t, DPT_CELL_GRU_BEFORE);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"rnn", rnn}, {"lstm", lstm}, {"gru", gru}, {"gru_before", gru_before}};
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
