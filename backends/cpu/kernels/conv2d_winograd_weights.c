/* Winograd convolution backward to its filters: F(taps x taps, edge x edge), in which a tile of dy
   is the filter, and what it gives is summed over all tiles.

   Each thread sums up its own tiles, and the threads' sums are added in thread order; where a copy
   of the sums for each thread would fill the memory, all threads transform a block of tiles and
   divide the points. */
#include "kinds.h"
#include "winograd.h"

#include <stdlib.h>

/* ---- Sizes ----------------------------------------------------------------------------------- */

/* A point's sums are a matrix (out_channels, in_channels). */
static size_t sums_row(const winograd *v)
{
    return KERNEL(winograd_stride)(v->source.c);
}

static size_t sums_size(const winograd *v)
{
    return dpt_cpu_mul(v->points, v->filter_point);
}

static size_t bias_size(const winograd *v)
{
    return dpt_cpu_round(v->results.c);
}

static size_t scratch_size(const winograd *v)
{
    return dpt_cpu_mul(v->points, dpt_cpu_add(v->data.point, v->products.point));
}

static size_t n_copies_of(const winograd *v, unsigned n_threads)
{
    return v->together ? 1 : n_threads;
}

/* Workspace: the sums, the bias's of each thread, zeros, then the scratch of each crew. */
typedef struct workspace {
    float *sums, *bias, *zeros, *scratch;
} workspace;

static workspace workspace_of(const dpt_cpu_call *call)
{
    const winograd *v = call->op->plan.state;
    const unsigned n_threads = call->op->n_threads;
    workspace w = {.sums = call->workspace};
    w.bias = w.sums + n_copies_of(v, n_threads) * sums_size(v);
    w.zeros = w.bias + n_threads * bias_size(v);
    w.scratch = w.zeros + n_threads * KERNEL(winograd_zeros_size)(v);
    return w;
}

/* ---- Sums ------------------------------------------------------------------------------------ */

/* Of each point dy^T (out_channels, tile) * x (tile, in_channels), or +=. */
static void add_block(const winograd *v, const winograd_crew *crew, size_t n_tiles, const float *x,
                      const float *dy, float *sums, bool accumulate)
{
    const size_t n_panels = KERNEL(panel_count)(v->source.c);
    dpt_cpu_pieces units =
        dpt_cpu_pieces_of(crew->team, v->points * n_panels, crew->thread, crew->n_threads);
    for (size_t unit; dpt_cpu_take(&units, &unit);) {
        const size_t point = unit / n_panels;
        const panel p = KERNEL(panel_at)(v->source.c, unit % n_panels);
        const strip rows = {.n_rows = v->results.c,
                            .depth = n_tiles,
                            .a = dy + point * v->products.point,
                            .a_row = 1,
                            .a_step = v->products.row,
                            .b = x + point * v->data.point + p.start * v->block,
                            .c = sums + point * v->filter_point + p.start,
                            .c_row = sums_row(v),
                            .accumulate = accumulate};
        KERNEL(strip_run)(&p, &rows);
    }
}

static void add_tiles(const winograd *v, const winograd_crew *crew, const float *x, const float *dy,
                      float *sums, float *bias)
{
    float *data = crew->scratch, *gradient = data + v->points * v->data.point;
    for (size_t first = crew->tiles.begin; first < crew->tiles.end; first += v->block) {
        const size_t left = crew->tiles.end - first;
        const size_t n = left < v->block ? left : v->block;
        const dpt_cpu_range part = dpt_cpu_split(n, 1, crew->thread, crew->n_threads);
        const dpt_cpu_range tiles = {first + part.begin, first + part.end};
        KERNEL(winograd_data)(v, crew, x, tiles, first, data);
        KERNEL(winograd_gradient)(v, crew, dy, tiles, first, gradient, bias);
        dpt_cpu_barrier(crew->team, crew->thread, crew->n_threads);
        add_block(v, crew, n, data, gradient, sums, first > crew->tiles.begin);
        dpt_cpu_barrier(crew->team, crew->thread, crew->n_threads);
    }
}

/* Of no tiles at all. */
static void clear_sums(const winograd *v, const winograd_crew *crew, float *sums)
{
    const dpt_cpu_range part = dpt_cpu_split(sums_size(v), 16, crew->thread, crew->n_threads);
    memset(sums + part.begin, 0, (part.end - part.begin) * sizeof *sums);
}

/* ---- The end --------------------------------------------------------------------------------- */

/* The sum over the threads' copies, in thread order: the same bits every time. */
DPT_CPU_INLINE vec total(const float *sums, size_t n_copies, size_t distance)
{
    vec sum = vec_load(sums);
    for (size_t i = 1; i < n_copies; i++)
        sum = vec_add(sum, vec_load(sums + i * distance));
    return sum;
}

