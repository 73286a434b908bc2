/* Cuts and scales images.  A result value is a weighted sum of image values, with one integer
   weight per axis, divided by the product of the sums of both axes' weights.  This fraction is
   exact until it is rounded. */
#include "data/scale.h"
#include "base/memory.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Along one axis: the source pixels of a result pixel, and their weights. */
typedef struct span {
    size_t first, count;
    uint64_t head, body, tail; /* weight of the first pixel, of each one between, of the last one */
} span;

/* One axis of the image: n pixels from `first` on become m pixels. */
typedef struct extent {
    size_t first, n, m;
} extent;

/* Returns the sum of weights. */
static uint64_t whole(const extent *e)
{
    return e->n >= e->m ? e->n : 2 * (uint64_t)e->m;
}

/* Shrinking: in units of 1/m of a pixel, result pixel j covers j*n to (j+1)*n. */
static span covered(const extent *e, size_t j)
{
    const uint64_t begin = (uint64_t)j * e->n, end = begin + e->n, m = e->m;
    const uint64_t first = begin / m, last = (end - 1) / m;
    return (span){
        .first = e->first + first,
        .count = last - first + 1,
        .head = last == first ? e->n : (first + 1) * m - begin,
        .body = m,
        .tail = end - last * m,
    };
}

/* Growing: in units of 1/2m of a pixel, the centre of result pixel j is at (2j+1)*n, and that of
   source pixel i at (2i+1)*m.  Beyond the first and the last centre only one pixel counts. */
static span between(const extent *e, size_t j)
{
    const uint64_t unit = 2 * (uint64_t)e->m, at = (2 * (uint64_t)j + 1) * e->n;
    const uint64_t from_first = at > e->m ? at - e->m : 0;
    const uint64_t i = from_first / unit, rest = from_first % unit;
    const bool alone = rest == 0 || i + 1 >= e->n;
    return (span){
        .first = e->first + i,
        .count = alone ? 1 : 2,
        .head = alone ? unit : unit - rest,
        .tail = rest,
    };
}

static span span_of(const extent *e, size_t j)
{
    return e->n >= e->m ? covered(e, j) : between(e, j);
}

static uint64_t weight(const span *s, size_t i)
{
    if (i == 0) return s->head;
    return i + 1 == s->count ? s->tail : s->body;
}

/* The computation of a row of the result: the rows of the image are summed first, then their
   columns. */
typedef struct scaling {
    const uint8_t *from; /* (.., n_from) */
    size_t n_from;       /* values of a row, */
    size_t left, n;      /* of which these are in the window */
    size_t channels;
    extent y, x;
    span *columns;        /* (x.m) */
    uint32_t *short_sums; /* (n) weighted sums of rows, if 32 bits are enough */
    uint64_t *sums;       /* (n) weighted sums of rows */
} scaling;

static bool is_short(const extent *e)
{
    return whole(e) <= UINT32_MAX / 255;
}

static void add_short(const uint8_t *row, size_t n, uint32_t row_weight, uint32_t *sums)
{
    for (size_t i = 0; i < n; i++)
        sums[i] += row_weight * row[i];
}

static void add_long(const uint8_t *row, size_t n, uint64_t row_weight, uint64_t *sums)
{
    for (size_t i = 0; i < n; i++)
        sums[i] += row_weight * row[i];
}

/* Computes s->sums for row j of the result. */
static void add_rows(const scaling *s, size_t j)
{
    const span rows = span_of(&s->y, j);
    const bool is = is_short(&s->y);
    memset(s->sums, 0, s->n * sizeof *s->sums);
    memset(s->short_sums, 0, s->n * sizeof *s->short_sums);
    for (size_t i = 0; i < rows.count; i++) {
        const uint8_t *row = s->from + (rows.first + i) * s->n_from + s->left;
        if (is)
            add_short(row, s->n, (uint32_t)weight(&rows, i), s->short_sums);
        else
            add_long(row, s->n, weight(&rows, i), s->sums);
    }
    for (size_t i = 0; is && i < s->n; i++)
        s->sums[i] = s->short_sums[i];
}

/* Computes one value of the result. */
static uint8_t add_columns(const span *columns, const uint64_t *sums, size_t channels,
                           uint64_t divisor)
{
    const size_t last = columns->count - 1;
    uint64_t sum = 0;
    for (size_t i = 1; i < last; i++)
        sum += sums[i * channels];
    sum = sum * columns->body + sums[0] * columns->head;
    if (last > 0) sum += sums[last * channels] * columns->tail;
    return (uint8_t)((sum + divisor / 2) / divisor);
}

