/* The checks of a MAP's description, and its tensors. */
#include "device/map_signature.h"

#include "base/size.h"

#include <stdlib.h>

/* ---- The program ----------------------------------------------------------------------------- */

static dpt_status check_instruction(const dpt_map_desc *d, size_t i, dpt_error *error)
{
    const dpt_map_instruction *at = &d->code[i];
    if (at->code >= DPT_MAP_COUNT)
        return DPT_FAIL(error, DPT_E_INVALID, "instruction %zu has the unknown code %u", i,
                        at->code);
    const uint8_t operands[] = {at->a, at->b, at->c};
    for (unsigned k = 0; k < dpt_map_operands(at->code); k++)
        if (operands[k] >= i)
            return DPT_FAIL(error, DPT_E_INVALID,
                            "instruction %zu reads the value %u, which is computed later", i,
                            operands[k]);
    if (at->code == DPT_MAP_LOAD && at->index >= d->n_in)
        return DPT_FAIL(error, DPT_E_INVALID, "instruction %zu reads input %u of %u", i, at->index,
                        d->n_in);
    return DPT_OK;
}

static dpt_status check_program(const dpt_map_desc *d, dpt_error *error)
{
    if (d->n_code < 1 || d->n_code > DPT_MAP_LENGTH || d->n_out < 1 || d->n_out > DPT_MAX_OUTPUTS ||
        d->n_in > DPT_MAX_INPUTS)
        return DPT_FAIL(error, DPT_E_INVALID, "%u inputs, %u outputs, %u instructions", d->n_in,
                        d->n_out, d->n_code);
    for (size_t i = 0; i < d->n_code; i++)
        DPT_TRY(check_instruction(d, i, error));
    for (size_t i = 0; i < d->n_out; i++)
        if (d->value[i] >= d->n_code)
            return DPT_FAIL(error, DPT_E_INVALID, "output %zu gets the value %u of %u", i,
                            d->value[i], d->n_code);
    return DPT_OK;
}

/* ---- The space ------------------------------------------------------------------------------- */

static dpt_status check_space(const dpt_map_desc *d, dpt_error *error)
{
    size_t count = 1;
    if (d->rank > DPT_MAX_RANK)
        return DPT_FAIL(error, DPT_E_INVALID, "%zu axes, of at most %d", d->rank, DPT_MAX_RANK);
    for (size_t i = 0; i < d->rank; i++) {
        if (d->extent[i] == 0) return DPT_FAIL(error, DPT_E_INVALID, "axis %zu is empty", i);
        if (!dpti_multiply(count, d->extent[i], &count) || count > INT32_MAX)
            return DPT_FAIL(error, DPT_E_INVALID, "a sample has 2^31 indices or more");
    }
    return DPT_OK;
}

/* Checks that every index lies within the tensor. */
static dpt_status check_reach(const dpt_map_desc *d, const dpt_map_operand *o, const char *what,
                              dpt_error *error)
{
    int64_t least = 0, most = 0;
    if (o->size == 0 || o->size > INT32_MAX || o->offset >= o->size)
        return DPT_FAIL(error, DPT_E_INVALID, "an %s begins at element %zu of %zu", what, o->offset,
                        o->size);
    for (size_t i = 0; i < d->rank; i++) {
        /* Both factors are below 2^31, and there are at most 8 axes, each with a term that is
           checked before the next one is added. */
        const int64_t reach = (int64_t)(d->extent[i] - 1) * o->stride[i];
        if (reach > INT32_MAX || reach < -(int64_t)INT32_MAX)
            return DPT_FAIL(error, DPT_E_INVALID, "along axis %zu, indices lie outside an %s", i,
                            what);
        *(reach < 0 ? &least : &most) += reach;
    }
    if ((int64_t)o->offset + least < 0 || (int64_t)o->offset + most >= (int64_t)o->size)
        return DPT_FAIL(error, DPT_E_INVALID, "indices lie outside the %zu elements of an %s",
                        o->size, what);
    return DPT_OK;
}

static dpt_status check_operand(const dpt_op_desc *desc, const dpt_map_operand *o, const char *what,
                                dpt_error *error)
{
    if (o->type != desc->type && o->type != DPT_F32 && o->type != DPT_U8 && o->type != DPT_I32)
        return DPT_FAIL(error, DPT_E_INVALID, "an %s has element type %d", what, (int)o->type);
    return check_reach(&desc->u.map, o, what, error);
}

typedef struct written_axis {
    uint64_t distance, reach;
} written_axis;

