/* Rotation and colour jitter of an image (dpt_augment).  All arithmetic is in integers, so that
   every device and every processor makes the same bytes, in every mode.  Fractions are counted in
   units of 2^-16, sines and cosines in units of 2^-30.

   Source for OpenCL C 1.2, CUDA C++ and C17. */
#ifndef DPT_KERNELS_DISTORT_H
#define DPT_KERNELS_DISTORT_H

#include "dialect.h"

#if defined(__OPENCL_VERSION__) || defined(__CUDACC__)
#define DISTORT_FUNCTION DEVICE
#define DISTORT_BYTES    GLOBAL const u8 *
#else
#define DISTORT_FUNCTION static inline
#define DISTORT_BYTES    const u8 *
#endif

#define DISTORT_ONE         65536u
#define DISTORT_RIGHT_ANGLE (90u << 16)
#define DISTORT_TURN_ONE    (1u << 30)

/* The changes of colour, by the numbers that an order has. */
#define DISTORT_BRIGHTNESS 0u
#define DISTORT_CONTRAST   1u
#define DISTORT_SATURATION 2u
#define DISTORT_HUE        3u

/* The options of an augmentation.  All zero: nothing is drawn. */
typedef struct distort_limits {
    u32 rotate;                           /* the greatest angle in degrees, at most 180 */
    u32 brightness, contrast, saturation; /* the greatest difference of a factor from 1 */
    u32 hue;                              /* the greatest part of a turn, at most 1/2 */
} distort_limits;

#if !defined(__OPENCL_VERSION__) && !defined(__CUDACC__)
/* The limits in units, from those of rotation, brightness, contrast, saturation and hue. */
static inline distort_limits distort_limits_of(const float limits[5])
{
    u32 units[5];
    for (int i = 0; i < 5; i++)
        units[i] = (u32)((double)limits[i] * 65536.0 + 0.5);
    return (distort_limits){units[0], units[1], units[2], units[3], units[4]};
}
#endif

/* What is drawn for an image. */
typedef struct distort_drawn {
    i32 cosine, sine;
    u32 brightness, contrast, saturation; /* factors */
    u32 hue;                              /* of a turn, below 1 */
    u32 order;                            /* change j is order >> 4 j & 15 */
    i32 offset; /* what the change of contrast adds; it depends on the image */
} distort_drawn;

/* ---- Draws ----------------------------------------------------------------------------------- */

/* An integer from 0 to 2 limit: 2^-24 of the upper 24 bits of a word, times 2 limit + 1. */
DISTORT_FUNCTION u32 distort_below(u32 word, u32 limit)
{
    return (u32)((u64)(word >> 8) * (2u * limit + 1u) >> 24);
}

/* A factor from max(0, 1 - limit) to 1 + limit. */
DISTORT_FUNCTION u32 distort_factor(u32 word, u32 limit)
{
    const u32 low = limit < DISTORT_ONE ? DISTORT_ONE - limit : 0u;
    return low + (u32)((u64)(word >> 8) * (DISTORT_ONE + limit - low + 1u) >> 24);
}

/* One of the 24 orders of four changes. */
DISTORT_FUNCTION u32 distort_order(u32 word)
{
    const u32 number = (u32)((u64)(word >> 8) * 24u >> 24);
    const u32 third = number % 2u, second = number / 2u % 3u, first = number / 6u;
    u32 left = 0x3210u, order;
    order = left >> 4u * first & 15u;
    left = (left & ((1u << 4u * first) - 1u)) | (left >> (4u * first + 4u) << 4u * first);
    order |= (left >> 4u * second & 15u) << 4;
    left = (left & ((1u << 4u * second) - 1u)) | (left >> (4u * second + 4u) << 4u * second);
    order |= (left >> 4u * third & 15u) << 8;
    return order | (left >> 4u * (1u - third) & 15u) << 12;
}

/* 1 - (square / by) * rest, all in units of 2^-30: a step of a power series. */
DISTORT_FUNCTION u64 distort_series(u64 square, u64 rest, u32 by)
{
    return DISTORT_TURN_ONE - (square * rest >> 30) / by;
}

/* The cosine and sine of an angle of at most 180 degrees, in units of 2^-16 degrees.  Angles beyond
   45 degrees are those of the nearest right angle and what is left. */
