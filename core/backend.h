/* The device vtable: the only header of core that a backend includes.

   A backend is a plug-in, libdptrain-NAME.so, with one exported symbol, dpt_backend_entry, that
   returns a constant descriptor of tables.  Entries are marked
     required   the backend must fill it in,
     defaulted  NULL takes the default that the comment names (core/device/buffer.c supplies it),
     optional   NULL means that the backend cannot, and core asks before it uses it.

   Threads.  Core makes all calls for one device from one thread, the device's driver, except probe
   and describe, which come before any device is open, from a thread that ends when all have
   answered.  Different devices are driven at the same time by different threads.  A call that lasts
   too long is given up, and its thread left to it.

   Order.  What is enqueued on one stream happens in the order of the calls.  A backend may finish
   the work before the call returns (the CPU backend does).

   Trust.  Core has validated shapes, types, bounds and alignment before it calls; a backend need
   not check again.  The only exception is prepare, which says what a backend supports.

   Errors.  Every call that can fail returns a dpt_status and, when it fails, leaves the detail in
   the device's record (DPT_FAIL).  A deferred failure surfaces at sync, event_query or
   the next call; DPT_E_DEVICE_LOST says that the fault domain is gone.  Nothing aborts or exits. */
#ifndef DPT_BACKEND_H
#define DPT_BACKEND_H

#include "dpt_error.h"
#include "dpt_types.h"

/* Another number for every change of what stands here; 14 has dpt_collective_ops.query. */
#define DPT_BACKEND_ABI 14u

/* ---- Devices --------------------------------------------------------------------------------- */

typedef struct dpt_backend dpt_backend;

/* What a backend sees of a device.  Core allocates it, zeroed, before open and frees it after
   close; `state` is the backend's own. */
typedef struct dpt_device {
    const dpt_backend *backend;
    void *state;
    dpt_error error;
} dpt_device;

/* One `key=value` of a device string, both NUL-terminated. */
typedef struct dpt_param {
    const char *key;
    const char *value;
} dpt_param;

/* One entry of the device list that belongs to this backend. */
typedef struct dpt_device_request {
    size_t index;            /* the N of NAME:N */
    const dpt_param *params; /* the backend's own parameters; core has taken memory and throttle */
    size_t n_params;
} dpt_device_request;

/* All entries of this backend that a run opens, in the order of the list, so that devices can share
   out what they have in common (the CPU backend its cores). */
typedef struct dpt_open_args {
    const dpt_device_request *requests;
    size_t n_requests;
    size_t self; /* which of them this call opens */
} dpt_open_args;

/* A parameter that the backend knows, for messages and `dptrain devices --help`. */
typedef struct dpt_param_spec {
    const char *key;
    const char *help; /* one line, with the range of values */
    /* Of "precision", which a whole list can be given: the names that it takes, ended by NULL. */
    const char *const *values;
} dpt_param_spec;

enum { DPT_NAME_BYTES = 96, DPT_DETAIL_BYTES = 256, DPT_DOMAIN_BYTES = 40, DPT_GROUP_BYTES = 16 };

typedef enum dpt_device_flags {
    DPT_DEVICE_IS_HOST_CPU = 1u << 0, /* this machine's own cores, under whatever API */
    /* Operators must have run once with as many samples before they are recorded, as with libraries
       that load what they need at the first use. */
    DPT_DEVICE_RECORDS_LATE = 1u << 1,
    /* The driver's thread computes, on a core that no other device of this process computes
       on: a wait in a loop there takes no time of theirs. */
    DPT_DEVICE_DRIVER_COMPUTES = 1u << 2,
    /* The derivative of a ReLU behind a batch-norm is better applied by that batch-norm's own
       backward operators (output_activation), which read all that it takes, than as a mask by what
       reads its output: as where libraries' convolutions apply none. */
    DPT_DEVICE_NORMS_MASK = 1u << 3,
} dpt_device_flags;

