/* Gathering samples and labels.  An augmented batch takes two kernels or more.  The first one draws
   random numbers for each sample and leaves what they mean in the workspace; the last one gathers.
   Between them RandAugment makes images in the workspace, with two kernels for each operation, and
   a change of contrast has a kernel that measures the images. */
#include "gather.h"
#include "operators.h"

#include <math.h>

typedef struct state {
    dpt_kernel *gather, *draw;             /* draw: NULL without augmentation */
    dpt_kernel *images, *tables, *operate; /* of RandAugment; NULL without it */
    size_t image_bytes[2], table_bytes;    /* where these begin in the workspace */
    dpt_kernel *contrast;                  /* NULL without changes of contrast */
    gather_params params;                  /* complete except for n_samples */
} state;

/* ---- Running --------------------------------------------------------------------------------- */

/* sample -> the draws of each sample, in the workspace */
static dpt_status draw(const dpt_call *call, const gather_params *p)
{
    const state *s = call->op->plan.state;
    dpt_launch l = dpt_launch_begin(call->stream, s->draw);
    dpt_launch_tensor(&l, call->args->workspace, DPT_U32);
    dpt_launch_tensor(&l, call->args->in[2], DPT_U32);
    dpt_launch_tensor(&l, call->args->step, DPT_U32);
    dpt_launch_value(&l, p, sizeof *p);
    return dpt_launch_items(&l, call->n_samples);
}

static dpt_location in_workspace(const dpt_call *call, size_t offset_bytes)
{
    dpt_location place = call->args->workspace;
    place.offset_bytes += offset_bytes;
    return place;
}

/* image `from` -> the tables of operation p->op -> the other image */
static dpt_status operate(const dpt_call *call, const gather_params *p, size_t from)
{
    const state *s = call->op->plan.state;
    const size_t group = dpt_traits_of(call->op->device)->group_size;
    dpt_launch l = dpt_launch_begin(call->stream, s->tables);
    dpt_launch_tensor(&l, in_workspace(call, s->table_bytes), DPT_U8);
    dpt_launch_tensor(&l, in_workspace(call, s->image_bytes[from]), DPT_U8);
    dpt_launch_tensor(&l, call->args->workspace, DPT_U32);
    dpt_launch_value(&l, p, sizeof *p);
    DPT_TRY(dpt_launch_items(&l, call->n_samples * group));
    l = dpt_launch_begin(call->stream, s->operate);
    dpt_launch_tensor(&l, in_workspace(call, s->image_bytes[1 - from]), DPT_U8);
    dpt_launch_tensor(&l, in_workspace(call, s->image_bytes[from]), DPT_U8);
    dpt_launch_tensor(&l, in_workspace(call, s->table_bytes), DPT_U8);
    dpt_launch_tensor(&l, call->args->workspace, DPT_U32);
    dpt_launch_value(&l, p, sizeof *p);
    return dpt_launch_elements(&l, p->count, call->n_samples);
}

/* data, index -> images in the workspace, behind all operations of RandAugment */
static dpt_status randaugment(const dpt_call *call, gather_params p, dpt_location *out)
{
    const state *s = call->op->plan.state;
    size_t from = 0;
    dpt_launch l = dpt_launch_begin(call->stream, s->images);
    dpt_launch_tensor(&l, in_workspace(call, s->image_bytes[0]), DPT_U8);
    dpt_launch_tensor(&l, call->args->in[0], DPT_U8);
    dpt_launch_tensor(&l, call->args->in[1], DPT_U32);
    dpt_launch_tensor(&l, call->args->workspace, DPT_U32);
    dpt_launch_value(&l, &p, sizeof p);
    DPT_TRY(dpt_launch_elements(&l, p.count, call->n_samples));
    for (p.op = 0; p.op < p.n_ops; p.op++, from = 1 - from)
        DPT_TRY(operate(call, &p, from));
    *out = in_workspace(call, s->image_bytes[from]);
    return DPT_OK;
}

/* images, index, draws -> the draws with the offset of the contrast */
static dpt_status measure_contrast(const dpt_call *call, const gather_params *p,
                                   dpt_location images)
{
    const state *s = call->op->plan.state;
    const size_t group = dpt_traits_of(call->op->device)->group_size;
    dpt_launch l = dpt_launch_begin(call->stream, s->contrast);
    dpt_launch_tensor(&l, call->args->workspace, DPT_U32);
    dpt_launch_tensor(&l, images, DPT_U8);
    dpt_launch_tensor(&l, call->args->in[1], DPT_U32);
    dpt_launch_value(&l, p, sizeof *p);
    return dpt_launch_items(&l, call->n_samples * group);
}

/* data, index, [sample] -> x */
static dpt_status gather_images(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const dpt_gather_desc *d = &call->op->desc.u.gather;
    dpt_location images = call->args->in[0];
    gather_params p = s->params;
    p.n_samples = call->n_samples;
    if (s->draw) DPT_TRY(draw(call, &p));
    if (s->images) DPT_TRY(randaugment(call, p, &images));
    if (s->contrast) DPT_TRY(measure_contrast(call, &p, images));
    dpt_launch l = dpt_launch_begin(call->stream, s->gather);
    dpt_launch_tensor(&l, call->args->out[0], call->op->desc.type);
    dpt_launch_tensor(&l, images, d->dtype);
    dpt_launch_tensor(&l, call->args->in[1], DPT_U32);
    if (s->draw) dpt_launch_tensor(&l, call->args->workspace, DPT_U32);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_elements(&l, p.count, call->n_samples);
}

