/* Loops over elements that do not depend on each other.

       FOR_ELEMENTS (i, count) y[i] = f(x[i]);

   A GPU's work item does one element, its own GLOBAL_ID.  A CPU's does a run of SPAN elements: that
   is a loop like any other, out of which a compiler moves what does not change, and which it turns
   into vectors more readily than the loop over work items that a driver makes.  So there is no
   `return` or BARRIER inside, and i is 64 bits wide: a place that may wrap around is no vector's.
 */
#ifndef DPT_KERNELS_SPAN_H
#define DPT_KERNELS_SPAN_H

#include "dialect.h"

#define SPAN       4096
#define RUN_OF_GPU 4u

#if defined(DEVICE_IS_CPU) && DEVICE_IS_CPU

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* some stay loops, and are right all the same */
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
