/* The tiles of convolutions.  Every size of a tile has a function without branches. */
#include "tile.h"

/* ---- Panels ---------------------------------------------------------------------------------- */

size_t KERNEL(panel_count)(size_t n_lanes)
{
    if (n_lanes == 0) return 0;
    return n_lanes <= PANEL_MOST ? 1 : 1 + (n_lanes - PANEL_MOST + PANEL_LANES - 1) / PANEL_LANES;
}

panel KERNEL(panel_at)(size_t n_lanes, size_t index)
{
    const size_t start = index * PANEL_LANES;
    const size_t left = n_lanes - start;
    panel p = {.start = start, .lanes = left <= PANEL_MOST ? left : PANEL_LANES};
    const size_t rest = p.lanes % LANES;
    p.units = p.lanes / LANES;
    if (rest > 0 && rest <= HALF_LANES)
        p.has_half = true;
    else if (rest > 0)
        p.units++;
    p.width = p.units * LANES + (p.has_half ? HALF_LANES : 0);
    return p;
}

size_t KERNEL(packed_width)(size_t n_lanes)
{
    if (n_lanes == 0) return 0;
    const panel last = KERNEL(panel_at)(n_lanes, KERNEL(panel_count)(n_lanes) - 1);
    return last.start + last.width;
}

/* Accumulators, a row of B and one element of A fit the registers: 32, or 16 on older machines. */
#if PANEL_UNITS == 4
enum { ROWS_1 = 8, ROWS_2 = 8, ROWS_3 = 8, ROWS_4 = 6 };
static const unsigned char most_rows[] = {ROWS_1, ROWS_1, ROWS_2, ROWS_3, ROWS_4};
#elif defined(__AVX2__)
enum { ROWS_1 = 8, ROWS_2 = 6, ROWS_3 = 4 };
static const unsigned char most_rows[] = {ROWS_1, ROWS_1, ROWS_2, ROWS_3};
#else
enum { ROWS_1 = 8, ROWS_2 = 4, ROWS_3 = 4 };
static const unsigned char most_rows[] = {ROWS_1, ROWS_1, ROWS_2, ROWS_3};
#endif

size_t KERNEL(panel_rows)(const panel *p)
{
    return most_rows[p->units + p->has_half];
}

/* ---- Results --------------------------------------------------------------------------------- */

/* The operations at a tile's end, as local variables: the compiler cannot know that storing results
   does not change *t. */
typedef struct ending {
    const float *bias;
    bool accumulate, relu;
} ending;

/* A sum of products can be -0 where products are too small for float32.  It becomes +0, so that the
   zeros of padding make no difference. */
DPT_CPU_INLINE vec finish(ending e, vec x, const float *c, size_t lane, size_t n)
{
    x = vec_add(x, vec_set(0.0f));
    if (e.accumulate) x = vec_add(vec_load_n(c + lane, n), x);
    if (e.bias) x = vec_add(x, vec_load_n(e.bias + lane, n));
    return e.relu ? vec_relu(x) : x;
}

DPT_CPU_INLINE half finish_half(ending e, half x, const float *c, size_t lane, size_t n)
{
    x = half_add(x, half_set(0.0f));
    if (e.accumulate) x = half_add(half_load_n(c + lane, n), x);
    if (e.bias) x = half_add(x, half_load_n(e.bias + lane, n));
    return e.relu ? half_relu(x) : x;
}

/* ---- The loop -------------------------------------------------------------------------------- */

/* The sums of a tile.  rows, units and with_half are constants at every call, so the arrays become
   registers. */
typedef struct sums {
    vec whole[TILE_ROWS][PANEL_MOST_UNITS];
    half halves[TILE_ROWS];
} sums;

DPT_CPU_INLINE void clear(sums *sum, const size_t rows, const size_t units)
{
    DPT_CPU_UNROLL
    for (size_t i = 0; i < rows; i++) {
        DPT_CPU_UNROLL
        for (size_t u = 0; u < units; u++)
            sum->whole[i][u] = vec_set(0.0f);
        sum->halves[i] = half_set(0.0f);
    }
}

DPT_CPU_INLINE void load_sums_row(sums *sum, size_t i, const float *from, const size_t units,
                                  const bool with_half)
{
    DPT_CPU_UNROLL
    for (size_t u = 0; u < units; u++)
        sum->whole[i][u] = vec_load(from + u * LANES);
    sum->halves[i] = with_half ? half_load(from + units * LANES) : half_set(0.0f);
}

/* The sums of a tile that begin with stored ones. */
DPT_CPU_INLINE void load_sums(sums *sum, const float *from, const size_t rows, const size_t units,
                              const bool with_half)
{
    DPT_CPU_UNROLL
    for (size_t i = 0; i < rows; i++) {
        load_sums_row(sum, i, from, units, with_half);
        from += units * LANES + (with_half ? HALF_LANES : 0);
    }
}