typedef struct dpt_device_info {
    char name[DPT_NAME_BYTES];     /* "AMD EPYC 9454" */
    char detail[DPT_DETAIL_BYTES]; /* free text: "OpenBLAS 0.3.21 serial, SkylakeX kernels" */
    size_t memory_bytes;           /* all of the device's memory */
    size_t alignment_bytes; /* what operators want for offsets; a power of two, at most 256 */
    unsigned n_threads;     /* threads or compute units; 0 if unknown */
    size_t cache_bytes;     /* what its caches hold for it, all its threads together, where work on
                               more than that is slower; 0: no such limit is known */
    uint32_t flags;         /* dpt_device_flags */
    dpt_dtype activations;  /* as what it stores them, and their gradients: DPT_F32 or DPT_BF16.
                               Core prepares its operators with this dpt_op_desc.type */
    unsigned char uuid[16]; /* all zero if there is none */
    char pci_id[16];        /* "0000:3b:00.0", empty if there is none */
    /* A sort of this backend's devices that a list can name, as in NAME:GROUP:1: [a-z][a-z0-9]*,
       not "all"; empty if there is none.  Devices of a group are numbered in the order of their
       indices. */
    char group[DPT_GROUP_BYTES];
    /* Equal strings mean the same domain. */
    char memory_domain[DPT_DOMAIN_BYTES];  /* devices that see one memory share one copy of data */
    char compute_domain[DPT_DOMAIN_BYTES]; /* devices that compete for the same cores */
    char fault_domain[DPT_DOMAIN_BYTES];   /* what dies together */
} dpt_device_info;

typedef struct dpt_device_ops {
    /* required.  How many devices there are.  DPT_E_ABSENT with the reason in *error if the driver
       or the hardware is missing: that is no failure. */
    dpt_status (*probe)(size_t *n_devices, dpt_error *error);
    /* required.  What device `index` is, without opening it. */
    dpt_status (*describe)(size_t index, dpt_device_info *info, dpt_error *error);
    /* required.  Opens; DPT_E_INVALID for a parameter out of range, with the range in the record.
       After a failure core calls close. */
    dpt_status (*open)(dpt_device *device, const dpt_open_args *args);
    /* required.  Accepts a device whose open failed half-way.  Everything that was created on the
       device has been released before, unless the device was lost. */
    void (*close)(dpt_device *device);
    /* required.  As describe, for an open device: what its parameters made of it. */
    dpt_status (*info)(dpt_device *device, dpt_device_info *info);
} dpt_device_ops;

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Device memory: defined by the backend.  A cl_mem is no pointer, so a place in it is a location.
 */
typedef struct dpt_buffer dpt_buffer;

typedef struct dpt_location {
    dpt_buffer *buffer;
    size_t offset_bytes;
} dpt_location;

typedef struct dpt_stream dpt_stream; /* an in-order queue of work */
typedef struct dpt_event dpt_event;   /* a point in a stream */

typedef struct dpt_memory_ops {
    /* required.  Allocates n_bytes > 0, aligned to 256 bytes, contents undefined.
       DPT_E_NO_MEMORY says how much was asked and how much is free. */
    dpt_status (*alloc)(dpt_device *device, size_t n_bytes, dpt_buffer **out);
    /* required.  Accepts NULL.  The work that uses it has passed. */
    void (*free)(dpt_device *device, dpt_buffer *buffer);
    /* optional.  Makes a buffer of host memory that the caller keeps valid in place until free, and
       unchanged while work that reads it is under way: data of a device whose memory is the host's,
       which reads it only.  No copy is made. */
    dpt_status (*wrap_host)(dpt_device *device, const void *host, size_t n_bytes, dpt_buffer **out);
    /* optional.  The address of a buffer that lies in host memory; such memory is coherent: what a
       stream wrote can be read by any thread after sync. */
    void *(*host_pointer)(dpt_device *device, dpt_buffer *buffer);
    /* defaulted (aligned_alloc, free).  Host memory that uploads and downloads go to at full speed.
     */
    dpt_status (*host_alloc)(dpt_device *device, size_t n_bytes, void **out);
    void (*host_free)(dpt_device *device, void *host);
    /* required.  Enqueue copies of n_bytes.  Host memory stays valid, and for upload unchanged,
       until the stream has passed this point.  Source and destination do not overlap. */
    dpt_status (*upload)(dpt_stream *stream, dpt_location to, const void *host, size_t n_bytes);
    dpt_status (*download)(dpt_stream *stream, void *host, dpt_location from, size_t n_bytes);
    dpt_status (*copy)(dpt_stream *stream, dpt_location to, dpt_location from, size_t n_bytes);
    /* required.  Enqueues n_bytes, a multiple of 4, filled with a repeated 32-bit pattern. */
    dpt_status (*fill)(dpt_stream *stream, dpt_location to, uint32_t pattern, size_t n_bytes);
} dpt_memory_ops;

/* ---- Streams and events ---------------------------------------------------------------------- */

