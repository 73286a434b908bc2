/* The state behind the opaque types of backend.h: an open CUDA device, a buffer and a stream.  The
   backend's files share this header; it declares no function that is defined in another file. */
#ifndef DPT_CUDA_STATE_H
#define DPT_CUDA_STATE_H

#include "launch.h"
#include "runtime.h"
#include "tuning.h"

typedef struct dpt_cuda_blas dpt_cuda_blas; /* blas.h */
typedef struct dpt_cuda_dnn dpt_cuda_dnn;   /* dnn.h */

struct dpt_buffer {
    void *memory; /* device address */
    size_t n_bytes;
};

struct dpt_stream {
    dpt_device *device;
    cudaStream_t queue;
};

/* dpt_device.state */
typedef struct dpt_cuda_device {
    int ordinal; /* the N of cuda:N */
    struct cudaDeviceProp properties;
    dpt_precision precision;
    bool has_graphs;         /* graphs=: the segments of a step are recorded */
    char *algorithm;         /* algorithm= of the device string, owned, or NULL */
    cudaMemPool_t pool;      /* the device's own, for its buffers; NULL: the driver has no pools */
    dpt_stream scratch;      /* for allocations and tuning */
    struct dpt_kernel *fill; /* the kernel of dpt_cuda_fill, and of fills in recordings */
    struct dpt_kernel *move; /* the kernel of dpt_cuda_move */
    dpt_cuda_blas *blas;     /* NULL: cuBLASLt is missing */
    dpt_cuda_dnn *dnn;       /* NULL: cuDNN is missing */
    dpt_traits traits;
    dpt_tuner tuner;
} dpt_cuda_device;

static inline dpt_cuda_device *dpt_cuda_device_of(const dpt_device *device)
{
    return device->state;
}

/* Makes the device's card the one that the calling thread's CUDA calls are for.  Call it before
   every CUDA call that may be the first of a thread: the thread that replaces a hung driver thread
   has not chosen a card. */
static inline cudaError_t dpt_cuda_choose(const dpt_device *device)
{
    return cudaSetDevice(dpt_cuda_device_of(device)->ordinal);
}

/* The failure that has broken the device's context, or cudaSuccess (runtime.h). */
static inline cudaError_t dpt_cuda_context_failure_of(const dpt_device *device)
{
    return dpt_cuda_context_failure(dpt_cuda_device_of(device)->scratch.queue);
}

/* dpt_op_info.input_rounding of an operator whose weights are rounded to bfloat16's 8 bits. */
#define DPT_CUDA_BF16_ROUNDING 0x1p-8

/* dpt_op_info.input_rounding of products of float32 on tensor cores, which may cut an input after
   10 bits behind the leading one. */
#define DPT_CUDA_TF32_ROUNDING 0x1p-10

static inline double dpt_cuda_input_rounding(const dpt_device *device)
{
    return dpt_cuda_device_of(device)->traits.input_rounding;
}

/* The device address of a location; NULL for {NULL, 0}. */
static inline void *dpt_cuda_pointer(dpt_location location)
{
    return location.buffer ? (char *)location.buffer->memory + location.offset_bytes : NULL;
}

#endif
