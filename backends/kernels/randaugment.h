/* The operations of RandAugment (dpt_augment), on bytes.  All arithmetic is in integers, as in
   distort.h.

   Source for OpenCL C 1.2, CUDA C++ and C17. */
#ifndef DPT_KERNELS_RANDAUGMENT_H
#define DPT_KERNELS_RANDAUGMENT_H

#include "distort.h"

#if defined(__OPENCL_VERSION__) || defined(__CUDACC__)
#define RANDAUGMENT_COUNTS LOCAL const u32 *
#define RANDAUGMENT_TABLE  GLOBAL u8 *
#else
#define RANDAUGMENT_COUNTS const u32 *
#define RANDAUGMENT_TABLE  u8 *
#endif

/* The operations, in torchvision's order. */
#define RANDAUGMENT_IDENTITY      0u
#define RANDAUGMENT_SHEAR_X       1u
#define RANDAUGMENT_SHEAR_Y       2u
#define RANDAUGMENT_TRANSLATE_X   3u
#define RANDAUGMENT_TRANSLATE_Y   4u
#define RANDAUGMENT_ROTATE        5u
#define RANDAUGMENT_BRIGHTNESS    6u
#define RANDAUGMENT_COLOR         7u
#define RANDAUGMENT_CONTRAST      8u
#define RANDAUGMENT_SHARPNESS     9u
#define RANDAUGMENT_POSTERIZE     10u
#define RANDAUGMENT_SOLARIZE      11u
#define RANDAUGMENT_AUTO_CONTRAST 12u
#define RANDAUGMENT_EQUALIZE      13u
#define RANDAUGMENT_KINDS         14u

#define RANDAUGMENT_MOST          6u   /* operations of an image */
#define RANDAUGMENT_BINS          30   /* the greatest magnitude */
#define RANDAUGMENT_ROWS          768u /* of a table: 256 for each of up to 3 channels */

/* An operation that is ready: a shear in units of 2^-30, pixels, a factor in units of 2^-16, a mask
   of bits, or a threshold.  Of a rotation, cosine and sine. */
typedef struct randaugment_op {
    u32 kind;
    i32 amount;
    i32 cosine, sine;
} randaugment_op;

typedef struct randaugment_shape {
    u32 height, width, channels;
} randaugment_shape;

/* a b / c of numbers with a sign, rounded to the nearest (`half` c / 2) or towards zero (0). */
DISTORT_FUNCTION i32 randaugment_part(i32 value, u64 b, u64 c, u64 half_c)
{
    const i32 part = (i32)(((u64)(value < 0 ? -value : value) * b + half_c) / c);
    return value < 0 ? -part : part;
}

/* The operation of this kind; `value` is the magnitude from 0 to 30, with the sign of operations
   that have one. */
DISTORT_FUNCTION randaugment_op randaugment_make(u32 kind, i32 value, const randaugment_shape s)
{
    randaugment_op op;
    op.kind = kind;
    op.amount = op.cosine = op.sine = 0;
    if (kind == RANDAUGMENT_SHEAR_X || kind == RANDAUGMENT_SHEAR_Y)
        op.amount = randaugment_part(value, DISTORT_TURN_ONE, 100, 50);
    if (kind == RANDAUGMENT_TRANSLATE_X)
        op.amount = randaugment_part(value, 150u * (u64)s.width, 9930, 0);
    if (kind == RANDAUGMENT_TRANSLATE_Y)
        op.amount = randaugment_part(value, 150u * (u64)s.height, 9930, 0);
    if (kind == RANDAUGMENT_ROTATE) distort_turn(value * 65536, &op.cosine, &op.sine);
    if (kind >= RANDAUGMENT_BRIGHTNESS && kind <= RANDAUGMENT_SHARPNESS)
        op.amount = (i32)DISTORT_ONE + randaugment_part(value, 3u * DISTORT_ONE, 100, 50);
    if (kind == RANDAUGMENT_POSTERIZE) op.amount = (i32)(255u << (8 * value + 30) / 60 & 255u);
    if (kind == RANDAUGMENT_SOLARIZE) op.amount = (17 * (RANDAUGMENT_BINS - value) + 1) / 2;
    return op;
}