static int by_distance(const void *a, const void *b)
{
    const written_axis *x = a, *y = b;
    return (x->distance > y->distance) - (x->distance < y->distance);
}

/* Checks that two indices write different elements.  Axes along which a reduction has the stride 0
   are no part of the output's space. */
static dpt_status check_writes(const dpt_op_desc *desc, const dpt_map_operand *o, dpt_error *error)
{
    const dpt_map_desc *d = &desc->u.map;
    written_axis axes[DPT_MAX_RANK];
    size_t n = 0;
    uint64_t reach = 0;
    for (size_t i = 0; i < d->rank; i++) {
        if (d->extent[i] == 1) continue;
        if (desc->kind == DPT_OP_MAP_REDUCE && o->stride[i] == 0) continue;
        const uint64_t distance = (uint64_t)llabs((long long)o->stride[i]);
        axes[n++] = (written_axis){distance, (d->extent[i] - 1) * distance};
    }
    qsort(axes, n, sizeof *axes, by_distance);
    for (size_t i = 0; i < n; i++) {
        if (axes[i].distance <= reach)
            return DPT_FAIL(error, DPT_E_INVALID, "two indices may write the same element");
        reach += axes[i].reach;
    }
    return DPT_OK;
}

static bool has_sampled_input(const dpt_map_desc *d)
{
    for (size_t i = 0; i < d->n_in; i++)
        if (d->in[i].sampled) return true;
    return false;
}

static dpt_status check_outputs(const dpt_op_desc *desc, dpt_error *error)
{
    const dpt_map_desc *d = &desc->u.map;
    const bool reduces = desc->kind == DPT_OP_MAP_REDUCE;
    if (d->reduction > (reduces ? DPT_REDUCE_MINIMUM : 0))
        return DPT_FAIL(error, DPT_E_INVALID, "there is no reduction %u here", d->reduction);
    if (reduces && d->n_out != 1)
        return DPT_FAIL(error, DPT_E_INVALID, "a reduction has one output, not %u", d->n_out);
    for (size_t i = 0; i < d->n_out; i++) {
        if (d->out[i].sampled != d->out[0].sampled)
            return DPT_FAIL(error, DPT_E_INVALID, "some outputs have samples, others have none");
        DPT_TRY(check_writes(desc, &d->out[i], error));
    }
    if (d->out[0].sampled || !has_sampled_input(d)) return DPT_OK;
    if (!reduces || d->reduction != DPT_REDUCE_SUM)
        return DPT_FAIL(error, DPT_E_INVALID, "only a sum combines samples");
    return DPT_OK;
}

dpt_status dpti_map_check(const dpt_op_desc *desc, dpt_error *error)
{
    const dpt_map_desc *d = &desc->u.map;
    DPT_TRY(check_program(d, error));
    DPT_TRY(check_space(d, error));
    for (size_t i = 0; i < d->n_in; i++)
        DPT_TRY(check_operand(desc, &d->in[i], "input", error));
    for (size_t i = 0; i < d->n_out; i++)
        DPT_TRY(check_operand(desc, &d->out[i], "output", error));
    return check_outputs(desc, error);
}

/* ---- Tensors --------------------------------------------------------------------------------- */

static dpti_slot slot_of(const dpt_map_operand *o, const char *name, bool accumulates)
{
    return (dpti_slot){.name = name,
                       .dtype = o->type,
                       .per_sample = o->sampled ? o->size : 0,
                       .fixed = o->sampled ? 0 : o->size,
                       .accumulates = accumulates};
}

void dpti_map_slots(const dpt_op_desc *desc, dpti_signature *out)
{
    static const char *const in_names[DPT_MAX_INPUTS] = {"a", "b", "c", "d", "e", "f"};
    static const char *const out_names[DPT_MAX_OUTPUTS] = {"y", "z", "w"};
    const dpt_map_desc *d = &desc->u.map;
    out->n_in = d->n_in;
    out->n_out = d->n_out;
    for (size_t i = 0; i < d->n_in; i++)
        out->in[i] = slot_of(&d->in[i], in_names[i], false);
    for (size_t i = 0; i < d->n_out; i++) {
        const dpt_map_operand *o = &d->out[i];
        const bool is_real = o->type == DPT_F32 || o->type == DPT_BF16;
        out->out[i] = slot_of(o, out_names[i], is_real && d->reduction == DPT_REDUCE_SUM);
        out->may_accumulate = out->may_accumulate || out->out[i].accumulates;
    }
    out->per_step = !d->out[0].sampled && !has_sampled_input(d);
}
