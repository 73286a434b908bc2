/* Gathering the samples of a shard from the data set, and normalising them.  Augmented images are
   first made in the type of the data, so that padding is normalised like the image. */
#include "kernels/distort.h"
#include "kernels/erase.h"
#include "kernels/randaugment.h"
#include "kinds.h"
#include "philox.h"

#include <string.h>

enum {
    /* A common multiple of all possible numbers of channels.  Constants repeat with this period. */
    PERIOD = 12 * DPT_MAX_CHANNEL_STATS,
};

typedef struct constants {
    float mean[PERIOD], scale[PERIOD];
} constants;

static constants expand(const dpt_gather_desc *d)
{
    constants k;
    for (size_t i = 0; i < PERIOD; i++) {
        k.mean[i] = d->mean[i % d->channels];
        k.scale[i] = d->scale[i % d->channels];
    }
    return k;
}

static void normalise_u8(const uint8_t *from, float *to, size_t count, const constants *k)
{
    for (size_t e = 0; e < count; e += PERIOD) {
        const size_t n = count - e < PERIOD ? count - e : PERIOD;
        for (size_t i = 0; i < n; i++)
            to[e + i] = ((float)from[e + i] - k->mean[i]) * k->scale[i];
    }
}

static void normalise_f32(const float *from, float *to, size_t count, const constants *k)
{
    for (size_t e = 0; e < count; e += PERIOD) {
        const size_t n = count - e < PERIOD ? count - e : PERIOD;
        for (size_t i = 0; i < n; i++)
            to[e + i] = (from[e + i] - k->mean[i]) * k->scale[i];
    }
}

static void normalise(dpt_dtype dtype, const void *from, float *to, size_t count,
                      const constants *k)
{
    if (dtype == DPT_U8) {
        normalise_u8(from, to, count, k);
    } else {
        normalise_f32(from, to, count, k);
    }
}

static const void *record(const dpt_cpu_call *call, size_t sample)
{
    const dpt_gather_desc *d = &call->op->desc.u.gather;
    const uint32_t *index = call->in[1];
    return (const char *)call->in[0] + index[sample] * d->count * dpt_dtype_bytes(d->dtype);
}

/* data (records,count), index (n) -> x (n,count) */
static void gather(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_gather_desc *d = &call->op->desc.u.gather;
    float *x = call->out[0];
    const constants k = expand(d);
    const dpt_cpu_range part = dpt_cpu_split(call->n_samples, 1, thread, n_threads);
    for (size_t s = part.begin; s < part.end; s++)
        normalise(d->dtype, record(call, s), x + s * d->count, d->count, &k);
}

/* ---- Augmentation (dpt_augment) -------------------------------------------------------------- */

enum { N_ATTEMPTS = 10 }; /* attempts to find a rectangle to erase */

_Static_assert(PHILOX_WORDS >= 4 * (N_ATTEMPTS + 1) && PHILOX_WORDS >= 52 + 2 * RANDAUGMENT_MOST,
               "one call draws all numbers of a sample");

/* u(i), a multiple of 2^-24 */
static double uniform(const uint32_t *words, size_t i)
{
    return (double)(words[i] >> 8) * 0x1p-24;
}

/* floor(u(i) * m), in integers: exact */
static size_t below(const uint32_t *words, size_t i, size_t m)
{
    return (size_t)(((uint64_t)(words[i] >> 8) * m) >> 24);
}

/* Copies a row of the crop window to `to`.  The window begins at `column` of the padded row; `from`
   is the row without padding.  A pixel has n bytes. */
static void crop_row(const unsigned char *from, unsigned char *to, const dpt_augment *a,
                     size_t column, size_t n)
{
    const size_t left = column < a->pad ? a->pad - column : 0;    /* zeros before the image */
    const size_t skipped = column > a->pad ? column - a->pad : 0; /* pixels that are cut off */
    const size_t kept = a->width - left - skipped;
    memset(to, 0, left * n);
    memcpy(to + left * n, from + skipped * n, kept * n);
    memset(to + (left + kept) * n, 0, skipped * n);
}

static void swap_bytes(unsigned char *a, unsigned char *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}

static void flip_row(unsigned char *row, size_t width, size_t n)
{
    for (size_t left = 0, right = width - 1; left < right; left++, right--)
        swap_bytes(row + left * n, row + right * n, n);
}

