/* Attention on CPUs: forward (attention.h).  A piece of work is some blocks of queries of the heads
   that share the keys of a sample. */
#include "attention.h"

#include "exact_loops.h"
#include "kernels/exact.h"
#include "kinds.h"
#include "row_sums.h"
#include "vec_functions.h"

#include <math.h>
#include <stdlib.h>

/* Far below every score, and finite. */
#define FAR_BELOW (-1e38f)

/* The scratch memory of a thread. */
typedef struct scratch {
    float *keys, *values, *scores, *y;
} scratch;

static scratch scratch_at(const attention *a, float *at)
{
    scratch s = {.keys = at};
    s.values = s.keys + a->turned;
    s.scores = s.values + a->straight;
    s.y = s.scores + a->scores;
    return s;
}

/* ---- Softmax --------------------------------------------------------------------------------- */

/* Multiplies n elements, and as many behind them as fill a vector; returns the greatest product. */
static float scale_row(float *x, size_t n, float scale)
{
    const vec by = vec_set(scale);
    float lane[LANES], most;
    for (size_t i = n; i % LANES != 0; i++)
        x[i] = x[n - 1];
    vec greatest = vec_mul(vec_load(x), by);
    for (size_t i = 0; i < n; i += LANES) {
        const vec y = vec_mul(vec_load(x + i), by);
        vec_store(x + i, y);
        greatest = vec_max(greatest, y);
    }
    vec_store(lane, greatest);
    most = lane[0];
    for (size_t k = 1; k < LANES; k++)
        most = lane[k] > most ? lane[k] : most;
    return most;
}

/* x = exp(x - most) for n vectors, a constant.  What is smaller than a normal number becomes 0. */
DPT_CPU_INLINE void exponential_vectors(float *x, vec most, vec sum[VEC_MOST], const size_t n)
{
    const vec limit = vec_set(-VEC_EXP_LIMIT);
    vec y[VEC_MOST], below[VEC_MOST];
    DPT_CPU_UNROLL
    for (size_t k = 0; k < n; k++) {
        below[k] = vec_sub(vec_load(x + k * LANES), most);
        y[k] = vec_max(limit, below[k]);
    }
    vec_exp(y, n);
    DPT_CPU_UNROLL
    for (size_t k = 0; k < n; k++) {
        y[k] = vec_where_less(below[k], limit, vec_set(0.0f), y[k]);
        vec_store(x + k * LANES, y[k]);
        sum[k] = vec_add(sum[k], y[k]);
    }
}

/* x = exp(x - most) for n elements, and 0 for those that fill the last vector; returns the sum.  A
   NaN stays. */
static float exponentials(float *x, size_t n, float most)
{
    vec sum[VEC_MOST];
    float lane[LANES], all = 0.0f;
    size_t i = 0;
    for (size_t k = n; k % LANES != 0; k++)
        x[k] = FAR_BELOW;
    for (size_t k = 0; k < VEC_MOST; k++)
        sum[k] = vec_set(0.0f);
    for (; i + VEC_MOST * LANES <= n; i += VEC_MOST * LANES)
        exponential_vectors(x + i, vec_set(most), sum, VEC_MOST);
    for (; i < n; i += LANES)
        exponential_vectors(x + i, vec_set(most), sum, 1);
    for (size_t k = 1; k < VEC_MOST; k++)
        sum[0] = vec_add(sum[0], sum[k]);
    vec_store(lane, sum[0]);
    for (size_t k = 0; k < LANES; k++)
        all += lane[k];
    return all;
}

/* The softmax of a row of scores, but for the division by their sum.  *factor is what is left to
   multiply the results by. */
static float softmax(const attention *a, float *x, size_t n, float *factor)
{
    const float most = scale_row(x, n, a->d.scale), sum = exponentials(x, n, most);
    *factor = 1.0f / sum;
    return most + logf(sum);
}

/* The same in the order of docs/reproducibility.md. */
static float exact_softmax(const attention *a, float *x, size_t n, float *factor)
{
    for (size_t i = 0; i < n; i++)
        x[i] *= a->d.scale;
    const float most = row_greatest(x, n);
    for (size_t i = 0; i < n; i++)
        x[i] -= most;
    (void)KERNEL(exact_apply)(DPT_MAP_EXP, x, x, NULL, n);
    const double sum = row_sum(x, n);
    const float inverse = (float)(1.0 / sum);
    for (size_t i = 0; i < n; i++)
        x[i] *= inverse;
    *factor = 1.0f;
    return most + exact_log((float)sum);
}

/* ---- A block --------------------------------------------------------------------------------- */

/* Where a head of a sample has its results. */
typedef struct results {
    float *y, *lse; /* lse: NULL if no gradient is wanted */
} results;

