/* Deterministic Winograd convolution, backward-weights.  For each grain the products of all tiles
   are summed up tile by tile, and the sums are transformed to gradients of taps.  These are added
   up along the tree (tree.h).

   There are two ways, which give the same bits.
   - Alone: the sums of all points fit into a second-level cache, and there are enough grains for
   all threads.  Each thread computes whole grains, and stores the gradient of each.
   - Together: all threads transform some tiles, and divide the products of their points.  If the
     tiles are those of whole grains, the sums of one span exist at a time (winograd.h), and
     gradients that wait for other grains lie in the workspace. */
#include "kinds.h"
#include "tree.h"
#include "winograd.h"

#include <stdlib.h>

/* ---- Sizes ----------------------------------------------------------------------------------- */

static size_t gradient_size(const winograd *v)
{
    const size_t taps = v->taps * v->taps;
    return dpt_cpu_round(dpt_cpu_mul(dpt_cpu_mul(v->results.c, v->source.c), taps));
}

static size_t scratch_size(const winograd *v)
{
    return dpt_cpu_add(v->data.size, v->products.size);
}

/* Floats of the gradients that wait, or of those of all grains. */
static size_t waiting_size(const winograd *v, size_t n_grains)
{
    const size_t n = v->together ? TREE_LEVELS : n_grains > TREE_LEVELS ? n_grains : TREE_LEVELS;
    return dpt_cpu_mul(n, gradient_size(v));
}

/* A call, and one thread's crew. */
typedef struct job {
    const dpt_cpu_call *call;
    const winograd *v;
    winograd_crew crew;
    size_t grain, n_grains; /* samples of a grain, and how many of them */
    bool alone;
    float *waiting, *sums;
} job;

/* The tiles of a grain. */
static dpt_cpu_range tiles_of(const job *j, size_t grain)
{
    const size_t of_sample = j->v->tiles_h * j->v->tiles_w, begin = grain * j->grain;
    const size_t left = j->call->n_samples - begin, n = j->grain < left ? j->grain : left;
    return (dpt_cpu_range){begin * of_sample, (begin + n) * of_sample};
}

/* ---- Sums ------------------------------------------------------------------------------------ */

/* Transforms the crew's tiles of x and of dy, and waits for all of them. */
static void transform(const job *j)
{
    const winograd *v = j->v;
    const winograd_crew *crew = &j->crew;
    const size_t first = crew->tiles.begin;
    float *data = crew->scratch, *gradient = data + v->data.size;
    const dpt_cpu_range part =
        dpt_cpu_split(crew->tiles.end - first, 1, crew->thread, crew->n_threads);
    const dpt_cpu_range tiles = {first + part.begin, first + part.end};
    KERNEL(winograd_data)(v, crew, j->call->in[1], tiles, first, data);
    KERNEL(winograd_gradient)(v, crew, j->call->in[0], tiles, first, gradient, NULL);
    dpt_cpu_barrier(crew->team, crew->thread, crew->n_threads);
}

/* The distance between the tiles of a panel. */
static size_t layout_width(const winograd_layout *l, size_t start)
{
    return start == l->last ? l->width - start : PANEL_LANES;
}

/* Adds the products of some of the transformed tiles to the sums of a span.  continues: to sums of
   earlier tiles. */