DISTORT_FUNCTION void distort_turn(i32 angle, i32 *cosine, i32 *sine)
{
    const u32 size = (u32)(angle < 0 ? -angle : angle);
    const u32 quarters = (size + DISTORT_RIGHT_ANGLE / 2u) / DISTORT_RIGHT_ANGLE;
    const i32 left = (i32)size - (i32)(quarters * DISTORT_RIGHT_ANGLE);
    /* pi / 180 / 65536 in units of 2^-60 */
    const u64 x = (u64)(left < 0 ? -left : left) * 307041569098ul >> 30;
    const u64 square = x * x >> 30;
    u64 c = distort_series(square, DISTORT_TURN_ONE, 90u), s;
    c = distort_series(square, c, 56u);
    c = distort_series(square, c, 30u);
    c = distort_series(square, c, 12u);
    c = distort_series(square, c, 2u);
    s = distort_series(square, DISTORT_TURN_ONE, 110u);
    s = distort_series(square, s, 72u);
    s = distort_series(square, s, 42u);
    s = distort_series(square, s, 20u);
    s = x * distort_series(square, s, 6u) >> 30;
    const i32 near_c = (i32)c, near_s = left < 0 ? -(i32)s : (i32)s;
    const i32 far_c = quarters == 0 ? near_c : quarters == 1 ? -near_s : -near_c;
    const i32 far_s = quarters == 0 ? near_s : quarters == 1 ? near_c : -near_s;
    *cosine = far_c;
    *sine = angle < 0 ? -far_s : far_s;
}

/* Everything that is drawn, from six random words.  The offset is 0. */
DISTORT_FUNCTION distort_drawn distort_draw(const distort_limits limits, const u32 words[6])
{
    distort_drawn d;
    distort_turn((i32)distort_below(words[0], limits.rotate) - (i32)limits.rotate, &d.cosine,
                 &d.sine);
    d.brightness = distort_factor(words[1], limits.brightness);
    d.contrast = distort_factor(words[2], limits.contrast);
    d.saturation = distort_factor(words[3], limits.saturation);
    d.hue = (distort_below(words[4], limits.hue) - limits.hue) & (DISTORT_ONE - 1u);
    d.order = distort_order(words[5]);
    d.offset = 0;
    return d;
}

/* ---- Rotation -------------------------------------------------------------------------------- */

/* The row, or the column, that pixel (y, x) of the rotated image shows: the floor of
   (a (2 x + 1 - width) + b (2 y + 1 - height) + extent) / 2, where the extent is that of the axis.
   A place outside of the image is at least the extent. */
DISTORT_FUNCTION u32 distort_place(i64 a, i64 b, u32 extent)
{
    return (u32)((u64)(a + b + (i64)((u64)extent << 30)) >> 31);
}

DISTORT_FUNCTION u32 distort_row(const distort_drawn d, i32 from_middle_x, i32 from_middle_y,
                                 u32 height)
{
    return distort_place((i64)d.sine * from_middle_x, (i64)d.cosine * from_middle_y, height);
}

DISTORT_FUNCTION u32 distort_column(const distort_drawn d, i32 from_middle_x, i32 from_middle_y,
                                    u32 width)
{
    return distort_place((i64)d.cosine * from_middle_x, -(i64)d.sine * from_middle_y, width);
}

/* ---- Colours --------------------------------------------------------------------------------- */

typedef struct distort_pixel {
    u32 red, green, blue; /* at most 255; of a grey image, all are the same */
} distort_pixel;

/* The pixel that begins here, of 3 bytes if it is coloured and else of one. */
DISTORT_FUNCTION distort_pixel distort_load(DISTORT_BYTES from, u32 coloured)
{
    distort_pixel p;
    p.red = from[0];
    p.green = coloured ? from[1] : p.red;
    p.blue = coloured ? from[2] : p.red;
    return p;
}

DISTORT_FUNCTION u32 distort_grey(const distort_pixel p, u32 coloured)
{
    return coloured ? (2989u * p.red + 5870u * p.green + 1140u * p.blue) / 10000u : p.red;
}

/* floor(value factor + offset), from 0 to 255 */
DISTORT_FUNCTION u32 distort_blend(u32 value, u32 factor, i32 offset)
{
    const i32 sum = (i32)(value * factor) + offset;
    const u32 blend = sum < 0 ? 0u : (u32)sum >> 16;
    return blend < 255u ? blend : 255u;
}