/* Crops and flips an image, in the type of the data. */
static void crop_and_flip(const dpt_augment *a, const uint32_t *words, const unsigned char *from,
                          unsigned char *to, size_t pixel_bytes)
{
    const size_t top = below(words, 0, 2 * a->pad + 1), column = below(words, 1, 2 * a->pad + 1);
    const bool flipped = a->flip && uniform(words, 2) < 0.5;
    const size_t row_bytes = a->width * pixel_bytes;
    for (size_t y = 0; y < a->height; y++, to += row_bytes) {
        const size_t padded = top + y; /* the row of the padded image */
        if (padded < a->pad || padded - a->pad >= a->height) {
            memset(to, 0, row_bytes);
            continue;
        }
        crop_row(from + (padded - a->pad) * row_bytes, to, a, column, pixel_bytes);
        if (flipped) flip_row(to, a->width, pixel_bytes);
    }
}

/* Rotates an image from `from` to `to`. */
static void rotate(const dpt_augment *a, const distort_drawn *drawn, const unsigned char *from,
                   unsigned char *to, size_t pixel_bytes)
{
    const u32 height = (u32)a->height, width = (u32)a->width;
    for (u32 y = 0; y < height; y++) {
        for (u32 x = 0; x < width; x++, to += pixel_bytes) {
            const i32 right = (i32)(2 * x + 1) - (i32)width, down = (i32)(2 * y + 1) - (i32)height;
            const u32 row = distort_row(*drawn, right, down, height);
            const u32 column = distort_column(*drawn, right, down, width);
            if (row < height && column < width) {
                memcpy(to, from + ((size_t)row * width + column) * pixel_bytes, pixel_bytes);
            } else {
                memset(to, 0, pixel_bytes);
            }
        }
    }
}

/* Changes the colours of an image in its place. */
static void jitter(const dpt_augment *a, distort_drawn *drawn, unsigned char *image,
                   size_t channels)
{
    const size_t n_pixels = a->height * a->width;
    const u32 coloured = channels == 3;
    u64 sum = 0;
    for (size_t i = 0; a->contrast > 0 && i < n_pixels; i++)
        sum += distort_grey_before_contrast(distort_load(image + i * channels, coloured), *drawn,
                                            coloured);
    drawn->offset = distort_offset(drawn->contrast, sum, n_pixels);
    for (size_t i = 0; i < n_pixels; i++, image += channels) {
        const distort_pixel p = distort_jitter(distort_load(image, coloured), *drawn, coloured);
        image[0] = (unsigned char)p.red;
        if (!coloured) continue;
        image[1] = (unsigned char)p.green;
        image[2] = (unsigned char)p.blue;
    }
}

/* Does the operations of RandAugment on an image.  Returns the buffer that has the result: `image`
   or `other`. */
static unsigned char *randaugment(const dpt_gather_desc *d, const uint32_t *words,
                                  unsigned char *image, unsigned char *other)
{
    const dpt_augment *a = &d->augment;
    const size_t channels = d->count / (a->height * a->width);
    const randaugment_shape shape = {(u32)a->height, (u32)a->width, (u32)channels};
    unsigned char table[RANDAUGMENT_ROWS];
    for (size_t k = 0; k < a->ops; k++) {
        const randaugment_op op =
            randaugment_draw(words[52 + 2 * k], words[53 + 2 * k], (u32)a->magnitude, shape);
        if (op.kind == RANDAUGMENT_IDENTITY) continue;
        if (randaugment_maps(op.kind)) randaugment_table(image, &op, &shape, table);
        randaugment_image(image, table, &op, &shape, other);
        unsigned char *const made = other;
        other = image;
        image = made;
    }
    return image;
}

/* Sets a rectangle to zero: the first attempt that fits into the image. */
static void erase(const dpt_augment *a, const uint32_t *words, float *x, size_t channels)
{
    if (!(uniform(words, 3) < (double)a->erase)) return;
    for (size_t k = 4; k <= 4 * N_ATTEMPTS; k += 4) {
        const erase_size size =
            erase_size_of(words[k], words[k + 1], (u32)a->height, (u32)a->width);
        const size_t h = size.height, w = size.width;
        if (h == 0) continue;
        const size_t top = below(words, k + 2, a->height - h + 1);
        const size_t left = below(words, k + 3, a->width - w + 1);
        for (size_t y = top; y < top + h; y++)
            memset(x + (y * a->width + left) * channels, 0, w * channels * sizeof *x);
        return;
    }
}

/* Bytes of an image in the type of the data, in whole cache lines.  A thread's scratch has two. */
static size_t image_bytes(const dpt_gather_desc *d)
{
    return dpt_cpu_mul(dpt_cpu_round(d->count), dpt_dtype_bytes(d->dtype));
}

static distort_limits limits_of(const dpt_augment *a)
{
    return distort_limits_of(
        (const float[]){a->rotate, a->brightness, a->contrast, a->saturation, a->hue});
}

