/* Deterministic convolution, forward and backward-data.  Every element of the result is one sum,
   whose terms have an order that the description alone decides (docs/reproducibility.md).

   Both passes read a source, x or dy, and write a result, y or dx.  The terms of an element are
   the taps of the filter in the order of the pixels of the source that they meet, row by row, and
   for each tap the channels of the source.  Forward, that is the order of the filter; backward, the
   opposite one.  With a stride, the pixels of dx fall into classes that have different taps.  A
   class is divided into bands: rows near the edges of the image meet fewer rows of the filter.

   A tile is some pixels of a band times channels of the result.  A long sum is cut into blocks,
   for caches.  It is stored between blocks and goes on as if it had not been cut. */
#include "activation.h"
#include "common/winograd_rule.h"
#include "conv2d.h"
#include "depthwise.h"
#include "kinds.h"
#include "winograd.h"

#include <stdlib.h>

enum { RUN = 192 /* pixels for which a block of packed filters is read */ };

/* Some terms of the sums of a band. */
typedef struct term_block {
    size_t first, n_segments; /* of `segments`: offsets from a pixel's first source */
    size_t term, n_terms;     /* the first one, counted in the class */
} term_block;

/* Rows of a class that meet the same rows of the filter. */
typedef struct band {
    size_t row, n_rows; /* counted in the class */
    size_t first_block, n_blocks;
} band;

/* Pixels of the result that have the same taps: those at row, row + step, ... and column, ... */
typedef struct pixel_class {
    size_t row, column, n_rows, n_columns;
    size_t first_tap, n_taps; /* of `taps` */
    size_t term, n_terms;     /* the terms of the classes before it, and its own */
    size_t first_band, n_bands;
} pixel_class;