/* A vector of input channels of a filter. */
DPT_CPU_INLINE void taps_vector(const winograd *v, const float *sums, size_t n_copies,
                                bool accumulate, float *dw, size_t n, const size_t edge,
                                const size_t taps)
{
    const size_t side = edge + taps - 1;
    vec t[WINOGRAD_TAPS_MAX][WINOGRAD_SIDE_MAX];
    DPT_CPU_UNROLL
    for (size_t j = 0; j < side; j++) {
        vec column[WINOGRAD_SIDE_MAX], r[WINOGRAD_TAPS_MAX];
        DPT_CPU_UNROLL
        for (size_t i = 0; i < side; i++)
            column[i] = winograd_weigh(
                total(sums + (i * side + j) * v->filter_point, n_copies, sums_size(v)), i, side);
        winograd_interpolate(column, r, taps, side);
        DPT_CPU_UNROLL
        for (size_t i = 0; i < taps; i++)
            t[i][j] = winograd_weigh(r[i], j, side);
    }
    DPT_CPU_UNROLL
    for (size_t i = 0; i < taps; i++) {
        vec r[WINOGRAD_TAPS_MAX];
        winograd_interpolate(t[i], r, taps, side);
        DPT_CPU_UNROLL
        for (size_t j = 0; j < taps; j++) {
            float *to = dw + (i * taps + j) * v->source.c;
            if (accumulate) r[j] = vec_add(vec_load_n(to, n), r[j]);
            if (n == LANES)
                vec_store(to, r[j]);
            else
                vec_store_n(to, r[j], n);
        }
    }
}

static void write_filters(const winograd *v, const float *sums, size_t n_copies, bool accumulate,
                          dpt_cpu_range filters, float *dw)
{
    const size_t in_channels = v->source.c;
    for (size_t o = filters.begin; o < filters.end; o++) {
        for (size_t c = 0; c < in_channels; c += LANES) {
            const size_t n = in_channels - c < LANES ? in_channels - c : LANES;
            const float *from = sums + o * sums_row(v) + c;
            float *to = dw + o * v->taps * v->taps * in_channels + c;
            WINOGRAD_CALL(v, taps_vector, v, from, n_copies, accumulate, to, n);
        }
    }
}

static void write_bias(const winograd *v, const float *bias, size_t n_threads, bool accumulate,
                       float *dbias)
{
    for (size_t o = 0; o < v->results.c; o++) {
        float sum = bias[o];
        for (size_t i = 1; i < n_threads; i++)
            sum += bias[i * bias_size(v) + o];
        dbias[o] = accumulate ? dbias[o] + sum : sum;
    }
}

/* ---- The operator ---------------------------------------------------------------------------- */

/* dy (n,out_h,out_w,O), x (n,in_h,in_w,C) -> dw (O,taps,taps,C), dbias (O) */
static void backward_weights(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const winograd *v = call->op->plan.state;
    const workspace w = workspace_of(call);
    const winograd_crew crew =
        KERNEL(winograd_crew_of)(v, call, thread, n_threads, w.zeros, w.scratch, scratch_size(v));
    float *sums = v->together ? w.sums : w.sums + thread * sums_size(v);
    float *bias = w.bias + thread * bias_size(v);
    memset(bias, 0, bias_size(v) * sizeof *bias);
    if (crew.tiles.begin == crew.tiles.end) clear_sums(v, &crew, sums);
    add_tiles(v, &crew, call->in[1], call->in[0], sums, v->desc.has_bias ? bias : NULL);
    dpt_cpu_barrier(call->team, thread, n_threads);

    write_filters(v, w.sums, n_copies_of(v, n_threads), call->accumulate,
                  dpt_cpu_split(v->results.c, 1, thread, n_threads), call->out[0]);
    if (thread == 0 && v->desc.has_bias)
        write_bias(v, w.bias, n_threads, call->accumulate, call->out[1]);
}

static dpt_status prepare(dpt_op *op, size_t edge, dpt_error *error)
{
    winograd *v;
    DPT_TRY(KERNEL(winograd_create)(op, edge, &v, error));
    op->plan.state = v;
    v->filter_point = KERNEL(winograd_stride)(dpt_cpu_mul(v->results.c, sums_row(v)));
    KERNEL(winograd_choose_blocks)(op, op->n_threads, v);
    v->data = KERNEL(winograd_panel_layout)(v->source.c, v->block);
    v->products = KERNEL(winograd_row_layout)(v->results.c, v->block);
    KERNEL(winograd_describe)(op, v);
    op->plan.kernel = backward_weights;
    op->plan.exact = edge == 2;
    const size_t n_crews = v->together ? 1 : op->n_threads;
    const size_t own =
        dpt_cpu_mul(op->n_threads, dpt_cpu_add(KERNEL(winograd_zeros_size)(v), bias_size(v)));
    const size_t size =
        dpt_cpu_add(own, dpt_cpu_mul(n_crews, dpt_cpu_add(sums_size(v), scratch_size(v))));
    op->plan.workspace_bytes = dpt_cpu_mul(size, sizeof(float));
    return DPT_OK;
}

dpt_status KERNEL(prepare_winograd4_backward_weights)(dpt_op *op, dpt_error *error)
{
    return prepare(op, 4, error);
}

dpt_status KERNEL(prepare_winograd3_backward_weights)(dpt_op *op, dpt_error *error)
{
    return prepare(op, 3, error);
}

dpt_status KERNEL(prepare_winograd2_backward_weights)(dpt_op *op, dpt_error *error)
{
    return prepare(op, 2, error);
}
