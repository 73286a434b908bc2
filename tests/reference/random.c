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
    double angle;                                            /* radians, counter-clockwise */
    double factor[3]; /* of brightness, contrast, saturation */
    double hue;       /* of a turn */
    int op_kind[6];   /* of RandAugment */
    double op_value[6];
    int order[4]; /* changes of brightness, contrast, saturation, hue: 0 to 3 */
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

/* A number in units of 2^-16, as an integer. */
static double units(float number)
{
    return floor((double)number * 65536.0 + 0.5);
}

static void draw_order(size_t number, int order[4])
{
    size_t n = 0;
    for (int i = 0; i < 256; i++) {
        const int digits[4] = {i / 64, i / 16 % 4, i / 4 % 4, i % 4};
        bool all = true;
        for (int change = 0; change < 4; change++)
            all = all && (digits[0] == change || digits[1] == change || digits[2] == change ||
                          digits[3] == change);
        if (all && n++ == number)
            for (int k = 0; k < 4; k++)
                order[k] = digits[k];
    }
}

static void draw_distortion(const dpt_augment *a, double sample, const reference_args *args,
                            drawn *out)
{
    const float limits[3] = {a->brightness, a->contrast, a->saturation};
    const double angle = units(a->rotate), hue = units(a->hue);
    const size_t steps = (size_t)(2.0 * angle) + 1;
    out->angle = ((double)below(args, sample, 44, steps) - angle) / 65536.0 * acos(-1.0) / 180.0;
    for (size_t k = 0; k < 3; k++) {
        const double low = fmax(0.0, 65536.0 - units(limits[k]));
        const size_t n = (size_t)(65536.0 + units(limits[k]) - low + 1.0);
        out->factor[k] = (low + (double)below(args, sample, 45 + k, n)) / 65536.0;
    }
    out->hue = ((double)below(args, sample, 48, (size_t)(2.0 * hue) + 1) - hue) / 65536.0;
    draw_order(below(args, sample, 49, 24), out->order);
    for (size_t k = 0; k < a->ops; k++) {
        out->op_kind[k] = (int)below(args, sample, 52 + 2 * k, 14);
        out->op_value[k] = (double)a->magnitude;
        if (out->op_kind[k] >= 1 && out->op_kind[k] <= 9 &&
            uniform(args, sample, 0, 53 + 2 * k) < 0.5)
            out->op_value[k] = -out->op_value[k];
    }
}

static drawn draw(const dpt_augment *a, double sample, const reference_args *args)
{
    drawn d = {.flip = a->flip && uniform(args, sample, 0, 2) < 0.5};
    d.top = (ptrdiff_t)below(args, sample, 0, 2 * a->pad + 1) - (ptrdiff_t)a->pad;
    d.left = (ptrdiff_t)below(args, sample, 1, 2 * a->pad + 1) - (ptrdiff_t)a->pad;
    draw_rectangle(a, sample, args, &d);
    draw_distortion(a, sample, args, &d);
    return d;
}

static bool is_erased(const drawn *d, size_t y, size_t x)
{
    return y >= d->erase_top && y - d->erase_top < d->erase_height && x >= d->erase_left &&
           x - d->erase_left < d->erase_width;
}

/* The data that pixel (y, x) of the cropped image shows: zero in the padding. */
static double cropped_pixel(const dpt_augment *a, const drawn *d, const double *image,
                            size_t channels, size_t y, size_t x, size_t channel)
{
    const ptrdiff_t row = d->top + (ptrdiff_t)y;
    const ptrdiff_t column = d->left + (ptrdiff_t)(d->flip ? a->width - 1 - x : x);
    if (row < 0 || column < 0 || row >= (ptrdiff_t)a->height || column >= (ptrdiff_t)a->width)
        return 0.0;
    return image[((size_t)row * a->width + (size_t)column) * channels + channel];
}

/* The data that pixel (y, x) of the rotated image shows: zero outside of the cropped image. */
static double pixel(const dpt_augment *a, const drawn *d, const double *image, size_t channels,
                    size_t y, size_t x, size_t channel)
{
    const double h = (double)a->height, w = (double)a->width;
    const double right = (double)x - (w - 1.0) / 2.0, down = (double)y - (h - 1.0) / 2.0;
    const double c = cos(d->angle), s = sin(d->angle);
    if (d->angle == 0.0) return cropped_pixel(a, d, image, channels, y, x, channel);
    const double row = floor(s * right + c * down + h / 2.0);
    const double column = floor(c * right - s * down + w / 2.0);
    if (row < 0.0 || column < 0.0 || row >= h || column >= w) return 0.0;
    return cropped_pixel(a, d, image, channels, (size_t)row, (size_t)column, channel);
}