typedef struct dpt_stream_ops {
    /* required */
    dpt_status (*create)(dpt_device *device, dpt_stream **out);
    void (*destroy)(dpt_stream *stream); /* accepts NULL */
    /* required.  Waits until everything enqueued so far is done; reports deferred failures. */
    dpt_status (*sync)(dpt_stream *stream);
    /* required.  Events take the device's own time. */
    dpt_status (*event_create)(dpt_device *device, dpt_event **out);
    void (*event_destroy)(dpt_event *event); /* accepts NULL */
    dpt_status (*event_record)(dpt_event *event, dpt_stream *stream);
    /* required.  What is enqueued on `stream` from now on waits for `event`, which belongs to a
       device of the same backend and has been recorded. */
    dpt_status (*event_wait)(dpt_stream *stream, dpt_event *event);
    /* required.  *done says whether the work before the recorded event has passed. */
    dpt_status (*event_query)(dpt_event *event, bool *done);
    /* required.  Waits until the work before the recorded event has passed, and for nothing behind
       it; reports deferred failures. */
    dpt_status (*event_sync)(dpt_event *event);
    /* required.  Seconds of device time between two events that have passed. */
    dpt_status (*event_elapsed)(dpt_event *start, dpt_event *end, double *seconds);
} dpt_stream_ops;

/* ---- The step block -------------------------------------------------------------------------- */

/* What changes from step to step lives here, in device memory, never in by-value arguments, so that
   recorded work can be replayed.  Operators read it at dpt_op_args.step. */
typedef struct dpt_step_block {
    float lr;           /* learning rate of this step */
    float inv_batch;    /* 1 / B, B the size of the GLOBAL batch */
    uint32_t step;      /* from 1 */
    uint32_t epoch;     /* from 1 */
    uint32_t seed_low;  /* of the run, for counter-based random numbers */
    uint32_t seed_high; /* keyed by epoch and sample index, never by device */
    uint32_t first;     /* position of this device's first sample in the global batch */
    float adam_scale_m; /* 1 / (1 - beta1^t), t the number of updates since Adam's state was zero */
    float adam_scale_v; /* 1 / sqrt(1 - beta2^t) */
    uint32_t reserved[7];
} dpt_step_block;

/* ---- Operators ------------------------------------------------------------------------------- */

