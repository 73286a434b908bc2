/* Philox4x32-10 by the letter of its definition (Salmon, Moraes, Dror, Shaw: "Parallel Random
   Numbers: As Easy as 1, 2, 3", SC 2011), and what the operators draw with it: dropout and the
   augmentation of images. */
#include "reference.h"

#include <math.h>
#include <stdlib.h>

void reference_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t x[4] = {counter[0], counter[1], counter[2], counter[3]};
    for (uint32_t round = 0; round < 10; round++) {
        const uint64_t left = UINT64_C(0xD2511F53) * x[0], right = UINT64_C(0xCD9E8D57) * x[2];
        const uint32_t next[4] = {
            (uint32_t)(right >> 32) ^ x[1] ^ (key[0] + round * UINT32_C(0x9E3779B9)),
            (uint32_t)right,
            (uint32_t)(left >> 32) ^ x[3] ^ (key[1] + round * UINT32_C(0xBB67AE85)),
            (uint32_t)left,
        };
        for (size_t i = 0; i < 4; i++)
            x[i] = next[i];
    }
    for (size_t i = 0; i < 4; i++)
        out[i] = x[i];
}

/* u of element e of a sample: [0, 1) in steps of 2^-24. */
static double uniform(const reference_args *args, double sample, uint32_t stream, size_t e)
{
    const uint32_t counter[4] = {(uint32_t)(e / 4), (uint32_t)sample, args->epoch, stream};
    uint32_t words[4];
    reference_philox(counter, args->seed, words);
    return (double)(words[e % 4] >> 8) / 16777216.0;
}

void reference_dropout(const dpt_dropout_desc *d, size_t n, const reference_args *args)
{
    for (size_t i = 0; i < n * d->count; i++) {
        const double u = uniform(args, args->in[1][i / d->count], d->stream, i % d->count);
        const double y = u >= (double)d->p ? args->in[0][i] / (1.0 - (double)d->p) : 0.0;
        args->out[0][i] = args->accumulate ? args->out[0][i] + y : y;
    }
}

/* ---- Augmentation ---------------------------------------------------------------------------- */

/* Everything that is drawn for one sample. */
typedef struct drawn {
    ptrdiff_t top, left; /* of the window, in pixels of the image without padding */
    bool flip;
    size_t erase_top, erase_left, erase_height, erase_width; /* height 0: nothing is erased */
} drawn;

static size_t below(const reference_args *args, double sample, size_t i, size_t m)
{
    return (size_t)floor(uniform(args, sample, 0, i) * (double)m);
}

static void draw_rectangle(const dpt_augment *a, double sample, const reference_args *args,
                           drawn *out)
{
    if (!(uniform(args, sample, 0, 3) < (double)a->erase)) return;
    for (size_t k = 1; k <= 10; k++) {
        const double area =
            (double)(a->height * a->width) * (0.02 + 0.31 * uniform(args, sample, 0, 4 * k));
        const double ratio = exp(log(0.3) + uniform(args, sample, 0, 4 * k + 1) * log(3.3 / 0.3));
        const size_t h = (size_t)round(sqrt(area * ratio)), w = (size_t)round(sqrt(area / ratio));
        if (h < 1 || w < 1 || h >= a->height || w >= a->width) continue;
        out->erase_height = h;
        out->erase_width = w;
        out->erase_top = below(args, sample, 4 * k + 2, a->height - h + 1);
        out->erase_left = below(args, sample, 4 * k + 3, a->width - w + 1);
        return;
    }
}

static drawn draw(const dpt_augment *a, double sample, const reference_args *args)
{
    drawn d = {.flip = a->flip && uniform(args, sample, 0, 2) < 0.5};
    d.top = (ptrdiff_t)below(args, sample, 0, 2 * a->pad + 1) - (ptrdiff_t)a->pad;
    d.left = (ptrdiff_t)below(args, sample, 1, 2 * a->pad + 1) - (ptrdiff_t)a->pad;
    draw_rectangle(a, sample, args, &d);
    return d;
}

static bool is_erased(const drawn *d, size_t y, size_t x)
{
    return y >= d->erase_top && y - d->erase_top < d->erase_height && x >= d->erase_left &&
           x - d->erase_left < d->erase_width;
}

/* The data that pixel (y, x) of the augmented image shows: zero in the padding. */
static double pixel(const dpt_augment *a, const drawn *d, const double *image, size_t channels,
                    size_t y, size_t x, size_t channel)
{
    const ptrdiff_t row = d->top + (ptrdiff_t)y;
    const ptrdiff_t column = d->left + (ptrdiff_t)(d->flip ? a->width - 1 - x : x);
    if (row < 0 || column < 0 || row >= (ptrdiff_t)a->height || column >= (ptrdiff_t)a->width)
        return 0.0;
    return image[((size_t)row * a->width + (size_t)column) * channels + channel];
}

void reference_gather_augmented(const dpt_gather_desc *d, size_t n, const reference_args *args)
{
    const dpt_augment *a = &d->augment;
    const size_t channels = d->count / (a->height * a->width);
    for (size_t i = 0; i < n; i++) {
        const double *image = args->in[0] + (size_t)args->in[1][i] * d->count;
        const drawn all = draw(a, args->in[2][i], args);
        for (size_t e = 0; e < d->count; e++) {
            const size_t y = e / channels / a->width, x = e / channels % a->width;
            const double value = pixel(a, &all, image, channels, y, x, e % channels);
            const size_t k = e % d->channels;
            args->out[0][i * d->count + e] =
                is_erased(&all, y, x) ? 0.0 : (value - (double)d->mean[k]) * (double)d->scale[k];
        }
    }
}
