/* Gathering the samples of a shard from the data set, normalising and augmenting them. */
#include "erase.h"
#include "gather.h"
#include "philox.h"
#include "randaugment.h"
#include "span.h"

/* One of four constants, chosen by the bits of its number, which needs no branch. */
DEVICE float constant_of(float a, float b, float c, float d, u32 number)
{
    const float low = number & 1u ? b : a, high = number & 1u ? d : c;
    return number & 2u ? high : low;
}

/* (value - mean) * scale of element i */
DEVICE float normalised(float value, u32 i, const gather_params p)
{
    const u32 channel = rest(i, quotient(i, p.channels), p.channels);
    const float mean = constant_of(p.mean[0], p.mean[1], p.mean[2], p.mean[3], channel);
    const float scale = constant_of(p.scale[0], p.scale[1], p.scale[2], p.scale[3], channel);
    return (value - mean) * scale;
}

/* ---- Draws ----------------------------------------------------------------------------------- */

/* floor(u * m), u the upper 24 bits of a word in units of 2^-24 */
DEVICE u32 below(u32 word, u32 m)
{
    return (u32)((u64)(word >> 8) * m >> 24);
}

/* One attempt to draw a rectangle; true if it fits into the image. */
DEVICE bool draw_rectangle(GLOBAL gather_drawn *drawn, philox_words word, const gather_params p)
{
    const erase_size size = erase_size_of(word.a, word.b, p.height, p.width);
    if (size.height == 0) return false;
    drawn->erase_height = size.height;
    drawn->erase_width = size.width;
    drawn->erase_top = below(word.c, p.height - size.height + 1);
    drawn->erase_left = below(word.d, p.width - size.width + 1);
    return true;
}

DEVICE distort_drawn draw_distortion(u32 sample, GLOBAL const u32 *step, const gather_params p)
{
    const philox_words first = philox(step, 11, sample, 0), second = philox(step, 12, sample, 0);
    const u32 words[6] = {first.a, first.b, first.c, first.d, second.a, second.b};
    return distort_draw(p.limits, words);
}

DEVICE randaugment_shape shape_of(const gather_params p)
{
    randaugment_shape shape;
    shape.height = p.height;
    shape.width = p.width;
    shape.channels = p.pixel.value;
    return shape;
}

/* Operation k of RandAugment. */
DEVICE randaugment_op draw_operation(u32 sample, u32 k, GLOBAL const u32 *step,
                                     const gather_params p)
{
    const philox_words word = philox(step, 13 + k / 2, sample, 0);
    const u32 first = k % 2 == 0 ? word.a : word.c, second = k % 2 == 0 ? word.b : word.d;
    return randaugment_draw(first, second, p.magnitude, shape_of(p));
}

/* sample (n) -> drawn (n).  A work item for each sample. */
KERNEL void dpt_gather_draw(OUT(u32, drawn), IN(u32, sample), IN(u32, step), const gather_params p)
{
    TENSOR_IN(u32, sample);
    TENSOR_IN(u32, step);
    const u64 i = GLOBAL_ID;
    if (i >= p.n_samples) return;
    GLOBAL gather_drawn *const drawn = (GLOBAL gather_drawn *)(drawn_base + drawn_place) + i;
    const philox_words word = philox(step, 0, sample[i], 0);
    drawn->top = below(word.a, 2 * p.pad + 1);
    drawn->left = below(word.b, 2 * p.pad + 1);
    drawn->flipped = p.flip && word.c >> 31 == 0;
    drawn->erase_height = 0;
    for (u32 k = 0; k < p.n_ops; k++)
        drawn->ops[k] = draw_operation(sample[i], k, step, p);
    if (p.rotates || p.jitters) drawn->distorted = draw_distortion(sample[i], step, p);
    if (word.d >> 8 >= p.border) return;
    for (u32 k = 1; k <= 10; k++)
        if (draw_rectangle(drawn, philox(step, k, sample[i], 0), p)) return;
}

/* ---- Images ---------------------------------------------------------------------------------- */

/* The origin of an element of the augmented image. */
typedef struct origin {
    u32 place; /* index in the stored image */
    u32 padding, erased;
} origin;

