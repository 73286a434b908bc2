/* An open CUDA device, its streams and its memory, as the backend's own files see them. */
#ifndef DPT_CUDA_DEVICE_H
#define DPT_CUDA_DEVICE_H

#include "launch.h"
#include "runtime.h"
#include "tuning.h"

typedef struct dpt_cuda_blas dpt_cuda_blas; /* blas.h */
typedef struct dpt_cuda_dnn dpt_cuda_dnn;   /* dnn.h */

/* precision=: what products of matrices and convolutions do with their inputs, and what activations
   are stored as. */
typedef enum dpt_cuda_precision {
    DPT_CUDA_FP32 = 0, /* true float32 */
    DPT_CUDA_TF32 = 1, /* rounded to 11 bits, summed in float32 */
    DPT_CUDA_BF16 = 2, /* activations are bfloat16; weights are rounded to it, sums are float32 */
} dpt_cuda_precision;

struct dpt_buffer {
    void *memory; /* of the device */
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
    dpt_cuda_precision precision;
    bool has_graphs;         /* graphs=: segments of a step are recorded */
    char *algorithm;         /* algorithm= of the device string, or NULL */
    cudaMemPool_t pool;      /* of this device's buffers; NULL: the driver has no pools */
    dpt_stream scratch;      /* of allocations and tuning */
    struct dpt_kernel *fill; /* of dpt_cuda_fill, and of fills in graphs, which find it loaded */
    struct dpt_kernel *move; /* of dpt_cuda_move, likewise */
    dpt_cuda_blas *blas;     /* NULL: there is none */
    dpt_cuda_dnn *dnn;       /* NULL: there is none */
    dpt_traits traits;
    dpt_tuner tuner;
} dpt_cuda_device;

static inline dpt_cuda_device *dpt_cuda_device_of(const dpt_device *device)
{
    return device->state;
}

/* In front of calls that are for the thread's card, wherever a driver's thread may make its first:
   one that has taken the place of a thread that was given up has not chosen a card yet. */
static inline cudaError_t dpt_cuda_choose(const dpt_device *device)
{
    return cudaSetDevice(dpt_cuda_device_of(device)->ordinal);
}

/* Of weights that are rounded to bfloat16's 8 bits (dpt_op_info). */
#define DPT_CUDA_BF16_ROUNDING 0x1p-8

/* Of products of float32 (dpt_op_info): tensor cores may cut the bits behind the tenth. */
#define DPT_CUDA_TF32_ROUNDING 0x1p-10

static inline double dpt_cuda_input_rounding(const dpt_device *device)
{
    return dpt_cuda_device_of(device)->traits.input_rounding;
}

/* A place in device memory; NULL for {NULL, 0}. */
static inline void *dpt_cuda_pointer(dpt_location location)
{
    return location.buffer ? (char *)location.buffer->memory + location.offset_bytes : NULL;
}

/* Waits for a stream: briefly by asking, then asleep, since whoever asks on takes a core from
   devices that compute there.  A failure is deferred: it is of work that was accepted before. */
DPT_CHECK_RESULT dpt_status dpt_cuda_wait(dpt_stream *stream);
/* The same, told by CUDA's code. */
cudaError_t dpt_cuda_wait_code(const dpt_stream *stream);

extern const dpt_device_ops dpt_cuda_device_ops;
extern const dpt_memory_ops dpt_cuda_memory_ops;
extern const dpt_stream_ops dpt_cuda_stream_ops;
extern const dpt_capture_ops dpt_cuda_capture_ops;
extern const dpt_param_spec dpt_cuda_param_specs[];

#endif
