/* Stochastic gradient descent over the flat parameters, as PyTorch defines it. */
#include "sgd.h"
#include "span.h"

/* Every backend rounds each operation, so that replicas of one model stay alike to the bit. */
SEPARATE_ROUNDING

/* The gradient with the weight decay of element i. */
DEVICE float decayed(float gradient, float w, u64 i, const sgd_params p)
{
    return gradient + (i < p.decay_count ? p.weight_decay : 0.0f) * w;
}

/* gradient (count) -> w (count) */
KERNEL void dpt_sgd(OUT(float, w), IN(float, gradient), IN(u32, step), IN(float, halt),
                    const sgd_params p)
{
    TENSOR_OUT(float, w);
    TENSOR_IN(float, gradient);
    TENSOR_IN(u32, step);
    if (HALTED(p)) return;
    const float lr = AS_FLOAT(step[STEP_LR]);
    FOR_ELEMENTS (i, p.count)
        w[i] -= lr * decayed(gradient[i], w[i], i, p);
}

/* gradient (count) -> w, velocity (count each) */
KERNEL void dpt_sgd_momentum(OUT(float, w), OUT(float, velocity), IN(float, gradient),
                             IN(u32, step), IN(float, halt), const sgd_params p)
{
    TENSOR_OUT(float, w);
    TENSOR_OUT(float, velocity);
    TENSOR_IN(float, gradient);
    TENSOR_IN(u32, step);
    if (HALTED(p)) return;
    const float lr = AS_FLOAT(step[STEP_LR]);
    FOR_ELEMENTS (i, p.count) {
        const float g = decayed(gradient[i], w[i], i, p);
        const float v = p.momentum * velocity[i] + g;
        velocity[i] = v;
        w[i] -= lr * (p.nesterov ? g + p.momentum * v : v);
    }
}