/* All tensors are dense.  Activations are NHWC, filters OHWI with I = in_channels / groups, linear
   weights (out, in), float32 unless another type is named.  n is the number of samples of the call.
   "T": desc.type, DPT_F32 or DPT_BF16, is the type of activations and their gradients: of x, y, dx,
   dy, residual, logits, dlogits, a, b and c wherever these names stand below, and of nothing else.
   What is stored as bfloat16 is rounded once: what is computed, added up or added to is float32, or
   what a matrix product of bfloat16 inputs sums up in (weights, and biases added to it, may be
   rounded before, see dpt_op_info.input_rounding).  A device whose info names DPT_BF16 takes
   operators with either type: targets, running statistics, arrays and what core measures by are
   float32 everywhere.
   "mask": desc.input_activation names the activation whose OUTPUT is the forward input x; a
   backward-data operator then multiplies dx by that activation's derivative, taken from x, so that
   dx is the gradient before the activation.  It applies to the whole sum when accumulating.
   "acc": honours DPT_RUN_ACCUMULATE: the output is added to and not overwritten.
   "halt": honours dpt_op_args.halt: where that is not 0 nothing is written.

   kind                    in                                      out
   GATHER                  data (any, U8 or F32), index (n) U32    x (n,count): (value-mean)*scale
   GATHER_LABELS           labels (any, U8 or I32), index (n) U32  label (n) I32
   CONV2D_FORWARD          x, w, [bias]                            y: activation(x * w + bias)
   CONV2D_BACKWARD_DATA    dy, w, [x if mask]                      dx          mask, acc
   CONV2D_BACKWARD_WEIGHTS dy, x                                   dw, [dbias] acc
   LINEAR_FORWARD          x (n,in), w (out,in), [bias]            y (n,out), as CONV2D_FORWARD
   LINEAR_BACKWARD_DATA    dy, w, [x if mask]                      dx          mask, acc
   LINEAR_BACKWARD_WEIGHTS dy, x                                   dw, [dbias] acc
                           of a slice of rows: see dpt_linear_desc
   POOL2D_FORWARD          x                                       y
   POOL2D_BACKWARD         dy, x                                   dx          mask, acc
   ACTIVATION_FORWARD      x (n,count)                             y
   ACTIVATION_BACKWARD     dy, y (x where the kind needs it)       dx          acc; may be in place
   DROPOUT                 x (n,count), sample (n) U32             y           acc; may be in place
   BATCH_NORM_PARTIAL      x                                       part (3,c)
   BATCH_NORM_MERGE        parts (n_parts,3,c)                     moments (3,c), mean (c) acc,
                                                                   variance (c) acc
   BATCH_NORM_FREEZE       mean (c), variance (c)                  moments (3,c)
   BATCH_NORM_FORWARD      x, moments, w (c), b (c), [residual]    y: activation(bn(x) + residual)
   BATCH_NORM_BACKWARD_PARTIAL
                           dy, x, moments, [w, b]                  part (2,c), dw (c) acc,
                                                                   db (c) acc
   BATCH_NORM_BACKWARD_DATA
                           dy, x, moments, w, parts (n_parts,2,c), [b]
                                                                   dx          mask, acc
   LAYER_NORM_FORWARD      x (n,rows,c), w (c), b (c)              y, moments (n,rows,2)
   LAYER_NORM_BACKWARD_DATA
                           dy, x, moments, w                       dx          mask, acc
   LAYER_NORM_BACKWARD_WEIGHTS
                           dy, x, moments                          dw (c), db (c)  acc
   SOFTMAX_XENT            logits (n,classes), label (n) I32       result (n,2): loss, hit (0 or 1)
   SOFTMAX_XENT_GRADIENT   logits (n,classes), label (n) I32       result (n,2), dlogits (n,classes)
   SQUARED_ERROR           y (n,count), target (n,count)           result (n,2): loss, 0
   SQUARED_ERROR_GRADIENT  y (n,count), target (n,count)           result (n,2), dy (n,count)
   MULTIPLY                a (n,count), b (n,count)                c = a * b
   ADD                     a (n,count), b (n,count)                c = alpha * a + beta * b    halt
   AFFINE                  a (n,count)                             c = alpha * a + beta
   SGD                     gradient (count)                        w (count), [velocity (count)]
                                                                                               halt
   ADAMW                   gradient (count)                        w, m, v (count each)        halt
   CLIP_NORM                                                       gradient (count)
   CHECK_FINITE            x (n,count) F32                         halt (1): 1 if any x is infinite
                                                                   or not a number, else left alone

   GATHER with augmentation (desc.augment) has a third input, sample (n) U32: what keys its
     random numbers; see dpt_augment.

   DROPOUT: y = x / (1 - p) for elements that are kept, else 0; p below 1.  Element e of a sample
     is kept where u >= p, u = (word e % 4 >> 8) * 2^-24 of Philox4x32-10 (Salmon et al., SC
     2011) with counter (e / 4, sample, epoch, desc.stream) and key (seed_low, seed_high).
     Backward is the same operator on dy.

   BATCH_NORM: x, y, dy, dx and residual are (n, area, channels), c = channels.
     A part of forward: count (n * area, in every channel), mean, and M2, the sum of squared
     deviations from that mean, of this device's values; all zero where n is 0.  MERGE combines
     parts in their order (Chan, Golub, LeVeque 1979) in double precision.
     moments: mean, 1 / sqrt(M2 / count + epsilon), 1 / count of all parts; those of FREEZE come
     from running statistics and end with zeros.  MERGE's mean and variance (M2 / (count - 1), 0
     where count is 1) are multiplied by n * inv_batch, so that their sum over devices is the
     sample-weighted mean; with n 0 they add nothing, and moments are written all the same.
     Where all counts are 0 the moments' mean and 1 / count are 0.
     bn(x) = w * xhat + b, xhat = (x - moments mean) * inverse deviation.
     A part of backward: sums over this device's values of dy and of dy * xhat; db and dw are the
     same sums.  dx = w * inverse deviation * (dy - (S0 + xhat * S1) / count), S the sums over
     parts. dy is the gradient behind the activation's derivative, so it is the residual's
     gradient too.  With output_activation, a ReLU, dy is the gradient before that: both operators
     of backward then read w and b, and multiply dy by 1 where fma(x - mean, inverse deviation * w,
     b) in float32 is positive, else by 0.

   LAYER_NORM normalises each row of c values: moments are its mean and 1 / sqrt(variance +
     epsilon), the variance divided by c;  y = w * xhat + b.

   dlogits is (softmax - target) * inv_batch, target = (1 - smoothing) * onehot + smoothing /
     classes.
     A hit: the label's logit is greater than every other (the first of equal ones counts).
     The loss of a sample is -sum(target * log softmax(logits)), computed with the maximum
     subtracted.

   SQUARED_ERROR's loss of a sample is the mean of (y - target)^2;
     dy = 2 / count * (y - target) * inv_batch.

   MULTIPLY, ADD and AFFINE may work in place (c the same location as a or b).

   SGD is PyTorch's:  g += weight_decay * w for the first decay_count elements;
     velocity = momentum * velocity + g;  g = nesterov ? g + momentum * velocity : velocity;
     w -= lr * g.  Without momentum there is no velocity slot.

   ADAMW is PyTorch's:  w -= lr * weight_decay * w for the first decay_count elements;
     m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g * g;
     w -= lr * adam_scale_m * m / (sqrt(v) * adam_scale_v + epsilon).

   CLIP_NORM: gradient *= min(1, max_norm / (norm + 1e-6)), norm the square root of the sum of
     squares of all elements, summed in double precision; as PyTorch's clip_grad_norm_.

   For SGD, ADAMW, CLIP_NORM and BATCH_NORM_FREEZE n is 1.

   MAX pooling sends its gradient to the first maximum of the window, in row-major order. */
