/* Cutting and scaling.  A value of the result is a sum of values of the image with whole weights,
   one of each extent, over the product of both extents' sums of weights: a fraction, exact until it
   is rounded. */
#include "data/scale.h"

#include <stdlib.h>
#include <string.h>

/* Along one extent: the pixels that go into one of the result, and their weights. */
typedef struct span {
    size_t first, count;
    uint64_t head, body, tail; /* of the first, of those between, of the last */
} span;

/* One extent of the image, of which n pixels from `first` on become m. */
typedef struct extent {
    size_t first, n, m;
} extent;

/* The sum of weights. */
static uint64_t whole(const extent *e)
{
    return e->n >= e->m ? e->n : 2 * (uint64_t)e->m;
}

/* Lengths in units of 1/m of a pixel: the result's pixel j covers j*n to (j+1)*n. */
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

/* In units of 1/2m: the middle of the result's pixel j lies at (2j+1)*n, that of pixel i at
   (2i+1)*m.  Outside of the middles there is one pixel alone. */
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

/* sums (m, channels) += row_weight * the row's weighted sums. */
static void add_row(const uint8_t *row, const extent *e, size_t channels, uint64_t row_weight,
                    uint64_t *sums)
{
    for (size_t j = 0; j < e->m; j++) {
        const span s = span_of(e, j);
        const uint8_t *pixel = row + s.first * channels;
        for (size_t i = 0; i < s.count; i++, pixel += channels)
            for (size_t c = 0; c < channels; c++)
                sums[j * channels + c] += row_weight * weight(&s, i) * pixel[c];
    }
}

size_t dpti_scale_cut(size_t n, size_t m, size_t wanted_n, size_t wanted_m)
{
    const uint64_t doubled = 2 * (uint64_t)m * wanted_n;
    const uint64_t part = (doubled + wanted_m) / (2 * (uint64_t)wanted_m);
    if (part >= n) return n;
    return part > 0 ? (size_t)part : 1;
}

bool dpti_scale(const uint8_t *from, const dpti_image_shape *of, uint8_t *to,
                const dpti_image_shape *wanted)
{
    const size_t channels = of->channels, n_row = wanted->width * channels;
    extent y = {.n = dpti_scale_cut(of->height, of->width, wanted->height, wanted->width),
                .m = wanted->height};
    extent x = {.n = dpti_scale_cut(of->width, of->height, wanted->width, wanted->height),
                .m = wanted->width};
    y.first = (of->height - y.n) / 2;
    x.first = (of->width - x.n) / 2;
    uint64_t *sums = malloc(n_row * sizeof *sums);
    if (!sums) return false;
    /* At most 2^28 * 2^17, and no sum is more than 255 times that. */
    const uint64_t divisor = whole(&y) * whole(&x);
    for (size_t j = 0; j < y.m; j++, to += n_row) {
        const span s = span_of(&y, j);
        memset(sums, 0, n_row * sizeof *sums);
        for (size_t i = 0; i < s.count; i++)
            add_row(from + (s.first + i) * of->width * channels, &x, channels, weight(&s, i), sums);
        for (size_t i = 0; i < n_row; i++)
            to[i] = (uint8_t)((sums[i] + divisor / 2) / divisor);
    }
    free(sums);
    return true;
}
