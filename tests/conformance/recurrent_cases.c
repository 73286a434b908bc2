/* Recurrent layers: every cell with all of its options, sizes around those of vectors and tiles,
   long sequences, orders of the gates, activations. */
#include "recurrent_cases.h"

#include <stdio.h>

#define N_ELEMENTS(array) (sizeof(array) / sizeof *(array))

static const dpt_recurrent_cell cells[] = {DPT_CELL_RNN, DPT_CELL_LSTM, DPT_CELL_GRU,
                                           DPT_CELL_GRU_BEFORE};

/* The usual activations, and the gates in the order of op_list.h. */
static dpt_recurrent_desc usual(dpt_recurrent_cell cell, size_t length, size_t hidden)
{
    dpt_recurrent_desc d = {.cell = cell, .length = length, .hidden = hidden};
    for (size_t i = 0; i < dpt_recurrent_gates(cell); i++)
        d.place[i] = (uint8_t)i;
    d.activation[0] = cell == DPT_CELL_RNN ? DPT_ACT_TANH : DPT_ACT_SIGMOID;
    if (cell != DPT_CELL_RNN) d.activation[1] = DPT_ACT_TANH;
    if (cell == DPT_CELL_LSTM) d.activation[2] = DPT_ACT_TANH;
    return d;
}

/* The order of ONNX: i, o, f, c and z, r, h. */
static void order_as_onnx(dpt_recurrent_desc *d)
{
    static const uint8_t lstm[] = {0, 2, 3, 1}, gru[] = {1, 0, 2};
    for (size_t i = 0; i < dpt_recurrent_gates(d->cell) && d->cell != DPT_CELL_RNN; i++)
        d->place[i] = d->cell == DPT_CELL_LSTM ? lstm[i] : gru[i];
}

/* Turns options on, one bit each, as far as the cell and the kind have them. */
static void choose(dpt_recurrent_desc *d, dpt_op_kind kind, unsigned options)
{
    d->reverse = options & 1u;
    d->has_initial = options & 2u;
    d->has_bias = (options & 4u) && d->cell == DPT_CELL_GRU;
    d->gives_cell = (options & 8u) && d->cell == DPT_CELL_LSTM;
    d->no_gradient = (options & 16u) && kind == DPT_OP_RECURRENT_FORWARD;
    if (options & 32u) order_as_onnx(d);
}

static void vary(test *t, dpt_op_kind kind, const dpt_recurrent_desc *d, uint64_t seed)
{
    if (!conformance_enough(t))
        conformance_vary(t, &(const dpt_op_desc){.kind = kind, .u.recurrent = *d}, seed);
}

static void check_options(test *t, dpt_op_kind kind)
{
    for (unsigned i = 0; i < 64 * N_ELEMENTS(cells); i++) {
        dpt_recurrent_desc d = usual(cells[i / 64], 3, 5);
        choose(&d, kind, i % 64);
        vary(t, kind, &d, i);
    }
}

static void check_sizes(test *t, dpt_op_kind kind)
{
    static const size_t sizes[][2] = {{1, 1},  {1, 33},  {2, 8},   {7, 16},  {4, 17}, {9, 31},
                                      {5, 64}, {3, 100}, {40, 20}, {100, 3}, {2, 130}};
    test_random random = {700 + (uint64_t)kind};
    for (size_t i = 0; i < N_ELEMENTS(sizes) * N_ELEMENTS(cells); i++) {
        const size_t *size = sizes[i / N_ELEMENTS(cells)];
        dpt_recurrent_desc d = usual(cells[i % N_ELEMENTS(cells)], size[0], size[1]);
        choose(&d, kind, (unsigned)test_random_below(&random, 64));
        vary(t, kind, &d, test_random_u64(&random));
    }
}

static void check_activations(test *t, dpt_op_kind kind)
{
    static const dpt_activation kinds[] = {DPT_ACT_TANH, DPT_ACT_SIGMOID, DPT_ACT_RELU};
    for (size_t i = 0; i < N_ELEMENTS(cells) * 27; i++) {
        dpt_recurrent_desc d = usual(cells[i / 27], 4, 9);
        const size_t drawn[] = {i % 3, i / 3 % 3, i / 9 % 3};
        for (size_t k = 0; k < DPT_RECURRENT_ACTIVATIONS; k++)
            if (d.activation[k] != DPT_ACT_NONE) d.activation[k] = kinds[drawn[k]];
        if (d.activation[0] == DPT_ACT_RELU) d.length = 2; /* with such gates states explode */
        choose(&d, kind, (unsigned)i);
        vary(t, kind, &d, i);
    }
}

static void check_nan(test *t)
{
    for (size_t i = 0; i < N_ELEMENTS(cells) && !conformance_enough(t); i++)
        conformance_nan(t, &(const dpt_op_desc){.kind = DPT_OP_RECURRENT_FORWARD,
                                                .u.recurrent = usual(cells[i], 3, 9)});
}

void recurrent_cases_check(test *t, dpt_op_kind kind)
{
    check_options(t, kind);
    check_sizes(t, kind);
    check_activations(t, kind);
    if (kind == DPT_OP_RECURRENT_FORWARD) check_nan(t);
}

size_t recurrent_cases_work(const dpt_recurrent_desc *d)
{
    return d->length * dpt_recurrent_gates(d->cell) * d->hidden * (d->hidden + 8);
}

void recurrent_cases_describe(const dpt_recurrent_desc *d, char *out, size_t n_bytes)
{
    static const char *const names[] = {"RNN", "LSTM", "GRU", "GRU_BEFORE"};
    snprintf(
        out, n_bytes, "%s length %zu hidden %zu activations %d,%d,%d blocks %u,%u,%u,%u%s%s%s%s%s",
        names[d->cell], d->length, d->hidden, (int)d->activation[0], (int)d->activation[1],
        (int)d->activation[2], d->place[0], d->place[1], d->place[2], d->place[3],
        d->reverse ? " reverse" : "", d->has_initial ? " initial" : "", d->has_bias ? " bias" : "",
        d->gives_cell ? " cell" : "", d->no_gradient ? " no gradient" : "");
}