/* The operation that two random words draw. */
DISTORT_FUNCTION randaugment_op randaugment_draw(u32 word, u32 next_word, u32 magnitude,
                                                 const randaugment_shape s)
{
    const u32 kind = (u32)((u64)(word >> 8) * RANDAUGMENT_KINDS >> 24);
    const u32 has_sign = kind >= RANDAUGMENT_SHEAR_X && kind <= RANDAUGMENT_SHARPNESS;
    return randaugment_make(kind,
                            has_sign && next_word >> 31 == 0 ? -(i32)magnitude : (i32)magnitude, s);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

/* Whether an operation maps each value of a channel by a table. */
DISTORT_FUNCTION u32 randaugment_maps(u32 kind)
{
    return kind == RANDAUGMENT_BRIGHTNESS || kind == RANDAUGMENT_CONTRAST ||
           (kind >= RANDAUGMENT_POSTERIZE && kind <= RANDAUGMENT_EQUALIZE);
}

/* Whether the table depends on the sum of the greys of the image. */
DISTORT_FUNCTION u32 randaugment_sums(u32 kind)
{
    return kind == RANDAUGMENT_CONTRAST;
}

/* Whether the table of a channel depends on how many pixels have each value. */
DISTORT_FUNCTION u32 randaugment_counts(u32 kind)
{
    return kind == RANDAUGMENT_AUTO_CONTRAST || kind == RANDAUGMENT_EQUALIZE;
}

/* What the table of a channel depends on. */
typedef struct randaugment_facts {
    i32 offset;      /* of a contrast */
    u32 least, most; /* values of the channel */
    u32 below_most;  /* how many pixels are below the greatest value */
} randaugment_facts;

/* The entry for a value; `below` pixels of the channel are below the value. */
DISTORT_FUNCTION u32 randaugment_entry(const randaugment_op op, u32 value, u32 below,
                                       const randaugment_facts of)
{
    if (op.kind == RANDAUGMENT_BRIGHTNESS || op.kind == RANDAUGMENT_CONTRAST)
        return distort_blend(value, (u32)op.amount, of.offset);
    if (op.kind == RANDAUGMENT_POSTERIZE) return value & (u32)op.amount;
    if (op.kind == RANDAUGMENT_SOLARIZE) return value >= (u32)op.amount ? 255u - value : value;
    if (op.kind == RANDAUGMENT_AUTO_CONTRAST) {
        if (of.least == of.most || value < of.least) return value;
        const u32 wide = (value - of.least) * 255u / (of.most - of.least);
        return wide < 255u ? wide : 255u;
    }
    const u32 step = of.below_most / 255u;
    if (step == 0) return value;
    const u32 rank = (below + step / 2u) / step;
    return rank < 255u ? rank : 255u;
}

/* Writes the table of a channel.  counts[v] pixels have value v; all are 0 if the operation does
   not depend on them.  `offset`: of a contrast, else 0. */
DISTORT_FUNCTION void randaugment_fill(const randaugment_op op, i32 offset,
                                       RANDAUGMENT_COUNTS counts, RANDAUGMENT_TABLE table)
{
    randaugment_facts of;
    u32 below = 0;
    of.offset = offset;
    of.least = 255;
    of.most = of.below_most = 0;
    for (u32 value = 0; value < 256; value++) {
        if (counts[value] == 0) continue;
        if (value < of.least) of.least = value;
        of.most = value;
        of.below_most = below;
        below += counts[value];
    }
    below = 0;
    for (u32 value = 0; value < 256; value++) {
        table[value] = (u8)randaugment_entry(op, value, below, of);
        below += counts[value];
    }
}

/* ---- Pixels ---------------------------------------------------------------------------------- */

/* The value of a channel of a pixel, and zero outside of the image. */
DISTORT_FUNCTION u32 randaugment_at(DISTORT_BYTES from, u32 row, u32 column, u32 channel,
                                    const randaugment_shape s)
{
    if (row >= s.height || column >= s.width) return 0;
    return from[((u64)row * s.width + column) * s.channels + channel];
}

/* (5 v + the sum of the 8 neighbours) / 13, rounded */
DISTORT_FUNCTION u32 randaugment_blurred(DISTORT_BYTES from, u32 y, u32 x, u32 channel,
                                         const randaugment_shape s)
{
    u32 sum = 4u * randaugment_at(from, y, x, channel, s);
    for (u32 row = y - 1; row != y + 2; row++)
        for (u32 column = x - 1; column != x + 2; column++)
            sum += randaugment_at(from, row, column, channel, s);
    return (2u * sum + 13u) / 26u;
}

/* What an operation makes of a channel of pixel (y, x).  `table` has the rows of randaugment_entry,
   256 for each channel, if the operation maps. */
DISTORT_FUNCTION u32 randaugment_value(DISTORT_BYTES from, DISTORT_BYTES table, const u32 at[3],
                                       const randaugment_op op, const randaugment_shape s)
{
    const u32 y = at[0], x = at[1], channel = at[2];
    const u32 value = randaugment_at(from, y, x, channel, s);
    const i32 right = (i32)(2 * x + 1) - (i32)s.width, down = (i32)(2 * y + 1) - (i32)s.height;
    if (randaugment_maps(op.kind)) return table[256u * channel + value];
    if (op.kind == RANDAUGMENT_SHEAR_X)
        return randaugment_at(from, y,
                              distort_place((i64)right * (i32)DISTORT_TURN_ONE,
                                            (i64)op.amount * (i32)(2 * y + 1), s.width),
                              channel, s);
    if (op.kind == RANDAUGMENT_SHEAR_Y)
        return randaugment_at(from,
                              distort_place((i64)down * (i32)DISTORT_TURN_ONE,
                                            (i64)op.amount * (i32)(2 * x + 1), s.height),
                              x, channel, s);
    if (op.kind == RANDAUGMENT_TRANSLATE_X)
        return randaugment_at(from, y, x - (u32)op.amount, channel, s);
    if (op.kind == RANDAUGMENT_TRANSLATE_Y)
        return randaugment_at(from, y - (u32)op.amount, x, channel, s);
    if (op.kind == RANDAUGMENT_ROTATE) {
        distort_drawn d;
        d.cosine = op.cosine;
        d.sine = op.sine;
        return randaugment_at(from, distort_row(d, right, down, s.height),
                              distort_column(d, right, down, s.width), channel, s);
    }
    u32 other = value;
    if (op.kind == RANDAUGMENT_COLOR && s.channels == 3) {
        distort_pixel p;
        p.red = randaugment_at(from, y, x, 0, s);
        p.green = randaugment_at(from, y, x, 1, s);
        p.blue = randaugment_at(from, y, x, 2, s);
        other = distort_grey(p, 1);
    } else if (op.kind == RANDAUGMENT_SHARPNESS && y > 0 && x > 0 && y + 1 < s.height &&
               x + 1 < s.width) {
        other = randaugment_blurred(from, y, x, channel, s);
    } else {
        return value;
    }
    return distort_blend(value, (u32)op.amount, ((i32)DISTORT_ONE - op.amount) * (i32)other);
}

/* ---- For processors -------------------------------------------------------------------------- */

#if !defined(__OPENCL_VERSION__) && !defined(__CUDACC__)
/* Writes the table of an operation that maps, for all channels. */
static inline void randaugment_table(const u8 *image, const randaugment_op *op,
                                     const randaugment_shape *s, u8 *table)
{
    const u64 n_pixels = (u64)s->height * s->width, n_elements = n_pixels * s->channels;
    u32 counts[RANDAUGMENT_ROWS] = {0};
    u64 grey = 0;
    for (u64 i = 0; randaugment_sums(op->kind) && i < n_elements; i += s->channels)
        grey += distort_grey(distort_load(image + i, s->channels == 3), s->channels == 3);
    const i32 offset = distort_offset((u32)op->amount, grey, n_pixels);
    for (u32 channel = 0; channel < s->channels; channel++) {
        u32 *const of_channel = counts + 256 * channel;
        for (u64 i = channel; randaugment_counts(op->kind) && i < n_elements; i += s->channels)
            of_channel[image[i]]++;
        randaugment_fill(*op, offset, of_channel, table + 256 * channel);
    }
}

/* The whole image. */
static inline void randaugment_image(const u8 *from, const u8 *table, const randaugment_op *op,
                                     const randaugment_shape *s, u8 *to)
{
    u32 at[3];
    for (at[0] = 0; at[0] < s->height; at[0]++)
        for (at[1] = 0; at[1] < s->width; at[1]++)
            for (at[2] = 0; at[2] < s->channels; at[2]++)
                *to++ = (u8)randaugment_value(from, table, at, *op, *s);
}
#endif

#endif