#define DPT_OP_LIST(X)                                                                             \
    X(GATHER, gather)                                                                              \
    X(GATHER_LABELS, gather)                                                                       \
    X(CONV2D_FORWARD, conv2d)                                                                      \
    X(CONV2D_BACKWARD_DATA, conv2d)                                                                \
    X(CONV2D_BACKWARD_WEIGHTS, conv2d)                                                             \
    X(LINEAR_FORWARD, linear)                                                                      \
    X(LINEAR_BACKWARD_DATA, linear)                                                                \
    X(LINEAR_BACKWARD_WEIGHTS, linear)                                                             \
    X(POOL2D_FORWARD, pool2d)                                                                      \
    X(POOL2D_BACKWARD, pool2d)                                                                     \
    X(ACTIVATION_FORWARD, activation)                                                              \
    X(ACTIVATION_BACKWARD, activation)                                                             \
    X(DROPOUT, dropout)                                                                            \
    X(BATCH_NORM_PARTIAL, batch_norm)                                                              \
    X(BATCH_NORM_MERGE, batch_norm)                                                                \
    X(BATCH_NORM_FREEZE, batch_norm)                                                               \
    X(BATCH_NORM_FORWARD, batch_norm)                                                              \
    X(BATCH_NORM_BACKWARD_PARTIAL, batch_norm)                                                     \
    X(BATCH_NORM_BACKWARD_DATA, batch_norm)                                                        \
    X(LAYER_NORM_FORWARD, layer_norm)                                                              \
    X(LAYER_NORM_BACKWARD_DATA, layer_norm)                                                        \
    X(LAYER_NORM_BACKWARD_WEIGHTS, layer_norm)                                                     \
    X(SOFTMAX_XENT, softmax)                                                                       \
    X(SOFTMAX_XENT_GRADIENT, softmax)                                                              \
    X(SQUARED_ERROR, squared_error)                                                                \
    X(SQUARED_ERROR_GRADIENT, squared_error)                                                       \
    X(MULTIPLY, elementwise)                                                                       \
    X(ADD, elementwise)                                                                            \
    X(AFFINE, elementwise)                                                                         \
    X(SGD, sgd)                                                                                    \
    X(ADAMW, adamw)                                                                                \
    X(CLIP_NORM, clip_norm)                                                                        \
    X(CHECK_FINITE, check_finite)

typedef enum dpt_op_kind {
#define DPT_OP_ENUM(name, member) DPT_OP_##name,
    DPT_OP_LIST(DPT_OP_ENUM)
#undef DPT_OP_ENUM
        DPT_OP_COUNT
} dpt_op_kind;

enum { DPT_MAX_CHANNEL_STATS = 4, DPT_MAX_INPUTS = 6, DPT_MAX_OUTPUTS = 3 };

/* What GATHER does to each image before it is normalised, drawn by Philox4x32-10 with counter
   (block, sample, epoch, 0) and key (seed_low, seed_high).  u(i) is (word i % 4 of block i / 4 >>
   8)
   * 2^-24, and below(i, m) is the integer floor(u(i) * m).
     crop   the image is padded by `pad` zeros of the data on each side and a window of its own size
            is taken at row below(0, 2 pad + 1), column below(1, 2 pad + 1) of the padded image
     flip   columns are reversed if u(2) < 0.5
     erase  if u(3) < erase a rectangle of the normalised result is set to 0 (Zhong et al. 2020,
   with torchvision's ranges): attempts k = 1 to 10 until one fits, with area = h * w * (0.02 + 0.31
   u(4k)), ratio = exp(log 0.3 + u(4k+1) log(3.3 / 0.3)), height = round(sqrt( area * ratio)), width
   = round(sqrt(area / ratio)), both at least 1 and below h and w, top below(4k+2, h - height + 1),
   left below(4k+3, w - width + 1) */
typedef struct dpt_augment {
    size_t height, width; /* of an image; count / (height * width) channels */
    size_t pad;           /* 0: no crop */
    bool flip;
    float erase; /* probability, 0: never */
} dpt_augment;

/* Returns whether GATHER changes images.  GATHER then has a third input.  Cannot fail. */
static inline bool dpt_augments(const dpt_augment *augment)
{
    return augment->pad > 0 || augment->flip || augment->erase != 0.0f;
}

