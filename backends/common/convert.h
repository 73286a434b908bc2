/* Conversion of float32 to bfloat16 and back, for operators whose library takes another type than
   the tensor has.  Rounding is to nearest, ties to even. */
#ifndef DPT_COMMON_CONVERT_H
#define DPT_COMMON_CONVERT_H

#include "launch.h"

typedef struct dpt_convert {
    dpt_kernel *narrow, *widen;
} dpt_convert;

DPT_CHECK_RESULT dpt_status dpt_convert_prepare(dpt_device *device, dpt_convert *out);
/* Enqueue the conversion of `count` elements (0 is allowed): narrow makes bfloat16 of float32,
   widen makes float32 of bfloat16.  The two tensors share no bytes. */
DPT_CHECK_RESULT dpt_status dpt_narrow_run(const dpt_convert *convert, dpt_stream *stream,
                                           dpt_location from, dpt_location to, size_t count);
DPT_CHECK_RESULT dpt_status dpt_widen_run(const dpt_convert *convert, dpt_stream *stream,
                                          dpt_location from, dpt_location to, size_t count);

#endif
