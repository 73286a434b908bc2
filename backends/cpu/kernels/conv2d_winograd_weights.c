/* Winograd convolutions: backward-weights, as F(taps x taps, edge x edge).  A tile of dy is the
   filter, and the results are summed over all tiles.

   Each thread sums its own tiles, and the sums of the threads are added in thread order.  If a copy
   of the sums for each thread would take too much memory, all threads transform a block of tiles
   together and divide its points.  With few tiles they do so for one span of the sums at a time. */
#include "kinds.h"
#include "winograd.h"

#include <stdlib.h>

/* ---- Sizes ----------------------------------------------------------------------------------- */

static size_t bias_size(const winograd *v)
{
    return dpt_cpu_round(v->results.c);
}

static size_t scratch_size(const winograd *v)
{
    return dpt_cpu_add(v->data.size, v->products.size);
}

static size_t n_copies_of(const winograd *v, unsigned n_threads)
{
    return v->together ? 1 : n_threads;
}

/* The workspace: the sums, the sums of the bias of each thread, zeros, the scratch of each crew. */
typedef struct workspace {
    float *sums, *bias, *zeros, *scratch;
} workspace;

static workspace workspace_of(const dpt_cpu_call *call)
{
    const winograd *v = call->op->plan.state;
    const unsigned n_threads = call->op->n_threads;
    workspace w = {.sums = call->workspace};
    w.bias = w.sums + n_copies_of(v, n_threads) * v->filters_size;
    w.zeros = w.bias + n_threads * bias_size(v);
    w.scratch = w.zeros + n_threads * KERNEL(winograd_zeros_size)(v);
    return w;
}

/* ---- Sums ------------------------------------------------------------------------------------ */

/* The sums of each point, which are a matrix (out_channels, in_channels) or a span of it. */
typedef struct matrices {
    const winograd_spans *spans;
    float *at;
    size_t n_copies, copy; /* copies, and floats from one copy to the next */
} matrices;

/* For each point, sums = dy^T (out_channels, tile) * x (tile, in_channels), or +=. */
static void add_block(const winograd *v, const winograd_crew *crew, size_t n_tiles,
                      const winograd_span *span, const matrices *sums, bool accumulate)
{
    const float *data = crew->scratch, *gradient = data + v->data.size;
    const size_t n_panels = span->panels.end - span->panels.begin;
    const size_t first = KERNEL(panel_at)(v->source.c, span->panels.begin).start;
    dpt_cpu_pieces units =
        dpt_cpu_pieces_of(crew->team, v->points * n_panels, crew->thread, crew->n_threads);
    for (size_t unit; dpt_cpu_take(&units, &unit);) {
        const size_t point = unit / n_panels;
        const panel p = KERNEL(panel_at)(v->source.c, span->panels.begin + unit % n_panels);
        const winograd_origin b = winograd_panel_origin(&v->data, p.start);
        const strip rows = {.n_rows = span->rows.end - span->rows.begin,
                            .depth = n_tiles,
                            .a = gradient + point * v->products.point + span->rows.begin,
                            .a_row = 1,
                            .a_step = v->products.row,
                            .b = data + b.at + point * b.point,
                            .c = sums->at + point * sums->spans->point + p.start - first,
                            .c_row = sums->spans->row,
                            .accumulate = accumulate};
        KERNEL(strip_run)(&p, &rows);
    }
}

/* Transforms this thread's part of the tiles first .. first + n - 1 of x and of dy.  Ends with a
   barrier of the crew. */
static void transform_block(const winograd *v, const winograd_crew *crew, const dpt_cpu_call *call,
                            size_t first, size_t n, float *bias)
{
    float *data = crew->scratch, *gradient = data + v->data.size;
    const dpt_cpu_range part = dpt_cpu_split(n, 1, crew->thread, crew->n_threads);
    const dpt_cpu_range tiles = {first + part.begin, first + part.end};
    KERNEL(winograd_data)(v, crew, call->in[1], tiles, first, data);
    KERNEL(winograd_gradient)(v, crew, call->in[0], tiles, first, gradient, bias);
    dpt_cpu_barrier(crew->team, crew->thread, crew->n_threads);
}

static void add_tiles(const winograd *v, const winograd_crew *crew, const dpt_cpu_call *call,
                      const matrices *sums, float *bias)
{
    const winograd_span all = KERNEL(winograd_span_at)(sums->spans, 0);
    for (size_t first = crew->tiles.begin; first < crew->tiles.end; first += v->block) {
        const size_t left = crew->tiles.end - first;
        const size_t n = left < v->block ? left : v->block;
        transform_block(v, crew, call, first, n, bias);
        add_block(v, crew, n, &all, sums, first > crew->tiles.begin);
        dpt_cpu_barrier(crew->team, crew->thread, crew->n_threads);
    }
}

/* Clears the sums, for a call without tiles. */
static void clear_sums(const winograd *v, const winograd_crew *crew, float *sums)
{
    const dpt_cpu_range part = dpt_cpu_split(v->filters_size, 16, crew->thread, crew->n_threads);
    memset(sums + part.begin, 0, (part.end - part.begin) * sizeof *sums);
}

/* ---- The end --------------------------------------------------------------------------------- */

/* The sum over the threads' copies, in thread order, so that its bits are the same every time. */
DPT_CPU_INLINE vec total(const matrices *sums, const float *at)
{
    vec sum = vec_load(at);
    for (size_t i = 1; i < sums->n_copies; i++)
        sum = vec_add(sum, vec_load(at + i * sums->copy));
    return sum;
}

