/* The operations of RandAugment (dpt_augment) on whole images, in double precision. */
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct picture {
    const double *values;
    ptrdiff_t height, width, channels;
    double mean_grey, least[3], most[3];
    double below[3][257]; /* of each channel, how many pixels are below each value */
} picture;

static double at(const picture *p, ptrdiff_t y, ptrdiff_t x, ptrdiff_t channel)
{
    if (y < 0 || x < 0 || y >= p->height || x >= p->width) return 0.0;
    return p->values[(y * p->width + x) * p->channels + channel];
}

/* The floor of a fraction whose denominator is below 1e11. */
static double whole(double value)
{
    return floor(value + 4e-12);
}

static double between(double value)
{
    return whole(fmin(fmax(value, 0.0), 255.0));
}

static double grey_at(const picture *p, ptrdiff_t y, ptrdiff_t x)
{
    if (p->channels == 1) return at(p, y, x, 0);
    return whole((2989.0 * at(p, y, x, 0) + 5870.0 * at(p, y, x, 1) + 1140.0 * at(p, y, x, 2)) /
                 10000.0);
}

/* ---- Geometry -------------------------------------------------------------------------------- */

static double moved(const picture *p, int kind, double value, const ptrdiff_t place[3])
{
    const double y = (double)place[0], x = (double)place[1];
    const double h = (double)p->height, w = (double)p->width;
    /* A shear is counted in units of 2^-30, so that a source is never between two pixels by less.
     */
    const double shear = round(value / 100.0 * 0x1p30) * 0x1p-30;
    if (kind == 1) return at(p, place[0], (ptrdiff_t)floor(x + 0.5 + shear * (y + 0.5)), place[2]);
    if (kind == 2) return at(p, (ptrdiff_t)floor(y + 0.5 + shear * (x + 0.5)), place[1], place[2]);
    if (kind == 3)
        return at(p, place[0], place[1] - (ptrdiff_t)trunc(value * 150.0 * w / 9930.0), place[2]);
    if (kind == 4)
        return at(p, place[0] - (ptrdiff_t)trunc(value * 150.0 * h / 9930.0), place[1], place[2]);
    const double angle = value * acos(-1.0) / 180.0, c = cos(angle), s = sin(angle);
    const double right = x + 0.5 - w / 2.0, down = y + 0.5 - h / 2.0;
    if (value == 0.0) return at(p, place[0], place[1], place[2]);
    return at(p, (ptrdiff_t)floor(s * right + c * down + h / 2.0),
              (ptrdiff_t)floor(c * right - s * down + w / 2.0), place[2]);
}

/* ---- Colours --------------------------------------------------------------------------------- */

static double mean_grey(const picture *p)
{
    double sum = 0.0;
    for (ptrdiff_t i = 0; i < p->height * p->width; i++)
        sum += grey_at(p, i / p->width, i % p->width);
    return sum / (double)(p->height * p->width);
}

static double blurred(const picture *p, const ptrdiff_t place[3])
{
    double sum = 4.0 * at(p, place[0], place[1], place[2]);
    for (ptrdiff_t i = 0; i < 9; i++)
        sum += at(p, place[0] - 1 + i / 3, place[1] - 1 + i % 3, place[2]);
    return round(sum / 13.0);
}

static double enhanced(const picture *p, int kind, double value, const ptrdiff_t place[3])
{
    const double factor = round((1.0 + 0.03 * value) * 65536.0) / 65536.0;
    const double v = at(p, place[0], place[1], place[2]);
    double other = 0.0;
    if (kind == 7 && p->channels == 1) return v;
    if (kind == 7) other = grey_at(p, place[0], place[1]);
    if (kind == 8) other = p->mean_grey;
    if (kind == 9) {
        if (place[0] == 0 || place[1] == 0 || place[0] == p->height - 1 || place[1] == p->width - 1)
            return v;
        other = blurred(p, place);
    }
    return between(factor * v + (1.0 - factor) * other);
}

/* Counts the pixels of each channel. */
static void count_pixels(picture *p)
{
    p->mean_grey = mean_grey(p);
    for (ptrdiff_t c = 0; c < p->channels; c++) {
        p->least[c] = 255.0;
        for (ptrdiff_t i = 0; i < p->height * p->width; i++) {
            const double v = at(p, i / p->width, i % p->width, c);
            p->least[c] = fmin(p->least[c], v);
            p->most[c] = fmax(p->most[c], v);
            for (int above = (int)v + 1; above <= 256; above++)
                p->below[c][above]++;
        }
    }
}

static double mapped(const picture *p, int kind, double value, const ptrdiff_t place[3])
{
    const double v = at(p, place[0], place[1], place[2]);
    const double least = p->least[place[2]], most = p->most[place[2]];
    const double *below = p->below[place[2]];
    if (kind == 10) {
        const double unit = exp2(round(value * 4.0 / 30.0));
        return floor(v / unit) * unit;
    }
    if (kind == 11) return v * 30.0 >= 255.0 * (30.0 - value) ? 255.0 - v : v;
    if (kind == 12) return least == most ? v : whole((v - least) * 255.0 / (most - least));
    const double step = floor(below[(int)most] / 255.0);
    if (step == 0.0) return v;
    return fmin(floor((below[(int)v] + floor(step / 2.0)) / step), 255.0);
}

bool reference_randaugment(int kind, double value, const dpt_augment *a, double *image,
                           size_t channels)
{
    const size_t n = a->height * a->width * channels;
    double *old = malloc(n * sizeof *old);
    if (!old) return false;
    memcpy(old, image, n * sizeof *old);
    picture p = {.values = old,
                 .height = (ptrdiff_t)a->height,
                 .width = (ptrdiff_t)a->width,
                 .channels = (ptrdiff_t)channels};
    count_pixels(&p);
    for (size_t e = 0; e < n; e++) {
        const size_t pixel = e / channels;
        const ptrdiff_t place[3] = {(ptrdiff_t)(pixel / a->width), (ptrdiff_t)(pixel % a->width),
                                    (ptrdiff_t)(e % channels)};
        if (kind >= 1 && kind <= 5) image[e] = moved(&p, kind, value, place);
        if (kind >= 6 && kind <= 9) image[e] = enhanced(&p, kind, value, place);
        if (kind >= 10) image[e] = mapped(&p, kind, value, place);
    }
    free(old);
    return true;
}