/* ---- Colours --------------------------------------------------------------------------------- */

/* The floor of a fraction whose denominator is below 1e11, which a double may have just below an
   integer. */
static double fraction_floor(double value)
{
    return floor(value + 4e-12);
}

static double byte_of(double value)
{
    return fraction_floor(fmin(fmax(value, 0.0), 255.0));
}

static double grey_of(const double *pixel, size_t channels)
{
    if (channels == 1) return pixel[0];
    return fraction_floor((2989.0 * pixel[0] + 5870.0 * pixel[1] + 1140.0 * pixel[2]) / 10000.0);
}

/* By way of hue, saturation and value. */
static void turn_hue(double *pixel, double turn)
{
    const double r = pixel[0], g = pixel[1], b = pixel[2];
    const double most = fmax(r, fmax(g, b)), range = most - fmin(r, fmin(g, b));
    double sixths = 6.0 * turn;
    if (range == 0.0) return;
    sixths += r == most   ? (g - b) / range
              : g == most ? 2.0 + (b - r) / range
                          : 4.0 + (r - g) / range;
    for (size_t k = 0; k < 3; k++) {
        /* how far the hue is from the pure colour of the channel */
        double away = fabs(fmod(sixths - 2.0 * (double)k + 15.0, 6.0) - 3.0);
        away = fmin(fmax(away - 1.0, 0.0), 1.0);
        pixel[k] = fraction_floor((most - range * away) * 255.999 / 255.0);
    }
}

static double mean_grey(const double *image, size_t n_pixels, size_t channels)
{
    double sum = 0.0;
    for (size_t i = 0; i < n_pixels; i++)
        sum += grey_of(image + i * channels, channels);
    return sum / (double)n_pixels;
}

/* One change of a whole image. */
static void change_colours(int change, const drawn *d, double *image, size_t n_pixels,
                           size_t channels)
{
    const double mean = change == 1 ? mean_grey(image, n_pixels, channels) : 0.0;
    if (change >= 2 && channels == 1) return;
    for (size_t i = 0; i < n_pixels; i++) {
        double *p = image + i * channels;
        const double other = change == 2 ? grey_of(p, channels) : mean;
        if (change == 3) {
            turn_hue(p, d->hue);
            continue;
        }
        for (size_t k = 0; k < channels; k++)
            p[k] = byte_of(d->factor[change] * p[k] + (1.0 - d->factor[change]) * other);
    }
}

/* The augmented image before it is normalised. */
static void make_image(const dpt_augment *a, const drawn *d, const double *image, size_t channels,
                       double *out)
{
    const size_t n_pixels = a->height * a->width;
    for (size_t e = 0; e < n_pixels * channels; e++) {
        const size_t at = e / channels;
        out[e] = pixel(a, d, image, channels, at / a->width, at % a->width, e % channels);
    }
    for (size_t k = 0; k < a->ops; k++)
        if (!reference_randaugment(d->op_kind[k], d->op_value[k], a, out, channels)) abort();
    for (size_t k = 0; k < 4 && dpt_jitters(a); k++)
        change_colours(d->order[k], d, out, n_pixels, channels);
}

void reference_gather_augmented(const dpt_gather_desc *d, size_t n, const reference_args *args)
{
    const dpt_augment *a = &d->augment;
    const size_t channels = d->count / (a->height * a->width);
    for (size_t i = 0; i < n; i++) {
        const double *image = args->in[0] + (size_t)args->in[1][i] * d->count;
        const drawn all = draw(a, args->in[2][i], args);
        double *out = args->out[0] + i * d->count;
        make_image(a, &all, image, channels, out);
        for (size_t e = 0; e < d->count; e++) {
            const size_t y = e / channels / a->width, x = e / channels % a->width;
            const size_t k = e % d->channels;
            out[e] =
                is_erased(&all, y, x) ? 0.0 : (out[e] - (double)d->mean[k]) * (double)d->scale[k];
        }
    }
}
