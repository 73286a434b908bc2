/* Softmax with cross-entropy: loss, hit and, if asked for, the gradient of each sample, in one pass.
   With few classes a work item computes a sample, with many classes a group does. */
#include "functions.h"
#include "reduce.h"
#include "softmax.h"

/* The loss of a sample, from the sums over its classes. */
DEVICE float loss_of(float label_margin, float sum_of_margins, float sum_of_exponentials,
                     const softmax_params p)
{
    float margin = label_margin;
    if (p.smoothing > 0.0f) /* without it, infinite logits of other classes do not count */
        margin = (1.0f - p.smoothing) * label_margin + p.target_off * sum_of_margins;
    return LOG(sum_of_exponentials) - margin;
}

/* Whether the label is the first of the greatest logits with respect to class i.  False if either logit
   is NaN. */
DEVICE u32 yields(float logit, u32 i, float label_logit, u32 label)
{
    return i < label ? logit < label_logit : logit <= label_logit;
}

/* logits (n,classes), label (n) -> result (n,2), dlogits (n,classes).  A work item for each sample. */
KERNEL void dpt_softmax_few(OUT(float, result), OUT(act, dlogits), IN(act, logits), IN(i32, label),
                            IN(u32, step), const softmax_params p)
{
    TENSOR_OUT(float, result);
    TENSOR_IN(i32, label);
    TENSOR_IN(u32, step);
    const u64 sample = GLOBAL_ID;
    if (sample >= p.n_samples) return;
    if (label[sample] < 0) {
        GLOBAL act *const zeros = dlogits_base + dlogits_place + sample * p.classes;
        result[2 * sample] = result[2 * sample + 1] = 0.0f;
        for (u32 i = 0; p.gradient && i < p.classes; i++)
            PUT(zeros, i, 0.0f);
        return;
    }
    GLOBAL const act *const logits = logits_base + logits_place + sample * p.classes;
    const u32 own = (u32)label[sample];
    float most = GET(logits, 0);
    for (u32 i = 1; i < p.classes; i++)
        most = GET(logits, i) > most ? GET(logits, i) : most;
    float exponentials = 0.0f, margins = 0.0f;
    u32 hit = 1;
    for (u32 i = 0; i < p.classes; i++) {
        exponentials += EXP(GET(logits, i) - most);
        margins += GET(logits, i) - most;
        hit &= yields(GET(logits, i), i, GET(logits, own), own);
    }
    result[2 * sample] = loss_of(GET(logits, own) - most, margins, exponentials, p);
    result[2 * sample + 1] = hit ? 1.0f : 0.0f;
    if (!p.gradient) return;
    GLOBAL act *const dlogits = dlogits_base + dlogits_place + sample * p.classes;
    const float inverse = 1.0f / exponentials, inv_labels = AS_FLOAT(step[STEP_INV_LABELS]);
    for (u32 i = 0; i < p.classes; i++)
        PUT(dlogits, i,
            (EXP(GET(logits, i) - most) * inverse - (i == own ? p.target_on : p.target_off)) *
                inv_labels);
}

/* dpt_softmax_few with a group for each sample. */
KERNEL void dpt_softmax_many(OUT(float, result), OUT(act, dlogits), IN(act, logits), IN(i32, label),
                             IN(u32, step), const softmax_params p)
{
    SHARED float shared[GROUP];
    TENSOR_OUT(float, result);
    TENSOR_IN(i32, label);
    TENSOR_IN(u32, step);
    const u64 sample = GROUP_ID(0);
    if (label[sample] < 0) { /* the same for the whole group */
        GLOBAL act *const zeros = dlogits_base + dlogits_place + sample * p.classes;
        if (LOCAL_ID == 0) result[2 * sample] = result[2 * sample + 1] = 0.0f;
        for (u32 i = LOCAL_ID; p.gradient && i < p.classes; i += GROUP)
            PUT(zeros, i, 0.0f);
        return;
    }
    GLOBAL const act *const logits = logits_base + logits_place + sample * p.classes;
    const u32 own = (u32)label[sample];
    float most = GET(logits, 0);
    for (u32 i = LOCAL_ID; i < p.classes; i += GROUP)
        most = GET(logits, i) > most ? GET(logits, i) : most;
    most = group_max(shared, most);
    float exponentials = 0.0f, margins = 0.0f, misses = 0.0f;
    for (u32 i = LOCAL_ID; i < p.classes; i += GROUP) {
        exponentials += EXP(GET(logits, i) - most);
        margins += GET(logits, i) - most;
        misses = yields(GET(logits, i), i, GET(logits, own), own) ? misses : 1.0f;
    }
    exponentials = group_sum(shared, exponentials);
    margins = group_sum(shared, margins);
    misses = group_max(shared, misses);
    if (LOCAL_ID == 0) {
        result[2 * sample] = loss_of(GET(logits, own) - most, margins, exponentials, p);
        result[2 * sample + 1] = misses == 0.0f ? 1.0f : 0.0f;
    }
    if (!p.gradient) return;
    GLOBAL act *const dlogits = dlogits_base + dlogits_place + sample * p.classes;
    const float inverse = 1.0f / exponentials, inv_labels = AS_FLOAT(step[STEP_INV_LABELS]);
    for (u32 i = LOCAL_ID; i < p.classes; i += GROUP)
        PUT(dlogits, i,
            (EXP(GET(logits, i) - most) * inverse - (i == own ? p.target_on : p.target_off)) *
                inv_labels);
}