DEVICE origin origin_of(u32 i, const gather_drawn drawn, const gather_params p)
{
    const u32 at = quotient(i, p.pixel), channel = rest(i, at, p.pixel);
    const u32 y = quotient(at, p.columns), x = rest(at, y, p.columns);
    u32 turned_y = y, turned_x = x;
    if (p.rotates) {
        const i32 right = (i32)(2 * x + 1) - (i32)p.width, down = (i32)(2 * y + 1) - (i32)p.height;
        turned_y = distort_row(drawn.distorted, right, down, p.height);
        turned_x = distort_column(drawn.distorted, right, down, p.width);
    }
    const u32 row = drawn.top + turned_y - p.pad;
    const u32 column = drawn.left + (drawn.flipped ? p.width - 1 - turned_x : turned_x) - p.pad;
    origin from;
    from.place = (row * p.width + column) * p.pixel.value + channel;
    from.padding = turned_y >= p.height || turned_x >= p.width || row >= p.height ||
                   column >= p.width;
    from.erased =
        y - drawn.erase_top < drawn.erase_height && x - drawn.erase_left < drawn.erase_width;
    return from;
}

/* data (records,count), index (n) -> x (n,count).  The launch's dimensions are the elements of a
   sample, and the samples. */
#define GATHER(NAME, TYPE)                                                                         \
    KERNEL void dpt_gather_##NAME(OUT(act, x), IN(TYPE, data), IN(u32, index),                     \
                                  const gather_params p)                                           \
    {                                                                                              \
        TENSOR_IN(u32, index);                                                                     \
        if (IS_EXTRA_GROUP(p.n_samples)) return;                                                   \
        GLOBAL act *const x = x_base + x_place + (u64)GROUP_ID(1) * p.count;                       \
        GLOBAL const TYPE *const data =                                                            \
            data_base + data_place + (u64)index[GROUP_ID(1)] * p.count;                            \
        FOR_ELEMENTS (i, p.count)                                                                  \
            PUT(x, i, normalised((float)data[i], (u32)i, p));                                      \
    }

/* The same, with the augmentation that dpt_gather_draw drew for each sample (n).  An element of the
   padding or of the erased rectangle is not read.  The read stands in a branch of its own, because
   the compiler of PoCL 6.0 (LLVM 18) does not survive another form of this loop. */
#define GATHER_AUGMENTED(NAME, TYPE)                                                               \
    KERNEL void dpt_gather_augmented_##NAME(OUT(act, x), IN(TYPE, data), IN(u32, index),           \
                                            IN(u32, drawn), const gather_params p)                 \
    {                                                                                              \
        TENSOR_IN(u32, index);                                                                     \
        if (IS_EXTRA_GROUP(p.n_samples)) return;                                                   \
        const gather_drawn drawn =                                                                 \
            ((GLOBAL const gather_drawn *)(drawn_base + drawn_place))[GROUP_ID(1)];                \
        GLOBAL act *const x = x_base + x_place + (u64)GROUP_ID(1) * p.count;                       \
        GLOBAL const TYPE *const data =                                                            \
            data_base + data_place + (u64)index[GROUP_ID(1)] * p.count;                            \
        FOR_ELEMENTS (i, p.count) {                                                                \
            const origin from = origin_of((u32)i, drawn, p);                                       \
            float value = 0.0f;                                                                    \
            if (!(from.padding | from.erased)) value = (float)data[from.place];                    \
            value = normalised(value, (u32)i, p);                                                  \
            PUT(x, i, from.erased ? 0.0f : value);                                                 \
        }                                                                                          \
    }

GATHER(u8, u8)
GATHER(f32, float)
GATHER_AUGMENTED(u8, u8)
GATHER_AUGMENTED(f32, float)

/* ---- Colours --------------------------------------------------------------------------------- */

/* The colours of a pixel of the cropped, flipped and rotated image, whose first element is i.  With
   RandAugment `data` has that image, changed. */