DPT_CPU_INLINE void store_sums(const sums *sum, float *to, const size_t rows, const size_t units,
                               const bool with_half)
{
    DPT_CPU_UNROLL
    for (size_t i = 0; i < rows; i++) {
        DPT_CPU_UNROLL
        for (size_t u = 0; u < units; u++)
            vec_store(to + u * LANES, sum->whole[i][u]);
        if (with_half) half_store_n(to + units * LANES, sum->halves[i], HALF_LANES);
        to += units * LANES + (with_half ? HALF_LANES : 0);
    }
}

/* Adds the products of `length` terms.  Returns the place behind the terms in B. */
DPT_CPU_INLINE const float *add_products(sums *sum, const float *const *a, size_t a_step,
                                         const float *b, size_t length, const size_t rows,
                                         const size_t units, const bool with_half)
{
    const size_t width = units * LANES + (with_half ? HALF_LANES : 0);
    size_t at = 0;
    DPT_CPU_UNROLL_TWICE
    for (size_t k = length; k > 0; k--) {
        vec b_row[PANEL_MOST_UNITS];
        half b_half = half_set(0.0f);
        DPT_CPU_UNROLL
        for (size_t u = 0; u < units; u++)
            b_row[u] = vec_load(b + u * LANES);
        if (with_half) b_half = half_load(b + units * LANES);
        DPT_CPU_UNROLL
        for (size_t i = 0; i < rows; i++) {
            const vec x = vec_set(a[i][at]);
            DPT_CPU_UNROLL
            for (size_t u = 0; u < units; u++)
                sum->whole[i][u] = vec_fma(x, b_row[u], sum->whole[i][u]);
            if (with_half) sum->halves[i] = half_fma(half_of(x), b_half, sum->halves[i]);
        }
        b += width;
        at += a_step;
    }
    return b;
}

DPT_CPU_INLINE void tile_body(const panel *p, const tile *t, const size_t rows, const size_t units,
                              const bool with_half)
{
    sums sum;
    const size_t a_step = t->a_step;
    const float *b = t->b;
    if (t->from)
        load_sums(&sum, t->from, rows, units, with_half);
    else
        clear(&sum, rows, units);
    for (size_t s = 0; s < t->n_segments; s++) {
        const float *a[TILE_ROWS];
        DPT_CPU_UNROLL
        for (size_t i = 0; i < rows; i++)
            a[i] = t->a[i] + t->segments[s].offset;
        b = add_products(&sum, a, a_step, b, t->segments[s].length, rows, units, with_half);
    }

    if (t->to) {
        store_sums(&sum, t->to, rows, units, with_half);
        return;
    }
    const ending e = {.bias = t->bias, .accumulate = t->accumulate, .relu = t->relu};
    const size_t last = p->lanes - (units - (with_half ? 0 : 1)) * LANES;
    DPT_CPU_UNROLL
    for (size_t i = 0; i < rows; i++) {
        float *c = t->c[i];
        DPT_CPU_UNROLL
        for (size_t u = 0; u < units; u++) {
            const bool whole = with_half || u + 1 < units;
            const size_t n = whole ? LANES : last;
            const vec y = finish(e, sum.whole[i][u], c, u * LANES, n);
            if (whole || n == LANES)
                vec_store(c + u * LANES, y);
            else
                vec_store_n(c + u * LANES, y, n);
        }
        if (with_half)
            half_store_n(c + units * LANES, finish_half(e, sum.halves[i], c, units * LANES, last),
                         last);
    }
}

DPT_CPU_INLINE void strip_store(const sums *sum, float *c, size_t c_row, bool accumulate,
                                const size_t rows, const size_t units, const bool with_half)
{
    DPT_CPU_UNROLL
    for (size_t i = 0; i < rows; i++, c += c_row) {
        DPT_CPU_UNROLL
        for (size_t u = 0; u < units; u++) {
            float *to = c + u * LANES;
            const vec y = sum->whole[i][u];
            vec_store(to, accumulate ? vec_add(vec_load(to), y) : y);
        }
        if (with_half) {
            float *to = c + units * LANES;
            const half y = sum->halves[i];
            half_store_n(to, accumulate ? half_add(half_load(to), y) : y, HALF_LANES);
        }
    }
}

DPT_CPU_INLINE void strip_load(sums *sum, const float *c, size_t c_row, const size_t rows,
                               const size_t units, const bool with_half)
{
    DPT_CPU_UNROLL
    for (size_t i = 0; i < rows; i++, c += c_row)
        load_sums_row(sum, i, c, units, with_half);
}

/* Computes n_tiles tiles of the same number of rows, from row `first` on. */
DPT_CPU_INLINE void strip_body(const strip *s, size_t first, size_t n_tiles, const size_t rows,
                               const size_t units, const bool with_half)
{
    const size_t a_row = s->a_row, a_step = s->a_step, c_row = s->c_row, depth = s->depth;
    const bool continues = s->accumulate && s->unbroken, accumulate = s->accumulate && !continues;
    const float *from = s->a + first * a_row, *b = s->b;
    float *c = s->c + first * c_row;
    for (; n_tiles > 0; n_tiles--) {
        const float *a[TILE_ROWS];
        sums sum;
        DPT_CPU_UNROLL
        for (size_t i = 0; i < rows; i++)
            a[i] = from + i * a_row;
        if (continues)
            strip_load(&sum, c, c_row, rows, units, with_half);
        else
            clear(&sum, rows, units);
        (void)add_products(&sum, a, a_step, b, depth, rows, units, with_half);
        strip_store(&sum, c, c_row, accumulate, rows, units, with_half);
        from += rows * a_row;
        c += rows * c_row;
    }
}