static void add_tiles(const job *j, const winograd_spans *spans, const winograd_span *span,
                      dpt_cpu_range tiles, bool continues)
{
    const winograd *v = j->v;
    const winograd_crew *crew = &j->crew;
    const float *data = crew->scratch, *gradient = data + v->data.size;
    const size_t n_panels = span->panels.end - span->panels.begin;
    const size_t skipped = tiles.begin - crew->tiles.begin;
    const size_t first = KERNEL(panel_at)(v->source.c, span->panels.begin).start;
    const float *rows_at = gradient + skipped * v->products.row + span->rows.begin;
    dpt_cpu_pieces units =
        dpt_cpu_pieces_of(crew->team, v->points * n_panels, crew->thread, crew->n_threads);
    for (size_t unit; dpt_cpu_take(&units, &unit);) {
        const size_t point = unit / n_panels;
        const panel p = KERNEL(panel_at)(v->source.c, span->panels.begin + unit % n_panels);
        const winograd_origin b = winograd_panel_origin(&v->data, p.start);
        const strip rows = {.n_rows = span->rows.end - span->rows.begin,
                            .depth = tiles.end - tiles.begin,
                            .a = rows_at + point * v->products.point,
                            .a_row = 1,
                            .a_step = v->products.row,
                            .b = data + b.at + point * b.point +
                                 skipped * layout_width(&v->data, p.start),
                            .c = j->sums + point * spans->point + p.start - first,
                            .c_row = spans->row,
                            .accumulate = continues,
                            .unbroken = true};
        KERNEL(strip_run)(&p, &rows);
    }
    dpt_cpu_barrier(crew->team, crew->thread, crew->n_threads);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* Where the gradients of a grain go: to a place of their own, or along the tree. */
typedef struct target {
    float *to;
    float *waiting; /* of the tree; NULL: the gradients are only stored */
    size_t distance;
    size_t grain;
    bool last, accumulate;
} target;

static target target_of(const job *j, size_t grain, bool in_tree)
{
    const size_t distance = gradient_size(j->v);
    if (!in_tree) return (target){.to = j->waiting + grain * distance};
    return (target){.to = j->call->out[0],
                    .waiting = j->waiting,
                    .distance = distance,
                    .grain = grain,
                    .last = grain + 1 == j->n_grains,
                    .accumulate = j->call->accumulate};
}

/* Puts n gradients at a distance of `at` from the beginning of the filters. */
DPT_CPU_INLINE void put(const target *t, size_t at, vec x, size_t n)
{
    float *to = t->to + at;
    x = vec_add(x, vec_set(0.0f));
    if (t->waiting) {
        float *waiting = t->waiting + at;
        size_t level = 0;
        for (; level < TREE_LEVELS && (t->last || (t->grain >> level & 1)); level++)
            if (t->grain >> level & 1) x = vec_add(vec_load_n(waiting + level * t->distance, n), x);
        if (!t->last) to = waiting + level * t->distance;
        if (t->last && t->accumulate) x = vec_add(vec_load_n(to, n), x);
    }
    if (n == LANES)
        vec_store(to, x);
    else
        vec_store_n(to, x, n);
}

/* Transforms the sums of a vector of input channels to the taps of a filter. */
DPT_CPU_INLINE void taps_vector(const winograd *v, const float *from, size_t point, const target *t,
                                size_t at, size_t n, const size_t edge, const size_t taps)
{
    const size_t side = edge + taps - 1;
    vec rows[WINOGRAD_TAPS_MAX][WINOGRAD_SIDE_MAX];
    DPT_CPU_UNROLL
    for (size_t j = 0; j < side; j++) {
        vec column[WINOGRAD_SIDE_MAX], r[WINOGRAD_TAPS_MAX];
        DPT_CPU_UNROLL
        for (size_t i = 0; i < side; i++)
            column[i] = winograd_weigh(vec_load(from + (i * side + j) * point), i, side);
        winograd_interpolate(column, r, taps, side);
        DPT_CPU_UNROLL
        for (size_t i = 0; i < taps; i++)
            rows[i][j] = winograd_weigh(r[i], j, side);
    }
    DPT_CPU_UNROLL
    for (size_t i = 0; i < taps; i++) {
        vec r[WINOGRAD_TAPS_MAX];
        winograd_interpolate(rows[i], r, taps, side);
        DPT_CPU_UNROLL
        for (size_t j = 0; j < taps; j++)
            put(t, at + (i * taps + j) * v->source.c, r[j], n);
    }
}

/* Transforms the sums of a span, which are those of a whole grain, and waits. */
static void end_grain(const job *j, const winograd_spans *spans, const winograd_span *span,
                      const target *t)
{
    const winograd *v = j->v;
    const size_t in_channels = v->source.c, size = v->taps * v->taps * in_channels;
    const size_t first = KERNEL(panel_at)(in_channels, span->panels.begin).start;
    const panel last = KERNEL(panel_at)(in_channels, span->panels.end - 1);
    const dpt_cpu_range mine =
        dpt_cpu_split(span->rows.end - span->rows.begin, 1, j->crew.thread, j->crew.n_threads);
    for (size_t i = mine.begin; i < mine.end; i++) {
        for (size_t c = first; c < last.start + last.lanes; c += LANES) {
            const size_t left = last.start + last.lanes - c, n = left < LANES ? left : LANES;
            const float *from = j->sums + i * spans->row + c - first;
            WINOGRAD_CALL(v, taps_vector, v, from, spans->point, t,
                          (span->rows.begin + i) * size + c, n);
        }
    }
    dpt_cpu_barrier(j->crew.team, j->crew.thread, j->crew.n_threads);
}

/* ---- The ways -------------------------------------------------------------------------------- */

/* Computes a grain, block of tiles by block of tiles. */
static void do_grain(job *j, size_t grain, bool in_tree)
{
    const winograd *v = j->v;
    const dpt_cpu_range tiles = tiles_of(j, grain);
    const winograd_span all = KERNEL(winograd_span_at)(&v->whole, 0);
    const target t = target_of(j, grain, in_tree);
    for (size_t first = tiles.begin; first < tiles.end; first += v->block) {
        const size_t end = tiles.end - first < v->block ? tiles.end : first + v->block;
        j->crew.tiles = (dpt_cpu_range){first, end};
        transform(j);
        add_tiles(j, &v->whole, &all, j->crew.tiles, first > tiles.begin);
    }
    end_grain(j, &v->whole, &all, &t);
}

/* Computes grains whose tiles fit into a block, span by span. */
static void do_grains(job *j, dpt_cpu_range grains)
{
    const winograd_spans *spans = &j->v->small;
    j->crew.tiles =
        (dpt_cpu_range){tiles_of(j, grains.begin).begin, tiles_of(j, grains.end - 1).end};
    transform(j);
    for (size_t i = 0; i < KERNEL(winograd_span_count)(spans); i++) {
        const winograd_span span = KERNEL(winograd_span_at)(spans, i);
        for (size_t grain = grains.begin; grain < grains.end; grain++) {
            const target t = target_of(j, grain, true);
            add_tiles(j, spans, &span, tiles_of(j, grain), false);
            end_grain(j, spans, &span, &t);
        }
    }
}

static void do_together(job *j)
{
    const size_t tiles = tiles_of(j, 0).end, n = j->v->block / tiles;
    for (size_t grain = 0; grain<j->n_grains; grain += n> 0 ? n : 1) {
        const size_t left = j->n_grains - grain;
        if (n > 0)
            do_grains(j, (dpt_cpu_range){grain, grain + (n < left ? n : left)});
        else
            do_grain(j, grain, true);
    }
}

static void do_alone(job *j, unsigned thread, unsigned n_threads)
{
    const winograd *v = j->v;
    const size_t size = gradient_size(v);
    dpt_cpu_pieces pieces = dpt_cpu_pieces_of(j->call->team, j->n_grains, thread, n_threads);
    for (size_t grain; dpt_cpu_take(&pieces, &grain);)
        do_grain(j, grain, false);
    dpt_cpu_barrier(j->call->team, thread, n_threads);
    const size_t n = v->results.c * v->taps * v->taps * v->source.c;
    const tree_columns sums = {.x = j->waiting,
                               .ld = size,
                               .n_rows = j->n_grains,
                               .grain = 1,
                               .to = j->call->out[0],
                               .accumulate = j->call->accumulate};
    KERNEL(tree_sum_columns)(&sums, dpt_cpu_split(n, 64, thread, n_threads));
}

/* ---- The operator ---------------------------------------------------------------------------- */

static size_t most_grains(const dpt_op *op)
{
    return op->max_samples < DPT_MOST_GRAINS ? op->max_samples : (size_t)DPT_MOST_GRAINS;
}

/* Workspace: gradients that wait, zeros of each thread, then the sums and the tiles of each crew.
 */
static job job_of(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const winograd *v = call->op->plan.state;
    const size_t n_zeros = KERNEL(winograd_zeros_size)(v), n = call->n_samples;
    job j = {.call = call, .v = v, .waiting = call->workspace};
    j.grain = call->grain > 0 ? call->grain : n;
    j.n_grains = n > 0 ? dpt_cpu_ceil_div(n, j.grain) : 0;
    j.alone =
        n == 0 || (!v->together && (j.n_grains % n_threads == 0 || j.n_grains > 2 * n_threads));
    float *zeros = j.waiting + waiting_size(v, most_grains(call->op));
    j.sums = zeros + call->op->n_threads * n_zeros;
    if (j.alone) j.sums += thread * (v->filters_size + scratch_size(v));
    zeros += thread * n_zeros;
    memset(zeros, 0, n_zeros * sizeof *zeros);
    j.crew = (winograd_crew){.team = call->team,
                             .thread = j.alone ? 0 : thread,
                             .n_threads = j.alone ? 1 : n_threads,
                             .scratch = j.sums + v->filters_size,
                             .zeros = zeros};
    return j;
}

/* dy (n,out_h,out_w,O), x (n,in_h,in_w,C) -> dw (O,taps,taps,C), dbias (O) */
static void backward_weights(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    job j = job_of(call, thread, n_threads);
    const size_t pixels = j.v->results.h * j.v->results.w, n_channels = j.v->results.c;
    if (j.alone)
        do_alone(&j, thread, n_threads);
    else
        do_together(&j);
    const tree_columns bias = {.x = call->in[0],
                               .ld = n_channels,
                               .n_rows = call->n_samples * pixels,
                               .grain = j.grain * pixels,
                               .to = call->out[1],
                               .accumulate = call->accumulate};
    if (j.v->desc.has_bias)
        KERNEL(tree_sum_columns)(&bias, dpt_cpu_split(n_channels, 32, thread, n_threads));
}

/* The largest sums of all points with which every thread computes grains of its own. */
static const size_t alone_bytes = (size_t)1 << 20;
/* The sums of a span, for each thread: half of a second-level cache. */
static const size_t span_bytes = (size_t)512 << 10;
enum { SPAN_LANES = 64 };

static size_t sums_bytes(const winograd *v)
{
    return dpt_cpu_mul(dpt_cpu_mul(v->points, v->whole.point), sizeof(float));
}

dpt_status KERNEL(winograd_prepare_fixed_weights)(dpt_op *op, size_t edge, dpt_error *error)
{
    winograd *v;
    DPT_TRY(KERNEL(winograd_create)(op, edge, &v, error));
    op->plan.state = v;
    KERNEL(winograd_set_filters)(v, v->results.c, v->source.c, false);
    const size_t copies = sums_bytes(v) > alone_bytes ? SIZE_MAX : 1;
    KERNEL(winograd_choose_blocks)(op, copies, v);
    const winograd_cuts cuts = {.large_panels = v->whole.panels,
                                .small_rows = op->n_threads * span_bytes / sizeof(float) /
                                              (SPAN_LANES * v->points),
                                .few_tiles = SIZE_MAX};
    KERNEL(winograd_choose_spans)(op, &cuts, v);
    /* Calls of a few grains take spans, too. */
    const size_t of_span = dpt_cpu_mul(v->points, v->small.point);
    if (of_span > v->filters_size) v->filters_size = of_span;
    v->data = KERNEL(winograd_panel_layout)(v, v->source.c);
    v->products = KERNEL(winograd_row_layout)(v, v->results.c);
    KERNEL(winograd_describe)(op, v);
    op->plan.kernel = backward_weights;
    op->plan.exact = edge == 2;
    op->plan.has_grains = true;
    const size_t n_crews = v->together ? 1 : op->n_threads;
    const size_t zeros = dpt_cpu_mul(op->n_threads, KERNEL(winograd_zeros_size)(v));
    const size_t crews = dpt_cpu_mul(n_crews, dpt_cpu_add(v->filters_size, scratch_size(v)));
    const size_t size = dpt_cpu_add(waiting_size(v, most_grains(op)), dpt_cpu_add(zeros, crews));
    op->plan.workspace_bytes = dpt_cpu_mul(size, sizeof(float));
    return DPT_OK;
}