/* data (records,count), index (n), sample (n) -> x (n,count) */
static void gather_augmented(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_gather_desc *d = &call->op->desc.u.gather;
    const dpt_augment *a = &d->augment;
    const size_t channels = d->count / (a->height * a->width);
    const size_t element_bytes = dpt_dtype_bytes(d->dtype);
    const uint32_t *sample = call->in[2];
    unsigned char *cropped = (unsigned char *)call->workspace + thread * 2 * image_bytes(d);
    unsigned char *turned = cropped + image_bytes(d);
    const distort_limits limits = limits_of(a);
    const constants k = expand(d);
    const dpt_cpu_range part = dpt_cpu_split(call->n_samples, 1, thread, n_threads);
    for (size_t s = part.begin; s < part.end; s++) {
        const philox_source source = philox_of(call->step, sample[s], 0);
        float *x = (float *)call->out[0] + s * d->count;
        uint32_t words[PHILOX_WORDS];
        philox(&source, 0, words);
        distort_drawn drawn = distort_draw(limits, words + 44);
        crop_and_flip(a, words, record(call, s), cropped, channels * element_bytes);
        if (a->rotate > 0) rotate(a, &drawn, cropped, turned, channels * element_bytes);
        unsigned char *made = a->rotate > 0 ? turned : cropped;
        made = randaugment(d, words, made, made == cropped ? turned : cropped);
        if (dpt_jitters(a)) jitter(a, &drawn, made, channels);
        normalise(d->dtype, made, x, d->count, &k);
        erase(a, words, x, channels);
    }
}

/* ---- Labels and preparation ------------------------------------------------------------------ */

/* data (records,count), index (n) -> label (n,count) */
static void gather_labels(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_gather_desc *d = &call->op->desc.u.gather;
    const uint32_t *index = call->in[1];
    int32_t *label = call->out[0];
    const dpt_cpu_range part = dpt_cpu_split(call->n_samples, 16, thread, n_threads);
    for (size_t s = part.begin; s < part.end; s++) {
        const size_t from = (size_t)index[s] * d->count, to = s * d->count;
        for (size_t i = 0; i < d->count; i++)
            label[to + i] = d->dtype == DPT_U8 ? ((const uint8_t *)call->in[0])[from + i]
                                               : ((const int32_t *)call->in[0])[from + i];
    }
}

/* Whether small integers stay exact: they do if the constants are small integers.  A scale of 1/255
   is none. */
static bool is_exact(const dpt_gather_desc *d)
{
    for (size_t i = 0; i < d->channels; i++) {
        const float mean = d->mean[i], scale = d->scale[i];
        if (!(mean > -65536.0f && mean < 65536.0f && scale > -65536.0f && scale < 65536.0f))
            return false;
        if ((float)(int)mean != mean || (float)(int)scale != scale) return false;
    }
    return true;
}

/* The work for an element, roughly in operations of a vector unit. */
static double work_of(const dpt_augment *a)
{
    if (!dpt_augments(a)) return 0.25;
    return 1.0 + (a->rotate > 0 ? 2.0 : 0.0) + (dpt_jitters(a) ? 20.0 : 0.0) +
           10.0 * (double)a->ops;
}

dpt_status KERNEL(prepare_gather)(dpt_op *op, dpt_error *error)
{
    const dpt_gather_desc *d = &op->desc.u.gather;
    if (d->dtype != DPT_U8 && d->dtype != DPT_F32)
        return DPT_FAIL(error, DPT_E_UNSUPPORTED, "gathers samples of U8 and F32 data only");
    if (d->channels < 1 || d->channels > DPT_MAX_CHANNEL_STATS)
        return DPT_FAIL(error, DPT_E_UNSUPPORTED, "gathers data of 1 to %d channels, not %zu",
                        DPT_MAX_CHANNEL_STATS, d->channels);
    const bool augmented = dpt_augments(&d->augment);
    op->plan.kernel = augmented ? gather_augmented : gather;
    op->plan.work = (double)d->count * work_of(&d->augment) + (augmented ? 200.0 : 20.0);
    if (augmented) op->plan.workspace_bytes = dpt_cpu_mul(2 * op->n_threads, image_bytes(d));
    op->plan.exact = is_exact(d);
    op->plan.algorithm = "loop";
    return DPT_OK;
}

dpt_status KERNEL(prepare_gather_labels)(dpt_op *op, dpt_error *error)
{
    const dpt_gather_desc *d = &op->desc.u.gather;
    if (d->dtype != DPT_U8 && d->dtype != DPT_I32)
        return DPT_FAIL(error, DPT_E_UNSUPPORTED, "gathers labels of U8 and I32 data only");
    op->plan.kernel = gather_labels;
    op->plan.work = 2.0 * (double)d->count;
    op->plan.exact = true;
    op->plan.algorithm = "loop";
    return DPT_OK;
}
