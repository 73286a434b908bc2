/* Attention on CPUs: backward (attention.h).  A piece of work is the heads that share the keys of a
   sample.  Probabilities are computed again, from the scores and their logarithmic sums. */
#include "attention.h"

#include "exact_loops.h"
#include "row_sums.h"
#include "vec_functions.h"

#include <string.h>

/* Tensors of the heads that share the keys of a sample: their first rows. */
typedef struct head_group {
    const float *dy, *y, *lse, *q, *k, *v;
    float *dq, *dk, *dv;
} head_group;

/* The scratch memory of a thread. */
typedef struct scratch {
    float *turned_keys, *turned_values, *keys;
    float *dk, *dv;     /* (keys, lanes) */
    float *p, *ds;      /* (queries of a block, score_pitch) */
    float *q, *dy, *dq; /* packed blocks */
} scratch;

static scratch scratch_at(const attention *a, float *at)
{
    scratch s = {.turned_keys = at};
    s.turned_values = s.turned_keys + a->turned;
    s.keys = s.turned_values + a->turned;
    s.dk = s.keys + a->straight;
    s.dv = s.dk + a->straight;
    s.p = s.dv + a->straight;
    s.ds = s.p + a->scores;
    s.q = s.ds + a->scores;
    s.dy = s.q + a->rows;
    s.dq = s.dy + a->rows;
    return s;
}

/* ---- Rows of scores -------------------------------------------------------------------------- */

/* What the probabilities of a query follow from. */
typedef struct query {
    size_t n_keys;
    float scale, lse;
    float mean; /* dy . y */
} query;

/* p = exp(scale * p - lse), ds = p * (ds - mean) for n vectors, a constant. */
DPT_CPU_INLINE void gradient_vectors(float *p, float *ds, const query *of, const size_t n)
{
    const vec scale = vec_set(of->scale), lse = vec_set(of->lse), mean = vec_set(of->mean);
    const vec limit = vec_set(VEC_EXP_LIMIT);
    vec x[VEC_MOST], below[VEC_MOST];
    DPT_CPU_UNROLL
    for (size_t k = 0; k < n; k++) {
        below[k] = vec_sub(vec_mul(vec_load(p + k * LANES), scale), lse);
        x[k] = vec_max(vec_negate(limit), vec_min(limit, below[k]));
    }
    vec_exp(x, n);
    DPT_CPU_UNROLL
    for (size_t k = 0; k < n; k++) {
        x[k] = vec_where_less(below[k], vec_negate(limit), vec_set(0.0f), x[k]);
        vec_store(p + k * LANES, x[k]);
        vec_store(ds + k * LANES, vec_mul(x[k], vec_sub(vec_load(ds + k * LANES), mean)));
    }
}

static void gradient_row(float *p, float *ds, const query *of)
{
    size_t j = 0;
    for (; j + VEC_MOST * LANES <= of->n_keys; j += VEC_MOST * LANES)
        gradient_vectors(p + j, ds + j, of, VEC_MOST);
    for (; j < of->n_keys; j += LANES)
        gradient_vectors(p + j, ds + j, of, 1);
}

/* The same in the order of docs/reproducibility.md. */
static void exact_gradient_row(float *p, float *ds, const query *of)
{
    for (size_t j = 0; j < of->n_keys; j++)
        p[j] = p[j] * of->scale - of->lse;
    (void)KERNEL(exact_apply)(DPT_MAP_EXP, p, p, NULL, of->n_keys);
    for (size_t j = 0; j < of->n_keys; j++)
        ds[j] = p[j] * (ds[j] - of->mean);
}

/* ---- A block --------------------------------------------------------------------------------- */

/* dy . y */
static float inner_product(const attention *a, const float *dy, const float *y, bool exact)
{
    const size_t n = a->d.width;
    float lane[LANES], sum = 0.0f;
    vec sums = vec_set(0.0f);
    size_t c = 0;
    if (exact) return (float)row_dot(dy, y, n);
    for (; c + LANES <= n; c += LANES)
        sums = vec_fma(vec_load(dy + c), vec_load(y + c), sums);
    if (c < n) sums = vec_fma(vec_load_n(dy + c, n - c), vec_load_n(y + c, n - c), sums);
    vec_store(lane, sums);
    for (size_t k = 0; k < LANES; k++)
        sum += lane[k];
    return sum;
}