DEVICE distort_pixel pixel_at(GLOBAL const u8 *data, u32 i, const gather_drawn drawn,
                              const gather_params p)
{
    origin from = origin_of(i, drawn, p);
    if (p.n_ops > 0) {
        from.place = i;
        from.padding = 0;
    }
    distort_pixel pixel = {0, 0, 0};
    if (!from.padding) pixel = distort_load(data + from.place, p.pixel.value == 3);
    return pixel;
}

/* The sum of an array with an element for each work item of the group. */
DEVICE u64 sum_of_group(LOCAL u64 *sums)
{
    BARRIER();
    for (u32 half_size = GROUP / 2; half_size > 0; half_size /= 2) {
        if (LOCAL_ID < half_size) sums[LOCAL_ID] += sums[LOCAL_ID + half_size];
        BARRIER();
    }
    return sums[0];
}

/* Sets the offset of the contrast of each sample.  A group for each sample. */
KERNEL void dpt_gather_contrast(OUT(u32, drawn), IN(u8, data), IN(u32, index),
                                const gather_params p)
{
    SHARED u64 sums[GROUP];
    TENSOR_IN(u32, index);
    const u32 sample = GROUP_ID(0), n_pixels = p.height * p.width;
    GLOBAL gather_drawn *const all = (GLOBAL gather_drawn *)(drawn_base + drawn_place) + sample;
    const gather_drawn drawn = *all;
    const u32 record = p.n_ops > 0 ? sample : index[sample];
    GLOBAL const u8 *const data = data_base + data_place + (u64)record * p.count;
    u64 sum = 0;
    for (u32 i = LOCAL_ID; i < n_pixels; i += GROUP)
        sum += distort_grey_before_contrast(pixel_at(data, i * p.pixel.value, drawn, p),
                                            drawn.distorted, p.pixel.value == 3);
    sums[LOCAL_ID] = sum;
    sum = sum_of_group(sums);
    if (LOCAL_ID == 0)
        all->distorted.offset = distort_offset(drawn.distorted.contrast, sum, n_pixels);
}

/* dpt_gather_augmented_u8 with RandAugment, the jitter of colours, or both. */
KERNEL void dpt_gather_coloured(OUT(act, x), IN(u8, data), IN(u32, index), IN(u32, drawn),
                                const gather_params p)
{
    TENSOR_IN(u32, index);
    if (IS_EXTRA_GROUP(p.n_samples)) return;
    const gather_drawn drawn =
        ((GLOBAL const gather_drawn *)(drawn_base + drawn_place))[GROUP_ID(1)];
    GLOBAL act *const x = x_base + x_place + (u64)GROUP_ID(1) * p.count;
    const u32 record = p.n_ops > 0 ? GROUP_ID(1) : index[GROUP_ID(1)];
    GLOBAL const u8 *const data = data_base + data_place + (u64)record * p.count;
    FOR_ELEMENTS (i, p.count) {
        const u32 channel = rest((u32)i, quotient((u32)i, p.pixel), p.pixel);
        distort_pixel pixel = pixel_at(data, (u32)i - channel, drawn, p);
        if (p.jitters) pixel = distort_jitter(pixel, drawn.distorted, p.pixel.value == 3);
        const u32 byte = channel == 0 ? pixel.red : channel == 1 ? pixel.green : pixel.blue;
        const float value = normalised((float)byte, (u32)i, p);
        PUT(x, i, origin_of((u32)i, drawn, p).erased ? 0.0f : value);
    }
}

/* ---- RandAugment ----------------------------------------------------------------------------- */

/* data (records,count), index (n) -> image (n,count): the cropped, flipped and rotated images. */
KERNEL void dpt_gather_images(OUT(u8, image), IN(u8, data), IN(u32, index), IN(u32, drawn),
                              const gather_params p)
{
    TENSOR_IN(u32, index);
    if (IS_EXTRA_GROUP(p.n_samples)) return;
    const gather_drawn drawn =
        ((GLOBAL const gather_drawn *)(drawn_base + drawn_place))[GROUP_ID(1)];
    GLOBAL u8 *const image = image_base + image_place + (u64)GROUP_ID(1) * p.count;
    GLOBAL const u8 *const data = data_base + data_place + (u64)index[GROUP_ID(1)] * p.count;
    FOR_ELEMENTS (i, p.count) {
        const origin from = origin_of((u32)i, drawn, p);
        u8 value = 0;
        if (!from.padding) value = data[from.place];
        image[i] = value;
    }
}

