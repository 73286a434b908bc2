/* Float32 to bfloat16 and back, for operators whose libraries want another type than what is there.
   Rounding is to nearest, ties to even. */
#ifndef DPT_COMMON_CONVERT_H
#define DPT_COMMON_CONVERT_H

#include "launch.h"

typedef struct dpt_convert {
    dpt_kernel *narrow, *widen;
} dpt_convert;

DPT_CHECK_RESULT dpt_status dpt_convert_prepare(dpt_device *device, dpt_convert *out);
/* Enqueue `count` elements, from 0: float32 -> bfloat16, and bfloat16 -> float32.  The two tensors
   share no bytes. */
DPT_CHECK_RESULT dpt_status dpt_narrow_run(const dpt_convert *convert, dpt_stream *stream,
                                           dpt_location from, dpt_location to, size_t count);
DPT_CHECK_RESULT dpt_status dpt_widen_run(const dpt_convert *convert, dpt_stream *stream,
                                          dpt_location from, dpt_location to, size_t count);

#endif
