/* Winograd's transforms of tiles, from images to points and from points to images. */
#include "winograd.h"

enum { MOST_POINTS = WINOGRAD_SIDE_MAX * WINOGRAD_SIDE_MAX };

/* ---- Places ---------------------------------------------------------------------------------- */

/* A tile's sample, and its row and column among the sample's tiles. */
typedef struct place {
    size_t sample, row, column;
} place;

static place place_of(const winograd *v, size_t index)
{
    const size_t in_sample = v->tiles_h * v->tiles_w;
    const size_t rest = index % in_sample;
    return (place){index / in_sample, rest / v->tiles_w, rest % v->tiles_w};
}

static void place_next(const winograd *v, place *p)
{
    if (++p->column < v->tiles_w) return;
    p->column = 0;
    if (++p->row < v->tiles_h) return;
    p->row = 0;
    p->sample++;
}

/* The addresses of the n x n pixels of a tile.  Pixels outside the image are at `zeros`. */
DPT_CPU_INLINE void find_pixels(const winograd *v, const winograd_images *images, const float *x,
                                place p, const size_t n, const float *zeros, const float **at)
{
    const size_t h = images->h, w = images->w, c = images->c;
    const float *image = x + p.sample * h * w * c;
    /* Above and left of the image these values wrap around and are huge. */
    const size_t top = p.row * v->edge - (size_t)images->pad_h;
    const size_t left = p.column * v->edge - (size_t)images->pad_w;
    if (top < h && h - top >= n && left < w && w - left >= n) {
        const float *row = image + (top * w + left) * c;
        for (size_t i = 0; i < n; i++, row += w * c)
            for (size_t j = 0; j < n; j++)
                at[i * n + j] = row + j * c;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            const bool inside = top + i < h && left + j < w;
            at[i * n + j] = inside ? image + ((top + i) * w + left + j) * c : zeros;
        }
    }
}

/* The origin of a tile's vector that begins at `channel`. */
static inline winograd_origin layout_at(const winograd_layout *l, size_t index, size_t channel)
{
    if (l->row > 0) return (winograd_origin){index * l->row + channel, l->point};
    const size_t start = panel_start(l->channels, channel);
    const size_t width = start == l->last ? l->width - start : PANEL_LANES;
    winograd_origin origin = winograd_panel_origin(l, start);
    origin.at += index * width + channel - start;
    return origin;
}

/* ---- To points ------------------------------------------------------------------------------- */

typedef struct lanes {
    size_t n_in, n_out; /* lanes that are read, and lanes that are written */
} lanes;

/* Without masked instructions, partial vectors take loops or branches.  They are compiled once
   instead of inline at every call. */
#if defined(__AVX2__)
#define PART DPT_CPU_INLINE
#else
#define PART static __attribute__((noinline))
#endif
PART vec load_part(const float *from, size_t n)
{
    return vec_load_n(from, n);
}
PART void store_part(float *to, vec x, size_t n)
{
    vec_store_n(to, x, n);
}

DPT_CPU_INLINE vec load(const float *from, lanes n, const bool whole)
{
    return whole ? vec_load(from) : load_part(from, n.n_in);
}

DPT_CPU_INLINE void store(float *to, vec x, lanes n, const bool whole)
{
    if (whole || n.n_out == LANES)
        vec_store(to, x);
    else
        store_part(to, x, n.n_out);
}

/* edge, taps and whole are constants at every call. */
DPT_CPU_INLINE void data_vector(const float *const *at, size_t channel, float *to, size_t point,
                                lanes n, const size_t side, const bool whole)
{
    vec t[WINOGRAD_SIDE_MAX][WINOGRAD_SIDE_MAX];
    DPT_CPU_UNROLL
    for (size_t i = 0; i < side; i++) {
        DPT_CPU_UNROLL
        for (size_t j = 0; j < side; j++)
            t[i][j] = load(at[i * side + j] + channel, n, whole);
        winograd_transform_data(t[i], side);
    }
    DPT_CPU_UNROLL
    for (size_t j = 0; j < side; j++) {
        vec column[WINOGRAD_SIDE_MAX];
        DPT_CPU_UNROLL
        for (size_t i = 0; i < side; i++)
            column[i] = t[i][j];
        winograd_transform_data(column, side);
        DPT_CPU_UNROLL
        for (size_t i = 0; i < side; i++)
            store(to + (i * side + j) * point, column[i], n, whole);
    }
}