typedef struct dpt_gather_desc {
    dpt_dtype dtype;  /* of the data */
    size_t count;     /* elements a sample; 1 for labels */
    size_t n_records; /* samples in the data; indices are below it (core checked) */
    /* Element e belongs to channel e % channels.  channels 1 to DPT_MAX_CHANNEL_STATS. */
    size_t channels;
    float mean[DPT_MAX_CHANNEL_STATS];
    float scale[DPT_MAX_CHANNEL_STATS];
    dpt_augment augment; /* all zero: none.  GATHER of images only */
} dpt_gather_desc;

typedef struct dpt_conv2d_desc {
    size_t in_h, in_w, in_channels;
    size_t out_h, out_w,
        out_channels; /* out = (in + 2 pad - dilation (kernel - 1) - 1) / stride + 1 */
    size_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups;
    bool has_bias;                   /* a bias (forward), a dbias (backward weights) */
    dpt_activation activation;       /* forward: fused behind the bias */
    dpt_activation input_activation; /* backward data: mask */
} dpt_conv2d_desc;

typedef struct dpt_linear_desc {
    size_t in, out;
    bool has_bias;
    dpt_activation activation;
    dpt_activation input_activation;
    /* BACKWARD_WEIGHTS can be a slice: of outputs first .. first + rows - 1 alone.  dy (n,out) is
       that of all outputs, of which columns first .. count; dw is (rows,in), dbias (rows).  rows 0:
       all of them, and first is 0, as in the other kinds. */
    size_t first, rows;
} dpt_linear_desc;

/* Returns the number of rows of dw that the operator computes.  Cannot fail. */
static inline size_t dpt_linear_rows(const dpt_linear_desc *desc)
{
    return desc->rows > 0 ? desc->rows : desc->out;
}

typedef struct dpt_pool2d_desc {
    dpt_pool_kind kind;
    size_t in_h, in_w, channels, out_h, out_w;
    size_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w; /* pad < kernel */
    dpt_activation input_activation;
} dpt_pool2d_desc;

typedef struct dpt_activation_desc {
    dpt_activation kind;
    size_t count;
} dpt_activation_desc;

typedef struct dpt_dropout_desc {
    size_t count;
    float p;         /* probability of a zero, in [0, 1) */
    uint32_t stream; /* from 1, another one for each layer */
} dpt_dropout_desc;

typedef struct dpt_batch_norm_desc {
    size_t area, channels;
    size_t n_parts; /* MERGE and BACKWARD_DATA: devices whose parts are combined */
    float epsilon;
    bool has_residual;               /* FORWARD: added before the activation */
    dpt_activation activation;       /* FORWARD */
    dpt_activation input_activation; /* BACKWARD_DATA: mask */
    /* BACKWARD_PARTIAL and BACKWARD_DATA: NONE, or RELU, whose derivative dy still lacks. */
    dpt_activation output_activation;
} dpt_batch_norm_desc;

typedef struct dpt_layer_norm_desc {
    size_t rows, channels;
    float epsilon;
    dpt_activation input_activation; /* BACKWARD_DATA: mask */
} dpt_layer_norm_desc;

typedef struct dpt_softmax_desc {
    size_t classes;
    float smoothing; /* of the target, in [0, 1) */
} dpt_softmax_desc;

typedef struct dpt_squared_error_desc {
    size_t count;
} dpt_squared_error_desc;

typedef struct dpt_elementwise_desc {
    size_t count;
    float alpha, beta;
} dpt_elementwise_desc;

typedef struct dpt_sgd_desc {
    size_t count, decay_count;
    float momentum, weight_decay;
    bool nesterov;
} dpt_sgd_desc;

typedef struct dpt_adamw_desc {
    size_t count, decay_count;
    float beta1, beta2, epsilon, weight_decay;
} dpt_adamw_desc;

typedef struct dpt_clip_norm_desc {
    size_t count;
    float max_norm;
} dpt_clip_norm_desc;

typedef struct dpt_check_finite_desc {
    size_t count;
} dpt_check_finite_desc;

typedef struct dpt_op_desc {
    dpt_op_kind kind;
    dpt_dtype type; /* of activations and their gradients: T of the table */
    union {
        dpt_gather_desc gather;
        dpt_conv2d_desc conv2d;
        dpt_linear_desc linear;
        dpt_pool2d_desc pool2d;
        dpt_activation_desc activation;
        dpt_dropout_desc dropout;
        dpt_batch_norm_desc batch_norm;
        dpt_layer_norm_desc layer_norm;
        dpt_softmax_desc softmax;
        dpt_squared_error_desc squared_error;
        dpt_elementwise_desc elementwise;
        dpt_sgd_desc sgd;
        dpt_adamw_desc adamw;
        dpt_clip_norm_desc clip_norm;
        dpt_check_finite_desc check_finite;
    } u;
} dpt_op_desc;