static void run_block(const dpt_cpu_call *call, const attention_block *b, const float *q,
                      const scratch *s, results to)
{
    const attention *a = call->op->plan.state;
    const size_t n = b->end - b->first;
    float factors[64];
    KERNEL(attention_scores)
    (a, b, (attention_rows){q + b->first * a->q_pitch, a->q_pitch}, s->keys, s->scores);
    for (size_t i = 0; i < n; i++) {
        const size_t n_keys = attention_keys(a, b->first + i);
        float *const row = s->scores + i * a->score_pitch;
        const float lse =
            (call->op->deterministic ? exact_softmax : softmax)(a, row, n_keys, &factors[i]);
        for (size_t j = n_keys; j < b->n_keys; j++)
            row[j] = 0.0f;
        if (to.lse) to.lse[b->first + i] = lse;
    }
    KERNEL(attention_combine)(a, b, s->scores, s->values, s->y);
    for (size_t i = 0; i < n; i++)
        KERNEL(attention_store)
    (a, &(attention_row){s->y + i * a->lanes, factors[i], false},
     to.y + (b->first + i) * a->y_pitch);
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

/* Where the heads that share the keys of a sample have their first rows. */
typedef struct head_group {
    const float *q, *k, *v;
    float *y, *lse;
} head_group;

static head_group group_at(const dpt_cpu_call *call, size_t index)
{
    const attention *a = call->op->plan.state;
    const dpt_attention_desc *d = &a->d;
    const size_t sample = index / d->key_heads, head = index % d->key_heads;
    const size_t q_sample = sample * d->queries * a->q_pitch;
    const size_t k_sample = sample * d->keys * a->k_pitch;
    const float *const x = call->in[0];
    head_group g = {
        .q = x + q_sample + head * a->group * d->width,
        .y = (float *)call->out[0] + sample * d->queries * a->y_pitch + head * a->group * d->width,
        .lse = d->no_gradient
                   ? NULL
                   : (float *)call->out[1] + (sample * d->heads + head * a->group) * d->queries};
    g.k = d->packed ? x + q_sample + (d->heads + head) * d->width
                    : (const float *)call->in[1] + k_sample + head * d->width;
    g.v = d->packed ? g.k + d->key_heads * d->width
                    : (const float *)call->in[2] + k_sample + head * d->width;
    return g;
}

static void run(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    enum { PIECES = 4 /* for each thread, at least */ };
    const attention *a = call->op->plan.state;
    const size_t n_groups = call->n_samples * a->d.key_heads, n_units = a->group * a->n_blocks;
    size_t n_parts = n_groups > 0 ? dpt_cpu_ceil_div(PIECES * (size_t)n_threads, n_groups) : 1;
    if (n_threads == 1) n_parts = 1;
    n_parts = n_parts < n_units ? n_parts : n_units;
    const scratch s = scratch_at(a, call->workspace + thread * a->thread_floats);
    dpt_cpu_pieces pieces = dpt_cpu_pieces_of(call->team, n_groups * n_parts, thread, n_threads);
    for (size_t i; dpt_cpu_take(&pieces, &i);) {
        const head_group g = group_at(call, i / n_parts);
        KERNEL(attention_turn)(a, (attention_rows){g.k, a->k_pitch}, s.keys);
        KERNEL(attention_pack)(a, (attention_rows){g.v, a->k_pitch}, a->d.keys, s.values);
        /* Each part has blocks from everywhere: later ones have more keys. */
        for (size_t unit = i % n_parts; unit < n_units; unit += n_parts) {
            const size_t head = unit / a->n_blocks;
            const attention_block b = KERNEL(attention_block_at)(a, unit % a->n_blocks);
            run_block(
                call, &b, g.q + head * a->d.width, &s,
                (results){g.y + head * a->d.width, g.lse ? g.lse + head * a->d.queries : NULL});
        }
    }
}

/* ---- Preparing ------------------------------------------------------------------------------- */

/* The multiply-adds of one product over the keys that queries read. */
static double products(const dpt_attention_desc *d)
{
    const double all = (double)d->queries * (double)d->keys, rest = (double)(d->queries - 1) / 2.0;
    return (double)d->heads * (double)d->width *
           (d->causal ? all - (double)d->queries * rest : all);
}

/* n_products: of a forward or backward pass. */
static dpt_status prepare(dpt_op *op, dpt_cpu_kernel *kernel, double n_products, dpt_error *error)
{
    attention *a = malloc(sizeof *a);
    if (!a) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the plan of an attention");
    op->plan.state = a;
    *a = (attention){.d = op->desc.u.attention};
    KERNEL(attention_plan)(a);
    if (dpt_cpu_mul(op->max_samples, a->d.heads * a->n_blocks) > INT32_MAX)
        return DPT_FAIL(error, DPT_E_UNSUPPORTED, "%zu samples have 2^31 blocks or more",
                        op->max_samples);
    op->plan.kernel = kernel;
    op->plan.flops = 2.0 * n_products * products(&a->d);
    op->plan.work = op->plan.flops / 20.0;
    op->plan.algorithm = "blocks";
    return DPT_OK;
}

dpt_status KERNEL(prepare_attention_forward)(dpt_op *op, dpt_error *error)
{
    DPT_TRY(prepare(op, run, 2.0, error));
    attention *a = op->plan.state;
    a->thread_floats = a->turned + a->straight + a->scores + a->rows;
    op->plan.workspace_bytes = dpt_cpu_mul(op->n_threads, a->thread_floats * sizeof(float));
    return DPT_OK;
}

dpt_status KERNEL(prepare_attention_backward)(dpt_op *op, dpt_error *error)
{
    DPT_TRY(prepare(op, KERNEL(attention_backward), 5.0, error));
    attention *a = op->plan.state;
    a->thread_floats = 2 * a->turned + 3 * a->straight + 2 * a->scores + 3 * a->rows;
    op->plan.workspace_bytes = dpt_cpu_mul(op->n_threads, a->thread_floats * sizeof(float));
    return DPT_OK;
}
