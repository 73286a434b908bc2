/* Transforming filters to Winograd's points.  They are packed as tiles expect B: a lane is a
   channel of the result. */
#include "winograd.h"

enum {
    MOST_TAPS = WINOGRAD_TAPS_MAX * WINOGRAD_TAPS_MAX,
    DEPTHS = 16 /* channels of the source that are transposed at once: whole vectors */
};

/* The place of a transformed vector: in a panel, at a depth. */
typedef struct target {
    float *to;
    size_t point; /* floats between points */
    size_t n;     /* lanes that are stored */
} target;

DPT_CPU_INLINE void filter_vector(const vec *g, const target *at, const size_t edge,
                                  const size_t taps)
{
    const size_t side = edge + taps - 1;
    vec t[WINOGRAD_SIDE_MAX][WINOGRAD_TAPS_MAX];
    DPT_CPU_UNROLL
    for (size_t j = 0; j < taps; j++) {
        vec column[WINOGRAD_TAPS_MAX], u[WINOGRAD_SIDE_MAX];
        DPT_CPU_UNROLL
        for (size_t i = 0; i < taps; i++)
            column[i] = g[i * taps + j];
        winograd_evaluate(column, taps, u, side);
        DPT_CPU_UNROLL
        for (size_t i = 0; i < side; i++)
            t[i][j] = winograd_weigh(u[i], i, side);
    }
    DPT_CPU_UNROLL
    for (size_t i = 0; i < side; i++) {
        vec u[WINOGRAD_SIDE_MAX];
        winograd_evaluate(t[i], taps, u, side);
        DPT_CPU_UNROLL
        for (size_t j = 0; j < side; j++) {
            float *to = at->to + (i * side + j) * at->point;
            u[j] = winograd_weigh(u[j], j, side);
            if (at->n == LANES)
                vec_store(to, u[j]);
            else
                vec_store_n(to, u[j], at->n);
        }
    }
}

static void transform_vector(const winograd *v, const vec *g, const target *at)
{
    WINOGRAD_CALL(v, filter_vector, g, at);
}

/* Forward: a lane is a filter, so some depths of the filters are transposed first. */
static void transform_filters(const winograd *v, const float *w, const panel *p,
                              dpt_cpu_range depths, size_t lane, target at)
{
    const size_t in_channels = v->desc.in_channels;
    const size_t lanes = p->lanes - lane;
    const size_t n_taps = v->taps * v->taps, distance = n_taps * in_channels;
    const float *filters = w + (p->start + lane) * distance;
    float turned[DEPTHS][MOST_TAPS][LANES];
    for (size_t k = depths.begin; k < depths.end; k += LANES) {
        const size_t left = depths.end - k, n = left < LANES ? left : LANES;
        for (size_t tap = 0; tap < n_taps; tap++) {
            vec square[LANES];
            DPT_CPU_UNROLL
            for (size_t l = 0; l < LANES; l++) {
                const float *from =
                    filters + (l < lanes ? l : 0) * distance + tap * in_channels + k;
                square[l] = l >= lanes  ? vec_set(0.0f)
                            : n < LANES ? vec_load_n(from, n)
                                        : vec_load(from);
            }
            vec_transpose(square);
            DPT_CPU_UNROLL
            for (size_t i = 0; i < LANES; i++)
                vec_store(turned[k - depths.begin + i][tap], square[i]);
        }
    }
    for (size_t k = depths.begin; k < depths.end; k++) {
        vec g[MOST_TAPS];
        size_t tap = 0;
        do /* gcc 14 does not know that a filter has at least one tap */
            g[tap] = vec_load(turned[k - depths.begin][tap]);
        while (++tap < n_taps);
        transform_vector(v, g, &at);
        at.to += p->width;
    }
}

/* The adjoint: a lane is a channel of a filter, as filters store them. */
static void transform_channels(const winograd *v, const float *w, const panel *p,
                               dpt_cpu_range depths, size_t lane, target at)
{
    const size_t in_channels = v->desc.in_channels;
    const size_t left = p->lanes - lane, lanes = left < LANES ? left : LANES;
    const size_t n_taps = v->taps * v->taps;
    for (size_t k = depths.begin; k < depths.end; k++) {
        const float *filter = w + k * n_taps * in_channels + p->start + lane;
        vec g[MOST_TAPS];
        for (size_t tap = 0; tap < n_taps; tap++)
            g[tap] = vec_load_n(filter + tap * in_channels, lanes);
        transform_vector(v, g, &at);
        at.to += p->width;
    }
}

void KERNEL(winograd_filters)(const winograd *v, const float *w, const winograd_spans *spans,
                              const winograd_span *span, unsigned thread, unsigned n_threads,
                              float *to)
{
    const size_t n_rows = span->rows.end - span->rows.begin, n_lanes = spans->n_lanes;
    const size_t start = KERNEL(panel_at)(n_lanes, span->panels.begin).start;
    const panel last = KERNEL(panel_at)(n_lanes, span->panels.end - 1);
    const size_t n_vectors = dpt_cpu_ceil_div(last.start + last.width - start, LANES);
    const size_t n_units = dpt_cpu_ceil_div(n_rows, DEPTHS) * n_vectors;
    const dpt_cpu_range mine = dpt_cpu_split(n_units, 1, thread, n_threads);
    for (size_t unit = mine.begin; unit < mine.end; unit++) {
        const size_t k = unit / n_vectors * DEPTHS, vector = start + unit % n_vectors * LANES;
        const size_t end = k + DEPTHS < n_rows ? k + DEPTHS : n_rows;
        const dpt_cpu_range depths = {span->rows.begin + k, span->rows.begin + end};
        const panel p = KERNEL(panel_at)(n_lanes, panel_start(n_lanes, vector) / PANEL_LANES);
        const size_t lane = vector - p.start, room = p.width - lane;
        const target at = {
            .to = to + (p.start - start) * n_rows + k * p.width + lane,
            .point = spans->point,
            .n = room < LANES ? room : LANES,
        };
        if (v->adjoint)
            transform_channels(v, w, &p, depths, lane, at);
        else
            transform_filters(v, w, &p, depths, lane, at);
    }
}