DPT_CPU_INLINE void gradient_vector(const float *const *at, size_t channel, float *to, size_t point,
                                    float *bias, lanes n, const size_t edge, const size_t side,
                                    const bool whole)
{
    vec t[WINOGRAD_TILE_MAX][WINOGRAD_SIDE_MAX];
    vec sum = vec_set(0.0f);
    DPT_CPU_UNROLL
    for (size_t i = 0; i < edge; i++) {
        vec d[WINOGRAD_TILE_MAX];
        DPT_CPU_UNROLL
        for (size_t j = 0; j < edge; j++) {
            d[j] = load(at[i * edge + j] + channel, n, whole);
            sum = vec_add(sum, d[j]);
        }
        winograd_evaluate(d, edge, t[i], side);
    }
    DPT_CPU_UNROLL
    for (size_t j = 0; j < side; j++) {
        vec d[WINOGRAD_TILE_MAX], column[WINOGRAD_SIDE_MAX];
        DPT_CPU_UNROLL
        for (size_t i = 0; i < edge; i++)
            d[i] = t[i][j];
        winograd_evaluate(d, edge, column, side);
        DPT_CPU_UNROLL
        for (size_t i = 0; i < side; i++)
            store(to + (i * side + j) * point, column[i], n, whole);
    }
    if (!bias) return;
    if (whole)
        vec_store(bias + channel, vec_add(vec_load(bias + channel), sum));
    else
        vec_store_n(bias + channel, vec_add(vec_load_n(bias + channel, n.n_in), sum), n.n_in);
}

typedef struct to_points {
    const winograd_images *images;
    const winograd_layout *layout;
    const float *x;
    dpt_cpu_range tiles;
    size_t first;
    float *to;
    float *bias;
    bool gradient;
} to_points;

DPT_CPU_INLINE void points_vector(const to_points *k, const float *const *at, size_t channel,
                                  winograd_origin origin, lanes n, const bool whole,
                                  const bool gradient, const size_t edge, const size_t taps)
{
    const size_t side = edge + taps - 1;
    float *to = k->to + origin.at;
    if (gradient)
        gradient_vector(at, channel, to, origin.point, k->bias, n, edge, side, whole);
    else
        data_vector(at, channel, to, origin.point, n, side, whole);
}

DPT_CPU_INLINE void points_of_tiles(const winograd *v, const winograd_crew *crew,
                                    const to_points *k, const bool gradient, const size_t edge,
                                    const size_t taps)
{
    const winograd_layout *l = k->layout;
    const float *at[MOST_POINTS];
    place p = place_of(v, k->tiles.begin);
    for (size_t t = k->tiles.begin; t < k->tiles.end; t++) {
        find_pixels(v, k->images, k->x, p, gradient ? edge : edge + taps - 1, crew->zeros, at);
        for (size_t channel = 0; channel < l->channels; channel += LANES) {
            const winograd_origin to = layout_at(l, t - k->first, channel);
            const size_t in = l->channels - channel, out = l->width - channel;
            const lanes n = {in < LANES ? in : LANES, out < LANES ? out : LANES};
            if (n.n_in == LANES)
                points_vector(k, at, channel, to, n, true, gradient, edge, taps);
            else
                points_vector(k, at, channel, to, n, false, gradient, edge, taps);
        }
        place_next(v, &p);
    }
}

void KERNEL(winograd_data)(const winograd *v, const winograd_crew *crew, const float *x,
                           dpt_cpu_range tiles, size_t first, float *to)
{
    const to_points k = {
        .images = &v->source, .layout = &v->data, .x = x, .tiles = tiles, .first = first, .to = to};
    WINOGRAD_CALL(v, points_of_tiles, v, crew, &k, false);
}

void KERNEL(winograd_gradient)(const winograd *v, const winograd_crew *crew, const float *dy,
                               dpt_cpu_range tiles, size_t first, float *to, float *bias)
{
    const to_points k = {.images = &v->results,
                         .layout = &v->products,
                         .x = dy,
                         .tiles = tiles,
                         .first = first,
                         .to = to,
                         .bias = bias};
    WINOGRAD_CALL(v, points_of_tiles, v, crew, &k, true);
}

/* ---- To results ------------------------------------------------------------------------------ */

/* The part of a tile that lies in the image. */
typedef struct window {
    size_t rows, columns;
    size_t at, row; /* of the first pixel, and between rows, in floats */
} window;

static window window_of(const winograd *v, place p)
{
    const winograd_images *images = &v->results;
    const size_t top = p.row * v->edge, left = p.column * v->edge;
    const size_t rows = images->h - top, columns = images->w - left;
    return (window){
        .rows = rows < v->edge ? rows : v->edge,
        .columns = columns < v->edge ? columns : v->edge,
        .at = ((p.sample * images->h + top) * images->w + left) * images->c,
        .row = images->w * images->c,
    };
}