/* A prepared operator: defined by the backend. */
typedef struct dpt_op dpt_op;

typedef struct dpt_op_info {
    size_t workspace_bytes; /* scratch that run needs with max_samples samples; no state in it */
    double flops;           /* floating-point operations a sample, 0 if memory-bound */
    bool exact;             /* integer inputs whose sums fit 24 bits give exact results, rounded
                               once where they are stored as bfloat16 */
    /* Convolutions that multiply sums of inputs and let the terms that they do not want cancel
       (Winograd): how many products each output of a tile is a sum of, for every pair of channels;
       else 0.  Rounding then follows not an output's own terms but the largest of its neighbours:
       it stays within what a sum of so many more terms may do, in any order, to an output whose
       inputs (dy for backward data, x for backward weights) were all as large as the largest of
       their channel and sample, with no padding.  The transforms must be good enough for that: of
       inputs and taps with deviation 1 they make results with the rounding of a deviation of at
       most 24 (F(4x4, 3x3) with the points 0, +-sqrt(1/2), +-sqrt(2), infinity; 0, +-1, +-2 make
       94, which is too much), of 5x5 taps, whose direct sums have nearly twice the deviation, of at
       most 73 (F(3x3, 5x5) with 0, +-1/2, +-5/4, +-3; 0, +-1/2, +-1, +-2 make 149). */
    size_t mixes;
    /* Products that round their inputs before they multiply (TF32; weights, to bfloat16): by how
       much at most, as a part of them; else 0.  Inputs that are stored as bfloat16 are not rounded
       any more. */
    double input_rounding;
    /* What was chosen among the ways to do this, in words without tabulators and line breaks:
       "winograd4".  Of operators whose ways round differently, no two have the same name.  Valid
       until release. */
    const char *algorithm;
    /* What the ways that were measured took, for a person: "winograd4 38.0 ms, direct 54.2 ms";
       NULL or empty where nothing was measured or is remembered.  Valid until release. */
    const char *measured;
} dpt_op_info;

/* What an operator is prepared for. */
typedef struct dpt_op_request {
    const dpt_op_desc *desc;
    size_t max_samples;
    /* The algorithm to take, whatever would be faster: what dpt_op_info.algorithm said of the same
       description on such a device earlier, perhaps with another max_samples, in another process.
       NULL: the device chooses. */
    const char *wanted;
} dpt_op_request;

enum { DPT_RUN_ACCUMULATE = 1u << 0 };

/* Where one call finds its tensors, by the table above; unused slots are {NULL, 0}. */
typedef struct dpt_op_args {
    dpt_location in[DPT_MAX_INPUTS];
    dpt_location out[DPT_MAX_OUTPUTS];
    dpt_location workspace;
    dpt_location step; /* of a dpt_step_block; set for operators that read it (signature.c) */
    dpt_location halt; /* of one float32, for operators that honour it; {NULL, 0}: never halts */
    uint32_t flags;
} dpt_op_args;

typedef struct dpt_operator_ops {
    /* required.  Validates (this is the only "supports"), chooses the algorithm, builds plans.
       DPT_E_UNSUPPORTED if this device has no way to do it, or not the wanted one; the record says
       which part of the description is the obstacle, or which way it has.  Yes means that run
       succeeds for every n <= max_samples. */
    dpt_status (*prepare)(dpt_device *device, const dpt_op_request *request, dpt_op **out,
                          dpt_op_info *info);
    /* required.  Accepts NULL. */
    void (*release)(dpt_device *device, dpt_op *op);
    /* required.  Enqueues the operator for 0 <= n_samples <= max_samples.  With n_samples 0 an
       output without a sample axis is still written (zero) unless it is accumulated to. */
    dpt_status (*run)(dpt_stream *stream, dpt_op *op, size_t n_samples, const dpt_op_args *args);
} dpt_operator_ops;

/* ---- Capture (optional table) ---------------------------------------------------------------- */

/* A recorded sequence of runs, copies and fills with fixed locations and numbers of samples. */
typedef struct dpt_recording dpt_recording;

typedef struct dpt_capture_ops {
    /* required.  From begin to end, run, copy and fill on this stream are recorded and not done;
       nothing else is called on it.  DPT_E_UNSUPPORTED: this device does not record. */
    dpt_status (*begin)(dpt_stream *stream);
    /* required.  Ends recording, after a run that failed too; on failure nothing is recorded and
       *out is not written.  DPT_E_UNSUPPORTED if something that ran cannot be recorded, whatever
       its run said: it is then run directly every time. */
    dpt_status (*end)(dpt_stream *stream, dpt_recording **out);
    /* required.  Enqueues the recorded work once more. */
    dpt_status (*replay)(dpt_stream *stream, dpt_recording *recording);
    void (*release)(dpt_device *device, dpt_recording *recording); /* required.  Accepts NULL. */
} dpt_capture_ops;

