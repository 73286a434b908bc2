/* Depthwise convolutions (depthwise.h).  Forward and backward-data are one loop over pixels: each
   pixel of the result adds the products of its taps.  Which taps a pixel has depends on its row and
   on its column, and is found once, when the operator is prepared. */
#include "depthwise.h"
#include "activation.h"
#include "tree.h"

#include <stdlib.h>
#include <string.h>

/* A tap of an axis of the filter, and the pixel of the source on this axis that it multiplies. */
typedef struct tap {
    uint32_t of_filter, of_source;
} tap;

/* The taps of every pixel of the result along an axis: those of pixel i are taps[i * most] and the
   count[i] - 1 behind it.  They are in the order of the filter, or in the opposite one. */
typedef struct axis {
    size_t n, most; /* pixels; taps of the filter */
    tap *taps;      /* (n,most) */
    uint32_t *count;
} axis;

/* op->plan.state; the tables stand behind it. */
typedef struct depthwise {
    dpt_conv2d_desc desc;
    /* Deterministic: a sum begins with 0, and its terms have the order of conv2d_fixed.c and
       conv2d_fixed_weights.c.  The bias is added to the sum. */
    bool unbroken;
    size_t channels, n_taps;
    axis rows, columns;              /* of the result: y forward, dx backward-data */
    size_t source_columns;           /* of an image of the source */
    size_t source_size, result_size; /* floats of a sample */
    struct overlap *overlaps;        /* (n_taps) */
    size_t span;                     /* channels */
    size_t piece_rows;               /* rows of the result in a piece of work */
} depthwise;

enum { UNITS = 4, BLOCK = UNITS * LANES, SPAN_FLOATS = 4096, PIECE_FLOATS = 8192 };

