/* The tiles of our own matrix product.  Every number of rows and vectors has a function without
   branches. */
#include "product.h"

/* The operations at a tile's end, as local variables: the compiler cannot know that storing results
   does not change *t. */
typedef struct ending {
    const float *bias, *mask, *factor;
    bool accumulate, relu;
} ending;

/* c and mask: of this row.  mask is NULL if there is none. */
DPT_CPU_INLINE vec finish(ending e, vec x, const float *c, const float *mask, size_t lane, size_t n)
{
    if (e.factor) x = vec_mul(x, vec_set(*e.factor));
    if (e.accumulate) x = vec_add(vec_load_n(c + lane, n), x);
    if (e.bias) x = vec_add(x, vec_load_n(e.bias + lane, n));
    if (mask) x = vec_where_positive(vec_load_n(mask + lane, n), x);
    return e.relu ? vec_relu(x) : x;
}

/* Stores a whole tile that has no bias, mask or ReLU. */
DPT_CPU_INLINE void store_sums(const product_tile *t, const size_t rows, const size_t units,
                               vec sum[PRODUCT_ROWS][PRODUCT_UNITS])
{
    float *c = t->c;
    const size_t ldc = t->ldc;
    if (t->accumulate) {
        DPT_CPU_UNROLL
        for (size_t i = 0; i < rows; i++) {
            DPT_CPU_UNROLL
            for (size_t u = 0; u < units; u++)
                sum[i][u] = vec_add(vec_load(c + i * ldc + u * LANES), sum[i][u]);
        }
    }
    DPT_CPU_UNROLL
    for (size_t i = 0; i < rows; i++) {
        DPT_CPU_UNROLL
        for (size_t u = 0; u < units; u++)
            vec_store(c + i * ldc + u * LANES, sum[i][u]);
    }
}

/* Begins sums with the results that are there. */
DPT_CPU_INLINE void load_sums(const product_tile *t, const size_t rows, const size_t units,
                              vec sum[PRODUCT_ROWS][PRODUCT_UNITS])
{
    const float *c = t->c;
    const size_t ldc = t->ldc, last = t->lanes - (units - 1) * LANES;
    DPT_CPU_UNROLL
    for (size_t i = 0; i < rows; i++) {
        DPT_CPU_UNROLL
        for (size_t u = 0; u + 1 < units; u++)
            sum[i][u] = vec_load(c + i * ldc + u * LANES);
        sum[i][units - 1] = vec_load_n(c + i * ldc + (units - 1) * LANES, last);
    }
}

/* The packed terms that come next. */
typedef struct terms {
    const float *a, *b;
} terms;

/* rows and units are constants at every call, so the arrays become registers. */
DPT_CPU_INLINE terms add_terms(terms at, size_t n, const size_t rows, const size_t units,
                               vec sum[PRODUCT_ROWS][PRODUCT_UNITS])
{
    const float *a = at.a, *b = at.b;
    DPT_CPU_UNROLL_TWICE
    for (size_t k = n; k > 0; k--) {
        vec b_row[PRODUCT_UNITS];
        DPT_CPU_UNROLL
        for (size_t u = 0; u < units; u++)
            b_row[u] = vec_load(b + u * LANES);
        DPT_CPU_UNROLL
        for (size_t i = 0; i < rows; i++) {
            const vec x = vec_set(a[i]);
            DPT_CPU_UNROLL
            for (size_t u = 0; u < units; u++)
                sum[i][u] = vec_fma(x, b_row[u], sum[i][u]);
        }
        a += rows;
        b += units * LANES;
    }
    return (terms){a, b};
}

DPT_CPU_INLINE void fetch_results(const product_tile *t, const size_t rows)
{
    DPT_CPU_UNROLL
    for (size_t i = 0; i < rows; i++) {
        __builtin_prefetch(t->c + i * t->ldc, 1);
        __builtin_prefetch(t->c + i * t->ldc + t->lanes - 1, 1);
    }
}

