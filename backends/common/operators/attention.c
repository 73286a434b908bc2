/* ATTENTION: launches of backends/kernels/attention.cl. */
#include "attention.h"
#include "operators.h"

typedef struct state {
    dpt_kernel *forward, *mean, *queries, *keys;
    attention_params params; /* complete except for what depends on the call */
} state;

/* Where the queries, the keys and the values are among the inputs or the outputs of a call. */
typedef struct parts {
    dpt_location q, k, v;
} parts;

static parts parts_of(const dpt_call *call, const dpt_location *first)
{
    if (call->op->desc.u.attention.packed) return (parts){first[0], first[0], first[0]};
    return (parts){first[0], first[1], first[2]};
}

static void add_parts(dpt_launch *l, const dpt_call *call, const dpt_location *first)
{
    const parts of = parts_of(call, first);
    dpt_launch_tensor(l, of.q, call->op->desc.type);
    dpt_launch_tensor(l, of.k, call->op->desc.type);
    dpt_launch_tensor(l, of.v, call->op->desc.type);
}

/* A group for each tile of `rows` rows, each chunk of channels and each pair of a sample and a
   head. */
static dpt_status launch(dpt_launch *l, const attention_params *p, size_t rows)
{
    const size_t tiles = (rows + ATTENTION_ROWS - 1) / ATTENTION_ROWS;
    dpt_launch_value(l, p, sizeof *p);
    return dpt_launch_groups(l, (const size_t[3]){tiles * p->chunks, p->n_pairs, 1},
                             (const size_t[3]){ATTENTION_ITEMS, 1, 1});
}

static dpt_status run_forward(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const dpt_op_args *args = call->args;
    attention_params p = s->params;
    p.n_pairs = call->n_samples * p.heads;
    dpt_launch l = dpt_launch_begin(call->stream, s->forward);
    dpt_launch_tensor(&l, args->out[0], call->op->desc.type);
    dpt_launch_tensor(&l, p.saves ? args->out[1] : (dpt_location){NULL, 0}, DPT_F32);
    add_parts(&l, call, args->in);
    return launch(&l, &p, p.queries);
}

/* What both kernels of the gradients read. */
static void add_inputs(dpt_launch *l, const dpt_call *call)
{
    const dpt_op_args *args = call->args;
    dpt_launch_tensor(l, args->in[0], call->op->desc.type);
    dpt_launch_tensor(l, args->workspace, DPT_F32);
    dpt_launch_tensor(l, args->in[2], DPT_F32);
    add_parts(l, call, args->in + 3);
}

/* The inner products of dy and y go to the workspace. */
static dpt_status run_mean(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    attention_params p = s->params;
    p.n_pairs = call->n_samples * p.heads * p.queries;
    dpt_launch l = dpt_launch_begin(call->stream, s->mean);
    dpt_launch_tensor(&l, call->args->workspace, DPT_F32);
    dpt_launch_tensor(&l, call->args->in[0], call->op->desc.type);
    dpt_launch_tensor(&l, call->args->in[1], call->op->desc.type);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_items(&l, p.n_pairs);
}

static dpt_status run_backward(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const parts to = parts_of(call, call->args->out);
    attention_params p = s->params;
    DPT_TRY(run_mean(call));
    p.accumulate = call->accumulate;
    p.n_pairs = call->n_samples * p.heads;
    dpt_launch queries = dpt_launch_begin(call->stream, s->queries);
    dpt_launch_tensor(&queries, to.q, call->op->desc.type);
    add_inputs(&queries, call);
    DPT_TRY(launch(&queries, &p, p.queries));
    p.n_pairs /= p.group;
    dpt_launch keys = dpt_launch_begin(call->stream, s->keys);
    dpt_launch_tensor(&keys, to.k, call->op->desc.type);
    dpt_launch_tensor(&keys, to.v, call->op->desc.type);
    add_inputs(&keys, call);
    return launch(&keys, &p, p.keys);
}

/* ---- Preparing ------------------------------------------------------------------------------- */

static attention_params params_of(const dpt_attention_desc *d)
{
    const size_t pitch = dpt_attention_pitch(d), q = d->heads * d->width,
                 k = d->key_heads * d->width;
    const attention_place y = {.sample = d->queries * q, .pitch = (u32)q};
    attention_params p = {.y = y,
                          .q = y,
                          .heads = (u32)d->heads,
                          .group = (u32)(d->heads / d->key_heads),
                          .width = (u32)d->width,
                          .chunks = (u32)((d->width + ATTENTION_CHUNK - 1) / ATTENTION_CHUNK),
                          .queries = (u32)d->queries,
                          .keys = (u32)d->keys,
                          .causal = d->causal,
                          .saves = !d->no_gradient,
                          .scale = d->scale};
    p.k = p.v = (attention_place){.sample = d->keys * k, .pitch = (u32)k};
    if (!d->packed) return p;
    p.q = p.k = p.v = (attention_place){.sample = d->queries * pitch, .pitch = (u32)pitch};
    p.k.offset = (u32)q;
    p.v.offset = (u32)(q + k);
    return p;
}

static dpt_status get(const dpt_op *op, const char *name, dpt_kernel **out)
{
    return dpt_op_kernel(op, "attention.cl", name, out);
}

dpt_status dpt_prepare_attention(dpt_op *op)
{
    const dpt_attention_desc *d = &op->desc.u.attention;
    const dpt_traits *traits = dpt_traits_of(op->device);
    const bool is_forward = op->desc.kind == DPT_OP_ATTENTION_FORWARD;
    DPT_TRY(dpt_check_sample(op, dpt_size_mul(d->queries, dpt_attention_pitch(d))));
    DPT_TRY(dpt_check_sample(op, dpt_size_mul(d->keys, dpt_attention_pitch(d))));
    if (traits->most_group_size < ATTENTION_ITEMS)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "attention takes groups of %d work items, and this device has at most %zu",
                        ATTENTION_ITEMS, traits->most_group_size);
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    s->params = params_of(d);
    if (is_forward) {
        DPT_TRY(get(op, "dpt_attention_forward", &s->forward));
    } else {
        DPT_TRY(get(op, "dpt_attention_mean", &s->mean));
        DPT_TRY(get(op, "dpt_attention_queries", &s->queries));
        DPT_TRY(get(op, "dpt_attention_keys", &s->keys));
        op->plan.workspace_bytes = dpt_size_mul(
            dpt_size_mul(op->max_samples, dpt_size_mul(d->heads, d->queries)), sizeof(float));
    }
    op->plan.run = is_forward ? run_forward : run_backward;
    op->plan.flops = 2.0 * (is_forward ? 2.0 : 5.0) * (double)d->heads * (double)d->width *
                     (double)d->queries * (double)d->keys;
    op->plan.algorithm = "tiles in local memory";
    return DPT_OK;
}
