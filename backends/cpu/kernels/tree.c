/* The tree of grains, for sums in memory (tree.h). */
#include "tree.h"

/* ---- Sums that blocks store ------------------------------------------------------------------ */

/* Treats the n floats at `at`, at most a vector. */
DPT_CPU_INLINE void add_vector(const tree_sums *s, size_t at, size_t n, size_t grain, bool last)
{
    const float *waiting = s->waiting + at;
    vec x = vec_add(vec_load_n(s->sums + at, n), vec_set(0.0f));
    size_t level = 0;
    for (; level < TREE_LEVELS && (last || (grain >> level & 1)); level++)
        if (grain >> level & 1) x = vec_add(vec_load_n(waiting + level * s->distance, n), x);
    if (!last) vec_store_n(s->waiting + level * s->distance + at, x, n);
    vec_store_n(s->sums + at, last ? x : vec_set(0.0f), n);
}

void KERNEL(tree_add)(const tree_sums *s, size_t grain, bool last)
{
    size_t at = 0;
    for (; at + LANES <= s->n; at += LANES)
        add_vector(s, at, LANES, grain, last);
    if (at < s->n) add_vector(s, at, s->n - at, grain, last);
}

/* ---- Sums over rows -------------------------------------------------------------------------- */

enum { UNITS = 4 };

/* Sums up `units` vectors of columns from column `at` on.  The last vector has `last` lanes. */
DPT_CPU_INLINE void sum_block(const tree_columns *c, size_t at, const size_t units, size_t last)
{
    vec waiting[TREE_LEVELS][UNITS], sum[UNITS];
    const float *x = c->x + at;
    for (size_t u = 0; u < units; u++)
        sum[u] = vec_set(0.0f);
    for (size_t row = 0, grain = 0; row < c->n_rows; grain++) {
        const size_t left = c->n_rows - row, n = c->grain < left ? c->grain : left;
        for (size_t u = 0; u < units && row > 0; u++)
            sum[u] = vec_set(0.0f);
        for (size_t i = 0; i < n; i++, x += c->ld)
            for (size_t u = 0; u < units; u++)
                sum[u] = vec_add(sum[u], u + 1 < units ? vec_load(x + u * LANES)
                                                       : vec_load_n(x + u * LANES, last));
        row += n;
        size_t level = 0;
        for (; level < TREE_LEVELS && (row == c->n_rows || (grain >> level & 1)); level++)
            for (size_t u = 0; u < units && (grain >> level & 1); u++)
                sum[u] = vec_add(waiting[level][u], sum[u]);
        for (size_t u = 0; u < units && row < c->n_rows; u++)
            waiting[level][u] = sum[u];
    }
    for (size_t u = 0; u < units; u++) {
        const size_t n = u + 1 < units ? LANES : last;
        float *const to = c->to + at + u * LANES;
        vec_store_n(to, c->accumulate ? vec_add(vec_load_n(to, n), sum[u]) : sum[u], n);
    }
}

void KERNEL(tree_sum_columns)(const tree_columns *c, dpt_cpu_range columns)
{
    size_t at = columns.begin;
    for (; at + UNITS * LANES <= columns.end; at += UNITS * LANES)
        sum_block(c, at, UNITS, LANES);
    for (; at < columns.end; at += LANES)
        sum_block(c, at, 1, columns.end - at < LANES ? columns.end - at : LANES);
}