DPT_CPU_INLINE void clear(const size_t rows, const size_t units,
                          vec sum[PRODUCT_ROWS][PRODUCT_UNITS])
{
    DPT_CPU_UNROLL
    for (size_t i = 0; i < rows; i++) {
        DPT_CPU_UNROLL
        for (size_t u = 0; u < units; u++)
            sum[i][u] = vec_set(0.0f);
    }
}

DPT_CPU_INLINE void tile_body(const product_tile *t, const size_t rows, const size_t units)
{
    vec sum[PRODUCT_ROWS][PRODUCT_UNITS];
    fetch_results(t, rows);
    clear(rows, units, sum);
    if (t->continues) load_sums(t, rows, units, sum);
    (void)add_terms((terms){t->a, t->b}, t->n_terms, rows, units, sum);

    if (t->lanes == units * LANES && !t->bias && !t->mask && !t->relu && !t->factor) {
        store_sums(t, rows, units, sum);
        return;
    }
    const ending e = {.bias = t->bias,
                      .mask = t->mask,
                      .factor = t->factor,
                      .accumulate = t->accumulate,
                      .relu = t->relu};
    const size_t ldc = t->ldc, last = t->lanes - (units - 1) * LANES;
    DPT_CPU_UNROLL
    for (size_t i = 0; i < rows; i++) {
        float *c = t->c + i * ldc;
        const float *mask = e.mask ? t->mask + i * ldc : NULL;
        DPT_CPU_UNROLL
        for (size_t u = 0; u < units; u++) {
            const size_t n = u + 1 < units ? LANES : last;
            const vec y = finish(e, sum[i][u], c, mask, u * LANES, n);
            if (u + 1 < units || n == LANES)
                vec_store(c + u * LANES, y);
            else
                vec_store_n(c + u * LANES, y, n);
        }
    }
}

/* ---- Tiles with a tree ----------------------------------------------------------------------- */

DPT_CPU_INLINE void load_stored(const float *from, const size_t rows, const size_t units,
                                vec sum[PRODUCT_ROWS][PRODUCT_UNITS])
{
    DPT_CPU_UNROLL
    for (size_t i = 0; i < rows; i++) {
        DPT_CPU_UNROLL
        for (size_t u = 0; u < units; u++)
            sum[i][u] = vec_load(from + (i * units + u) * LANES);
    }
}

/* sum = sums (rows, units * LANES) + sum */
DPT_CPU_INLINE void add_stored(const float *from, const size_t rows, const size_t units,
                               vec sum[PRODUCT_ROWS][PRODUCT_UNITS])
{
    DPT_CPU_UNROLL
    for (size_t i = 0; i < rows; i++) {
        DPT_CPU_UNROLL
        for (size_t u = 0; u < units; u++)
            sum[i][u] = vec_add(vec_load(from + (i * units + u) * LANES), sum[i][u]);
    }
}

DPT_CPU_INLINE void store(float *to, const size_t rows, const size_t units,
                          vec sum[PRODUCT_ROWS][PRODUCT_UNITS])
{
    DPT_CPU_UNROLL
    for (size_t i = 0; i < rows; i++) {
        DPT_CPU_UNROLL
        for (size_t u = 0; u < units; u++)
            vec_store(to + (i * units + u) * LANES, sum[i][u]);
    }
}

/* A sum that is added to another one need not be treated: -0 adds as +0 does to what is not -0. */
DPT_CPU_INLINE void end_grain(float zero, const size_t rows, const size_t units,
                              vec sum[PRODUCT_ROWS][PRODUCT_UNITS])
{
    DPT_CPU_UNROLL
    for (size_t i = 0; i < rows; i++) {
        DPT_CPU_UNROLL
        for (size_t u = 0; u < units; u++)
            sum[i][u] = vec_add(sum[i][u], vec_set(zero));
    }
}

