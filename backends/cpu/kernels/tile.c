/* Tiles of every size that a panel can have, each its own straight code. */
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

/* How a tile ends, in locals: the compiler cannot know that results do not overwrite *t. */
typedef struct ending {
    const float *bias;
    bool accumulate, relu;
} ending;

DPT_CPU_INLINE vec finish(ending e, vec x, const float *c, size_t lane, size_t n)
{
    if (e.accumulate) x = vec_add(vec_load_n(c + lane, n), x);
    if (e.bias) x = vec_add(x, vec_load_n(e.bias + lane, n));
    return e.relu ? vec_relu(x) : x;
}

DPT_CPU_INLINE half finish_half(ending e, half x, const float *c, size_t lane, size_t n)
{
    if (e.accumulate) x = half_add(half_load_n(c + lane, n), x);
    if (e.bias) x = half_add(x, half_load_n(e.bias + lane, n));
    return e.relu ? half_relu(x) : x;
}

/* ---- The loop -------------------------------------------------------------------------------- */

/* rows, units and with_half are constants at every call: the arrays become registers. */
DPT_CPU_INLINE void tile_body(const panel *p, const tile *t, const size_t rows, const size_t units,
                              const bool with_half)
{
    vec sum[TILE_ROWS][PANEL_MOST_UNITS];
    half half_sum[TILE_ROWS];
    DPT_CPU_UNROLL
    for (size_t i = 0; i < rows; i++) {
        DPT_CPU_UNROLL
        for (size_t u = 0; u < units; u++)
            sum[i][u] = vec_set(0.0f);
        half_sum[i] = half_set(0.0f);
    }

    const size_t width = units * LANES + (with_half ? HALF_LANES : 0);
    const size_t a_step = t->a_step;
    const float *b = t->b;
    for (size_t s = 0; s < t->n_segments; s++) {
        const float *a[TILE_ROWS];
        DPT_CPU_UNROLL
        for (size_t i = 0; i < rows; i++)
            a[i] = t->a[i] + t->segments[s].offset;
        size_t at = 0;
        for (size_t k = t->segments[s].length; k > 0; k--) {
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
                    sum[i][u] = vec_fma(x, b_row[u], sum[i][u]);
                if (with_half) half_sum[i] = half_fma(half_of(x), b_half, half_sum[i]);
            }
            b += width;
            at += a_step;
        }
    }

    const ending e = {.bias = t->bias, .accumulate = t->accumulate, .relu = t->relu};
    const size_t last = p->lanes - (width - (with_half ? HALF_LANES : LANES));
    DPT_CPU_UNROLL
    for (size_t i = 0; i < rows; i++) {
        float *c = t->c[i];
        DPT_CPU_UNROLL
        for (size_t u = 0; u < units; u++) {
            const bool whole = with_half || u + 1 < units;
            const size_t n = whole ? LANES : last;
            const vec y = finish(e, sum[i][u], c, u * LANES, n);
            if (whole || n == LANES)
                vec_store(c + u * LANES, y);
            else
                vec_store_n(c + u * LANES, y, n);
        }
        if (with_half)
            half_store_n(c + units * LANES, finish_half(e, half_sum[i], c, units * LANES, last),
                         last);
    }
}

typedef void tile_function(const panel *p, const tile *t);

#define TILE(rows, units, with_half)                                                               \
    static void tile_##rows##_##units##_##with_half(const panel *p, const tile *t)                 \
    {                                                                                              \
        tile_body(p, t, rows, units, with_half);                                                   \
    }
#define TILES_4(units, with_half)                                                                  \
    TILE(1, units, with_half)                                                                      \
    TILE(2, units, with_half) TILE(3, units, with_half) TILE(4, units, with_half)
#define TILES_6(units, with_half)                                                                  \
    TILES_4(units, with_half) TILE(5, units, with_half) TILE(6, units, with_half)
#define TILES_8(units, with_half)                                                                  \
    TILES_6(units, with_half) TILE(7, units, with_half) TILE(8, units, with_half)

#define NAMES_4(units, with_half)                                                                  \
    tile_1_##units##_##with_half, tile_2_##units##_##with_half, tile_3_##units##_##with_half,      \
        tile_4_##units##_##with_half
#define NAMES_6(units, with_half)                                                                  \
    NAMES_4(units, with_half), tile_5_##units##_##with_half, tile_6_##units##_##with_half
#define NAMES_8(units, with_half)                                                                  \
    NAMES_6(units, with_half), tile_7_##units##_##with_half, tile_8_##units##_##with_half

/* By units, then by rows - 1. */
TILES_8(1, 0)
#if PANEL_UNITS == 4
TILES_8(2, 0)
TILES_8(3, 0)
TILES_6(4, 0)
static tile_function *const whole_tiles[][TILE_ROWS] = {
    {0}, {NAMES_8(1, 0)}, {NAMES_8(2, 0)}, {NAMES_8(3, 0)}, {NAMES_6(4, 0)}};
#elif defined(__AVX2__)
TILES_6(2, 0)
TILES_4(3, 0)
static tile_function *const whole_tiles[][TILE_ROWS] = {
    {0}, {NAMES_8(1, 0)}, {NAMES_6(2, 0)}, {NAMES_4(3, 0)}};
#else
TILES_4(2, 0)
TILES_4(3, 0)
static tile_function *const whole_tiles[][TILE_ROWS] = {
    {0}, {NAMES_8(1, 0)}, {NAMES_4(2, 0)}, {NAMES_4(3, 0)}};
#endif

#if defined(__AVX512F__)
TILES_8(0, 1)
TILES_8(1, 1)
TILES_8(2, 1)
TILES_6(3, 1)
static tile_function *const half_tiles[][TILE_ROWS] = {
    {NAMES_8(0, 1)}, {NAMES_8(1, 1)}, {NAMES_8(2, 1)}, {NAMES_6(3, 1)}};
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
