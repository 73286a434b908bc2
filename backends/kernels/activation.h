/* Activation functions of one value, for all kernels that apply one.  `kind` is a dpt_activation
   (core/dpt_types.h).  If the kind is a constant of the program, the code has no branches.

   A new function of DPT_ACTIVATION_LIST has a number here and a line in `activate`.  A function
   that other operators fuse has a line in `activation_slope`, any other in `activation_own_slope`.
 */
#ifndef DPT_KERNELS_ACTIVATION_H
#define DPT_KERNELS_ACTIVATION_H

#include "functions.h"

#define ACTIVATION_NONE    0u
#define ACTIVATION_RELU    1u
#define ACTIVATION_TANH    2u
#define ACTIVATION_SIGMOID 3u
#define ACTIVATION_GELU    4u

#if DETERMINISTIC

DEVICE float sigmoid(float x)
{
    return exact_sigmoid(x);
}

/* The distribution function of the normal distribution. */
DEVICE float normal_distribution(float x)
{
    return exact_normal(x);
}

/* exp(-x^2 / 2) */
DEVICE float bell(float x)
{
    return exact_bell(x);
}

#else

DEVICE float sigmoid(float x)
{
    return 1.0f / (1.0f + EXP(-x));
}

/* The distribution function of the normal distribution.  erfc is precise in the left tail, where
   1 + erf cancels. */
DEVICE float normal_distribution(float x)
{
    return 0.5f * ERFC(x * -0.70710678f);
}

/* exp(-x^2 / 2) */
DEVICE float bell(float x)
{
    return EXP(-0.5f * x * x);
}

#endif

/* f(x); NaN stays NaN.  The kinds of most layers are tested first.  From a switch over all kinds
   nvcc would make a table, and an indirect jump for every element. */
DEVICE float activate(u32 kind, float x)
{
    const float least = kind == ACTIVATION_RELU ? 0.0f : -INFINITY;
    if (kind <= ACTIVATION_RELU) return x < least ? least : x;
    if (kind == ACTIVATION_TANH) return TANH(x);
    if (kind == ACTIVATION_SIGMOID) return sigmoid(x);
    if (kind == ACTIVATION_GELU) return x * normal_distribution(x);
    return x;
}

/* f' as a function of the output y = f(x); 1 if there is no activation.  Not for GELU, whose
   derivative is no function of its output. */
DEVICE float activation_slope(u32 kind, float y)
{
    if (kind == ACTIVATION_RELU) return y > 0.0f ? 1.0f : 0.0f;
    if (kind == ACTIVATION_TANH) return 1.0f - y * y;
    if (kind == ACTIVATION_SIGMOID) return y * (1.0f - y);
    return 1.0f;
}

/* The derivative of GELU, as a function of its input. */
DEVICE float gelu_slope(float x)
{
    return normal_distribution(x) + x * (0.39894228f * bell(x));
}

/* f' for the operator that applies it alone: from the output y, or from the input for a function
   that is never fused. */
DEVICE float activation_own_slope(u32 kind, float y)
{
    return kind == ACTIVATION_GELU ? gelu_slope(y) : activation_slope(kind, y);
}

/* dy * f', from the output y, for a function that other operators fuse.  ReLU gives dy or +0: a
   product with 0 may be -0, or NaN for an infinite dy. */
DEVICE float with_slope(u32 kind, float y, float dy)
{
    if (kind == ACTIVATION_RELU) return y > 0.0f ? dy : 0.0f;
    return dy * activation_slope(kind, y);
}

/* The same for the operator that applies the function alone (activation_own_slope). */
DEVICE float with_own_slope(u32 kind, float y, float dy)
{
    if (kind == ACTIVATION_RELU) return y > 0.0f ? dy : 0.0f;
    return dy * activation_own_slope(kind, y);
}

#endif