DPT_CPU_INLINE void finish(const winograd_ending *e, vec x, vec bias, size_t at, float *y, lanes n,
                           const bool whole)
{
    x = vec_add(vec_add(x, vec_set(0.0f)), bias); /* without a bias, too, -0 becomes +0 */
    if (e->relu) x = vec_relu(x);
    store(y + at, x, n, whole);
}

DPT_CPU_INLINE void results_vector(const winograd *v, const window *w, const float *from,
                                   size_t channel, const winograd_ending *e, float *y, lanes n,
                                   const bool whole, const size_t edge, const size_t taps)
{
    const size_t side = edge + taps - 1, point = v->products.point, c = v->results.c;
    const vec bias = e->bias ? load(e->bias + channel, n, whole) : vec_set(0.0f);
    vec t[WINOGRAD_TILE_MAX][WINOGRAD_SIDE_MAX];
    DPT_CPU_UNROLL
    for (size_t j = 0; j < side; j++) {
        vec column[WINOGRAD_SIDE_MAX], r[WINOGRAD_TILE_MAX];
        DPT_CPU_UNROLL
        for (size_t i = 0; i < side; i++)
            column[i] = vec_load(from + (i * side + j) * point);
        winograd_interpolate(column, r, edge, side);
        DPT_CPU_UNROLL
        for (size_t i = 0; i < edge; i++)
            t[i][j] = r[i];
    }
    DPT_CPU_UNROLL
    for (size_t i = 0; i < edge; i++) {
        vec r[WINOGRAD_TILE_MAX];
        if (i >= w->rows) break;
        winograd_interpolate(t[i], r, edge, side);
        DPT_CPU_UNROLL
        for (size_t j = 0; j < edge; j++)
            if (j < w->columns)
                finish(e, r[j], bias, w->at + i * w->row + j * c + channel, y, n, whole);
    }
}

DPT_CPU_INLINE void results_of_tiles(const winograd *v, const float *products, dpt_cpu_range tiles,
                                     size_t first, const winograd_ending *e, float *y,
                                     const size_t edge, const size_t taps)
{
    const winograd_layout *l = &v->products;
    place p = place_of(v, tiles.begin);
    for (size_t t = tiles.begin; t < tiles.end; t++) {
        const window w = window_of(v, p);
        for (size_t channel = 0; channel < l->channels; channel += LANES) {
            const float *from = products + (t - first) * l->row + channel;
            const size_t left = l->channels - channel;
            if (left >= LANES)
                results_vector(v, &w, from, channel, e, y, (lanes){LANES, LANES}, true, edge, taps);
            else
                results_vector(v, &w, from, channel, e, y, (lanes){left, left}, false, edge, taps);
        }
        place_next(v, &p);
    }
}

void KERNEL(winograd_results)(const winograd *v, const float *products, dpt_cpu_range tiles,
                              size_t first, const winograd_ending *ending, float *y)
{
    WINOGRAD_CALL(v, results_of_tiles, v, products, tiles, first, ending, y);
}

/* ---- To the gradient of the source ----------------------------------------------------------- */

/* The rows of pixels of a sample's gradient that a crew writes, and the rows of tiles that add to
   them.  The first rows of tiles may belong to another crew and only overlap these pixels. */
typedef struct share {
    float *image;
    const float *mask; /* of the image, or NULL */
    dpt_cpu_range pixels, tiles;
} share;

/* The first row of pixels that belongs to a row of tiles. */
static size_t first_pixel(const winograd *v, size_t row)
{
    const size_t pad = (size_t)v->source.pad_h, at = row * v->edge;
    if (row == 0 || at <= pad) return 0;
    return row == v->tiles_h || at - pad > v->source.h ? v->source.h : at - pad;
}

static share share_of(const winograd *v, dpt_cpu_range rows, size_t sample,
                      const winograd_ending *e, float *dx)
{
    const winograd_images *images = &v->source;
    const size_t image = sample * images->h * images->w * images->c, top = sample * v->tiles_h;
    const size_t begin = rows.begin > top ? rows.begin - top : 0;
    const size_t end = rows.end - top < v->tiles_h ? rows.end - top : v->tiles_h;
    const dpt_cpu_range tiles =
        KERNEL(winograd_tiles_of_rows)(v, (dpt_cpu_range){top + begin, top + end});
    return (share){.image = dx + image,
                   .mask = e->mask ? e->mask + image : NULL,
                   .pixels = {first_pixel(v, begin), first_pixel(v, end)},
                   .tiles = tiles};
}