/* image (n,count) -> table (n,RANDAUGMENT_ROWS), of samples whose operation p.op maps.  A group for
   each sample. */
KERNEL void dpt_gather_tables(OUT(u8, table), IN(u8, image), IN(u32, drawn), const gather_params p)
{
    SHARED u32 counts[RANDAUGMENT_ROWS]; /* of each channel and value */
    SHARED u64 greys[GROUP];
    const u32 sample = GROUP_ID(0), channels = p.pixel.value;
    const randaugment_op op =
        ((GLOBAL const gather_drawn *)(drawn_base + drawn_place))[sample].ops[p.op];
    GLOBAL u8 *const table = table_base + table_place + (u64)sample * RANDAUGMENT_ROWS;
    GLOBAL const u8 *const image = image_base + image_place + (u64)sample * p.count;
    const u32 n_counted = randaugment_counts(op.kind) ? p.count : 0;
    const u32 n_summed = randaugment_sums(op.kind) ? p.count : 0;
    const u32 n_tables = randaugment_maps(op.kind) ? channels : 0;
    u64 grey = 0;
    for (u32 row = LOCAL_ID; row < RANDAUGMENT_ROWS; row += GROUP)
        counts[row] = 0;
    BARRIER();
    for (u32 i = LOCAL_ID; i < n_counted; i += GROUP)
        COUNT_UP(counts + 256 * rest(i, quotient(i, p.pixel), p.pixel) + image[i]);
    for (u32 i = LOCAL_ID * channels; i < n_summed; i += GROUP * channels)
        grey += distort_grey(distort_load(image + i, channels == 3), channels == 3);
    greys[LOCAL_ID] = grey;
    grey = sum_of_group(greys);
    const i32 offset = distort_offset((u32)op.amount, grey, p.height * p.width);
    for (u32 channel = LOCAL_ID; channel < n_tables; channel += GROUP)
        randaugment_fill(op, offset, counts + 256 * channel, table + 256 * channel);
}

/* from, table -> to (n,count): operation p.op. */
KERNEL void dpt_gather_operate(OUT(u8, to), IN(u8, from), IN(u8, table), IN(u32, drawn),
                               const gather_params p)
{
    if (IS_EXTRA_GROUP(p.n_samples)) return;
    const randaugment_op op =
        ((GLOBAL const gather_drawn *)(drawn_base + drawn_place))[GROUP_ID(1)].ops[p.op];
    GLOBAL u8 *const to = to_base + to_place + (u64)GROUP_ID(1) * p.count;
    GLOBAL const u8 *const from = from_base + from_place + (u64)GROUP_ID(1) * p.count;
    GLOBAL const u8 *const table = table_base + table_place + (u64)GROUP_ID(1) * RANDAUGMENT_ROWS;
    FOR_ELEMENTS (i, p.count) {
        const u32 pixel = quotient((u32)i, p.pixel), y = quotient(pixel, p.columns);
        const u32 at[3] = {y, rest(pixel, y, p.columns), rest((u32)i, pixel, p.pixel)};
        to[i] = (u8)randaugment_value(from, table, at, op, shape_of(p));
    }
}

/* ---- Labels ---------------------------------------------------------------------------------- */

/* labels (records,count), index (n) -> label (n,count).  A work item for each label. */
#define GATHER_LABELS(NAME, TYPE)                                                                  \
    KERNEL void dpt_gather_labels_##NAME(OUT(i32, label), IN(TYPE, labels), IN(u32, index),        \
                                         const gather_params p)                                    \
    {                                                                                              \
        TENSOR_OUT(i32, label);                                                                    \
        TENSOR_IN(TYPE, labels);                                                                   \
        TENSOR_IN(u32, index);                                                                     \
        const u64 i = GLOBAL_ID, sample = i / p.count;                                             \
        if (sample < p.n_samples)                                                                  \
            label[i] = (i32)labels[index[sample] * (u64)p.count + (i - sample * p.count)];         \
    }

GATHER_LABELS(u8, u8)
GATHER_LABELS(i32, i32)
