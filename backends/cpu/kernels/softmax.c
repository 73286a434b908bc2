/* Softmax with cross-entropy: loss, hit and, if asked for, the gradient of each sample, in one
 * pass.
 */
#include "functions.h"
#include "kernels/exact.h"
#include "kinds.h"
#include "row_sums.h"

#include <math.h>
#include <string.h>

/* Whether the label's logit is the first of the greatest logits.  False if a logit is NaN. */
static bool is_hit(const float *logits, size_t classes, size_t label)
{
    for (size_t i = 0; i < label; i++)
        if (!(logits[i] < logits[label])) return false;
    for (size_t i = label; i < classes; i++)
        if (!(logits[i] <= logits[label])) return false;
    return true;
}

static double sum_of_margins(const float *logits, size_t classes, float most)
{
    double sum = 0.0;
    for (size_t i = 0; i < classes; i++)
        sum += (double)logits[i] - (double)most;
    return sum;
}

/* out[i] = e^(logit - most), in the place of the gradient.  Returns the sum.  By the function of
   kernels/exact.h, and in order. */
static double exact_exponentials(const float *logits, size_t classes, float most, float *out)
{
    double sum = 0.0;
    for (size_t i = 0; i < classes; i++) {
        const float e = exact_exp(logits[i] - most);
        if (out) out[i] = e;
        sum += (double)e;
    }
    return sum;
}

/* The same with vectors. */
static double fast_exponentials(const float *logits, size_t classes, float most, float *out)
{
    enum { AT_ONCE = 512 };
    float block[AT_ONCE];
    double sum = 0.0;
    for (size_t at = 0; at < classes; at += AT_ONCE) {
        const size_t n = classes - at < AT_ONCE ? classes - at : AT_ONCE;
        for (size_t i = 0; i < n; i++)
            block[i] = function_exp(logits[at + i] - most);
        sum += row_sum(block, n);
        if (out) memcpy(out + at, block, n * sizeof *block);
    }
    return sum;
}

/* The gradient from the exponentials in its place. */
typedef struct targets {
    size_t label;
    float on, off; /* of the label, and of the other classes */
    float inv_sum, inv_labels;
} targets;

static void to_gradient(const targets *given, float *restrict gradient, size_t classes)
{
    const targets t = *given;
    const float at_label = (gradient[t.label] * t.inv_sum - t.on) * t.inv_labels;
    for (size_t i = 0; i < classes; i++)
        gradient[i] = (gradient[i] * t.inv_sum - t.off) * t.inv_labels;
    gradient[t.label] = at_label;
}

/* An ignored label. */
static void ignore_label(float *result, float *gradient, size_t classes)
{
    result[0] = result[1] = 0.0f;
    for (size_t i = 0; gradient && i < classes; i++)
        gradient[i] = 0.0f;
}

/* logits (n,classes), label (n) -> result (n,2), dlogits (n,classes) */
static void softmax(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const size_t classes = call->op->desc.u.softmax.classes;
    const double smoothing = (double)call->op->desc.u.softmax.smoothing;
    const double each = smoothing / (double)classes; /* the target's part for every class */
    const float target_on = (float)(1.0 - smoothing + each), target_off = (float)each;
    const bool with_gradient = call->op->desc.kind == DPT_OP_SOFTMAX_XENT_GRADIENT;
    const int32_t *labels = call->in[1];
    float *result = call->out[0];
    const dpt_cpu_range part = dpt_cpu_split(call->n_samples, 8, thread, n_threads);
    for (size_t s = part.begin; s < part.end; s++) {
        const float *logits = (const float *)call->in[0] + s * classes;
        float *gradient = with_gradient ? (float *)call->out[1] + s * classes : NULL;
        if (labels[s] < 0) {
            ignore_label(result + 2 * s, gradient, classes);
            continue;
        }
        const size_t label = (size_t)labels[s];
        const float most = row_greatest(logits, classes);
        const bool hit = is_hit(logits, classes, label);
        double margin = (double)logits[label] - (double)most;
        if (smoothing > 0.0) /* without it, infinite logits of other classes do not count */
            margin = (1.0 - smoothing) * margin + each * sum_of_margins(logits, classes, most);
        const bool exact = call->op->deterministic;
        const double sum = exact ? exact_exponentials(logits, classes, most, gradient)
                                 : fast_exponentials(logits, classes, most, gradient);
        result[2 * s] = (float)((exact ? (double)exact_log((float)sum) : log(sum)) - margin);
        result[2 * s + 1] = hit ? 1.0f : 0.0f;
        if (!with_gradient) continue;
        to_gradient(&(const targets){.label = label,
                                     .on = target_on,
                                     .off = target_off,
                                     .inv_sum = (float)(1.0 / sum),
                                     .inv_labels = call->step->inv_labels},
                    gradient, classes);
    }
}

static dpt_status prepare(dpt_op *op)
{
    op->plan.kernel = softmax;
    op->plan.work = 5.0 * (double)op->desc.u.softmax.classes + 20.0;
    op->plan.algorithm = "loop";
    return DPT_OK;
}

dpt_status KERNEL(prepare_softmax_xent)(dpt_op *op, dpt_error *error)
{
    (void)error;
    return prepare(op);
}

dpt_status KERNEL(prepare_softmax_xent_gradient)(dpt_op *op, dpt_error *error)
{
    (void)error;
    return prepare(op);
}