size_t dpti_scale_cut(size_t n, size_t m, size_t wanted_n, size_t wanted_m)
{
    const uint64_t doubled = 2 * (uint64_t)m * wanted_n;
    const uint64_t part = (doubled + wanted_m) / (2 * (uint64_t)wanted_m);
    if (part >= n) return n;
    return part > 0 ? (size_t)part : 1;
}

dpti_image_window dpti_scale_middle(const dpti_image_shape *of, const dpti_image_shape *wanted)
{
    dpti_image_window w = {
        .height = dpti_scale_cut(of->height, of->width, wanted->height, wanted->width),
        .width = dpti_scale_cut(of->width, of->height, wanted->width, wanted->height)};
    w.top = (of->height - w.height) / 2;
    w.left = (of->width - w.width) / 2;
    return w;
}

/* Returns a uniform random number from 0 to n - 1. */
static size_t draw_place(dpti_random *random, size_t n)
{
    return dpti_random_below(random, (uint32_t)n);
}

/* Returns a random aspect ratio from 3/4 to 4/3.  A ratio is as likely as its inverse, and the
   distribution is almost uniform on a logarithmic scale. */
static double draw_aspect(dpti_random *random)
{
    const double x = 2 * (double)dpti_random_uniform(random) - 1;
    return x < 0 ? 1 / (1 - x / 3) : 1 + x / 3;
}

dpti_image_window dpti_scale_draw(const dpti_image_shape *of, const dpti_image_shape *wanted,
                                  double least_area, dpti_random *random)
{
    enum { TRIES = 10 };
    const double whole_area = (double)of->height * (double)of->width;
    const double square = (double)wanted->width / (double)wanted->height;
    for (size_t i = 0; i < TRIES; i++) {
        const double part = least_area + (1 - least_area) * (double)dpti_random_uniform(random);
        const double aspect = square * draw_aspect(random), area = part * whole_area;
        const double height = sqrt(area / aspect) + 0.5, width = sqrt(area * aspect) + 0.5;
        if (height >= (double)of->height + 1 || width >= (double)of->width + 1) continue;
        dpti_image_window w = {.height = (size_t)height, .width = (size_t)width};
        if (w.height == 0 || w.width == 0) continue;
        w.top = draw_place(random, of->height - w.height + 1);
        w.left = draw_place(random, of->width - w.width + 1);
        return w;
    }
    return dpti_scale_middle(of, wanted);
}

static void scale(const scaling *s, uint8_t *to)
{
    /* The divisor is at most 2^28 * 2^17, and no sum is more than 255 times as large. */
    const uint64_t divisor = whole(&s->y) * whole(&s->x);
    for (size_t i = 0; i < s->x.m; i++)
        s->columns[i] = span_of(&s->x, i);
    for (size_t j = 0; j < s->y.m; j++) {
        add_rows(s, j);
        for (size_t i = 0; i < s->x.m; i++)
            for (size_t c = 0; c < s->channels; c++)
                *to++ = add_columns(&s->columns[i], s->sums + s->columns[i].first * s->channels + c,
                                    s->channels, divisor);
    }
}

bool dpti_scale(const dpti_scale_source *from, uint8_t *to, const dpti_image_shape *wanted)
{
    const dpti_image_shape *of = &from->shape;
    const dpti_image_window *window = &from->window;
    scaling s = {.from = from->pixels,
                 .n_from = of->width * of->channels,
                 .left = window->left * of->channels,
                 .n = window->width * of->channels,
                 .channels = of->channels,
                 .y = {.first = window->top, .n = window->height, .m = wanted->height},
                 .x = {.n = window->width, .m = wanted->width}};
    /* A picture may be one row of 2^28 pixels: memory is not allocated if the machine may not have
       it. */
    if (s.n > dpti_machine_memory() / 4 / (sizeof *s.short_sums + sizeof *s.sums)) return false;
    s.columns = malloc(wanted->width * sizeof *s.columns);
    s.short_sums = malloc(s.n * sizeof *s.short_sums);
    s.sums = malloc(s.n * sizeof *s.sums);
    const bool complete = s.columns && s.short_sums && s.sums;
    if (complete) scale(&s, to);
    free(s.sums);
    free(s.short_sums);
    free(s.columns);
    return complete;
}
