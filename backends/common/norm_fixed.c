/* Launching deterministic sums over rows. */
#include "norm_fixed.h"
#include "tree.h"
#include "tree_params.h"

_Static_assert((unsigned)DPT_MOST_GRAINS == NORM_LANES,
               "an item for each lane, and for each grain");

/* Whether the items of a group share the lanes of a tile (norm_fixed.cl, BY_ITEMS). */
static bool shares_lanes(const dpt_traits *traits)
{
    return !traits->is_cpu && traits->group_size >= NORM_LANES;
}

/* Channels of a tile. */
static u32 width_of(const dpt_traits *traits, u32 channels)
{
    u32 width = 1;
    if (!shares_lanes(traits)) return channels < NORM_CPU_WIDTH ? channels : NORM_CPU_WIDTH;
    while (width < channels && 2 * width * NORM_LANES <= traits->group_size)
        width *= 2;
    return width;
}

dpt_status dpt_norm_fixed_prepare(dpt_op *op, dpt_norm_fixed *out)
{
    norm_fixed_params *p = &out->params;
    dpt_program_key key = {.file = "norm_fixed.cl"};
    p->width = width_of(dpt_traits_of(op->device), p->channels);
    p->n_tiles = (u32)dpt_ceil_div(p->channels, p->width);
    op->plan.workspace_bytes =
        dpt_size_mul(dpt_size_mul(op->max_samples, p->channels), 2 * sizeof(double));
    op->plan.algorithm = "lanes";
    op->plan.has_grains = true;
    snprintf(key.constants, sizeof key.constants, "-DMASKS=%u", p->masks);
    dpt_program_key_deterministic(&key);
    DPT_TRY(dpt_kernel_get(op->device, &key, out->kind->samples, &out->samples));
    return dpt_kernel_get(op->device, &key, out->kind->all, &out->all);
}

/* Enqueues the kernel that sums up each sample. */
static dpt_status launch_samples(dpt_launch *launch, const norm_fixed_params *p)
{
    const dpt_traits *traits = dpt_traits_of(dpt_stream_device(launch->stream));
    const size_t group = traits->group_size, items = (size_t)p->width * NORM_LANES;
    if (!shares_lanes(traits)) return dpt_launch_rows(launch, p->n_samples * p->n_tiles, 1);
    return dpt_launch_groups(
        launch, (const size_t[3]){dpt_ceil_div(p->n_samples, group / items) * p->n_tiles, 1, 1},
        (const size_t[3]){group, 1, 1});
}

/* Enqueues the kernel that follows. */
static dpt_status launch_all(dpt_launch *launch, const dpt_norm_fixed_kind *kind,
                             const norm_fixed_params *p)
{
    const dpt_traits *traits = dpt_traits_of(dpt_stream_device(launch->stream));
    const size_t group = traits->group_size;
    if (!kind->adds_up) return dpt_launch_items(launch, (size_t)p->n_grains * p->channels);
    if (!shares_lanes(traits)) return dpt_launch_items(launch, p->channels);
    return dpt_launch_groups(launch,
                             (const size_t[3]){dpt_ceil_div(p->channels, group / NORM_LANES), 1, 1},
                             (const size_t[3]){group, 1, 1});
}

dpt_status dpt_norm_fixed_run(const dpt_norm_fixed *norm, const dpt_call *call)
{
    const dpt_op_args *args = call->args;
    norm_fixed_params p = norm->params;
    p.n_samples = call->n_samples;
    p.grain = dpt_grain_of(call);
    p.n_grains = (u32)dpt_grains_of(call);
    p.accumulate = call->accumulate;
    dpt_launch samples = dpt_launch_begin(call->stream, norm->samples);
    dpt_launch_tensor(&samples, args->workspace, DPT_F32);
    for (unsigned i = 0; i < norm->kind->n_in; i++)
        dpt_launch_tensor(&samples, args->in[i], DPT_F32);
    dpt_launch_value(&samples, &p, sizeof p);
    DPT_TRY(launch_samples(&samples, &p));

    dpt_launch all = dpt_launch_begin(call->stream, norm->all);
    for (unsigned i = 0; i < norm->kind->n_out; i++)
        dpt_launch_tensor(&all, args->out[i], DPT_F32);
    dpt_launch_tensor(&all, args->workspace, DPT_F32);
    if (norm->kind->takes_moments) dpt_launch_tensor(&all, args->in[2], DPT_F32);
    dpt_launch_value(&all, &p, sizeof p);
    return launch_all(&all, norm->kind, &p);
}
