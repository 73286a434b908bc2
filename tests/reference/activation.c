/* The activation functions in double precision: values, derivatives, and how large the terms are
   that they are computed from.  A new function of DPT_ACTIVATION_LIST has a line in each of the
   switches; the compiler names one that is missing. */
#include "reference.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

/* Phi(x) */
static double normal_distribution(double x)
{
    return 0.5 * erfc(-x / sqrt(2.0));
}

double reference_activate(dpt_activation kind, double x)
{
    switch (kind) {
    case DPT_ACT_NONE: return x;
    case DPT_ACT_RELU: return x < 0.0 ? 0.0 : x; /* keeps NaN */
    case DPT_ACT_TANH: return tanh(x);
    case DPT_ACT_SIGMOID: return 1.0 / (1.0 + exp(-x));
    case DPT_ACT_GELU: return x * normal_distribution(x);
    }
    return NAN;
}

double reference_slope(dpt_activation kind, double y)
{
    switch (kind) {
    case DPT_ACT_NONE: return 1.0;
    case DPT_ACT_RELU: return y > 0.0 ? 1.0 : 0.0;
    case DPT_ACT_TANH: return 1.0 - y * y;
    case DPT_ACT_SIGMOID: return y * (1.0 - y);
    case DPT_ACT_GELU: return normal_distribution(y) + y * exp(-0.5 * y * y) / sqrt(2.0 * pi);
    }
    return NAN;
}

double magnitude_slope(dpt_activation kind, double y)
{
    switch (kind) {
    case DPT_ACT_NONE: return 1.0;
    case DPT_ACT_RELU: return y > 0.0 ? 1.0 : 0.0;
    case DPT_ACT_TANH: return 1.0 + y * y;
    case DPT_ACT_SIGMOID: return fabs(y) * (1.0 + fabs(y));
    case DPT_ACT_GELU: /* 1 + erf, and an exponential that magnifies the rounding of its argument */
        return 1.0 + fabs(y) * exp(-0.5 * y * y) * (1.0 + y * y);
    }
    return NAN;
}

double magnitude_activate(dpt_activation kind, double x)
{
    /* GELU is x / 2 + x / 2 * erf. */
    return fabs(kind == DPT_ACT_GELU ? x : reference_activate(kind, x));
}

/* No function that is fused is steeper than 1.  A sigmoid is rounded where it is near 1. */
double magnitude_activated(dpt_activation kind, double sum)
{
    return kind == DPT_ACT_SIGMOID ? sum + 1.0 : sum;
}
