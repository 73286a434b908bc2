/* Gathering the samples of a share from the data, normalised on the way. */
#include "kinds.h"

enum {
    /* A common multiple of all numbers of channels: constants repeat with this period. */
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

/* data (records,count), index (n) -> x (n,count) */
static void gather(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_gather_desc *d = &call->op->desc.u.gather;
    const uint32_t *index = call->in[1];
    float *x = call->out[0];
    const constants k = expand(d);
    const dpt_cpu_range part = dpt_cpu_split(call->n_samples, 1, thread, n_threads);
    for (size_t s = part.begin; s < part.end; s++) {
        const size_t first = (size_t)index[s] * d->count;
        if (d->dtype == DPT_U8)
            normalise_u8((const uint8_t *)call->in[0] + first, x + s * d->count, d->count, &k);
        else
            normalise_f32((const float *)call->in[0] + first, x + s * d->count, d->count, &k);
    }
}

/* data (records), index (n) -> label (n) */
static void gather_labels(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_gather_desc *d = &call->op->desc.u.gather;
    const uint32_t *index = call->in[1];
    int32_t *label = call->out[0];
    const dpt_cpu_range part = dpt_cpu_split(call->n_samples, 16, thread, n_threads);
    for (size_t s = part.begin; s < part.end; s++) {
        label[s] = d->dtype == DPT_U8 ? ((const uint8_t *)call->in[0])[index[s]]
                                      : ((const int32_t *)call->in[0])[index[s]];
    }
}

/* Exact for small integers if the constants are such: a scale of 1/255 is not. */
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

dpt_status KERNEL(prepare_gather)(dpt_op *op, dpt_error *error)
{
    const dpt_gather_desc *d = &op->desc.u.gather;
    if (d->dtype != DPT_U8 && d->dtype != DPT_F32)
        return DPT_FAIL(error, DPT_E_UNSUPPORTED, "gathers samples of U8 and F32 data only");
    if (d->channels < 1 || d->channels > DPT_MAX_CHANNEL_STATS)
        return DPT_FAIL(error, DPT_E_UNSUPPORTED, "gathers data of 1 to %d channels, not %zu",
                        DPT_MAX_CHANNEL_STATS, d->channels);
    op->plan.kernel = gather;
    op->plan.work = (double)d->count * 0.25 + 20.0;
    op->plan.exact = is_exact(d);
    op->plan.algorithm = "loop";
    return DPT_OK;
}

dpt_status KERNEL(prepare_gather_labels)(dpt_op *op, dpt_error *error)
{
    const dpt_gather_desc *d = &op->desc.u.gather;
    if (d->dtype != DPT_U8 && d->dtype != DPT_I32)
        return DPT_FAIL(error, DPT_E_UNSUPPORTED, "gathers labels of U8 and I32 data only");
    if (d->count != 1)
        return DPT_FAIL(error, DPT_E_UNSUPPORTED, "gathers one label a sample, not %zu", d->count);
    op->plan.kernel = gather_labels;
    op->plan.work = 2.0;
    op->plan.exact = true;
    op->plan.algorithm = "loop";
    return DPT_OK;
}
