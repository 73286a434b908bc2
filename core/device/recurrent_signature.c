/* The checks of RECURRENT. */
#include "device/recurrent_signature.h"

/* The activations that a cell has. */
static size_t activations_of(dpt_recurrent_cell cell)
{
    return cell == DPT_CELL_RNN ? 1 : cell == DPT_CELL_LSTM ? 3 : 2;
}

static dpt_status check_places(const dpt_recurrent_desc *d, dpt_error *error)
{
    const size_t n = dpt_recurrent_gates(d->cell);
    bool used[DPT_RECURRENT_GATES] = {false};
    for (size_t i = 0; i < DPT_RECURRENT_GATES; i++) {
        const size_t at = d->place[i];
        if (i >= n ? at == 0 : at < n && !used[at]) {
            used[at] = true;
            continue;
        }
        return DPT_FAIL(error, DPT_E_INVALID,
                        "the blocks of its gates are no permutation of 0 to %zu", n - 1);
    }
    if (d->cell == DPT_CELL_GRU_BEFORE && d->place[2] != 2)
        return DPT_FAIL(error, DPT_E_INVALID, "its candidate is block %u, not 2", d->place[2]);
    return DPT_OK;
}

static dpt_status check_activations(const dpt_recurrent_desc *d, dpt_error *error)
{
    const size_t n = activations_of(d->cell);
    for (size_t i = 0; i < DPT_RECURRENT_ACTIVATIONS; i++) {
        const dpt_activation kind = d->activation[i];
        const bool known = kind == DPT_ACT_TANH || kind == DPT_ACT_SIGMOID || kind == DPT_ACT_RELU;
        if (i < n ? known : kind == DPT_ACT_NONE) continue;
        return DPT_FAIL(error, DPT_E_INVALID, "activation %zu is no activation of a cell", i);
    }
    return DPT_OK;
}

dpt_status dpti_recurrent_check(const dpt_op_desc *desc, dpt_error *error)
{
    const dpt_recurrent_desc *d = &desc->u.recurrent;
    if ((unsigned)d->cell > DPT_CELL_GRU_BEFORE)
        return DPT_FAIL(error, DPT_E_INVALID, "there is no cell %d", (int)d->cell);
    if (d->length == 0 || d->length == SIZE_MAX)
        return DPT_FAIL(error, DPT_E_INVALID, "a sequence of %zu elements", d->length);
    DPT_TRY(check_places(d, error));
    DPT_TRY(check_activations(d, error));
    if (d->has_bias && d->cell != DPT_CELL_GRU)
        return DPT_FAIL(error, DPT_E_INVALID, "only a GRU has a bias of the product");
    if (d->gives_cell && d->cell != DPT_CELL_LSTM)
        return DPT_FAIL(error, DPT_E_INVALID, "only an LSTM has a cell's state");
    if (d->no_gradient && desc->kind != DPT_OP_RECURRENT_FORWARD)
        return DPT_FAIL(error, DPT_E_INVALID, "a gradient without gates");
    return DPT_OK;
}
