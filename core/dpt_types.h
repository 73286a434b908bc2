/* Types that both the public API (dptrain.h) and the device vtable (backend.h) use: status codes,
   element types and the enumerations that describe layers.  This header is plain C17 and includes
   no other header of dptrain. */
#ifndef DPT_TYPES_H
#define DPT_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
#define DPT_CHECK_RESULT       __attribute__((warn_unused_result))
#define DPT_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define DPT_API                __attribute__((visibility("default")))
#else
#define DPT_CHECK_RESULT
#define DPT_PRINTF(fmt, first)
#define DPT_API
#endif

/* All status codes: name, value, description.  0 means success.  Every failure is negative. */
#define DPT_STATUS_LIST(X)                                                                         \
    X(OK, 0, "success")                                                                            \
    X(E_INVALID, -1, "invalid argument")                                                           \
    X(E_NO_MEMORY, -2, "out of memory")                                                            \
    X(E_UNSUPPORTED, -3, "not supported")                                                          \
    X(E_IO, -4, "input or output failed")                                                          \
    X(E_FORMAT, -5, "malformed data")                                                              \
    X(E_NOT_FOUND, -6, "not found")                                                                \
    X(E_ABSENT, -7, "backend absent")                                                              \
    X(E_DEVICE, -8, "device error")                                                                \
    X(E_DEVICE_LOST, -9, "device lost")                                                            \
    X(E_NOT_FINITE, -10, "value not finite")                                                       \
    X(E_CANCELLED, -11, "cancelled")                                                               \
    X(E_STATE, -12, "call out of order")                                                           \
    X(E_INTERNAL, -13, "internal error")                                                           \
    X(E_CALLBACK, -14, "a function of the program failed")

typedef enum dpt_status {
#define DPT_STATUS_ENUM(name, value, words) DPT_##name = (value),
    DPT_STATUS_LIST(DPT_STATUS_ENUM)
#undef DPT_STATUS_ENUM
} dpt_status;

/* Evaluates `call` once.  If `call` fails, the calling function returns the status of `call`. */
#define DPT_TRY(call)                                                                              \
    do {                                                                                           \
        const dpt_status dpt_try_status = (call);                                                  \
        if (dpt_try_status != DPT_OK) return dpt_try_status;                                       \
    } while (0)

typedef enum dpt_dtype {
    DPT_F32 = 0,
    DPT_U8 = 1,
    DPT_I32 = 2,
    DPT_U32 = 3,
    DPT_BF16 = 4, /* bfloat16: the upper half of a float32, rounded to nearest even */
} dpt_dtype;

static inline size_t dpt_dtype_bytes(dpt_dtype dtype)
{
    switch (dtype) {
    case DPT_U8: return 1;
    case DPT_BF16: return 2;
    default: return 4;
    }
}

/* The activation functions: X(NAME, value, derivative, formula).  They apply to every element.  x
   is the input, y the output, dx and dy the gradients.

     NONE     y = x                    dx = dy
     RELU     y = max(x, 0)            dx = dy * (y > 0)
     TANH     y = tanh x               dx = dy * (1 - y*y)
     SIGMOID  y = 1 / (1 + exp(-x))    dx = dy * y*(1 - y)
     GELU     y = x * Phi(x)           dx = dy * (Phi(x) + x * phi(x))
              Phi(x) = (1 + erf(x / sqrt 2)) / 2, phi its derivative

   derivative is OUTPUT where the derivative is a function of y alone.  The backward pass then does
   not need x, so that a layer can apply the function in place to the layer's output.  derivative is
   INPUT where the derivative needs x.  Such a function is always an operator of its own.

   formula is y as a function of the input a, in the words of dpt_elementwise.  It computes values
   that are the same for all samples, which the operator of an activation cannot take. */
#define DPT_ACTIVATION_LIST(X)                                                                     \
    X(NONE, 0, OUTPUT, "a")                                                                        \
    X(RELU, 1, OUTPUT, "max(a, 0)")                                                                \
    X(TANH, 2, OUTPUT, "tanh(a)")                                                                  \
    X(SIGMOID, 3, OUTPUT, "sigmoid(a)")                                                            \
    X(GELU, 4, INPUT, "0.5 * a * (1 + erf(0.70710678 * a))")

typedef enum dpt_activation {
#define DPT_ACTIVATION_ENUM(name, value, derivative, formula) DPT_ACT_##name = (value),
    DPT_ACTIVATION_LIST(DPT_ACTIVATION_ENUM)
#undef DPT_ACTIVATION_ENUM
} dpt_activation;

typedef enum dpt_pool_kind {
    DPT_POOL_MAX = 0,
    DPT_POOL_AVERAGE = 1, /* the average includes the padding, as in PyTorch's default */
} dpt_pool_kind;

#endif