typedef void tile_function(const panel *p, const tile *t);
typedef void strip_function(const strip *s, size_t first, size_t n_tiles);

#define TILE(rows, units, with_half)                                                               \
    static void tile_##rows##_##units##_##with_half(const panel *p, const tile *t)                 \
    {                                                                                              \
        tile_body(p, t, rows, units, with_half);                                                   \
    }                                                                                              \
    static void strip_##rows##_##units##_##with_half(const strip *s, size_t first, size_t n_tiles) \
    {                                                                                              \
        strip_body(s, first, n_tiles, rows, units, with_half);                                     \
    }
#define TILES_4(units, with_half)                                                                  \
    TILE(1, units, with_half)                                                                      \
    TILE(2, units, with_half) TILE(3, units, with_half) TILE(4, units, with_half)
#define TILES_6(units, with_half)                                                                  \
    TILES_4(units, with_half) TILE(5, units, with_half) TILE(6, units, with_half)
#define TILES_8(units, with_half)                                                                  \
    TILES_6(units, with_half) TILE(7, units, with_half) TILE(8, units, with_half)

#define NAMES_4(of, units, with_half)                                                              \
    of##_1_##units##_##with_half, of##_2_##units##_##with_half, of##_3_##units##_##with_half,      \
        of##_4_##units##_##with_half
#define NAMES_6(of, units, with_half)                                                              \
    NAMES_4(of, units, with_half), of##_5_##units##_##with_half, of##_6_##units##_##with_half
#define NAMES_8(of, units, with_half)                                                              \
    NAMES_6(of, units, with_half), of##_7_##units##_##with_half, of##_8_##units##_##with_half

/* By units, then by rows - 1. */
TILES_8(1, 0)
#if PANEL_UNITS == 4
TILES_8(2, 0)
TILES_8(3, 0)
TILES_6(4, 0)
#define WHOLE(of)                                                                                  \
    {0}, {NAMES_8(of, 1, 0)}, {NAMES_8(of, 2, 0)}, {NAMES_8(of, 3, 0)},                            \
    {                                                                                              \
        NAMES_6(of, 4, 0)                                                                          \
    }
#elif defined(__AVX2__)
TILES_6(2, 0)
TILES_4(3, 0)
#define WHOLE(of)                                                                                  \
    {0}, {NAMES_8(of, 1, 0)}, {NAMES_6(of, 2, 0)},                                                 \
    {                                                                                              \
        NAMES_4(of, 3, 0)                                                                          \
    }
#else
TILES_4(2, 0)
TILES_4(3, 0)
#define WHOLE(of)                                                                                  \
    {0}, {NAMES_8(of, 1, 0)}, {NAMES_4(of, 2, 0)},                                                 \
    {                                                                                              \
        NAMES_4(of, 3, 0)                                                                          \
    }
#endif
static tile_function *const whole_tiles[][TILE_ROWS] = {WHOLE(tile)};
static strip_function *const whole_strips[][TILE_ROWS] = {WHOLE(strip)};

#if defined(__AVX512F__)
TILES_8(0, 1)
TILES_8(1, 1)
TILES_8(2, 1)
TILES_6(3, 1)
#define HALF(of)                                                                                   \
    {NAMES_8(of, 0, 1)}, {NAMES_8(of, 1, 1)}, {NAMES_8(of, 2, 1)},                                 \
    {                                                                                              \
        NAMES_6(of, 3, 1)                                                                          \
    }
static tile_function *const half_tiles[][TILE_ROWS] = {HALF(tile)};
static strip_function *const half_strips[][TILE_ROWS] = {HALF(strip)};
#endif

void KERNEL(tile_run)(const panel *p, const tile *t)
{
#if defined(__AVX512F__)
    if (p->has_half) {
        half_tiles[p->units][t->n_rows - 1](p, t);
        return;
    }
#endif
    whole_tiles[p->units][t->n_rows - 1](p, t);
}

static strip_function *const *strips_of(const panel *p)
{
#if defined(__AVX512F__)
    if (p->has_half) return half_strips[p->units];
#endif
    return whole_strips[p->units];
}

/* Divides the rows into tiles that are as equal as possible. */
void KERNEL(strip_run)(const panel *p, const strip *s)
{
    if (s->n_rows == 0) return;
    strip_function *const *of_rows = strips_of(p);
    const size_t most = KERNEL(panel_rows)(p), n_tiles = (s->n_rows + most - 1) / most;
    const size_t rows = s->n_rows / n_tiles, n_larger = s->n_rows % n_tiles;
    if (n_larger > 0) of_rows[rows](s, 0, n_larger);
    of_rows[rows - 1](s, n_larger * (rows + 1), n_tiles - n_larger);
}
