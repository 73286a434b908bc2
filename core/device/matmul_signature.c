/* The checks of a MATMUL's description, and its tensors. */
#include "device/matmul_signature.h"

#include <math.h>
#include <stdlib.h>

/* ---- Axes ------------------------------------------------------------------------------------ */

enum { N_AXES = DPT_MATMUL_AXES + 2 }; /* the batch, rows, columns */

static const char *const axis_names[N_AXES] = {"batch axis 0", "batch axis 1", "batch axis 2",
                                               "the rows", "the columns"};

typedef struct axis {
    size_t extent, stride;
} axis;

/* An operand with the axes of its matrices. */
typedef struct operand {
    const char *name;
    const dpt_matmul_operand *tensor;
    axis axes[N_AXES];
} operand;

static operand operand_of(const dpt_matmul_desc *d, const char *name,
                          const dpt_matmul_operand *tensor)
{
    operand o = {.name = name, .tensor = tensor};
    for (size_t i = 0; i < DPT_MATMUL_AXES; i++)
        o.axes[i] = (axis){d->batch[i], tensor->batch_stride[i]};
    o.axes[DPT_MATMUL_AXES] = (axis){tensor == &d->b ? d->inner : d->rows, tensor->row_stride};
    o.axes[DPT_MATMUL_AXES + 1] =
        (axis){tensor == &d->a ? d->inner : d->columns, tensor->column_stride};
    return o;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static dpt_status check_extents(const dpt_matmul_desc *d, dpt_error *error)
{
    const size_t extents[] = {d->batch[0], d->batch[1], d->batch[2], d->rows, d->columns, d->inner};
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++)
        if (extents[i] == 0 || extents[i] > INT32_MAX)
            return DPT_FAIL(error, DPT_E_INVALID,
                            "an extent of %zu; batch axes, rows, columns and inner are 1 to 2^31 - "
                            "1",
                            extents[i]);
    if (!isfinite(d->alpha))
        return DPT_FAIL(error, DPT_E_INVALID, "alpha of %g is not finite", (double)d->alpha);
    return DPT_OK;
}

/* Checks that every index lies within the tensor. */
static dpt_status check_reach(const operand *o, dpt_error *error)
{
    const dpt_matmul_operand *tensor = o->tensor;
    uint64_t most = tensor->offset;
    if (tensor->elements == 0 || tensor->elements > INT32_MAX || tensor->offset >= tensor->elements)
        return DPT_FAIL(error, DPT_E_INVALID, "%s begins at element %zu of %zu", o->name,
                        tensor->offset, tensor->elements);
    for (size_t i = 0; i < N_AXES; i++) {
        if (o->axes[i].extent == 1) continue;
        if (o->axes[i].stride > INT32_MAX)
            return DPT_FAIL(error, DPT_E_INVALID, "%s has the stride %zu along %s", o->name,
                            o->axes[i].stride, axis_names[i]);
        /* Both factors are below 2^31, and so is `most`, because the loop ends above that. */
        most += (uint64_t)(o->axes[i].extent - 1) * o->axes[i].stride;
        if (most >= tensor->elements)
            return DPT_FAIL(error, DPT_E_INVALID,
                            "along %s, indices lie outside the %zu elements of %s", axis_names[i],
                            tensor->elements, o->name);
    }
    return DPT_OK;
}

static int by_stride(const void *a, const void *b)
{
    const axis *x = a, *y = b;
    return (x->stride > y->stride) - (x->stride < y->stride);
}

/* Checks that two indices write different elements.  check_reach has accepted the operand. */
static dpt_status check_writes(const operand *o, dpt_error *error)
{
    axis sorted[N_AXES];
    size_t n = 0;
    uint64_t reach = 0;
    for (size_t i = 0; i < N_AXES; i++)
        if (o->axes[i].extent > 1) sorted[n++] = o->axes[i];
    qsort(sorted, n, sizeof *sorted, by_stride);
    for (size_t i = 0; i < n; i++) {
        if (sorted[i].stride <= reach)
            return DPT_FAIL(error, DPT_E_INVALID, "two indices may write the same element of %s",
                            o->name);
        reach += (uint64_t)(sorted[i].extent - 1) * sorted[i].stride;
    }
    return DPT_OK;
}

dpt_status dpti_matmul_check(const dpt_matmul_desc *desc, dpt_error *error)
{
    DPT_TRY(check_extents(desc, error));
    const operand a = operand_of(desc, "a", &desc->a), b = operand_of(desc, "b", &desc->b);
    const operand y = operand_of(desc, "y", &desc->y);
    DPT_TRY(check_reach(&a, error));
    DPT_TRY(check_reach(&b, error));
    DPT_TRY(check_reach(&y, error));
    if (!desc->y.per_sample) return DPT_FAIL(error, DPT_E_INVALID, "y is not per sample");
    return check_writes(&y, error);
}

/* ---- Tensors --------------------------------------------------------------------------------- */

static dpti_slot slot_of(const dpt_op_desc *desc, const dpt_matmul_operand *o, const char *name)
{
    return (dpti_slot){.name = name,
                       .dtype = o->per_sample ? desc->type : DPT_F32,
                       .per_sample = o->per_sample ? o->elements : 0,
                       .fixed = o->per_sample ? 0 : o->elements};
}

void dpti_matmul_slots(const dpt_op_desc *desc, dpti_signature *out)
{
    const dpt_matmul_desc *d = &desc->u.matmul;
    out->n_in = 2;
    out->in[0] = slot_of(desc, &d->a, "a");
    out->in[1] = slot_of(desc, &d->b, "b");
    out->n_out = 1;
    out->out[0] = slot_of(desc, &d->y, "y");
    out->out[0].accumulates = out->may_accumulate = true;
}