/* Writes the results of a tile whose last vector has fewer lanes. */
DPT_CPU_INLINE void store_narrow(const product_tile *t, const size_t rows, const size_t units,
                                 vec sum[PRODUCT_ROWS][PRODUCT_UNITS])
{
    const size_t ldc = t->ldc, last = t->lanes - (units - 1) * LANES;
    const bool accumulate = t->accumulate;
    DPT_CPU_UNROLL
    for (size_t i = 0; i < rows; i++) {
        float *c = t->c + i * ldc;
        DPT_CPU_UNROLL
        for (size_t u = 0; u < units; u++) {
            const size_t n = u + 1 < units ? LANES : last;
            const vec x = sum[i][u];
            vec_store_n(c + u * LANES, accumulate ? vec_add(vec_load_n(c + u * LANES, n), x) : x,
                        n);
        }
    }
}

DPT_CPU_INLINE void tree_body(const product_tile *t, const size_t rows, const size_t units)
{
    const tree_block k = t->tree->block;
    const float zero = t->tree->zero;
    float own[TREE_LEVELS][PRODUCT_ROWS * PRODUCT_LANES]; /* the block's grains that wait */
    vec sum[PRODUCT_ROWS][PRODUCT_UNITS];
    terms at = {t->a, t->b};
    size_t grain = k.grain, n = k.n_first;
    if (k.last) fetch_results(t, rows);
    clear(rows, units, sum);
    if (k.continues) load_stored(t->tree->stored, rows, units, sum);
    for (size_t left = k.n;;) {
        at = add_terms(at, n, rows, units, sum);
        left -= n;
        if (left == 0) break;
        size_t level = 0;
        if ((grain & 1) == 0) end_grain(zero, rows, units, sum);
        for (; grain >> level & 1; level++)
            add_stored(own[level], rows, units, sum);
        store(own[level], rows, units, sum);
        clear(rows, units, sum);
        grain++;
        n = k.each < left ? k.each : left;
    }
    if (!k.ends) {
        store(t->tree->stored, rows, units, sum);
        return;
    }
    if ((grain & 1) == 0) end_grain(zero, rows, units, sum);
    for (size_t level = 0; level < TREE_LEVELS; level++) {
        float *const waiting = t->tree->stored + (1 + level) * t->tree->distance;
        if (grain >> level & 1) {
            add_stored(level < k.level ? own[level] : waiting, rows, units, sum);
        } else if (!k.last) {
            store(waiting, rows, units, sum);
            return;
        }
    }
    if (t->lanes == units * LANES)
        store_sums(t, rows, units, sum);
    else
        store_narrow(t, rows, units, sum);
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

typedef void tile_function(const product_tile *t);

#define TILE(rows, units)                                                                          \
    static void tile_##rows##_##units(const product_tile *t)                                       \
    {                                                                                              \
        tile_body(t, rows, units);                                                                 \
    }                                                                                              \
    static void tree_##rows##_##units(const product_tile *t)                                       \
    {                                                                                              \
        tree_body(t, rows, units);                                                                 \
    }

/* clang-format off */
#if defined(__AVX512F__)
#define EACH(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#elif defined(__AVX2__)
#define EACH(X) X(1) X(2) X(3) X(4) X(5) X(6)
#elif defined(__aarch64__)
#define EACH(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#else
#define EACH(X) X(1) X(2) X(3) X(4)
#endif
#define TILES(rows) TILE(rows, 1) TILE(rows, 2)
#define ENTRY(rows) {tile_##rows##_1, tile_##rows##_2},
#define TREE_ENTRY(rows) {tree_##rows##_1, tree_##rows##_2},
/* clang-format on */

EACH(TILES)

/* Indices: rows - 1, units - 1. */
static tile_function *const tiles[PRODUCT_ROWS][PRODUCT_UNITS] = {EACH(ENTRY)};
static tile_function *const trees[PRODUCT_ROWS][PRODUCT_UNITS] = {EACH(TREE_ENTRY)};

void KERNEL(product_tile_run)(const product_tile *t)
{
    (t->tree ? trees : tiles)[t->n_rows - 1][t->units - 1](t);
}