/* The floats of the image that belong to a share. */
static dpt_cpu_range floats_of(const winograd *v, const share *s)
{
    const size_t row = v->source.w * v->source.c;
    return (dpt_cpu_range){s->pixels.begin * row, s->pixels.end * row};
}

static void begin_share(const winograd *v, const share *s, const winograd_ending *e)
{
    const dpt_cpu_range part = floats_of(v, s);
    if (e->accumulate) return;
    memset(s->image + part.begin, 0, (part.end - part.begin) * sizeof *s->image);
}

static void end_share(const winograd *v, const share *s)
{
    const dpt_cpu_range part = floats_of(v, s);
    if (!s->mask) return;
    for (size_t i = part.begin; i < part.end; i += LANES) {
        const size_t left = part.end - i;
        if (left >= LANES) {
            vec_store(s->image + i,
                      vec_where_positive(vec_load(s->mask + i), vec_load(s->image + i)));
            continue;
        }
        const vec mask = load_part(s->mask + i, left), x = load_part(s->image + i, left);
        store_part(s->image + i, vec_where_positive(mask, x), left);
    }
}

DPT_CPU_INLINE void scatter_vector(const winograd *v, const share *s, place p, const float *from,
                                   size_t channel, lanes n, const bool whole, const size_t side)
{
    const size_t w = v->source.w, c = v->source.c, point = v->data.point;
    const size_t n_rows = s->pixels.end - s->pixels.begin;
    /* Above and left of the image, or of the share, these values wrap around and are huge. */
    const size_t top = p.row * v->edge - (size_t)v->source.pad_h;
    const size_t left = p.column * v->edge - (size_t)v->source.pad_w;
    vec t[WINOGRAD_SIDE_MAX][WINOGRAD_SIDE_MAX];
    DPT_CPU_UNROLL
    for (size_t j = 0; j < side; j++) {
        vec column[WINOGRAD_SIDE_MAX];
        DPT_CPU_UNROLL
        for (size_t i = 0; i < side; i++)
            column[i] = vec_load(from + (i * side + j) * point);
        winograd_adjoint_data(column, side);
        DPT_CPU_UNROLL
        for (size_t i = 0; i < side; i++)
            t[i][j] = column[i];
    }
    DPT_CPU_UNROLL
    for (size_t i = 0; i < side; i++) {
        if (top + i - s->pixels.begin >= n_rows) continue;
        winograd_adjoint_data(t[i], side);
        DPT_CPU_UNROLL
        for (size_t j = 0; j < side; j++) {
            if (left + j >= w) continue;
            float *to = s->image + ((top + i) * w + left + j) * c + channel;
            store(to, vec_add(load(to, n, whole), t[i][j]), n, whole);
        }
    }
}

typedef struct scattering {
    const float *products;
    dpt_cpu_range tiles, rows;
    size_t first;
    const winograd_ending *ending;
    float *dx;
} scattering;

DPT_CPU_INLINE void scatter_of_tiles(const winograd *v, const scattering *k, const size_t edge,
                                     const size_t taps)
{
    const winograd_layout *l = &v->data;
    if (k->tiles.begin == k->tiles.end) return;
    place p = place_of(v, k->tiles.begin);
    share s = share_of(v, k->rows, p.sample, k->ending, k->dx);
    for (size_t t = k->tiles.begin; t < k->tiles.end; t++) {
        if (p.row == 0 && p.column == 0) s = share_of(v, k->rows, p.sample, k->ending, k->dx);
        if (t == s.tiles.begin) begin_share(v, &s, k->ending);
        for (size_t channel = 0; channel < l->channels; channel += LANES) {
            const float *from = k->products + (t - k->first) * l->row + channel;
            const size_t left = l->channels - channel;
            if (left >= LANES)
                scatter_vector(v, &s, p, from, channel, (lanes){LANES, LANES}, true,
                               edge + taps - 1);
            else
                scatter_vector(v, &s, p, from, channel, (lanes){left, left}, false,
                               edge + taps - 1);
        }
        if (t + 1 == s.tiles.end) end_share(v, &s);
        place_next(v, &p);
    }
}

void KERNEL(winograd_scatter)(const winograd *v, const float *products, dpt_cpu_range tiles,
                              size_t first, dpt_cpu_range rows, const winograd_ending *ending,
                              float *dx)
{
    const scattering k = {.products = products,
                          .tiles = tiles,
                          .rows = rows,
                          .first = first,
                          .ending = ending,
                          .dx = dx};
    WINOGRAD_CALL(v, scatter_of_tiles, v, &k);
}