/* op->plan.state; the arrays stand behind it. */
typedef struct fixed {
    dpt_conv2d_desc desc;
    bool is_forward;
    size_t source_w, source_h, source_channels;
    size_t result_w, result_size, result_channels;
    size_t step_h, step_w;        /* from one pixel of a class to the next, in the result */
    size_t frame_h, frame_w;      /* of a source with its padding */
    size_t top, left;             /* padding */
    size_t row_step, column_step; /* the same as step_h and step_w, in floats of the frame */
    bool framed;                  /* sources are first copied into a frame of zeros */
    size_t source_size, frame_size;
    size_t n_filter_taps;
    size_t group_terms, group_lanes; /* channels of a group: of the source, of the result */
    size_t width;                    /* packed width of group_lanes */
    size_t n_panels;                 /* of a group */
    size_t n_terms;                  /* of all classes */
    size_t most_samples;             /* of a frame */
    size_t n_classes;
    pixel_class *classes;
    band *bands;
    term_block *blocks;
    segment *segments;
    size_t *taps; /* by class, in the order of the sums */
} fixed;

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t largest(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* ---- One axis -------------------------------------------------------------------------------- */

typedef struct line {
    bool is_forward;
    size_t source, result, kernel, stride, pad, dilation;
    size_t before, length; /* the padding in front, and the extent of the frame */
} line;

/* Classes along the axis; some may have no pixels. */
static size_t line_classes(const line *l)
{
    return l->is_forward ? 1 : l->stride;
}

static size_t line_first(const line *l, size_t class)
{
    return l->is_forward ? 0 : (class + l->stride - l->pad % l->stride) % l->stride;
}

static size_t line_count(const line *l, size_t class)
{
    const size_t first = line_first(l, class);
    if (l->is_forward) return l->result;
    return first < l->result ? dpt_cpu_ceil_div(l->result - first, l->stride) : 0;
}

static bool line_has(const line *l, size_t class, size_t k)
{
    return l->is_forward || k * l->dilation % l->stride == class;
}

/* The pixel of the source that tap k meets for the first pixel of a class. */
static int64_t line_at(const line *l, size_t class, size_t k)
{
    const int64_t shift = (int64_t)(k * l->dilation), pad = (int64_t)l->pad;
    if (l->is_forward) return shift - pad;
    return ((int64_t)line_first(l, class) + pad - shift) / (int64_t)l->stride;
}

/* Finds the frame, which holds all pixels that taps meet. */
static void line_frame(line *l)
{
    const size_t step = l->is_forward ? l->stride : 1;
    int64_t low = 0, high = (int64_t)l->source;
    for (size_t class = 0; class < line_classes(l); class ++) {
        const size_t count = line_count(l, class);
        for (size_t k = 0; k < l->kernel && count > 0; k++) {
            if (!line_has(l, class, k)) continue;
            const int64_t at = line_at(l, class, k), end = at + (int64_t)((count - 1) * step) + 1;
            low = at < low ? at : low;
            high = end > high ? end : high;
        }
    }
    l->before = (size_t)-low;
    l->length = (size_t)(high - low);
}

static line line_down(const dpt_conv2d_desc *d, bool is_forward)
{
    line l = {is_forward,
              is_forward ? d->in_h : d->out_h,
              is_forward ? d->out_h : d->in_h,
              d->kernel_h,
              d->stride_h,
              d->pad_h,
              d->dilation_h,
              0,
              0};
    line_frame(&l);
    return l;
}

static line line_right(const dpt_conv2d_desc *d, bool is_forward)
{
    line l = {is_forward,
              is_forward ? d->in_w : d->out_w,
              is_forward ? d->out_w : d->in_w,
              d->kernel_w,
              d->stride_w,
              d->pad_w,
              d->dilation_w,
              0,
              0};
    line_frame(&l);
    return l;
}

/* ---- The plan -------------------------------------------------------------------------------- */

/* What has been filled in. */
typedef struct filling {
    fixed *v;
    line down, right;
    size_t n_taps, n_segments, n_blocks, n_bands;
} filling;

/* Adds the terms of a tap, which are consecutive floats of the frame, to the last block of the
   band, and to new ones. */
static void add_terms(filling *f, band *b, size_t offset, size_t most)
{
    fixed *v = f->v;
    for (size_t at = 0; at < v->group_terms;) {
        term_block *k = &v->blocks[f->n_blocks - 1];
        if (k->n_terms == most) {
            k++;
            *k = (term_block){.first = f->n_segments, .term = k[-1].term + most};
            f->n_blocks++;
            b->n_blocks++;
        }
        const size_t n = least(v->group_terms - at, most - k->n_terms);
        segment *last = k->n_segments > 0 ? &v->segments[f->n_segments - 1] : NULL;
        if (last && last->offset + last->length == offset + at) {
            last->length += n;
        } else {
            v->segments[f->n_segments++] = (segment){offset + at, n};
            k->n_segments++;
        }
        k->n_terms += n;
        at += n;
    }
}

/* The offset of a tap in the frame, from the first pixel of a class. */
static size_t offset_of(const filling *f, size_t down, size_t right, size_t tap)
{
    const fixed *v = f->v;
    const size_t kh = tap / v->desc.kernel_w, kw = tap % v->desc.kernel_w;
    const size_t row = (size_t)(line_at(&f->down, down, kh) + (int64_t)v->top);
    const size_t column = (size_t)(line_at(&f->right, right, kw) + (int64_t)v->left);
    return (row * v->frame_w + column) * v->source_channels;
}

/* The taps of a class that a row of the class meets within the source: they follow each other. */
static dpt_cpu_range met_taps(const filling *f, const pixel_class *c, size_t down, size_t row)
{
    const fixed *v = f->v;
    const int64_t at = (int64_t)(row * (f->down.is_forward ? f->down.stride : 1));
    dpt_cpu_range taps = {0, 0};
    for (size_t i = 0; i < c->n_taps; i++) {
        const size_t kh = v->taps[c->first_tap + i] / v->desc.kernel_w;
        const int64_t source = line_at(&f->down, down, kh) + at;
        if (source < 0 || source >= (int64_t)v->source_h) continue;
        if (taps.end == 0) taps.begin = i;
        taps.end = i + 1;
    }
    return taps;
}

static void add_band(filling *f, const pixel_class *c, size_t down, size_t right,
                     dpt_cpu_range taps, band *b)
{
    fixed *v = f->v;
    const size_t n_terms = (taps.end - taps.begin) * v->group_terms;
    const size_t n_blocks = largest(dpt_cpu_ceil_div(n_terms, REDUCTION_MAX), 1);
    b->first_block = f->n_blocks;
    b->n_blocks = 1;
    v->blocks[f->n_blocks++] =
        (term_block){.first = f->n_segments, .term = taps.begin * v->group_terms};
    for (size_t i = taps.begin; i < taps.end; i++)
        add_terms(f, b, offset_of(f, down, right, v->taps[c->first_tap + i]),
                  dpt_cpu_ceil_div(n_terms, n_blocks));
}

static void add_bands(filling *f, pixel_class *c, size_t down, size_t right)
{
    dpt_cpu_range before = {0, 0};
    c->first_band = f->n_bands;
    for (size_t row = 0; row < c->n_rows; row++) {
        const dpt_cpu_range taps = met_taps(f, c, down, row);
        if (row > 0 && taps.begin == before.begin && taps.end == before.end) {
            f->v->bands[f->n_bands - 1].n_rows++;
            continue;
        }
        band *b = &f->v->bands[f->n_bands++];
        *b = (band){.row = row, .n_rows = 1};
        add_band(f, c, down, right, taps, b);
        before = taps;
    }
    c->n_bands = f->n_bands - c->first_band;
}

static void add_class(filling *f, size_t down, size_t right)
{
    fixed *v = f->v;
    const size_t kernel_w = v->desc.kernel_w, n_taps = v->n_filter_taps;
    pixel_class *c = &v->classes[v->n_classes];
    *c = (pixel_class){.row = line_first(&f->down, down),
                       .column = line_first(&f->right, right),
                       .n_rows = line_count(&f->down, down),
                       .n_columns = line_count(&f->right, right),
                       .first_tap = f->n_taps,
                       .term = v->n_terms};
    if (c->n_rows == 0 || c->n_columns == 0) return;
    v->n_classes++;
    for (size_t i = 0; i < n_taps; i++) {
        const size_t tap = v->is_forward ? i : n_taps - 1 - i;
        if (line_has(&f->down, down, tap / kernel_w) && line_has(&f->right, right, tap % kernel_w))
            v->taps[f->n_taps++] = tap;
    }
    c->n_taps = f->n_taps - c->first_tap;
    c->n_terms = c->n_taps * v->group_terms;
    v->n_terms += c->n_terms;
    add_bands(f, c, down, right);
}

static fixed plan_of(const dpt_conv2d_desc *d, bool is_forward, const line *down, const line *right)
{
    fixed v = {.desc = *d,
               .is_forward = is_forward,
               .source_h = down->source,
               .source_w = right->source,
               .source_channels = is_forward ? d->in_channels : d->out_channels,
               .result_w = right->result,
               .result_channels = is_forward ? d->out_channels : d->in_channels,
               .step_h = is_forward ? 1 : d->stride_h,
               .step_w = is_forward ? 1 : d->stride_w,
               .frame_h = down->length,
               .frame_w = right->length,
               .top = down->before,
               .left = right->before,
               .framed = down->length > down->source || right->length > right->source,
               .n_filter_taps = d->kernel_h * d->kernel_w};
    v.column_step = (is_forward ? d->stride_w : 1) * v.source_channels;
    v.row_step = (is_forward ? d->stride_h : 1) * v.frame_w * v.source_channels;
    v.source_size = v.source_h * v.source_w * v.source_channels;
    v.result_size = down->result * right->result * v.result_channels;
    v.frame_size = dpt_cpu_mul(dpt_cpu_mul(v.frame_h, v.frame_w), v.source_channels);
    v.group_terms = v.source_channels / d->groups;
    v.group_lanes = v.result_channels / d->groups;
    v.width = KERNEL(packed_width)(v.group_lanes);
    v.n_panels = KERNEL(panel_count)(v.group_lanes);
    const size_t pixels = down->result * right->result;
    v.most_samples = pixels >= RUN ? 1 : 2 * dpt_cpu_ceil_div(RUN, pixels) + 1;
    return v;
}

/* NULL without memory. */
static fixed *create(const dpt_conv2d_desc *d, bool is_forward)
{
    filling f = {.down = line_down(d, is_forward), .right = line_right(d, is_forward)};
    const fixed plan = plan_of(d, is_forward, &f.down, &f.right);
    const size_t n_classes = dpt_cpu_mul(least(line_classes(&f.down), f.down.result),
                                         least(line_classes(&f.right), f.right.result)) +
                             1;
    const size_t n_bands = dpt_cpu_mul(n_classes, 2 * d->kernel_h + 1);
    const size_t n_terms = dpt_cpu_mul(plan.n_filter_taps, plan.group_terms);
    const size_t n_blocks = dpt_cpu_mul(n_bands, 2 * n_terms / REDUCTION_MAX + 2);
    const size_t n_segments = dpt_cpu_add(dpt_cpu_mul(n_bands, plan.n_filter_taps), n_blocks);
    const size_t sizes[] = {sizeof plan,
                            dpt_cpu_mul(n_classes, sizeof *plan.classes),
                            dpt_cpu_mul(n_bands, sizeof *plan.bands),
                            dpt_cpu_mul(n_blocks, sizeof *plan.blocks),
                            dpt_cpu_mul(n_segments, sizeof *plan.segments),
                            dpt_cpu_mul(plan.n_filter_taps, sizeof *plan.taps)};
    size_t n_bytes = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        n_bytes = dpt_cpu_add(n_bytes, sizes[i]);
    fixed *v = n_bytes == SIZE_MAX ? NULL : malloc(n_bytes);
    if (!v) return NULL;
    *v = plan;
    v->classes = (void *)(v + 1);
    v->bands = (void *)(v->classes + n_classes);
    v->blocks = (void *)(v->bands + n_bands);
    v->segments = (void *)(v->blocks + n_blocks);
    v->taps = (void *)(v->segments + n_segments);
    f.v = v;
    for (size_t down = 0; down < line_classes(&f.down); down++)
        for (size_t right = 0; right < line_classes(&f.right); right++)
            add_class(&f, down, right);
    return v;
}

/* ---- Packed filters -------------------------------------------------------------------------- */

/* Ordered by class, group, panel, term, lane. */
static size_t packed_panel(const fixed *v, const pixel_class *c, size_t group, const panel *p)
{
    return (c->term * v->desc.groups + group * c->n_terms) * v->width + p->start * c->n_terms;
}

/* Transposes n terms of up to LANES filters, with `width` floats from term to term.  room: the
   lanes that are written, of which those behind the filters are 0. */
static void turn(const float *from, size_t ld, size_t n_rows, size_t n, size_t width, size_t room,
                 float *to)
{
    for (size_t k = 0; k < n; k += LANES, to += LANES * width) {
        const size_t terms = least(n - k, LANES);
        vec square[LANES];
        DPT_CPU_UNROLL
        for (size_t i = 0; i < LANES; i++)
            square[i] = i < n_rows ? vec_load_n(from + i * ld + k, terms) : vec_set(0.0f);
        vec_transpose(square);
        DPT_CPU_UNROLL
        for (size_t i = 0; i < LANES; i++) {
            if (i >= terms) continue;
            if (room >= LANES)
                vec_store(to + i * width, square[i]);
            else
                vec_store_n(to + i * width, square[i], room);
        }
    }
}

/* Packs terms of a panel.  Forward: a lane is a filter, whose terms are consecutive. */
static void pack_filters(const fixed *v, const float *w, size_t channel, const panel *p,
                         dpt_cpu_range terms, float *to)
{
    const size_t ld = v->n_filter_taps * v->group_terms;
    for (size_t lane = 0; lane < p->width; lane += LANES)
        turn(w + (channel + lane) * ld + terms.begin, ld, least(p->lanes - lane, LANES),
             terms.end - terms.begin, p->width, p->width - lane, to + lane);
}

/* Backward-data: a lane is a channel of the filters, and a term is a tap of one filter. */
static void pack_taps(const fixed *v, const pixel_class *c, const float *w, const panel *p,
                      dpt_cpu_range terms, float *to)
{
    for (size_t term = terms.begin; term < terms.end; term++, to += p->width) {
        const size_t tap = v->taps[c->first_tap + term / v->group_terms];
        const size_t filter = term % v->group_terms;
        const float *from = w + (filter * v->n_filter_taps + tap) * v->group_lanes + p->start;
        memcpy(to, from, p->lanes * sizeof *to);
        memset(to + p->lanes, 0, (p->width - p->lanes) * sizeof *to);
    }
}

/* Packs a thread's part of the filters. */
static void pack(const fixed *v, const float *w, float *packed, unsigned thread, unsigned n_threads)
{
    const size_t group_floats = v->group_terms * v->n_filter_taps * v->group_lanes;
    for (size_t i = 0; i < v->n_classes * v->desc.groups; i++) {
        const pixel_class *c = &v->classes[i / v->desc.groups];
        const size_t group = i % v->desc.groups;
        const dpt_cpu_range terms = dpt_cpu_split(c->n_terms, 16, thread, n_threads);
        for (size_t k = 0; k < v->n_panels && terms.begin < terms.end; k++) {
            const panel p = KERNEL(panel_at)(v->group_lanes, k);
            float *to = packed + packed_panel(v, c, group, &p) + terms.begin * p.width;
            if (v->is_forward)
                pack_filters(v, w, group * v->group_lanes + p.start, &p, terms, to);
            else
                pack_taps(v, c, w + group * group_floats, &p, terms, to);
        }
    }
}

/* ---- Products -------------------------------------------------------------------------------- */

/* Some pixels of a band: their first source, and their result. */
typedef struct run {
    size_t n;
    const float *a[RUN];
    float *c[RUN];
} run;

/* A part of a call: some samples, and some of the panels of all groups. */
typedef struct job {
    const dpt_cpu_call *call;
    const float *source; /* of the first sample, with padding */
    float *result;
    size_t n_samples;
    dpt_cpu_range units; /* group * n_panels + panel */
    const float *packed;
    float *partial; /* sums between two blocks */
} job;

/* The activation or the mask of the result, where the tile did not apply it. */
static void finish(const job *j, const run *r, size_t channel, size_t n)
{
    const fixed *v = j->call->op->plan.state;
    const dpt_activation activation = v->desc.activation, mask = v->desc.input_activation;
    if (v->is_forward) {
        for (size_t i = 0; i < r->n && activation != DPT_ACT_NONE && activation != DPT_ACT_RELU;
             i++)
            KERNEL(activate)(j->call->op, activation, r->c[i] + channel, r->c[i] + channel, n);
        return;
    }
    const float *x = j->call->in[2], *dx = j->call->out[0];
    for (size_t i = 0; i < r->n && mask != DPT_ACT_NONE; i++) {
        float *const to = r->c[i] + channel;
        KERNEL(differentiate)(j->call->op, mask, to, x + (to - dx), to, n);
    }
}

static void multiply(const job *j, const pixel_class *c, const band *of, const run *r, size_t unit)
{
    const fixed *v = j->call->op->plan.state;
    const size_t group = unit / v->n_panels;
    const panel p = KERNEL(panel_at)(v->group_lanes, unit % v->n_panels);
    const size_t channel = group * v->group_lanes + p.start, most = KERNEL(panel_rows)(&p);
    for (size_t k = 0; k < of->n_blocks; k++) {
        const term_block *b = &v->blocks[of->first_block + k];
        const bool last = k + 1 == of->n_blocks;
        tile t = {.a_step = 1,
                  .segments = v->segments + b->first,
                  .n_segments = b->n_segments,
                  .b = j->packed + packed_panel(v, c, group, &p) + b->term * p.width,
                  .accumulate = j->call->accumulate,
                  .bias = v->is_forward && v->desc.has_bias
                              ? (const float *)j->call->in[2] + channel
                              : NULL,
                  .relu = v->is_forward && v->desc.activation == DPT_ACT_RELU};
        for (size_t at = 0; at < r->n; at += t.n_rows) {
            t.n_rows = tile_rows(r->n - at, most);
            for (size_t i = 0; i < t.n_rows; i++) {
                t.a[i] = r->a[at + i] + group * v->group_terms;
                t.c[i] = r->c[at + i] + channel;
            }
            t.from = k > 0 ? j->partial + at * p.width : NULL;
            t.to = last ? NULL : j->partial + at * p.width;
            KERNEL(tile_run)(&p, &t);
        }
    }
    finish(j, r, channel, p.lanes);
}

/* Finds the next pixels of a band.  at: how many are behind, of all samples. */
static void find_run(const job *j, const pixel_class *c, const band *b, size_t at, run *r)
{
    const fixed *v = j->call->op->plan.state;
    const size_t pixels = b->n_rows * c->n_columns;
    const size_t source_size = v->framed ? v->frame_size : v->source_size;
    size_t sample = at / pixels, row = at % pixels / c->n_columns, column = at % c->n_columns;
    r->n = least(j->n_samples * pixels - at, RUN);
    for (size_t i = 0; i < r->n; i++) {
        const size_t down = b->row + row;
        const size_t y = c->row + down * v->step_h, x = c->column + column * v->step_w;
        r->a[i] = j->source + sample * source_size + down * v->row_step + column * v->column_step;
        r->c[i] = j->result + sample * v->result_size + (y * v->result_w + x) * v->result_channels;
        if (++column < c->n_columns) continue;
        column = 0;
        if (++row < b->n_rows) continue;
        row = 0;
        sample++;
    }
}

static void do_unit(const job *j, size_t unit)
{
    const fixed *v = j->call->op->plan.state;
    run r;
    for (size_t i = 0; i < v->n_classes; i++) {
        const pixel_class *c = &v->classes[i];
        for (size_t k = 0; k < c->n_bands; k++) {
            const band *b = &v->bands[c->first_band + k];
            const size_t n_pixels = j->n_samples * b->n_rows * c->n_columns;
            for (size_t at = 0; at < n_pixels; at += r.n) {
                find_run(j, c, b, at, &r);
                multiply(j, c, b, &r, unit);
            }
        }
    }
}

/* ---- The operator ---------------------------------------------------------------------------- */

/* Copies samples into frames. */
static void fill_frames(const fixed *v, const float *source, size_t n_samples, float *frame)
{
    const size_t row = v->frame_w * v->source_channels, inner = v->source_w * v->source_channels;
    const size_t side = v->left * v->source_channels;
    for (size_t i = 0; i < n_samples; i++) {
        memset(frame, 0, v->top * row * sizeof *frame);
        for (size_t h = 0; h < v->source_h; h++, source += inner) {
            float *to = frame + (v->top + h) * row;
            memset(to, 0, side * sizeof *to);
            memcpy(to + side, source, inner * sizeof *to);
            memset(to + side + inner, 0, (row - side - inner) * sizeof *to);
        }
        const size_t end = v->top + v->source_h;
        memset(frame + end * row, 0, (v->frame_h - end) * row * sizeof *frame);
        frame += v->frame_size;
    }
}

/* How a call is divided: samples into ranges, and the panels of all groups into parts. */
typedef struct division {
    size_t n_ranges, n_parts;
} division;

static division divide(const fixed *v, size_t n_samples, unsigned n_threads)
{
    const size_t n_units = v->desc.groups * v->n_panels;
    const size_t pixels = v->result_size / v->result_channels;
    const size_t n_runs = largest(n_samples * pixels / RUN, 1);
    division d = {least(n_runs, n_samples), 1};
    if (d.n_ranges >= n_threads) {
        d.n_ranges = least(dpt_cpu_ceil_div(d.n_ranges, n_threads) * n_threads, n_samples);
    } else if (d.n_ranges > 0) {
        d.n_parts = least(dpt_cpu_ceil_div(n_threads, d.n_ranges), n_units);
        if (d.n_parts == 1) d.n_ranges = least(n_threads, n_samples);
    }
    return d;
}

/* Workspace: packed filters, then for each thread a frame and sums. */
static size_t packed_size(const fixed *v)
{
    return dpt_cpu_round(dpt_cpu_mul(dpt_cpu_mul(v->desc.groups, v->n_terms), v->width));
}

static size_t thread_size(const fixed *v)
{
    const size_t frame = v->framed ? dpt_cpu_mul(v->most_samples, v->frame_size) : 0;
    return dpt_cpu_add(dpt_cpu_round(frame), RUN * PANEL_MOST);
}

/* Forward:       x (n,in_h,in_w,C), w (O,kernel_h,kernel_w,C/groups), bias (O) -> y
   Backward-data: dy (n,out_h,out_w,O), w, x -> dx (n,in_h,in_w,C) */
static void convolve(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const fixed *v = call->op->plan.state;
    float *packed = call->workspace;
    float *partial = packed + packed_size(v) + thread * thread_size(v);
    float *frame = partial + RUN * PANEL_MOST;
    pack(v, call->in[1], packed, thread, n_threads);
    dpt_cpu_barrier(call->team, thread, n_threads);

    const division d = divide(v, call->n_samples, n_threads);
    dpt_cpu_pieces pieces =
        dpt_cpu_pieces_of(call->team, d.n_ranges * d.n_parts, thread, n_threads);
    for (size_t piece; dpt_cpu_take(&pieces, &piece);) {
        const dpt_cpu_range samples =
            dpt_cpu_split(call->n_samples, 1, piece / d.n_parts, d.n_ranges);
        const float *source = (const float *)call->in[0] + samples.begin * v->source_size;
        const job j = {
            .call = call,
            .source = v->framed ? frame : source,
            .result = (float *)call->out[0] + samples.begin * v->result_size,
            .n_samples = samples.end - samples.begin,
            .units = dpt_cpu_split(v->desc.groups * v->n_panels, 1, piece % d.n_parts, d.n_parts),
            .packed = packed,
            .partial = partial};
        if (v->framed) fill_frames(v, source, j.n_samples, frame);
        for (size_t unit = j.units.begin; unit < j.units.end; unit++)
            do_unit(&j, unit);
    }
}

static dpt_status prepare(dpt_op *op, bool is_forward, dpt_error *error)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    fixed *v = create(d, is_forward);
    if (!v) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a convolution's plan");
    op->plan.state = v;
    op->plan.kernel = convolve;
    op->plan.flops = 2.0 * (double)(d->out_h * d->out_w) * (double)d->out_channels *
                     (double)(v->n_filter_taps * d->in_channels / d->groups);
    op->plan.work = op->plan.flops / 20.0;
    op->plan.exact = KERNEL(activation_exact)(is_forward ? d->activation : d->input_activation);
    op->plan.workspace_bytes = dpt_cpu_mul(
        dpt_cpu_add(packed_size(v), dpt_cpu_mul(op->n_threads, thread_size(v))), sizeof(float));
    return DPT_OK;
}

dpt_status KERNEL(prepare_fixed_forward)(dpt_op *op, dpt_error *error)
{
    if (KERNEL(is_depthwise)(&op->desc.u.conv2d))
        return KERNEL(prepare_depthwise_forward)(op, error);
    const size_t edge = dpt_winograd_edge(op->desc.kind, &op->desc.u.conv2d);
    return edge > 0 ? KERNEL(winograd_prepare_fixed)(op, edge, error) : prepare(op, true, error);
}

dpt_status KERNEL(prepare_fixed_backward_data)(dpt_op *op, dpt_error *error)
{
    if (KERNEL(is_depthwise)(&op->desc.u.conv2d))
        return KERNEL(prepare_depthwise_backward_data)(op, error);
    const size_t edge = dpt_winograd_edge(op->desc.kind, &op->desc.u.conv2d);
    return edge > 0 ? KERNEL(winograd_prepare_fixed)(op, edge, error) : prepare(op, false, error);
}