DISTORT_FUNCTION distort_pixel distort_blend_all(const distort_pixel p, u32 factor, i32 offset)
{
    distort_pixel q;
    q.red = distort_blend(p.red, factor, offset);
    q.green = distort_blend(p.green, factor, offset);
    q.blue = distort_blend(p.blue, factor, offset);
    return q;
}

/* floor(value 255.999 / 255) of a value in units of 2^-16, as torchvision makes bytes of floats */
DISTORT_FUNCTION u32 distort_byte(u32 value)
{
    return (u32)((u64)value * 255999u >> 16) / 255000u;
}

/* Turns the hue.  With the greatest and the least colour M and m and R = M - m, the hue is a number
   of sixths of a turn, counted in R / 65536. */
DISTORT_FUNCTION distort_pixel distort_hue(const distort_pixel p, u32 turn)
{
    const u32 most_rg = p.red > p.green ? p.red : p.green;
    const u32 least_rg = p.red < p.green ? p.red : p.green;
    const u32 most = most_rg > p.blue ? most_rg : p.blue;
    const u32 least = least_rg < p.blue ? least_rg : p.blue;
    const u32 range = most - least, sixth = range << 16;
    if (range == 0) return p;
    u32 hue = most == p.red     ? (p.green + 6u * range - p.blue) % (6u * range)
              : most == p.green ? p.blue + 2u * range - p.red
                                : p.red + 4u * range - p.green;
    hue = (hue << 16) + 6u * turn * range;
    if (hue >= 6u * sixth) hue -= 6u * sixth;
    const u32 sector = hue / sixth, above = hue - sector * sixth;
    const u32 falling = distort_byte((most << 16) - above);
    const u32 rising = distort_byte((least << 16) + above);
    distort_pixel q;
    q.red = sector == 0 || sector == 5 ? most
            : sector == 1              ? falling
            : sector == 4              ? rising
                                       : least;
    q.green = sector == 1 || sector == 2 ? most
              : sector == 0              ? rising
              : sector == 3              ? falling
                                         : least;
    q.blue = sector == 3 || sector == 4 ? most
             : sector == 2              ? rising
             : sector == 5              ? falling
                                        : least;
    return q;
}

/* One change of colour.  Saturation and hue leave a grey image as it is. */
DISTORT_FUNCTION distort_pixel distort_change(const distort_pixel p, u32 change,
                                              const distort_drawn d, u32 coloured)
{
    if (change == DISTORT_BRIGHTNESS) return distort_blend_all(p, d.brightness, 0);
    if (change == DISTORT_CONTRAST) return distort_blend_all(p, d.contrast, d.offset);
    if (!coloured) return p;
    if (change == DISTORT_HUE) return distort_hue(p, d.hue);
    return distort_blend_all(p, d.saturation,
                             ((i32)DISTORT_ONE - (i32)d.saturation) * (i32)distort_grey(p, 1));
}

/* All changes of colour, in their order. */
DISTORT_FUNCTION distort_pixel distort_jitter(distort_pixel p, const distort_drawn d, u32 coloured)
{
    for (u32 j = 0; j < 4; j++)
        p = distort_change(p, d.order >> 4u * j & 15u, d, coloured);
    return p;
}

/* The grey that the change of contrast finds. */
DISTORT_FUNCTION u32 distort_grey_before_contrast(distort_pixel p, const distort_drawn d,
                                                  u32 coloured)
{
    /* The compiler of PoCL 6.0 does not survive a loop that ends at the contrast. */
    u32 before = 1;
    for (u32 j = 0; j < 4; j++) {
        const u32 change = d.order >> 4u * j & 15u;
        if (change == DISTORT_CONTRAST) before = 0;
        if (before) p = distort_change(p, change, d, coloured);
    }
    return distort_grey(p, coloured);
}

/* floor((1 - factor) sum / count): the offset of the contrast of an image with this sum of greys.
 */
DISTORT_FUNCTION i32 distort_offset(u32 factor, u64 sum, u64 count)
{
    if (factor <= DISTORT_ONE) return (i32)((DISTORT_ONE - factor) * sum / count);
    return -(i32)(((factor - DISTORT_ONE) * sum + count - 1u) / count);
}

#endif
