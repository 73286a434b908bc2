/* Filters to Winograd's points, packed as tiles want their B: the lanes are the result's channels.
 */
#include "winograd.h"

enum { TAPS = 9, DEPTHS = 16 /* channels of the source that are turned round at once */ };

/* Where filters go: a vector of a panel, at a depth. */
typedef struct target {
    float *to;
    size_t point; /* floats between points */
    size_t n;     /* lanes that are stored */
} target;

DPT_CPU_INLINE void filter_vector(const vec *g, const target *at, const size_t edge)
{
    const size_t side = edge + 2;
    vec t[WINOGRAD_SIDE_MAX][3];
    DPT_CPU_UNROLL
    for (size_t j = 0; j < 3; j++) {
        const vec column[3] = {g[j], g[3 + j], g[6 + j]};
        vec u[WINOGRAD_SIDE_MAX];
        winograd_transform_taps(column, u, edge);
        DPT_CPU_UNROLL
        for (size_t i = 0; i < side; i++)
            t[i][j] = u[i];
    }
    DPT_CPU_UNROLL
    for (size_t i = 0; i < side; i++) {
        vec u[WINOGRAD_SIDE_MAX];
        winograd_transform_taps(t[i], u, edge);
        DPT_CPU_UNROLL
        for (size_t j = 0; j < side; j++) {
            float *to = at->to + (i * side + j) * at->point;
            if (at->n == LANES)
                vec_store(to, u[j]);
            else
                vec_store_n(to, u[j], at->n);
        }
    }
}

static void transform_vector(const winograd *v, const vec *g, const target *at)
{
    if (v->edge == 4)
        filter_vector(g, at, 4);
    else
        filter_vector(g, at, 2);
}

/* Forward: lanes are filters, so that some depths of them are turned round first. */
static void transform_filters(const winograd *v, const float *w, const panel *p,
                              dpt_cpu_range depths, size_t lane, target at)
{
    const size_t in_channels = v->desc.in_channels;
    const size_t left = p->lanes - lane, lanes = left < LANES ? left : LANES;
    float turned[DEPTHS][TAPS][LANES];
    for (size_t l = 0; l < LANES; l++) {
        const float *filter =
            w + (p->start + lane + (l < lanes ? l : 0)) * TAPS * in_channels + depths.begin;
        for (size_t tap = 0; tap < TAPS; tap++)
            for (size_t k = 0; k < depths.end - depths.begin; k++)
                turned[k][tap][l] = l < lanes ? filter[tap * in_channels + k] : 0.0f;
    }
    for (size_t k = depths.begin; k < depths.end; k++) {
        vec g[TAPS];
        for (size_t tap = 0; tap < TAPS; tap++)
            g[tap] = vec_load(turned[k - depths.begin][tap]);
        transform_vector(v, g, &at);
        at.to += p->width;
    }
}

/* Backward data: lanes are the filters' own channels, and taps go backwards. */
static void transform_rotated(const winograd *v, const float *w, const panel *p,
                              dpt_cpu_range depths, size_t lane, target at)
{
    const size_t in_channels = v->desc.in_channels;
    const size_t left = p->lanes - lane, lanes = left < LANES ? left : LANES;
    for (size_t k = depths.begin; k < depths.end; k++) {
        const float *filter = w + k * TAPS * in_channels + p->start + lane;
        vec g[TAPS];
        for (size_t tap = 0; tap < TAPS; tap++)
            g[TAPS - 1 - tap] = vec_load_n(filter + tap * in_channels, lanes);
        transform_vector(v, g, &at);
        at.to += p->width;
    }
}

void KERNEL(winograd_filters)(const winograd *v, bool rotated, const float *w, unsigned thread,
                              unsigned n_threads, float *to)
{
    const dpt_cpu_range mine = dpt_cpu_split(v->source.c, DEPTHS, thread, n_threads);
    const size_t n_panels = KERNEL(panel_count)(v->results.c);
    for (size_t k = mine.begin; k < mine.end; k += DEPTHS) {
        const dpt_cpu_range depths = {k, k + DEPTHS < mine.end ? k + DEPTHS : mine.end};
        for (size_t i = 0; i < n_panels; i++) {
            const panel p = KERNEL(panel_at)(v->results.c, i);
            for (size_t lane = 0; lane < p.width; lane += LANES) {
                const size_t room = p.width - lane;
                const target at = {
                    .to = to + p.start * v->source.c + k * p.width + lane,
                    .point = v->filter_point,
                    .n = room < LANES ? room : LANES,
                };
                if (rotated)
                    transform_rotated(v, w, &p, depths, lane, at);
                else
                    transform_filters(v, w, &p, depths, lane, at);
            }
        }
    }
}
