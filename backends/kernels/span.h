/* Loops over independent elements.

       FOR_ELEMENTS (i, count) y[i] = f(x[i]);

   On a GPU, a work item computes one element, that of its GLOBAL_ID.  On a CPU, a work item
   computes SPAN elements in a loop.  A compiler moves constant expressions out of such a loop, and
   vectorises it more readily than the loop over work items that a driver makes.  The body must
   therefore not contain `return` or BARRIER.  i has 64 bits, because an index that may wrap around
   prevents vectorisation. */
#ifndef DPT_KERNELS_SPAN_H
#define DPT_KERNELS_SPAN_H

#include "dialect.h"

#define SPAN       4096
#define RUN_OF_GPU 4u

#if defined(DEVICE_IS_CPU) && DEVICE_IS_CPU

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* a loop that is not vectorised is correct, too  \
                                                  */
#define SPAN_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define SPAN_INDEPENDENT
#endif

#define FOR_ELEMENTS(i, count)                                                                     \
    const u64 i##_first = GLOBAL_ID * SPAN, i##_rest = (count)-i##_first;                          \
    const u64 i##_end = i##_first + (i##_rest < SPAN ? i##_rest : SPAN);                           \
    SPAN_INDEPENDENT for (u64 i = i##_first; i < i##_end; i++)

#define RUN                    1u
#define FOR_RUNS(first, count) FOR_ELEMENTS(first, count)

#else

#define FOR_ELEMENTS(i, count)                                                                     \
    const u64 i = GLOBAL_ID;                                                                       \
    if (i < (count))

#define RUN RUN_OF_GPU
#define FOR_RUNS(first, count)                                                                     \
    const u64 first = (GLOBAL_ID - LOCAL_ID) * RUN + LOCAL_ID;                                     \
    if (first < (count))

#endif

#endif