/* One head: g's tensors begin with its rows. */
static void run_block(const dpt_cpu_call *call, const attention_block *b, const head_group *g,
                      const scratch *s)
{
    const attention *a = call->op->plan.state;
    const size_t n = b->end - b->first;
    const attention_rows q = {g->q + b->first * a->q_pitch, a->q_pitch};
    const attention_rows dy = {g->dy + b->first * a->y_pitch, a->y_pitch};
    const float *const y = g->y + b->first * a->y_pitch;
    KERNEL(attention_scores)(a, b, q, s->turned_keys, s->p);
    KERNEL(attention_scores)(a, b, dy, s->turned_values, s->ds);
    for (size_t i = 0; i < n; i++) {
        float *const p = s->p + i * a->score_pitch, *const ds = s->ds + i * a->score_pitch;
        const query of = {.n_keys = attention_keys(a, b->first + i),
                          .scale = a->d.scale,
                          .lse = g->lse[b->first + i],
                          .mean = inner_product(a, dy.data + i * a->y_pitch, y + i * a->y_pitch,
                                                call->op->deterministic)};
        (call->op->deterministic ? exact_gradient_row : gradient_row)(p, ds, &of);
        for (size_t j = of.n_keys; j < b->n_keys; j++)
            p[j] = ds[j] = 0.0f;
    }
    KERNEL(attention_combine)(a, b, s->ds, s->keys, s->dq);
    for (size_t i = 0; i < n; i++)
        KERNEL(attention_store)
    (a, &(attention_row){s->dq + i * a->lanes, a->d.scale, call->accumulate},
     g->dq + (b->first + i) * a->q_pitch);
    KERNEL(attention_pack)(a, q, n, s->q);
    KERNEL(attention_pack)(a, dy, n, s->dy);
    KERNEL(attention_spread)(a, b, s->p, s->dy, s->dv);
    KERNEL(attention_spread)(a, b, s->ds, s->q, s->dk);
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

static head_group group_at(const dpt_cpu_call *call, size_t index)
{
    const attention *a = call->op->plan.state;
    const dpt_attention_desc *d = &a->d;
    const size_t sample = index / d->key_heads, head = index % d->key_heads;
    const size_t q = sample * d->queries * a->q_pitch + head * a->group * d->width;
    const size_t y = sample * d->queries * a->y_pitch + head * a->group * d->width;
    size_t k = sample * d->keys * a->k_pitch + head * d->width;
    head_group g = {.dy = (const float *)call->in[0] + y,
                    .y = (const float *)call->in[1] + y,
                    .lse = (const float *)call->in[2] +
                           (sample * d->heads + head * a->group) * d->queries,
                    .q = (const float *)call->in[3] + q,
                    .dq = (float *)call->out[0] + q};
    if (d->packed) {
        k += d->heads * d->width;
        const size_t v = k + d->key_heads * d->width;
        g.k = (const float *)call->in[3] + k;
        g.v = (const float *)call->in[3] + v;
        g.dk = (float *)call->out[0] + k;
        g.dv = (float *)call->out[0] + v;
    } else {
        g.k = (const float *)call->in[4] + k;
        g.v = (const float *)call->in[5] + k;
        g.dk = (float *)call->out[1] + k;
        g.dv = (float *)call->out[2] + k;
    }
    return g;
}

static head_group head_of(const attention *a, head_group g, size_t head)
{
    g.dy += head * a->d.width;
    g.y += head * a->d.width;
    g.lse += head * a->d.queries;
    g.q += head * a->d.width;
    g.dq += head * a->d.width;
    return g;
}

void KERNEL(attention_backward)(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const attention *a = call->op->plan.state;
    const size_t n = call->n_samples * a->d.key_heads;
    const scratch s = scratch_at(a, call->workspace + thread * a->thread_floats);
    dpt_cpu_pieces pieces = dpt_cpu_pieces_of(call->team, n, thread, n_threads);
    for (size_t i; dpt_cpu_take(&pieces, &i);) {
        const head_group g = group_at(call, i);
        KERNEL(attention_turn)(a, (attention_rows){g.k, a->k_pitch}, s.turned_keys);
        KERNEL(attention_turn)(a, (attention_rows){g.v, a->k_pitch}, s.turned_values);
        KERNEL(attention_pack)(a, (attention_rows){g.k, a->k_pitch}, a->d.keys, s.keys);
        memset(s.dk, 0, 2 * a->straight * sizeof *s.dk); /* and dv */
        for (size_t unit = 0; unit < a->group * a->n_blocks; unit++) {
            const head_group head = head_of(a, g, unit / a->n_blocks);
            const attention_block b = KERNEL(attention_block_at)(a, unit % a->n_blocks);
            run_block(call, &b, &head, &s);
        }
        for (size_t j = 0; j < a->d.keys; j++) {
            const attention_row dk = {s.dk + j * a->lanes, a->d.scale, call->accumulate};
            const attention_row dv = {s.dv + j * a->lanes, 1.0f, call->accumulate};
            KERNEL(attention_store)(a, &dk, g.dk + j * a->k_pitch);
            KERNEL(attention_store)(a, &dv, g.dv + j * a->k_pitch);
        }
    }
}
