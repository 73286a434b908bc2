/* Gathering the samples of a shard from the data set, normalising and augmenting them. */
#include "gather.h"
#include "philox.h"
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

/* 11^-(2^-k) for k = 0 to 24, in units of 2^-64. */
CONSTANT u64 roots_of_inverse_11[25] = {
    0x1745D1745D1745D1ul, 0x4D2FD8F455A09787ul, 0x8C91D978EBCC1E91ul, 0xBDB309A83D0FE490ul,
    0xDC5EC74FDCA59588ul, 0xED8498A5508D6302ul, 0xF695FC3D40E4868Bul, 0xFB3FB4B90434E8FCul,
    0xFD9D013AF1C8C4F1ul, 0xFECDC97A473F3420ul, 0xFF66B6D8E0CA4811ul, 0xFFB34FEFEF151227ul,
    0xFFD9A51869064C2Eul, 0xFFECD1D4431A415Cul, 0xFFF668BC2379CFE5ul, 0xFFFB34529200EEFEul,
    0xFFFD9A26690A948Dul, 0xFFFECD127C86F4F1ul, 0xFFFF66891043C990ul, 0xFFFFB3447CA1F51Cul,
    0xFFFFD9A23B70FE34ul, 0xFFFFECD11D007FF6ul, 0xFFFFF6688E524030ul, 0xFFFFFB34471DA025ul,
    0xFFFFFD9A238BF016ul};

/* 11^-(n / 2^24) in units of 2^-64, n up to 2^24. */
DEVICE u64 inverse_power_of_11(u32 n)
{
    u64 power = ~(u64)0;
    for (u32 k = 0; k <= 24; k++)
        if (n >> (24 - k) & 1u) power = MUL_HIGH_64(power, roots_of_inverse_11[k]);
    return power;
}

/* round(sqrt(v)) of 4 v in units of 2^-29, v below 2^32: r with (2r-1)^2 <= 4 v < (2r+1)^2. */
DEVICE u64 rounded_root(u64 v_4)
{
    u64 r = (u64)(0.5f * SQRT((float)(v_4 >> 29)) + 0.5f);
    while (r > 0 && (2 * r - 1) * (2 * r - 1) << 29 > v_4)
        r--;
    while ((2 * r + 1) * (2 * r + 1) << 29 <= v_4)
        r++;
    return r;
}

/* floor(u * m), u the upper 24 bits of a word in units of 2^-24 */
DEVICE u32 below(u32 word, u32 m)
{
    return (u32)((u64)(word >> 8) * m >> 24);
}

/* One attempt to draw a rectangle; true if it fits into the image.  All arithmetic is in integers, so
   that every device draws the same, with double precision or without:
     area = h w (2 * 2^24 + 31 u) / (100 * 2^24), ratio = 3/10 11^u' = 33/10 11^-(1-u'),
     4 area ratio = h w (..) 11^-(1-u') 0.528 / (4 * 2^24), 4 area / ratio with 11^-u' 8/15. */
DEVICE bool draw_rectangle(GLOBAL gather_drawn *drawn, philox_words word, const gather_params p)
{
    const u64 area = (u64)p.height * p.width * ((2u << 24) + 31u * (u64)(word.a >> 8)) << 3;
    const u32 exponent = word.b >> 8;
    const u64 tall = MUL_HIGH_64(area, inverse_power_of_11((1u << 24) - exponent));
    const u64 wide = MUL_HIGH_64(area, inverse_power_of_11(exponent));
    const u64 height = rounded_root(MUL_HIGH_64(tall, (u64)0x872B020C49BA5E35ul));
    const u64 width = rounded_root(MUL_HIGH_64(wide, (u64)0x8888888888888889ul));
    if (height < 1 || width < 1 || height >= p.height || width >= p.width) return false;
    drawn->erase_height = (u32)height;
    drawn->erase_width = (u32)width;
    drawn->erase_top = below(word.c, p.height - (u32)height + 1);
    drawn->erase_left = below(word.d, p.width - (u32)width + 1);
    return true;
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
    const u32 row = drawn.top + y - p.pad;
    const u32 column = drawn.left + (drawn.flipped ? p.width - 1 - x : x) - p.pad;
    origin from;
    from.place = (row * p.width + column) * p.pixel.value + channel;
    from.padding = row >= p.height || column >= p.width;
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
   the compiler of PoCL 6.0 (LLVM 19) does not survive another form of this loop. */
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