/* ---- Collectives (optional table) ------------------------------------------------------------ */

typedef struct dpt_communicator dpt_communicator;

/* What the ranks of a communicator that is to be made find each other by: one process makes it and
   brings it to the others. */
typedef struct dpt_invitation {
    uint8_t bytes[128];
} dpt_invitation;

/* Devices of one backend and one process, which are ranks first_rank, first_rank + 1, ... of the
   n_ranks of a communicator. */
typedef struct dpt_group {
    dpt_device *const *devices;
    size_t n_devices, first_rank, n_ranks;
    dpt_invitation invitation;
    double timeout_seconds; /* for the others to come */
} dpt_group;

/* Failures stand in the error of the device concerned; those of check, invite and create in the
   first one's.  Core tries a new communicator on sums that it knows before it relies on it. */
typedef struct dpt_collective_ops {
    /* required.  Whether these devices can be ranks of one communicator, as far as this process can
       tell; invitation and timeout are not looked at.  Makes nothing and waits for nobody: where
       there are several processes, all ask before one invites.  DPT_E_UNSUPPORTED, for a reason
       that is told: there are no collectives here, or not for these devices, or not over processes
       (n_ranks > n_devices). */
    dpt_status (*check)(const dpt_group *group);
    /* required.  In one process, for all. */
    dpt_status (*invite)(dpt_device *device, dpt_invitation *out);
    /* required.  Called once a process, by the driver of its first device, while the drivers of the
       others make no calls.  Returns when all ranks have come, who all call it meanwhile.
       DPT_E_UNSUPPORTED if these devices cannot be in one communicator after all; DPT_E_DEVICE if
       some do not come. */
    dpt_status (*create)(const dpt_group *group, dpt_communicator **out);
    /* required.  Nothing is under way, and a member's driver calls it; or it has been aborted, no
       member is in a call, and anybody does.  Streams that it was used on may live on.  Other
       processes do it too, and are waited for some seconds at most.  Accepts NULL. */
    void (*destroy)(dpt_communicator *communicator);
    /* required.  Enqueue the part of devices[i], called by its driver; `count` float32 elements.
       They do not wait for the other ranks' calls, but for a first one of its sort perhaps; the
       stream does.  All ranks make the same calls in the same order.  all_reduce sums in place:
       every rank gets the same bits, and the same inputs at the same ranks give the same bits each
       time.  What other elements hold is not touched. */
    dpt_status (*all_reduce)(dpt_communicator *communicator, size_t i, dpt_stream *stream,
                             dpt_location data, size_t count);
    dpt_status (*broadcast)(dpt_communicator *communicator, size_t i, size_t root_rank,
                            dpt_stream *stream, dpt_location data, size_t count);
    /* required.  Callable from any thread, several times, and while a member is in a call, even one
       that never returns: every waiting and later call of this process returns DPT_E_CANCELLED, and
       what was enqueued here ends, with any contents.  Other processes need not hear of it. */
    void (*abort)(dpt_communicator *communicator);
    /* optional.  Whether what was enqueued for devices[i] may still end, asked by its driver while
       it waits for that, from time to time: returns at once.  DPT_E_DEVICE or DPT_E_DEVICE_LOST: it
       has failed since, here or at another rank.  NULL: calls alone fail, and what they have
       enqueued ends unless a rank does not come to it. */
    dpt_status (*query)(dpt_communicator *communicator, size_t i);
} dpt_collective_ops;

/* ---- The descriptor -------------------------------------------------------------------------- */

struct dpt_backend {
    uint32_t abi;                 /* DPT_BACKEND_ABI */
    const char *name;             /* the NAME of NAME:0, lower case */
    const char *description;      /* one line */
    const dpt_param_spec *params; /* ends with a NULL key; NULL if there are none */
    const dpt_device_ops *device;
    const dpt_memory_ops *memory;
    const dpt_stream_ops *stream;
    const dpt_operator_ops *operators;
    const dpt_capture_ops *capture;       /* optional */
    const dpt_collective_ops *collective; /* optional */
};

/* The one exported symbol of a plug-in.  `abi` is the number that core was built with; NULL if the
   plug-in cannot serve it.  Core checks the descriptor's own number before it reads further. */
typedef const dpt_backend *(*dpt_backend_entry_fn)(uint32_t abi);
#define DPT_BACKEND_ENTRY_NAME "dpt_backend_entry"

#endif
