/* Deterministic softmax with cross-entropy.  The classes of a sample are added in their order.  With
   few classes, and on a CPU, a work item computes a sample.  Otherwise a group does: its items
   compute terms, and its first item adds them. */
#include "functions.h"
#include "reduce.h"
#include "softmax.h"

/* The loss of a sample.  margins: of all classes, which counts with smoothing only. */
DEVICE float loss_of(double label_margin, double margins, double exponentials,
                     const softmax_params p)
{
    const double smoothing = (double)p.smoothing, each = smoothing / (double)p.classes;
    double margin = label_margin;
    if (smoothing > 0.0) /* without it, infinite logits of other classes do not count */
        margin = (1.0 - smoothing) * label_margin + each * margins;
    return (float)((double)LOG((float)exponentials) - margin);
}

/* Whether the label is the first of the greatest logits with respect to class i.  False if either
   logit is NaN. */
DEVICE u32 yields(float logit, u32 i, float label_logit, u32 label)
{
    return i < label ? logit < label_logit : logit <= label_logit;
}

/* A label that is ignored.  The item takes the classes first, first + step, ... */
DEVICE void ignore(GLOBAL float *result, GLOBAL float *dlogits, u32 first, u32 step,
                   const softmax_params p)
{
    if (first == 0) result[0] = result[1] = 0.0f;
    for (u32 i = first; p.gradient && i < p.classes; i += step)
        dlogits[i] = 0.0f;
}

DEVICE float gradient_at(u32 i, float exponential, float inverse, u32 label,
                         const softmax_params p)
{
    return exponential * inverse - (i == label ? p.target_on : p.target_off);
}

/* The tensors of a sample. */
#define SAMPLE(index)                                                                              \
    GLOBAL float *const result = result_base + result_place + 2 * (index);                         \
    GLOBAL float *const dlogits = dlogits_base + dlogits_place + (index)*p.classes;                \
    GLOBAL const float *const logits = logits_base + logits_place + (index)*p.classes;             \
    const i32 label = label_base[label_place + (index)];                                           \
    const float inv_labels = p.gradient ? AS_FLOAT(step_base[step_place + STEP_INV_LABELS]) : 0.0f

/* logits (n,classes), label (n) -> result (n,2), dlogits (n,classes).  A work item for each
   sample. */
KERNEL void dpt_softmax_fixed_few(OUT(float, result), OUT(float, dlogits), IN(float, logits),
                                  IN(i32, label), IN(u32, step), const softmax_params p)
{
    const u64 index = GLOBAL_ID;
    if (index >= p.n_samples) return;
    SAMPLE(index);
    if (label < 0) {
        ignore(result, dlogits, 0, 1, p);
        return;
    }
    const u32 own = (u32)label;
    float most = logits[0];
    double exponentials = 0.0, margins = 0.0;
    u32 hit = 1;
    for (u32 i = 1; i < p.classes; i++)
        most = logits[i] > most ? logits[i] : most;
    for (u32 i = 0; i < p.classes; i++) {
        const float e = EXP(logits[i] - most);
        if (p.gradient) dlogits[i] = e;
        exponentials += (double)e;
        margins += (double)logits[i] - (double)most;
        hit &= yields(logits[i], i, logits[own], own);
    }
    result[0] = loss_of((double)logits[own] - (double)most, margins, exponentials, p);
    result[1] = hit ? 1.0f : 0.0f;
    const float inverse = (float)(1.0 / exponentials);
    for (u32 i = 0; p.gradient && i < p.classes; i++)
        dlogits[i] = gradient_at(i, dlogits[i], inverse, own, p) * inv_labels;
}

/* dpt_softmax_fixed_few with a group for each sample. */
KERNEL void dpt_softmax_fixed_many(OUT(float, result), OUT(float, dlogits), IN(float, logits),
                                   IN(i32, label), IN(u32, step), const softmax_params p)
{
    SHARED float shared[GROUP];
    SHARED float inverse_of_sum;
    const u64 index = GROUP_ID(0);
    SAMPLE(index);
    if (label < 0) { /* the same for the whole group */
        ignore(result, dlogits, LOCAL_ID, GROUP, p);
        return;
    }
    const u32 own = (u32)label;
    float most = logits[0], misses = 0.0f;
    double exponentials = 0.0, margins = 0.0;
    for (u32 i = LOCAL_ID; i < p.classes; i += GROUP) {
        most = logits[i] > most ? logits[i] : most;
        misses = yields(logits[i], i, logits[own], own) ? misses : 1.0f;
    }
    most = group_max(shared, most);
    misses = group_max(shared, misses);
    for (u32 first = 0; first < p.classes; first += GROUP) {
        const u32 i = first + LOCAL_ID, n = p.classes - first < GROUP ? p.classes - first : GROUP;
        shared[LOCAL_ID] = i < p.classes ? EXP(logits[i] - most) : 0.0f;
        if (p.gradient && i < p.classes) dlogits[i] = shared[LOCAL_ID];
        BARRIER();
        for (u32 k = 0; LOCAL_ID == 0 && k < n; k++) {
            exponentials += (double)shared[k];
            if (p.smoothing > 0.0f) margins += (double)logits[first + k] - (double)most;
        }
        BARRIER();
    }
    if (LOCAL_ID == 0) {
        inverse_of_sum = (float)(1.0 / exponentials);
        result[0] = loss_of((double)logits[own] - (double)most, margins, exponentials, p);
        result[1] = misses == 0.0f ? 1.0f : 0.0f;
    }
    BARRIER();
    for (u32 i = LOCAL_ID; p.gradient && i < p.classes; i += GROUP)
        dlogits[i] = gradient_at(i, dlogits[i], inverse_of_sum, own, p) * inv_labels;
}
