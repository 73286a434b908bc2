/* Conversion of float32 to bfloat16 and back, for operators whose library takes another type than
   the tensor has.  Rounding is to nearest, ties to even. */
#ifndef DPT_COMMON_CONVERT_H
#define DPT_COMMON_CONVERT_H

#include "launch.h"

typedef struct dpt_convert {
    dpt_kernel *narrow, *widen;
} dpt_convert;

DPT_CHECK_RESULT dpt_status dpt_convert_prepare(dpt_device *device, dpt_convert *out);
/* Tensors of a conversion.  They share no bytes. */
typedef struct dpt_converted {
    dpt_location from, to;
    size_t count; /* elements; 0 is allowed */
} dpt_converted;

/* Enqueue a conversion: narrow makes bfloat16 of float32,
   widen makes float32 of bfloat16. */
DPT_CHECK_RESULT dpt_status dpt_narrow_run(const dpt_convert *convert, dpt_stream *stream,
                                           const dpt_converted *tensors);
DPT_CHECK_RESULT dpt_status dpt_widen_run(const dpt_convert *convert, dpt_stream *stream,
                                          const dpt_converted *tensors);

#endif
