/* Adam with decoupled weight decay over the flat parameters, as PyTorch defines it. */
#include "adamw.h"
#include "functions.h"
#include "quad.h"
#include "span.h"

/* Every backend rounds each operation by itself, so that replicas stay equal to the bit. */
SEPARATE_ROUNDING

/* The rates of a step, from the step block. */
typedef struct rates {
    float lr, rate, scale_v;
} rates;

DEVICE rates rates_of(GLOBAL const u32 *step)
{
    rates r;
    r.lr = AS_FLOAT(step[STEP_LR]);
    r.rate = r.lr * AS_FLOAT(step[STEP_ADAM_SCALE_M]);
    r.scale_v = AS_FLOAT(step[STEP_ADAM_SCALE_V]);
    return r;
}

/* The parameter and the optimizer state of an element. */
typedef struct adapted {
    float w, m, v;
} adapted;

/* Element i after the update. */
DEVICE adapted adapt(adapted e, float g, u64 i, rates r, const adamw_params p)
{
    const float keep = FMA(-r.lr, i < p.decay_count ? p.weight_decay : 0.0f, 1.0f);
    e.m = p.beta1 * e.m + (1.0f - p.beta1) * g;
    e.v = p.beta2 * e.v + (1.0f - p.beta2) * (g * g);
    e.w = keep * e.w - DIVIDE(r.rate * e.m, SQRT(e.v) * r.scale_v + p.epsilon);
    return e;
}

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
    const rates r = rates_of(step);
    FOR_ELEMENTS (i, p.count) {
        const adapted old = {w[i], m[i], v[i]};
        const adapted e = adapt(old, gradient[i], i, r, p);
        m[i] = e.m;
        v[i] = e.v;
        w[i] = e.w;
    }
}

/* dpt_adamw by quads.  The loads do not wait for the halt word. */
KERNEL void dpt_adamw_quads(OUT(float, w), OUT(float, m), OUT(float, v), IN(float, gradient),
                            IN(u32, step), IN(float, halt), const adamw_params p)
{
    TENSOR_OUT(float, w);
    TENSOR_OUT(float, m);
    TENSOR_OUT(float, v);
    TENSOR_IN(float, gradient);
    TENSOR_IN(u32, step);
    const u64 n = p.count / 4;
    FOR_QUADS (first, n) {
        const rates r = rates_of(step);
        float4 own[QUADS], mean[QUADS], square[QUADS], g[QUADS];
        UNROLL for (u32 k = 0; k < QUADS; k++) {
            own[k] = QUAD(float, w, QUAD_AT(first, k, n));
            mean[k] = QUAD(float, m, QUAD_AT(first, k, n));
            square[k] = QUAD(float, v, QUAD_AT(first, k, n));
            g[k] = QUAD(float, gradient, QUAD_AT(first, k, n));
        }
        if (HALTED(p)) return;
        UNROLL for (u32 k = 0; k < QUADS; k++) {
            const u64 i = first + k * GROUP;
            const adapted old[4] = {{own[k].x, mean[k].x, square[k].x},
                                    {own[k].y, mean[k].y, square[k].y},
                                    {own[k].z, mean[k].z, square[k].z},
                                    {own[k].w, mean[k].w, square[k].w}};
            const float by[4] = {g[k].x, g[k].y, g[k].z, g[k].w};
            adapted e[4];
            UNROLL for (u32 j = 0; j < 4; j++)
                e[j] = adapt(old[j], by[j], 4 * i + j, r, p);
            if (i >= n) break;
            QUAD_OUT(float, m, i) = FLOAT4(e[0].m, e[1].m, e[2].m, e[3].m);
            QUAD_OUT(float, v, i) = FLOAT4(e[0].v, e[1].v, e[2].v, e[3].v);
            QUAD_OUT(float, w, i) = FLOAT4(e[0].w, e[1].w, e[2].w, e[3].w);
        }
    }
}
