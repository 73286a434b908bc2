/* Adam with decoupled weight decay over the flat parameters, as PyTorch defines it. */
#include "adamw.h"
#include "span.h"

/* Every backend rounds each operation, so that replicas of one model stay alike to the bit. */
SEPARATE_ROUNDING

/* gradient (count) -> w, m, v (count each) */
KERNEL void dpt_adamw(OUT(float, w), OUT(float, m), OUT(float, v), IN(float, gradient),
                      IN(u32, step), IN(float, halt), const adamw_params p)
{
    TENSOR_OUT(float, w);
    TENSOR_OUT(float, m);
    TENSOR_OUT(float, v);
    TENSOR_IN(float, gradient);
    TENSOR_IN(u32, step);
    if (HALTED(p)) return;
    const float lr = AS_FLOAT(step[STEP_LR]);
    const float rate = lr * AS_FLOAT(step[STEP_ADAM_SCALE_M]);
    const float scale_v = AS_FLOAT(step[STEP_ADAM_SCALE_V]);
    FOR_ELEMENTS (i, p.count) {
        const float keep = FMA(-lr, i < p.decay_count ? p.weight_decay : 0.0f, 1.0f);
        const float g = gradient[i];
        const float mean = p.beta1 * m[i] + (1.0f - p.beta1) * g;
        const float square = p.beta2 * v[i] + (1.0f - p.beta2) * (g * g);
        m[i] = mean;
        v[i] = square;
        w[i] = keep * w[i] - rate * mean / (SQRT(square) * scale_v + p.epsilon);
    }
}
