/* Stochastic gradient descent over the flat parameters, as PyTorch defines it. */
#include "quad.h"
#include "sgd.h"
#include "span.h"

/* Every backend rounds each operation by itself, so that replicas stay equal to the bit. */
SEPARATE_ROUNDING

/* The gradient of element i, plus its weight decay. */
DEVICE float decayed(float gradient, float w, u64 i, const sgd_params p)
{
    return gradient + (i < p.decay_count ? p.weight_decay : 0.0f) * w;
}

/* The gradients of the four elements from i on, plus their weight decay. */
DEVICE float4 decayed_quad(float4 gradient, float4 w, u64 i, const sgd_params p)
{
    return FLOAT4(decayed(gradient.x, w.x, i, p), decayed(gradient.y, w.y, i + 1, p),
                  decayed(gradient.z, w.z, i + 2, p), decayed(gradient.w, w.w, i + 3, p));
}

/* a * x + y */
DEVICE float4 scaled_sum(float a, float4 x, float4 y)
{
    return FLOAT4(a * x.x + y.x, a * x.y + y.y, a * x.z + y.z, a * x.w + y.w);
}

/* w - lr * by */
DEVICE float4 stepped(float4 w, float lr, float4 by)
{
    return FLOAT4(w.x - lr * by.x, w.y - lr * by.y, w.z - lr * by.z, w.w - lr * by.w);
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

/* dpt_sgd by quads.  The loads do not wait for the halt word. */
KERNEL void dpt_sgd_quads(OUT(float, w), IN(float, gradient), IN(u32, step), IN(float, halt),
                          const sgd_params p)
{
    TENSOR_OUT(float, w);
    TENSOR_IN(float, gradient);
    TENSOR_IN(u32, step);
    const u64 n = p.count / 4;
    FOR_QUADS (first, n) {
        const float lr = AS_FLOAT(step[STEP_LR]);
        float4 own[QUADS], g[QUADS];
        UNROLL for (u32 k = 0; k < QUADS; k++) {
            own[k] = QUAD(float, w, QUAD_AT(first, k, n));
            g[k] = QUAD(float, gradient, QUAD_AT(first, k, n));
        }
        if (HALTED(p)) return;
        UNROLL for (u32 k = 0; k < QUADS; k++) {
            const u64 i = first + k * GROUP;
            if (i < n)
                QUAD_OUT(float, w, i) = stepped(own[k], lr, decayed_quad(g[k], own[k], 4 * i, p));
        }
    }
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

KERNEL void dpt_sgd_momentum_quads(OUT(float, w), OUT(float, velocity), IN(float, gradient),
                                   IN(u32, step), IN(float, halt), const sgd_params p)
{
    TENSOR_OUT(float, w);
    TENSOR_OUT(float, velocity);
    TENSOR_IN(float, gradient);
    TENSOR_IN(u32, step);
    const u64 n = p.count / 4;
    FOR_QUADS (first, n) {
        const float lr = AS_FLOAT(step[STEP_LR]);
        float4 own[QUADS], before[QUADS], g[QUADS];
        UNROLL for (u32 k = 0; k < QUADS; k++) {
            own[k] = QUAD(float, w, QUAD_AT(first, k, n));
            before[k] = QUAD(float, velocity, QUAD_AT(first, k, n));
            g[k] = QUAD(float, gradient, QUAD_AT(first, k, n));
        }
        if (HALTED(p)) return;
        UNROLL for (u32 k = 0; k < QUADS; k++) {
            const u64 i = first + k * GROUP;
            const float4 down = decayed_quad(g[k], own[k], 4 * i, p);
            const float4 v = scaled_sum(p.momentum, before[k], down);
            if (i >= n) break;
            QUAD_OUT(float, velocity, i) = v;
            QUAD_OUT(float, w, i) =
                stepped(own[k], lr, p.nesterov ? scaled_sum(p.momentum, v, down) : v);
        }
    }
}
