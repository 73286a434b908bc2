/* Dropout: elements become zero with probability p.  The mask is drawn from the number of the
   sample, so it is the same on every device, and in backward as in forward. */
#include "kinds.h"
#include "philox.h"

#include <math.h>
#include <string.h>

/* An element is kept if the upper 24 bits of its random word are at least this: u >= p, where u is
   a multiple of 2^-24. */
static uint32_t threshold(float p)
{
    return (uint32_t)ceil((double)p * 0x1p24);
}

static float scale_of(float p)
{
    return (float)(1.0 / (1.0 - (double)p));
}

/* Drops n elements of one sample, at most PHILOX_WORDS.  y may be x: the kept elements are stored
   in a local array in between, so that the compiler sees no alias. */
static void drop(const dpt_dropout_desc *d, const uint32_t *words, const float *x, float *y,
                 size_t n, bool accumulate)
{
    const int32_t border = (int32_t)threshold(d->p);
    const float scale = scale_of(d->p);
    float kept[PHILOX_WORDS];
    for (size_t i = 0; i < n; i++)
        kept[i] = (int32_t)(words[i] >> 8) >= border ? x[i] * scale : 0.0f;
    if (!accumulate) {
        memcpy(y, kept, n * sizeof *y);
        return;
    }
    for (size_t i = 0; i < n; i++)
        y[i] += kept[i];
}

/* x (n,count), sample (n) -> y (n,count) */
static void dropout(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_dropout_desc *d = &call->op->desc.u.dropout;
    const uint32_t *sample = call->in[1];
    const size_t chunks = dpt_cpu_ceil_div(d->count, PHILOX_WORDS); /* of a sample */
    const dpt_cpu_range part = dpt_cpu_split(call->n_samples * chunks, 1, thread, n_threads);
    for (size_t i = part.begin; i < part.end; i++) {
        const size_t s = i / chunks, first = i % chunks * PHILOX_WORDS;
        const size_t rest = d->count - first;
        const philox_source source = philox_of(call->step, sample[s], d->stream);
        uint32_t words[PHILOX_WORDS];
        philox(&source, (uint32_t)(first / 4), words);
        drop(d, words, (const float *)call->in[0] + s * d->count + first,
             (float *)call->out[0] + s * d->count + first,
             rest < PHILOX_WORDS ? rest : PHILOX_WORDS, call->accumulate);
    }
}

dpt_status KERNEL(prepare_dropout)(dpt_op *op, dpt_error *error)
{
    const dpt_dropout_desc *d = &op->desc.u.dropout;
    if (d->count / 4 > UINT32_MAX)
        return DPT_FAIL(error, DPT_E_UNSUPPORTED,
                        "drops of up to 2^34 elements a sample, not of %zu", d->count);
    op->plan.kernel = dropout;
    op->plan.work = 20.0 + (double)d->count;
    op->plan.exact = dpt_cpu_small_integer(scale_of(d->p)) &&
                     (double)scale_of(d->p) * (1.0 - (double)d->p) == 1.0;
    op->plan.algorithm = "loop";
    return DPT_OK;
}