bool KERNEL(is_depthwise)(const dpt_conv2d_desc *desc)
{
    return desc->groups == desc->in_channels && desc->groups == desc->out_channels &&
           desc->groups >= 8;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- Filters --------------------------------------------------------------------------------- */

/* The filters (channels,n_taps) as (n_taps,channels), which is the order of the loops. */
static void turn_filters(const depthwise *v, const float *w, dpt_cpu_range channels, float *to)
{
    for (size_t c = channels.begin; c < channels.end; c++)
        for (size_t i = 0; i < v->n_taps; i++)
            to[i * v->channels + c] = w[c * v->n_taps + i];
}

/* ---- Pixels ---------------------------------------------------------------------------------- */

/* One sample: the source, the turned filters, the bias or NULL, and the result. */
typedef struct job {
    const depthwise *v;
    const float *source, *filters, *bias;
    float *result;
    bool accumulate;
} job;

/* A pixel of the result, and the channels of it that are computed: n from `first` on. */
typedef struct place {
    size_t row, column, first, n;
} place;

static float *result_at(const job *j, const place *p)
{
    const depthwise *v = j->v;
    return j->result + (p->row * v->columns.n + p->column) * v->channels + p->first;
}

/* Computes BLOCK channels of a pixel. */
static inline void do_block(const job *j, const place *p)
{
    const depthwise *v = j->v;
    const tap *rows = v->rows.taps + p->row * v->rows.most;
    const tap *columns = v->columns.taps + p->column * v->columns.most;
    vec sum[UNITS];
    DPT_CPU_UNROLL
    for (size_t u = 0; u < UNITS; u++)
        sum[u] = j->bias && !v->unbroken ? vec_load(j->bias + p->first + u * LANES) : vec_set(0.0f);
    for (size_t i = 0; i < v->rows.count[p->row]; i++) {
        const float *line =
            j->source + rows[i].of_source * v->source_columns * v->channels + p->first;
        const float *filters =
            j->filters + rows[i].of_filter * v->desc.kernel_w * v->channels + p->first;
        for (size_t k = 0; k < v->columns.count[p->column]; k++) {
            const float *x = line + columns[k].of_source * v->channels;
            const float *w = filters + columns[k].of_filter * v->channels;
            DPT_CPU_UNROLL
            for (size_t u = 0; u < UNITS; u++)
                sum[u] = vec_fma(vec_load(x + u * LANES), vec_load(w + u * LANES), sum[u]);
        }
    }
    float *const to = result_at(j, p);
    DPT_CPU_UNROLL
    for (size_t u = 0; u < UNITS; u++) {
        if (!v->unbroken) continue;
        sum[u] = vec_add(sum[u], vec_set(0.0f)); /* as in tile.c: no sum is -0 */
        if (j->bias) sum[u] = vec_add(sum[u], vec_load(j->bias + p->first + u * LANES));
    }
    DPT_CPU_UNROLL
    for (size_t u = 0; u < UNITS; u++) {
        float *const at = to + u * LANES;
        vec_store(at, j->accumulate ? vec_add(vec_load(at), sum[u]) : sum[u]);
    }
}

/* Computes at most LANES channels of a pixel. */
static inline void do_lanes(const job *j, const place *p)
{
    const depthwise *v = j->v;
    const tap *rows = v->rows.taps + p->row * v->rows.most;
    const tap *columns = v->columns.taps + p->column * v->columns.most;
    vec sum = j->bias && !v->unbroken ? vec_load_n(j->bias + p->first, p->n) : vec_set(0.0f);
    for (size_t i = 0; i < v->rows.count[p->row]; i++) {
        const size_t line = rows[i].of_source * v->source_columns;
        const size_t of_filter = rows[i].of_filter * v->desc.kernel_w;
        for (size_t k = 0; k < v->columns.count[p->column]; k++) {
            const size_t pixel = (line + columns[k].of_source) * v->channels + p->first;
            const size_t weight = (of_filter + columns[k].of_filter) * v->channels + p->first;
            sum = vec_fma(vec_load_n(j->source + pixel, p->n),
                          vec_load_n(j->filters + weight, p->n), sum);
        }
    }
    float *const at = result_at(j, p);
    if (v->unbroken) sum = vec_add(sum, vec_set(0.0f));
    if (v->unbroken && j->bias) sum = vec_add(sum, vec_load_n(j->bias + p->first, p->n));
    vec_store_n(at, j->accumulate ? vec_add(vec_load_n(at, p->n), sum) : sum, p->n);
}

/* Computes the channels of a pixel from the first of a span on. */
static void do_span(const job *j, place p)
{
    const size_t end = p.first + least(j->v->span, j->v->channels - p.first);
    for (p.n = BLOCK; p.first + BLOCK <= end; p.first += BLOCK)
        do_block(j, &p);
    for (; p.first < end; p.first += LANES) {
        p.n = end - p.first < LANES ? end - p.first : LANES;
        do_lanes(j, &p);
    }
}

/* Computes rows of the result.  A span of channels is so long that the processor fetches what comes
   next, and so short that the taps of the span stay in the cache while they are used for all
   pixels. */
static void do_rows(const job *j, dpt_cpu_range rows)
{
    const depthwise *v = j->v;
    place p = {.n = 0};
    for (p.first = 0; p.first < v->channels; p.first += v->span)
        for (p.row = rows.begin; p.row < rows.end; p.row++)
            for (p.column = 0; p.column < v->columns.n; p.column++)
                do_span(j, p);
}

/* ---- Forward and backward-data --------------------------------------------------------------- */

/* Forward: the activation.  Backward-data: the mask.  `at`: the first element of the rows. */
static void finish_rows(const dpt_cpu_call *call, size_t at, size_t n)
{
    const dpt_op_desc *desc = &call->op->desc;
    float *to = (float *)call->out[0] + at;
    if (desc->kind == DPT_OP_CONV2D_FORWARD)
        KERNEL(activate)(call->op, desc->u.conv2d.activation, to, to, n);
    else if (desc->u.conv2d.input_activation != DPT_ACT_NONE)
        KERNEL(differentiate)
    (call->op, desc->u.conv2d.input_activation, to, (const float *)call->in[2] + at, to, n);
}

/* Forward:       x (n,in_h,in_w,C), w (C,kernel_h,kernel_w), bias (C) -> y (n,out_h,out_w,C)
   Backward-data: dy (n,out_h,out_w,C), w -> dx (n,in_h,in_w,C)
   Workspace: the turned filters. */
static void filter(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const depthwise *v = call->op->plan.state;
    const bool is_forward = call->op->desc.kind == DPT_OP_CONV2D_FORWARD;
    float *filters = call->workspace;
    turn_filters(v, call->in[1], dpt_cpu_split(v->channels, 16, thread, n_threads), filters);
    dpt_cpu_barrier(call->team, thread, n_threads);

    const size_t each = dpt_cpu_ceil_div(v->rows.n, v->piece_rows);
    dpt_cpu_pieces pieces =
        dpt_cpu_pieces_of(call->team, call->n_samples * each, thread, n_threads);
    for (size_t piece; dpt_cpu_take(&pieces, &piece);) {
        const size_t sample = piece / each, first = piece % each * v->piece_rows;
        const size_t left = v->rows.n - first;
        const size_t n_rows = left < v->piece_rows ? left : v->piece_rows;
        const job j = {.v = v,
                       .source = (const float *)call->in[0] + sample * v->source_size,
                       .filters = filters,
                       .bias = is_forward && v->desc.has_bias ? call->in[2] : NULL,
                       .result = (float *)call->out[0] + sample * v->result_size,
                       .accumulate = call->accumulate};
        do_rows(&j, (dpt_cpu_range){first, first + n_rows});
        const size_t length = v->columns.n * v->channels;
        finish_rows(call, sample * v->result_size + first * length, n_rows * length);
    }
}

/* ---- Backward-weights ------------------------------------------------------------------------ */

/* The geometry of one axis. */
typedef struct line {
    size_t n_in, n_out, kernel, stride, pad, dilation;
} line;

static line line_down(const dpt_conv2d_desc *d)
{
    return (line){d->in_h, d->out_h, d->kernel_h, d->stride_h, d->pad_h, d->dilation_h};
}

static line line_right(const dpt_conv2d_desc *d)
{
    return (line){d->in_w, d->out_w, d->kernel_w, d->stride_w, d->pad_w, d->dilation_w};
}

/* The first pixel of the output for which a tap lies within the input, and the one behind the last.
   shift: from the window's first input to that of the tap. */
static dpt_cpu_range inside(const line *l, size_t shift)
{
    const size_t begin = shift < l->pad ? dpt_cpu_ceil_div(l->pad - shift, l->stride) : 0;
    const size_t last = l->n_in - 1 + l->pad; /* the last input, with padding */
    const size_t end = last < shift ? 0 : (last - shift) / l->stride + 1;
    return (dpt_cpu_range){begin, end < l->n_out ? end : l->n_out};
}

/* The pixels of the output whose input of a tap lies within the image, and that input for the first
   of them. */
typedef struct overlap {
    dpt_cpu_range rows, columns; /* of dy */
    size_t x_row, x_column;
} overlap;

static overlap overlap_of(const depthwise *v, size_t of_filter)
{
    const dpt_conv2d_desc *d = &v->desc;
    const line down = line_down(d), right = line_right(d);
    const size_t shift_down = of_filter / d->kernel_w * d->dilation_h;
    const size_t shift_right = of_filter % d->kernel_w * d->dilation_w;
    const dpt_cpu_range rows = inside(&down, shift_down), columns = inside(&right, shift_right);
    if (rows.begin >= rows.end || columns.begin >= columns.end) return (overlap){.x_row = 0};
    return (overlap){.rows = rows,
                     .columns = columns,
                     .x_row = rows.begin * d->stride_h + shift_down - d->pad_h,
                     .x_column = columns.begin * d->stride_w + shift_right - d->pad_w};
}

/* Some channels of a row of pixels of dy, of the inputs that a tap multiplies them by, and of the
   sums of the tap. */
typedef struct products {
    const float *dy, *x;
    float *sums;
    size_t n; /* pixels */
} products;

/* Adds the products of BLOCK channels. */
static inline void add_block(const depthwise *v, const products *p)
{
    const size_t step = v->desc.stride_w * v->channels;
    const float *a = p->dy, *b = p->x;
    vec sum[UNITS];
    DPT_CPU_UNROLL
    for (size_t u = 0; u < UNITS; u++)
        sum[u] = v->unbroken ? vec_load(p->sums + u * LANES) : vec_set(0.0f);
    for (size_t i = 0; i < p->n; i++, a += v->channels, b += step) {
        DPT_CPU_UNROLL
        for (size_t u = 0; u < UNITS; u++)
            sum[u] = vec_fma(vec_load(a + u * LANES), vec_load(b + u * LANES), sum[u]);
    }
    DPT_CPU_UNROLL
    for (size_t u = 0; u < UNITS; u++) {
        float *const at = p->sums + u * LANES;
        vec_store(at, v->unbroken ? sum[u] : vec_add(vec_load(at), sum[u]));
    }
}

/* Adds the products of `n` channels, at most LANES. */
static inline void add_lanes(const depthwise *v, const products *p, size_t n)
{
    const size_t step = v->desc.stride_w * v->channels;
    const float *a = p->dy, *b = p->x;
    vec sum = v->unbroken ? vec_load_n(p->sums, n) : vec_set(0.0f);
    for (size_t i = 0; i < p->n; i++, a += v->channels, b += step)
        sum = vec_fma(vec_load_n(a, n), vec_load_n(b, n), sum);
    vec_store_n(p->sums, v->unbroken ? sum : vec_add(vec_load_n(p->sums, n), sum), n);
}

static void add_channels(const depthwise *v, products p, size_t n_channels)
{
    size_t left = n_channels;
    for (; left >= BLOCK; left -= BLOCK) {
        add_block(v, &p);
        p.dy += BLOCK;
        p.x += BLOCK;
        p.sums += BLOCK;
    }
    while (left > 0) {
        const size_t n = left < LANES ? left : LANES;
        add_lanes(v, &p, n);
        p.dy += n;
        p.x += n;
        p.sums += n;
        left -= n;
    }
}

/* Asks for n floats that are read next.  Products read the pixels of a row many times, but a few
   channels of each at a time, which no processor foresees. */
static void fetch(const float *from, size_t n)
{
    enum { LINE = 16 };
    for (size_t i = 0; i < n; i += LINE)
        __builtin_prefetch(from + i);
}

/* The sums of a thread: (n_taps,channels), then those of the bias (channels). */
static size_t sums_size(const depthwise *v)
{
    return dpt_cpu_round(dpt_cpu_mul(v->n_taps + 1, v->channels));
}

/* One thread's part of the sums. */
typedef struct part {
    float *sums;
    dpt_cpu_range channels;
} part;

/* Adds the products of a row of dy. */
static void add_row(const depthwise *v, const float *dy, const float *x, const part *own,
                    size_t row)
{
    const dpt_conv2d_desc *d = &v->desc;
    const size_t first = own->channels.begin, n = own->channels.end - first;
    for (size_t i = 0; i < v->n_taps; i++) {
        const overlap *o = &v->overlaps[i];
        if (row < o->rows.begin || row >= o->rows.end) continue;
        const size_t x_row = o->x_row + (row - o->rows.begin) * d->stride_h;
        const products p = {.dy = dy + (row * d->out_w + o->columns.begin) * v->channels + first,
                            .x = x + (x_row * d->in_w + o->x_column) * v->channels + first,
                            .sums = own->sums + i * v->channels + first,
                            .n = o->columns.end - o->columns.begin};
        add_channels(v, p, n);
    }
    if (!d->has_bias) return;
    float *restrict bias = own->sums + v->n_taps * v->channels + first;
    dy += row * d->out_w * v->channels + first;
    for (size_t pixel = 0; pixel < d->out_w; pixel++)
        for (size_t c = 0; c < n; c++)
            bias[c] += dy[pixel * v->channels + c];
}

static void add_sample(const depthwise *v, const float *dy, const float *x, const part *own)
{
    const dpt_conv2d_desc *d = &v->desc;
    const size_t dy_row = d->out_w * v->channels, x_row = d->in_w * v->channels;
    size_t fetched = 0;
    for (size_t row = 0; row < d->out_h; row++) {
        if (row + 1 < d->out_h) fetch(dy + (row + 1) * dy_row, dy_row);
        for (size_t end = least((row + 2) * d->stride_h + d->pad_h, d->in_h); fetched < end;
             fetched++)
            fetch(x + fetched * x_row, x_row);
        add_row(v, dy, x, own, row);
    }
}

/* The sum over the threads, in their order, so that the bits are the same every time. */
static float total(const float *sums, size_t at, unsigned n_threads, size_t distance)
{
    float sum = sums[at];
    for (unsigned i = 1; i < n_threads; i++)
        sum += sums[i * distance + at];
    return sum;
}

/* Adds a part's sums of a grain to those that wait, which stand behind the sums. */
static void end_grain(const depthwise *v, const part *own, size_t grain, bool last)
{
    const size_t n = own->channels.end - own->channels.begin, distance = sums_size(v);
    for (size_t i = 0; i <= v->n_taps; i++) {
        float *const sums = own->sums + i * v->channels + own->channels.begin;
        const tree_sums of_tap = {sums, sums + distance, distance, n};
        KERNEL(tree_add)(&of_tap, grain, last);
    }
}

/* Adds the sums of all threads, and writes the gradients of some channels. */
static void write_sums(const dpt_cpu_call *call, const float *all, unsigned n_copies,
                       dpt_cpu_range channels)
{
    const depthwise *v = call->op->plan.state;
    float *dw = call->out[0], *dbias = v->desc.has_bias ? call->out[1] : NULL;
    for (size_t i = 0; i <= v->n_taps; i++) {
        if (i == v->n_taps && !dbias) break;
        for (size_t c = channels.begin; c < channels.end; c++) {
            const float sum = total(all, i * v->channels + c, n_copies, sums_size(v)) + 0.0f;
            float *const to = i < v->n_taps ? &dw[c * v->n_taps + i] : &dbias[c];
            *to = call->accumulate ? *to + sum : sum;
        }
    }
}

/* dy (n,out_h,out_w,C), x (n,in_h,in_w,C) -> dw (C,kernel_h,kernel_w), dbias (C)
   Threads divide the samples, or with unbroken sums the channels.
   Workspace: the sums of each thread, or the sums and those that wait. */
static void backward_weights(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const depthwise *v = call->op->plan.state;
    const float *dy = call->in[0], *x = call->in[1];
    float *all = call->workspace;
    const dpt_cpu_range channels = dpt_cpu_split(v->channels, 16, thread, n_threads);
    dpt_cpu_range samples = {0, call->n_samples};
    part own = {.sums = all, .channels = channels};
    if (!v->unbroken) {
        samples = dpt_cpu_split(call->n_samples, 1, thread, n_threads);
        own = (part){.sums = all + thread * sums_size(v), .channels = {0, v->channels}};
    }
    for (size_t i = 0; i <= v->n_taps; i++)
        memset(own.sums + i * v->channels + own.channels.begin, 0,
               (own.channels.end - own.channels.begin) * sizeof *own.sums);
    const size_t grain = call->grain > 0 ? call->grain : call->n_samples;
    for (size_t i = samples.begin; i < samples.end; i++) {
        const bool last = i + 1 == call->n_samples;
        add_sample(v, dy + i * v->result_size, x + i * v->source_size, &own);
        if (v->unbroken && (last || (i + 1) % grain == 0)) end_grain(v, &own, i / grain, last);
    }
    if (!v->unbroken) dpt_cpu_barrier(call->team, thread, n_threads);
    write_sums(call, all, v->unbroken ? 1 : n_threads, channels);
}

/* ---- Preparing ------------------------------------------------------------------------------- */

/* The pixel of the source that tap k multiplies for a pixel of the result; SIZE_MAX: none. */
static size_t source_of(const line *l, bool is_forward, size_t pixel, size_t k)
{
    const size_t shift = k * l->dilation;
    if (is_forward) {
        const size_t at = pixel * l->stride + shift;
        return at >= l->pad && at - l->pad < l->n_in ? at - l->pad : SIZE_MAX;
    }
    if (pixel + l->pad < shift || (pixel + l->pad - shift) % l->stride != 0) return SIZE_MAX;
    const size_t at = (pixel + l->pad - shift) / l->stride;
    return at < l->n_out ? at : SIZE_MAX;
}

/* turned: the taps are in the opposite order. */
static void fill_axis(const line *l, bool is_forward, bool turned, axis *out)
{
    for (size_t pixel = 0; pixel < out->n; pixel++) {
        for (size_t i = 0; i < l->kernel; i++) {
            const size_t k = turned ? l->kernel - 1 - i : i;
            const size_t source = source_of(l, is_forward, pixel, k);
            if (source == SIZE_MAX) continue;
            out->taps[pixel * out->most + out->count[pixel]++] =
                (tap){(uint32_t)k, (uint32_t)source};
        }
    }
}

static size_t axis_bytes(const axis *a)
{
    return dpt_cpu_mul(a->n, dpt_cpu_add(dpt_cpu_mul(a->most, sizeof(tap)), sizeof *a->count));
}

/* Gives an axis its tables, which begin at *at. */
static void place_axis(char **at, axis *a)
{
    a->taps = (tap *)(void *)*at;
    a->count = (uint32_t *)(void *)(*at + a->n * a->most * sizeof(tap));
    *at += axis_bytes(a);
}

/* The plan of a pass whose result has the pixels of the output, or of the input.  NULL
   without memory. */
static depthwise *create(const dpt_conv2d_desc *d, bool is_forward, bool unbroken)
{
    const size_t in = d->in_h * d->in_w * d->in_channels;
    const size_t out = d->out_h * d->out_w * d->out_channels;
    depthwise v = {
        .desc = *d,
        .unbroken = unbroken,
        .channels = d->in_channels,
        .n_taps = d->kernel_h * d->kernel_w,
        .rows = {.n = is_forward ? d->out_h : d->in_h, .most = d->kernel_h},
        .columns = {.n = is_forward ? d->out_w : d->in_w, .most = d->kernel_w},
        .source_columns = is_forward ? d->in_w : d->out_w,
        .source_size = is_forward ? in : out,
        .result_size = is_forward ? out : in,
    };
    const size_t tables = dpt_cpu_add(axis_bytes(&v.rows), axis_bytes(&v.columns));
    const size_t overlaps = dpt_cpu_mul(v.n_taps, sizeof *v.overlaps);
    const size_t bytes = dpt_cpu_add(dpt_cpu_add(sizeof v, overlaps), tables);
    depthwise *made = bytes == SIZE_MAX ? NULL : calloc(1, bytes);
    if (!made) return NULL;
    v.overlaps = (void *)(made + 1);
    char *at = (char *)(made + 1) + overlaps;
    place_axis(&at, &v.rows);
    place_axis(&at, &v.columns);
    v.span = dpt_cpu_ceil_div(SPAN_FLOATS / v.n_taps, BLOCK) * BLOCK;
    if (v.span == 0) v.span = BLOCK;
    v.piece_rows = dpt_cpu_ceil_div(PIECE_FLOATS, v.columns.n * v.channels);
    *made = v;
    const line down = line_down(d), right = line_right(d);
    fill_axis(&down, is_forward, unbroken && !is_forward, &made->rows);
    fill_axis(&right, is_forward, unbroken && !is_forward, &made->columns);
    for (size_t i = 0; i < v.n_taps; i++)
        made->overlaps[i] = overlap_of(&v, i);
    return made;
}

static dpt_status prepare(dpt_op *op, dpt_cpu_kernel *kernel, dpt_error *error)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const bool is_forward = op->desc.kind != DPT_OP_CONV2D_BACKWARD_DATA;
    if (!KERNEL(is_depthwise)(d))
        return DPT_FAIL(error, DPT_E_UNSUPPORTED, "this convolution is not depthwise");
    depthwise *v = create(d, is_forward, op->deterministic);
    if (!v) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a convolution's plan");
    op->plan.state = v;
    op->plan.kernel = kernel;
    op->plan.flops = 2.0 * (double)(d->out_h * d->out_w) * (double)(v->channels * v->n_taps);
    op->plan.work = op->plan.flops / 8.0;
    op->plan.exact = true;
    op->plan.algorithm = "depthwise";
    op->plan.workspace_bytes = dpt_cpu_mul(sums_size(v), sizeof(float)); /* or turned filters */
    return DPT_OK;
}

dpt_status KERNEL(prepare_depthwise_forward)(dpt_op *op, dpt_error *error)
{
    DPT_TRY(prepare(op, filter, error));
    op->plan.exact = KERNEL(activation_exact)(op->desc.u.conv2d.activation);
    return DPT_OK;
}

dpt_status KERNEL(prepare_depthwise_backward_data)(dpt_op *op, dpt_error *error)
{
    DPT_TRY(prepare(op, filter, error));
    op->plan.exact = KERNEL(activation_exact)(op->desc.u.conv2d.input_activation);
    return DPT_OK;
}

dpt_status KERNEL(prepare_depthwise_backward_weights)(dpt_op *op, dpt_error *error)
{
    DPT_TRY(prepare(op, backward_weights, error));
    op->plan.has_grains = op->deterministic;
    op->plan.workspace_bytes =
        dpt_cpu_mul(op->plan.workspace_bytes, op->deterministic ? 1 + TREE_LEVELS : op->n_threads);
    return DPT_OK;
}
