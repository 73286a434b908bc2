/* Whether cuBLASLt's ReLU behind a product keeps NaN, which its documentation leaves open: some
   have been seen to make 0 of it, and a run that diverges must show. */
#ifndef DPT_CUDA_RELU_H
#define DPT_CUDA_RELU_H

#include "device.h"

/* Of products whose result is of this type.  Sends a NaN through some, the first time that it is
   asked of a device, and waits for them.  *keeps is false, too, where that cannot be done. */
DPT_CHECK_RESULT dpt_status dpt_cuda_relu_keeps_nan(dpt_device *device, dpt_dtype type,
                                                    bool *keeps);

#endif