/* Transforms the sums of a vector of input channels to the taps of a filter. */
DPT_CPU_INLINE void taps_vector(const winograd *v, const matrices *sums, const float *from,
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
            column[i] =
                winograd_weigh(total(sums, from + (i * side + j) * sums->spans->point), i, side);
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

/* Writes this thread's rows of dw, from the sums of a span. */
static void write_span(const winograd *v, const dpt_cpu_call *call, const winograd_span *span,
                       const matrices *sums, unsigned thread, unsigned n_threads)
{
    const size_t in_channels = v->source.c;
    const size_t first = KERNEL(panel_at)(in_channels, span->panels.begin).start;
    const panel last = KERNEL(panel_at)(in_channels, span->panels.end - 1);
    const size_t end = last.start + last.lanes;
    const dpt_cpu_range mine =
        dpt_cpu_split(span->rows.end - span->rows.begin, 1, thread, n_threads);
    for (size_t i = mine.begin; i < mine.end; i++) {
        float *filter =
            (float *)call->out[0] + (span->rows.begin + i) * v->taps * v->taps * in_channels;
        for (size_t c = first; c < end; c += LANES) {
            const size_t n = end - c < LANES ? end - c : LANES;
            const float *from = sums->at + i * sums->spans->row + c - first;
            WINOGRAD_CALL(v, taps_vector, v, sums, from, call->accumulate, filter + c, n);
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

/* A call of one block, span by span. */
static void do_spans(const winograd *v, const winograd_crew *crew, const dpt_cpu_call *call,
                     const matrices *sums, float *bias)
{
    const size_t n_tiles = crew->tiles.end, n_spans = KERNEL(winograd_span_count)(sums->spans);
    transform_block(v, crew, call, 0, n_tiles, bias);
    for (size_t i = 0; i < n_spans; i++) {
        const winograd_span span = KERNEL(winograd_span_at)(sums->spans, i);
        add_block(v, crew, n_tiles, &span, sums, false);
        dpt_cpu_barrier(crew->team, crew->thread, crew->n_threads);
        write_span(v, call, &span, sums, crew->thread, crew->n_threads);
        dpt_cpu_barrier(crew->team, crew->thread, crew->n_threads);
    }
}

static void do_whole(const winograd *v, const winograd_crew *crew, const dpt_cpu_call *call,
                     const matrices *sums, float *bias, unsigned thread, unsigned n_threads)
{
    const winograd_span all = KERNEL(winograd_span_at)(sums->spans, 0);
    matrices own = *sums;
    if (!v->together) own.at += thread * sums->copy;
    if (crew->tiles.begin == crew->tiles.end) clear_sums(v, crew, own.at);
    add_tiles(v, crew, call, &own, bias);
    dpt_cpu_barrier(call->team, thread, n_threads);
    write_span(v, call, &all, sums, thread, n_threads);
}

/* dy (n,out_h,out_w,O), x (n,in_h,in_w,C) -> dw (O,taps,taps,C), dbias (O) */
static void backward_weights(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const winograd *v = call->op->plan.state;
    const workspace w = workspace_of(call);
    const winograd_crew crew =
        KERNEL(winograd_crew_of)(v, call, thread, n_threads, w.zeros, w.scratch, scratch_size(v));
    const size_t n_tiles = call->n_samples * v->tiles_h * v->tiles_w;
    const matrices sums = {.spans = KERNEL(winograd_spans_of)(v, n_tiles),
                           .at = w.sums,
                           .n_copies = n_copies_of(v, n_threads),
                           .copy = v->filters_size};
    float *own = w.bias + thread * bias_size(v), *bias = v->desc.has_bias ? own : NULL;
    memset(own, 0, bias_size(v) * sizeof *own);
    if (KERNEL(winograd_span_count)(sums.spans) > 1)
        do_spans(v, &crew, call, &sums, bias);
    else
        do_whole(v, &crew, call, &sums, bias, thread, n_threads);
    if (thread == 0 && bias) write_bias(v, w.bias, n_threads, call->accumulate, call->out[1]);
}

/* The most tiles of a call with small spans.  Each span reads the tiles again; with more tiles that
   costs more than sums outside the second-level cache. */
static const size_t few_tiles = 112;

static dpt_status prepare(dpt_op *op, size_t edge, dpt_error *error)
{
    winograd *v;
    DPT_TRY(KERNEL(winograd_create)(op, edge, &v, error));
    op->plan.state = v;
    KERNEL(winograd_set_filters)(v, v->results.c, v->source.c, false);
    KERNEL(winograd_choose_blocks)(op, op->n_threads, v);
    /* A large span is all sums, and a small one all rows of a few lanes.  With fewer rows, x would
       be read again for each part. */
    const winograd_cuts cuts = {
        .large_panels = v->whole.panels, .small_rows = v->whole.n_rows, .few_tiles = few_tiles};
    KERNEL(winograd_choose_spans)(op, &cuts, v);
    v->data = KERNEL(winograd_panel_layout)(v, v->source.c);
    v->products = KERNEL(winograd_row_layout)(v, v->results.c);
    KERNEL(winograd_describe)(op, v);
    op->plan.kernel = backward_weights;
    op->plan.exact = edge == 2;
    const size_t n_crews = v->together ? 1 : op->n_threads;
    const size_t own =
        dpt_cpu_mul(op->n_threads, dpt_cpu_add(KERNEL(winograd_zeros_size)(v), bias_size(v)));
    const size_t size =
        dpt_cpu_add(own, dpt_cpu_mul(n_crews, dpt_cpu_add(v->filters_size, scratch_size(v))));
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