/* labels, index -> label */
static dpt_status gather_labels(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    gather_params p = s->params;
    p.n_samples = call->n_samples;
    dpt_launch l = dpt_launch_begin(call->stream, s->gather);
    dpt_launch_tensor(&l, call->args->out[0], DPT_I32);
    dpt_launch_tensor(&l, call->args->in[0], call->op->desc.u.gather.dtype);
    dpt_launch_tensor(&l, call->args->in[1], DPT_U32);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_items(&l, call->n_samples * p.count);
}

/* ---- Preparation ----------------------------------------------------------------------------- */

static gather_params params_of(const dpt_gather_desc *d)
{
    const dpt_augment *a = &d->augment;
    gather_params p = {.count = (u32)d->count, .channels = divisor_of((u32)d->channels)};
    for (size_t i = 0; i < DPT_MAX_CHANNEL_STATS; i++) {
        p.mean[i] = d->mean[i];
        p.scale[i] = d->scale[i];
    }
    if (!dpt_augments(a)) return p;
    p.pixel = divisor_of((u32)(d->count / (a->height * a->width)));
    p.columns = divisor_of((u32)a->width);
    p.height = (u32)a->height;
    p.width = (u32)a->width;
    p.pad = (u32)a->pad;
    p.flip = a->flip;
    p.border = (u32)ceil((double)a->erase * 0x1p24); /* of u < erase, u a multiple of 2^-24 */
    p.limits = distort_limits_of(
        (const float[]){a->rotate, a->brightness, a->contrast, a->saturation, a->hue});
    p.rotates = p.limits.rotate > 0;
    p.jitters = dpt_jitters(a);
    p.n_ops = (u32)a->ops;
    p.magnitude = (u32)a->magnitude;
    return p;
}

/* Whether small integers stay exact: they do if the constants are small integers.  A scale of 1/255
   is none. */
static bool is_exact(const dpt_gather_desc *d)
{
    for (size_t i = 0; i < d->channels; i++) {
        const float mean = d->mean[i], scale = d->scale[i];
        if (!(fabsf(mean) < 65536.0f && fabsf(scale) < 65536.0f)) return false;
        if ((float)(int)mean != mean || (float)(int)scale != scale) return false;
    }
    return true;
}

/* The workspace has the draws of the samples; with RandAugment also two images and a table of each.
 */
static void plan_workspace(dpt_op *op)
{
    const dpt_gather_desc *d = &op->desc.u.gather;
    state *s = op->plan.state;
    op->plan.workspace_bytes = dpt_size_mul(op->max_samples, sizeof(gather_drawn));
    if (d->augment.ops == 0) return;
    for (size_t i = 0; i < 2; i++) {
        s->image_bytes[i] = (op->plan.workspace_bytes + 255) / 256 * 256;
        op->plan.workspace_bytes = s->image_bytes[i] + dpt_size_mul(op->max_samples, d->count);
    }
    s->table_bytes = (op->plan.workspace_bytes + 255) / 256 * 256;
    op->plan.workspace_bytes = s->table_bytes + dpt_size_mul(op->max_samples, RANDAUGMENT_ROWS);
}

static dpt_status prepare_randaugment(dpt_op *op)
{
    state *s = op->plan.state;
    DPT_TRY(dpt_kernel_of(op->device, "gather.cl", "dpt_gather_images", &s->images));
    DPT_TRY(dpt_kernel_of(op->device, "gather.cl", "dpt_gather_tables", &s->tables));
    return dpt_kernel_of(op->device, "gather.cl", "dpt_gather_operate", &s->operate);
}

static dpt_status prepare_images(dpt_op *op)
{
    const dpt_gather_desc *d = &op->desc.u.gather;
    const bool augmented = dpt_augments(&d->augment), bytes = d->dtype == DPT_U8;
    state *s = op->plan.state;
    if (!bytes && d->dtype != DPT_F32)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "gathers samples of U8 and F32 data only");
    s->params = params_of(d);
    op->plan.run = gather_images;
    op->plan.exact = is_exact(d);
    if (!augmented)
        return dpt_op_kernel(op, "gather.cl", bytes ? "dpt_gather_u8" : "dpt_gather_f32",
                             &s->gather);
    plan_workspace(op);
    DPT_TRY(dpt_kernel_of(op->device, "gather.cl", "dpt_gather_draw", &s->draw)); /* of integers */
    if (d->augment.ops > 0) DPT_TRY(prepare_randaugment(op));
    if (d->augment.contrast > 0)
        DPT_TRY(dpt_kernel_of(op->device, "gather.cl", "dpt_gather_contrast", &s->contrast));
    return dpt_op_kernel(op, "gather.cl",
                         d->augment.ops > 0 || dpt_jitters(&d->augment) ? "dpt_gather_coloured"
                         : bytes                                        ? "dpt_gather_augmented_u8"
                                 : "dpt_gather_augmented_f32",
                         &s->gather);
}

static dpt_status prepare_labels(dpt_op *op)
{
    const dpt_gather_desc *d = &op->desc.u.gather;
    const bool bytes = d->dtype == DPT_U8;
    state *s = op->plan.state;
    if (!bytes && d->dtype != DPT_I32)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "gathers labels of U8 and I32 data only");
    s->params.count = (u32)d->count;
    op->plan.run = gather_labels;
    op->plan.exact = true;
    return dpt_kernel_of(op->device, "gather.cl",
                         bytes ? "dpt_gather_labels_u8" : "dpt_gather_labels_i32", &s->gather);
}

dpt_status dpt_prepare_gather(dpt_op *op)
{
    const dpt_gather_desc *d = &op->desc.u.gather;
    DPT_TRY(dpt_check_sample(op, d->count));
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    op->plan.algorithm = "an item an element";
    return op->desc.kind == DPT_OP_GATHER ? prepare_images(op) : prepare_labels(op);
}
