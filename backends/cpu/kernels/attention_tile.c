/* Attention on CPUs: packing, and products of a block (attention.h). */
#include "attention.h"

#include "product.h"

enum {
    MOST_QUERIES = 64,            /* of a block */
    LEAST_QUERIES = 16,           /* fewer would make the products too small */
    BLOCK_FLOATS = 32 * 1024,     /* of scores, about */
    AT_ONCE = 64,                 /* terms of a product whose lanes are channels */
    AT_ONCE_CAUSAL = 16,          /* the same, where some queries do not read all of the terms */
    KEYS_AT_ONCE = 3 * TILE_ROWS, /* the same, of rows that are keys */
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

void KERNEL(attention_plan)(attention *a)
{
    const dpt_attention_desc *d = &a->d;
    const size_t pitch = d->packed ? dpt_attention_pitch(d) : 0;
    size_t block = BLOCK_FLOATS / d->keys / LEAST_QUERIES * LEAST_QUERIES;
    block = block < LEAST_QUERIES ? LEAST_QUERIES : block;
    block = least(block, MOST_QUERIES);
    a->block = least(block, d->queries);
    a->n_blocks = dpt_cpu_ceil_div(d->queries, a->block);
    a->group = d->heads / d->key_heads;
    a->y_pitch = d->heads * d->width;
    a->q_pitch = d->packed ? pitch : a->y_pitch;
    a->k_pitch = d->packed ? pitch : d->key_heads * d->width;
    a->lanes = KERNEL(packed_width)(d->width);
    /* Rows that are a power of two apart would share few places of a cache. */
    a->score_pitch = dpt_cpu_round(KERNEL(packed_width)(d->keys)) + 16;
    a->turned = dpt_cpu_round(dpt_cpu_mul(KERNEL(packed_width)(d->keys), d->width) + LANES);
    a->straight = dpt_cpu_round(dpt_cpu_mul(d->keys, a->lanes));
    a->scores = dpt_cpu_mul(a->block, a->score_pitch);
    a->rows = dpt_cpu_round(a->block * a->lanes);
}

attention_block KERNEL(attention_block_at)(const attention *a, size_t index)
{
    const size_t first = index * a->block, end = least(first + a->block, a->d.queries);
    return (attention_block){first, end, attention_keys(a, end - 1)};
}

/* ---- Packing --------------------------------------------------------------------------------- */

void KERNEL(attention_pack)(const attention *a, attention_rows from, size_t n, float *to)
{
    const size_t n_panels = KERNEL(panel_count)(a->d.width);
    for (size_t i = 0; i < n_panels; i++) {
        const panel p = KERNEL(panel_at)(a->d.width, i);
        const size_t whole = p.lanes / LANES * LANES;
        const float *row = from.data + p.start;
        for (size_t k = 0; k < n; k++, row += from.pitch, to += p.width) {
            for (size_t c = 0; c < whole; c += LANES)
                vec_store(to + c, vec_load(row + c));
            for (size_t c = whole; c < p.width; c++)
                to[c] = c < p.lanes ? row[c] : 0.0f;
        }
    }
}

/* The last vector of a panel comes first: it may write behind the panel's row, where the vectors
   before it write later. */
void KERNEL(attention_turn)(const attention *a, attention_rows from, float *to)
{
    const size_t n_panels = KERNEL(panel_count)(a->d.keys), width = a->d.width;
    for (size_t i = 0; i < n_panels; i++) {
        const panel p = KERNEL(panel_at)(a->d.keys, i);
        const size_t n_vectors = dpt_cpu_ceil_div(p.lanes, LANES);
        for (size_t u = n_vectors; u-- > 0;) {
            const size_t lane = u * LANES;
            KERNEL(product_turn_rows)
            (from.data + (p.start + lane) * from.pitch, from.pitch, least(p.lanes - lane, LANES),
             width, p.width, to + p.start * width + lane);
        }
    }
}

/* ---- Products -------------------------------------------------------------------------------- */

void KERNEL(attention_scores)(const attention *a, const attention_block *b, attention_rows rows,
                              const float *turned, float *scores)
{
    const size_t n_panels = KERNEL(panel_count)(a->d.keys), width = a->d.width;
    for (size_t i = 0; i < n_panels; i++) {
        const panel p = KERNEL(panel_at)(a->d.keys, i);
        if (p.start >= b->n_keys) return;
        const size_t first = attention_first(a, b, p.start);
        const strip s = {.n_rows = b->end - b->first - first,
                         .depth = width,
                         .a = rows.data + first * rows.pitch,
                         .a_row = rows.pitch,
                         .a_step = 1,
                         .b = turned + p.start * width,
                         .c = scores + first * a->score_pitch + p.start,
                         .c_row = a->score_pitch};
        KERNEL(strip_run)(&p, &s);
    }
}

void KERNEL(attention_combine)(const attention *a, const attention_block *b, const float *scores,
                               const float *packed, float *to)
{
    const size_t n_panels = KERNEL(panel_count)(a->d.width);
    const size_t common = attention_keys(a, b->first); /* keys that all queries read */
    for (size_t i = 0; i < n_panels; i++) {
        const panel p = KERNEL(panel_at)(a->d.width, i);
        for (size_t j = 0, n; j < b->n_keys; j += n) {
            const size_t left = b->n_keys - j, first = attention_first(a, b, j);
            n = j < common ? least(AT_ONCE, common - j) : least(AT_ONCE_CAUSAL, left);
            const strip s = {.n_rows = b->end - b->first - first,
                             .depth = n,
                             .a = scores + first * a->score_pitch + j,
                             .a_row = a->score_pitch,
                             .a_step = 1,
                             .b = packed + p.start * a->d.keys + j * p.width,
                             .c = to + first * a->lanes + p.start,
                             .c_row = a->lanes,
                             .accumulate = j > 0,
                             .unbroken = true};
            KERNEL(strip_run)(&p, &s);
        }
    }
}

void KERNEL(attention_spread)(const attention *a, const attention_block *b, const float *scores,
                              const float *packed, float *to)
{
    const size_t n_panels = KERNEL(panel_count)(a->d.width), n_rows = b->end - b->first;
    const size_t common = attention_keys(a, b->first);
    for (size_t i = 0; i < n_panels; i++) {
        const panel p = KERNEL(panel_at)(a->d.width, i);
        for (size_t j = 0, n; j < b->n_keys; j += n) {
            const size_t left = b->n_keys - j, first = attention_first(a, b, j);
            n = j < common ? common - j : least(KEYS_AT_ONCE, left);
            const strip s = {.n_rows = n,
                             .depth = n_rows - first,
                             .a = scores + first * a->score_pitch + j,
                             .a_row = 1,
                             .a_step = a->score_pitch,
                             .b = packed + p.start * n_rows + first * p.width,
                             .c = to + j * a->lanes + p.start,
                             .c_row = a->lanes,
                             .accumulate = true,
                             .unbroken = true};
            KERNEL(strip_run)(&p, &s);
        }
    }
}

/* Adds +0 first: a sum that is -0 becomes +0, so that scores that are not read make no difference.
 */
DPT_CPU_INLINE vec finished(const attention_row *row, vec sum, vec before)
{
    const vec x = vec_mul(vec_add(sum, vec_set(0.0f)), vec_set(row->factor));
    return row->accumulate ? vec_add(before, x) : x;
}

void KERNEL(attention_store)(const attention *a, const attention_row *given, float *to)
{
    const attention_row row = *given;
    size_t c = 0;
    for (; c + LANES <= a->d.width; c += LANES)
        vec_store(to + c, finished(&row, vec_load(row.sums + c), vec_load(to + c)));
    const size_t n = a->d.width - c;
    if (n > 0)
        vec_store_n(to + c, finished(&row, vec_load_n(row.sums + c, n), vec_load_n(to + c, n)), n);
}
