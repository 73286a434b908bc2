/* The elementary functions of kernels.  A program of deterministic operators takes those of
   exact.h, which give the same bits on all devices, and has no others.  Every other program takes
   the device's own. */
#ifndef DPT_KERNELS_FUNCTIONS_H
#define DPT_KERNELS_FUNCTIONS_H

#include "dialect.h"
#include "pair.h" /* of exact.h: the OpenCL backend includes a header where it is named first */

#if DETERMINISTIC

#include "exact.h"

#define EXP(x)       exact_exp(x)
#define LOG(x)       exact_log(x)
#define TANH(x)      exact_tanh(x)
#define ERF(x)       exact_erf(x)
#define POW(x, y)    exact_power(x, y)
#define SIN(x)       exact_sin(x)
#define COS(x)       exact_cos(x)
#define DIVIDE(a, b) exact_divide(a, b)
#undef SQRT
#define SQRT(x) exact_sqrt(x)

#elif defined(__OPENCL_VERSION__)

#define EXP(x)       exp(x)
#define LOG(x)       log(x)
#define TANH(x)      tanh(x)
#define ERF(x)       erf(x)
#define ERFC(x)      erfc(x)
#define POW(x, y)    pow(x, y)
#define SIN(x)       sin(x)
#define COS(x)       cos(x)
#define LOG1P(x)     log1p(x)
#define DIVIDE(a, b) ((a) / (b))

#else

#define EXP(x)       expf(x)
#define LOG(x)       logf(x)
#define TANH(x)      tanhf(x)
#define ERF(x)       erff(x)
#define ERFC(x)      erfcf(x)
#define POW(x, y)    powf(x, y)
#define SIN(x)       sinf(x)
#define COS(x)       cosf(x)
#define LOG1P(x)     log1pf(x)
#define DIVIDE(a, b) ((a) / (b))

#endif

#endif
