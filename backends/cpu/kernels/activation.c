/* Activation functions, and the operators that apply them alone.  A new function of
   DPT_ACTIVATION_LIST has a line in `value` and in `derivative`; the compiler names one that is
   missing. */
#include "activation.h"
#include "exact_loops.h"
#include "functions.h"
#include "kinds.h"

#include <string.h>

static const float inverse_sqrt_2pi = 0.39894228f;

/* f(x) of one element.  With a constant kind there are no branches. */
static inline float value(dpt_activation kind, float x)
{
    switch (kind) {
    case DPT_ACT_NONE: return x;
    case DPT_ACT_RELU: return x < 0.0f ? 0.0f : x; /* keeps NaN */
    case DPT_ACT_TANH: return function_tanh(x);
    case DPT_ACT_SIGMOID: return function_sigmoid(x);
    case DPT_ACT_GELU: return x * function_normal(x, function_bell(x));
    }
    return x;
}

/* dy * f' of one element.  y is the output, or the input for a function whose derivative needs it
   (dpt_activation_fuses).  With a constant kind there are no branches. */
static inline float derivative(dpt_activation kind, float y, float dy)
{
    switch (kind) {
    case DPT_ACT_NONE: return dy;
    case DPT_ACT_RELU: return y > 0.0f ? dy : 0.0f;
    case DPT_ACT_TANH: return dy * (1.0f - y * y);
    case DPT_ACT_SIGMOID: return dy * (y * (1.0f - y));
    case DPT_ACT_GELU: {
        const float bell = function_bell(y);
        return dy * (function_normal(y, bell) + y * (inverse_sqrt_2pi * bell));
    }
    }
    return dy;
}

/* The functions that need more than one operation; false for the others. */
static bool activate_exactly(dpt_activation kind, float *y, const float *x, size_t n)
{
    switch (kind) {
    case DPT_ACT_TANH: return KERNEL(exact_apply)(DPT_MAP_TANH, y, x, NULL, n);
    case DPT_ACT_SIGMOID: return KERNEL(exact_apply)(DPT_MAP_SIGMOID, y, x, NULL, n);
    case DPT_ACT_GELU: KERNEL(exact_gelu)(y, x, n); return true;
    default: return false;
    }
}

/* A loop of its own for each line of DPT_ACTIVATION_LIST: the kind is a constant in it. */
void KERNEL(activate)(const dpt_op *op, dpt_activation kind, float *y, const float *x, size_t n)
{
    if (kind == DPT_ACT_NONE) {
        if (y != x && n > 0) memcpy(y, x, n * sizeof *y);
        return;
    }
    if (op->deterministic && activate_exactly(kind, y, x, n)) return;
    switch (kind) {
#define LOOP(name, number, from, formula)                                                          \
    case DPT_ACT_##name:                                                                           \
        for (size_t i = 0; i < n; i++)                                                             \
            y[i] = value(DPT_ACT_##name, x[i]);                                                    \
        break;
        DPT_ACTIVATION_LIST(LOOP)
#undef LOOP
    }
}

void KERNEL(differentiate)(const dpt_op *op, dpt_activation kind, float *dx, const float *y,
                           const float *dy, size_t n)
{
    if (kind == DPT_ACT_NONE) {
        if (dx != dy && n > 0) memcpy(dx, dy, n * sizeof *dx);
        return;
    }
    if (op->deterministic && kind == DPT_ACT_GELU) {
        KERNEL(exact_gelu_slope)(dx, y, dy, n);
        return;
    }
    switch (kind) {
#define LOOP(name, number, from, formula)                                                          \
    case DPT_ACT_##name:                                                                           \
        for (size_t i = 0; i < n; i++)                                                             \
            dx[i] = derivative(DPT_ACT_##name, y[i], dy[i]);                                       \
        break;
        DPT_ACTIVATION_LIST(LOOP)
#undef LOOP
    }
}

/* dx[i] += dy[i] * f'(y[i]) */
static void add_derivatives(dpt_activation kind, float *restrict dx, const float *restrict y,
                            const float *restrict dy, size_t n)
{
    switch (kind) {
#define LOOP(name, number, from, formula)                                                          \
    case DPT_ACT_##name:                                                                           \
        for (size_t i = 0; i < n; i++)                                                             \
            dx[i] += derivative(DPT_ACT_##name, y[i], dy[i]);                                      \
        break;
        DPT_ACTIVATION_LIST(LOOP)
#undef LOOP
    }
}

/* add_derivatives of GELU, by the functions of kernels/exact.h */
static void add_exact_slopes(float *restrict dx, const float *x, const float *dy, size_t n)
{
    enum { MOST = 64 };
    float slope[MOST];
    for (size_t at = 0; at < n; at += MOST) {
        const size_t m = n - at < MOST ? n - at : MOST;
        KERNEL(exact_gelu_slope)(slope, x + at, dy + at, m);
        for (size_t i = 0; i < m; i++)
            dx[at + i] += slope[i];
    }
}

bool KERNEL(activation_exact)(dpt_activation kind)
{
    return kind == DPT_ACT_NONE || kind == DPT_ACT_RELU;
}

/* x (n,count) -> y (n,count) */
static void forward(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_activation_desc *d = &call->op->desc.u.activation;
    const dpt_cpu_range part = dpt_cpu_split(call->n_samples * d->count, 16, thread, n_threads);
    if (part.begin == part.end) return;
    const float *x = call->in[0];
    float *y = call->out[0];
    KERNEL(activate)(call->op, d->kind, y + part.begin, x + part.begin, part.end - part.begin);
}

/* dy, y (n,count), or x in place of y -> dx (n,count), which may be dy */
static void backward(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_activation_desc *d = &call->op->desc.u.activation;
    const dpt_cpu_range part = dpt_cpu_split(call->n_samples * d->count, 16, thread, n_threads);
    if (part.begin == part.end) return;
    const float *dy = call->in[0], *y = call->in[1];
    float *dx = call->out[0];
    if (!call->accumulate) {
        KERNEL(differentiate)
        (call->op, d->kind, dx + part.begin, y + part.begin, dy + part.begin,
         part.end - part.begin);
        return;
    }
    if (call->op->deterministic && d->kind == DPT_ACT_GELU) {
        add_exact_slopes(dx + part.begin, y + part.begin, dy + part.begin, part.end - part.begin);
        return;
    }
    add_derivatives(d->kind, dx + part.begin, y + part.begin, dy + part.begin,
                    part.end - part.begin);
}

static dpt_status prepare(dpt_op *op, dpt_cpu_kernel *kernel)
{
    const dpt_activation_desc *d = &op->desc.u.activation;
    const bool exact = KERNEL(activation_exact)(d->kind);
    op->plan.kernel = kernel;
    op->plan.work = (double)d->count * (exact ? 0.25 : 5.0);
    op->plan.exact = exact;
    op->plan.algorithm = "loop";
    return DPT_OK;
}

dpt_status KERNEL(prepare_activation_forward)(dpt_op *op, dpt_error *error)
{
    (void)error;
    return prepare(op, forward);
}

dpt_status KERNEL(prepare_activation_backward)(dpt_op *op, dpt_error *error)
{
    (void)error;
    return prepare(op, backward);
}
