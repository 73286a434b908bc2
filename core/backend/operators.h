/* The structs of operators: the description of an operator of each family, what `prepare` reports,
   the arguments of `run`, and the table of functions.  op_list.h lists the operators and defines
   what each of them computes.

   A backend includes backend.h, which includes this header. */
#ifndef DPT_BACKEND_OPERATORS_H
#define DPT_BACKEND_OPERATORS_H

#include "backend/abi.h"
#include "backend/map_list.h"
#include "backend/op_list.h"

/* ---- The step block -------------------------------------------------------------------------- */

/* What changes from step to step.  The step block lies in device memory, so that recorded work can
   be replayed: no operator takes these values by value.  Operators read the step block at
   dpt_op_args.step. */
typedef struct dpt_step_block {
    float lr;           /* learning rate of this step */
    float inv_batch;    /* 1 / B; B is the size of the GLOBAL batch */
    uint32_t step;      /* from 1 */
    uint32_t epoch;     /* from 1 */
    uint32_t seed_low;  /* the seed of the run, for counter-based random numbers; */
    uint32_t seed_high; /* numbers are keyed by epoch and sample index, never by device */
    uint32_t first;     /* position of this device's first sample in the global batch */
    float adam_scale_m; /* 1 / (1 - beta1^t); t counts the updates since Adam's state was zero */
    float adam_scale_v; /* 1 / sqrt(1 - beta2^t) */
    float inv_labels;   /* 1 / the number of labels of the global batch, without ignored ones; 1 / B
                           if   every sample has one label */
    uint32_t reserved[6];
} dpt_step_block;

/* ---- Kinds ----------------------------------------------------------------------------------- */

typedef enum dpt_op_kind {
#define DPT_OP_ENUM(kind, ...) DPT_OP_##kind,
    DPT_OP_LIST(DPT_OP_ENUM)
#undef DPT_OP_ENUM
        DPT_OP_COUNT
} dpt_op_kind;

typedef enum dpt_op_family {
#define DPT_FAMILY_ENUM(family, name) DPT_FAMILY_##family,
    DPT_OP_FAMILY_LIST(DPT_FAMILY_ENUM)
#undef DPT_FAMILY_ENUM
        DPT_FAMILY_COUNT
} dpt_op_family;

enum { DPT_MAX_CHANNEL_STATS = 4, DPT_MAX_INPUTS = 6, DPT_MAX_OUTPUTS = 3 };

/* ---- Descriptions, one struct for each family ------------------------------------------------ */

/* What GATHER does to each image before it is normalised, in this order.  Random numbers are
   Philox4x32-10 with counter (block, sample, epoch, 0) and key (seed_low, seed_high).  u(i) is
   (word i % 4 of block i / 4 >> 8) * 2^-24.  below(i, m) is the integer floor(u(i) * m).
     crop   The image is padded by `pad` zeros of the data on each side.  A window of the image's
            own size is taken at row below(0, 2 pad + 1), column below(1, 2 pad + 1) of the padded
            image.
     flip   The columns are reversed if u(2) < 0.5.
     rotate The picture is turned counter-clockwise about its middle by
              angle = (below(44, 2 R + 1) - R) / 65536 degrees, R = round(65536 rotate).
            With c = cos(angle), s = sin(angle), and X = 2 x + 1 - w, Y = 2 y + 1 - h, pixel (y, x)
            shows the pixel in
              row floor((s X + c Y + h) / 2), column floor((c X - s Y + w) / 2),
            and zero if there is none: torchvision's rotate with the nearest pixel.  Sine and cosine
            are integers, in units of 2^-30, with an error of a few units.
     randaugment  torchvision's RandAugment, on bytes: `ops` operations, one behind the other.
            Operation k from 0 is number below(52 + 2 k, 14) of Identity, ShearX, ShearY,
            TranslateX, TranslateY, Rotate, Brightness, Color, Contrast, Sharpness, Posterize,
            Solarize, AutoContrast, Equalize.  With M the magnitude, of ShearX to Sharpness -M if
            u(53 + 2 k) < 0.5:
              ShearX      M / 100: pixel (y, x) shows column floor(x + 1/2 + (2 y + 1) M / 200);
                          ShearY rows alike
              TranslateX  by M 150 w / 9930 columns, cut to an integer; TranslateY rows, by h
              Rotate      by M degrees
              Brightness, Color (saturation), Contrast  as below, f = 1 + 3 M / 100
              Sharpness   v = floor(f v + (1 - f) b), b = round((5 v + the 8 neighbours) / 13);
                          pixels at the border stay
              Posterize   the upper 8 - round(4 M / 30) bits are kept
              Solarize    255 - v where v >= 255 (30 - M) / 30
              AutoContrast  v = floor(255 (v - least) / (most - least)) of the channel's values, if
                          they differ
              Equalize    step = floor(pixels below the greatest value / 255).  If it is not 0,
                          v = floor((pixels below v + floor(step / 2)) / step)
            What comes from outside is zero.  Factors are rounded to 2^-16, results limited to 0
            and 255.  Color leaves a grey image as it is.
     jitter torchvision's ColorJitter, on bytes: four changes of all pixels, in one of their 24
            orders.  With B = round(65536 brightness), below(45, ...) draws the factor
              f = (low + below(45, 65536 + B - low + 1)) / 65536, low = max(0, 65536 - B),
            and so do 46 and 47 for contrast and saturation.  The order is number below(49, 24)
            of the orders of brightness, contrast, saturation, hue, sorted by this list.
              brightness  v = floor(f v)
              contrast    v = floor(f v + (1 - f) m), m the mean of the grey g of all pixels
              saturation  v = floor(f v + (1 - f) g)
              hue         turned by (below(48, 2 H + 1) - H) / 65536 of the circle of hues,
                          H = round(65536 hue); a colour v becomes floor(v 255.999 / 255)
            Results are limited to 0 and 255.  g = floor(0.2989 r + 0.587 g + 0.114 b), and the
            only channel of a grey image, which saturation and hue leave as it is.  All numbers are
            exact fractions, computed in integers.
     erase  If u(3) < erase, a rectangle of the normalised result is set to 0 (Zhong et al. 2020,
            with torchvision's ranges).  Attempts k = 1 to 10 are made until one fits, with
              area = h * w * (0.02 + 0.31 u(4k)),
              ratio = exp(log 0.3 + u(4k+1) log(3.3 / 0.3)),
              height = round(sqrt(area * ratio)), width = round(sqrt(area / ratio)),
              both at least 1 and below h and w,
              top below(4k+2, h - height + 1), left below(4k+3, w - width + 1). */
typedef struct dpt_augment {
    size_t height, width; /* of an image; it has count / (height * width) channels */
    size_t pad;           /* 0: no crop */
    bool flip;
    float erase;  /* probability; 0: never */
    float rotate; /* the greatest angle in degrees, up to 180; 0: none */
    /* The greatest differences of factors from 1, up to 1, and the greatest turn of the hue, up to
       1/2.  All 0: no jitter.  Else the data are U8, of 1 or 3 channels. */
    float brightness, contrast, saturation, hue;
    /* Operations of RandAugment, at most 6, and their magnitude, at most 30.  0: none.  Else the
       data are U8, of 1 or 3 channels. */
    size_t ops, magnitude;
} dpt_augment;

typedef struct dpt_gather_desc {
    dpt_dtype dtype;  /* of the data */
    size_t count;     /* elements a record, also of labels */
    size_t n_records; /* samples in the data; core has checked that every index is below it */
    /* Element e belongs to channel e % channels.  `channels` is 1 to DPT_MAX_CHANNEL_STATS. */
    size_t channels;
    float mean[DPT_MAX_CHANNEL_STATS];
    float scale[DPT_MAX_CHANNEL_STATS];
    dpt_augment augment; /* all zero: none.  GATHER of images only. */
} dpt_gather_desc;

typedef struct dpt_conv2d_desc {
    size_t in_h, in_w, in_channels;
    /* out = (in + 2 pad - dilation (kernel - 1) - 1) / stride + 1 */
    size_t out_h, out_w, out_channels;
    size_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups;
    bool has_bias;                   /* a bias (forward) or a dbias (backward weights) */
    dpt_activation activation;       /* forward: applied behind the bias */
    dpt_activation input_activation; /* backward data: the mask */
} dpt_conv2d_desc;

typedef struct dpt_linear_desc {
    size_t in, out;
    bool has_bias;
    dpt_activation activation;
    dpt_activation input_activation;
    /* BACKWARD_WEIGHTS can compute a slice: the outputs first .. first + rows - 1 alone.  dy
       (n,out) has the columns of all outputs, dw is (rows,in), and dbias is (rows).  With rows 0
       the operator computes all outputs, and first is 0.  The other kinds have rows 0. */
    size_t first, rows;
} dpt_linear_desc;

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
    uint32_t stream; /* from 1; every layer has its own */
} dpt_dropout_desc;

typedef struct dpt_batch_norm_desc {
    size_t area, channels;
    size_t n_parts; /* MERGE and BACKWARD_DATA: the number of devices whose parts are combined */
    float epsilon;
    bool has_residual;               /* FORWARD: added before the activation */
    dpt_activation activation;       /* FORWARD */
    dpt_activation input_activation; /* BACKWARD_DATA: the mask */
    /* BACKWARD_PARTIAL and BACKWARD_DATA: NONE, or RELU if dy still lacks the derivative of a ReLU.
     */
    dpt_activation output_activation;
} dpt_batch_norm_desc;

typedef struct dpt_layer_norm_desc {
    size_t rows, channels;
    float epsilon;
    dpt_activation input_activation; /* BACKWARD_DATA: the mask */
} dpt_layer_norm_desc;

typedef struct dpt_row_softmax_desc {
    size_t rows, columns;
    bool log; /* y is the logarithm of the softmax */
} dpt_row_softmax_desc;

typedef struct dpt_take_desc {
    size_t count; /* indices a sample */
    size_t width; /* elements of a row */
    size_t rows;  /* of the table, below 2^31 */
} dpt_take_desc;

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

/* ---- Programs over elements ------------------------------------------------------------------ */

enum {
    DPT_MAX_RANK = 8,    /* axes of a space */
    DPT_MAP_LENGTH = 32, /* instructions of a program */
    DPT_MAP_OPERANDS = DPT_MAX_INPUTS + DPT_MAX_OUTPUTS,
};

typedef enum dpt_map_code {
#define DPT_MAP_ENUM(name, ...) DPT_MAP_##name,
    DPT_MAP_LIST(DPT_MAP_ENUM)
#undef DPT_MAP_ENUM
        DPT_MAP_COUNT
} dpt_map_code;

/* One instruction.  Instruction i computes the value i from values before i. */
typedef struct dpt_map_instruction {
    uint8_t code;    /* dpt_map_code */
    uint8_t a, b, c; /* numbers of instructions; 0 for operands that the code does not have */
    uint8_t index;   /* LOAD: the input */
    float constant;  /* CONSTANT */
} dpt_map_instruction;

/* A tensor of a MAP, and how the space lies in the tensor.  All distances are in elements. */
typedef struct dpt_map_operand {
    dpt_dtype type; /* the description's type, F32, U8 or I32 */
    bool sampled;   /* the tensor has `size` elements for each sample; otherwise `size` in all */
    size_t size;
    size_t offset;                /* of index 0 */
    int32_t stride[DPT_MAX_RANK]; /* may be negative; every index lies within `size` */
} dpt_map_operand;

typedef enum dpt_map_reduction {
    DPT_REDUCE_SUM,
    DPT_REDUCE_PRODUCT,
    DPT_REDUCE_MAXIMUM,
    DPT_REDUCE_MINIMUM,
} dpt_map_reduction;

typedef struct dpt_map_desc {
    size_t rank;                    /* may be 0: one element a sample */
    size_t extent[DPT_MAX_RANK];    /* the last axis is the fastest one */
    uint8_t n_in, n_out, n_code;    /* inputs, outputs, instructions: n_out and n_code at least 1 */
    uint8_t reduction;              /* MAP_REDUCE: a dpt_map_reduction; MAP: 0 */
    uint8_t value[DPT_MAX_OUTPUTS]; /* the instruction whose value goes to the output */
    dpt_map_operand in[DPT_MAX_INPUTS];
    /* MAP: two indices never write the same element: in the order of their sizes, every stride of
       an axis that has more than one index is larger than the sum of (extent - 1) * stride of those
       before it.  An output may lack a sample axis only if no input has one; n is then 1.
       MAP_REDUCE: one output; strides that are not 0 have the same property.  Only sums may lack a
       sample axis that an input has.
       Outputs of the description's type or F32 are sums (DPT_RUN_ACCUMULATE), unless the reduction
       is another one. */
    dpt_map_operand out[DPT_MAX_OUTPUTS];
    dpt_map_instruction code[DPT_MAP_LENGTH];
} dpt_map_desc;

/* ---- Batched matrix products ----------------------------------------------------------------- */

enum { DPT_MATMUL_AXES = 3 }; /* of a batch within a sample */

/* A tensor of a MATMUL, and where its matrices lie in the tensor.  All distances are in elements.
   Strides of axes that have one index are not read. */
typedef struct dpt_matmul_operand {
    /* The tensor has so many elements for each sample; if it is not per sample, so many in all. At
       most 2^31 - 1. */
    size_t elements;
    size_t offset; /* of index 0; every index lies within `elements` */
    size_t batch_stride[DPT_MATMUL_AXES], row_stride, column_stride; /* below 2^31 */
    bool per_sample; /* true: elements of the description's type; false: float32 */
} dpt_matmul_operand;

typedef struct dpt_matmul_desc {
    size_t batch[DPT_MATMUL_AXES]; /* products of a sample; 1 for an axis that is not used */
    size_t rows, columns, inner;   /* a (rows,inner), b (inner,columns), y (rows,columns) */
    float alpha;                   /* finite */
    dpt_matmul_operand a, b;
    /* y is per sample, and no two indices have the same element: in the order of their sizes, every
       stride of an axis that has more than one index is larger than the sum of (extent - 1) *
       stride of those before it. */
    dpt_matmul_operand y;
} dpt_matmul_desc;

/* ---- Recurrent layers ------------------------------------------------------------------------ */

enum { DPT_RECURRENT_GATES = 4, DPT_RECURRENT_ACTIVATIONS = 3 };

typedef enum dpt_recurrent_cell {
    DPT_CELL_RNN,
    DPT_CELL_LSTM,       /* Hochreiter and Schmidhuber 1997, with forget gates (Gers et al. 2000) */
    DPT_CELL_GRU,        /* the reset gate is applied behind the product, as in PyTorch and cuDNN */
    DPT_CELL_GRU_BEFORE, /* the reset gate is applied before the product (Cho et al. 2014) */
} dpt_recurrent_cell;

typedef struct dpt_recurrent_desc {
    dpt_recurrent_cell cell;
    size_t length; /* of the sequence */
    size_t hidden; /* elements of the state */
    /* The block of each gate, in the order of op_list.h: a permutation of 0 to G - 1.  Those behind
       the gates of the cell are 0. */
    uint8_t place[DPT_RECURRENT_GATES];
    /* TANH, SIGMOID or RELU; NONE for those that the cell does not have.  RNN: one.  LSTM: of the
       gates, of the candidate u, of the cell's state.  GRU: of the gates, of the candidate u. */
    dpt_activation activation[DPT_RECURRENT_ACTIVATIONS];
    bool reverse;
    bool has_bias;    /* GRU only: a bias of the product */
    bool has_initial; /* h0, and c0 of an LSTM */
    bool gives_cell;  /* LSTM only: y ends with the last cell's state */
    bool no_gradient; /* FORWARD: gates and cells are not saved; BACKWARD: false */
} dpt_recurrent_desc;

/* ---- Attention ------------------------------------------------------------------------------- */

typedef struct dpt_attention_desc {
    size_t heads, key_heads; /* key_heads divides heads */
    size_t width;            /* channels of a head */
    size_t queries, keys;    /* lengths; the same if packed; causal: keys >= queries */
    bool packed; /* q, k and v are the parts of one tensor x, and so are the gradients */
    bool causal;
    bool no_gradient; /* FORWARD: lse is not saved; BACKWARD: false */
    float scale;      /* of the scores; finite */
} dpt_attention_desc;

/* The elements between two rows of a packed tensor.  Never fails. */
static inline size_t dpt_attention_pitch(const dpt_attention_desc *d)
{
    return (d->heads + 2 * d->key_heads) * d->width;
}

/* ---- Optimizers ------------------------------------------------------------------------------ */

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
    dpt_dtype type; /* the type of activations and their gradients: T in op_list.h */
    union {
#define DPT_FAMILY_MEMBER(family, name) dpt_##name##_desc name;
        DPT_OP_FAMILY_LIST(DPT_FAMILY_MEMBER)
#undef DPT_FAMILY_MEMBER
    } u;
} dpt_op_desc;

/* ---- Preparing and running ------------------------------------------------------------------- */

typedef struct dpt_op dpt_op; /* a prepared operator; the backend defines the struct */

typedef struct dpt_op_info {
    size_t
        workspace_bytes; /* scratch that `run` needs with max_samples samples; it keeps no state */
    double flops;        /* floating-point operations a sample; 0: memory-bound */
    /* Integer inputs whose sums fit in 24 bits give exact results.  Results that are stored as
       bfloat16 are rounded once. */
    bool exact;
    /* For convolutions that multiply sums of inputs and let the unwanted terms cancel (Winograd):
       the number of products that each output of a tile is a sum of, for every pair of channels.  0
       for every other operator.  The rounding of such a convolution follows the largest of an
       output's neighbours instead of the output's own terms.  It must stay within what a sum of so
       many more terms may do, in any order, to an output all of whose inputs are as large as the
       largest of their channel and sample, without padding (the inputs are dy for backward data, x
       for backward weights).  The transforms must be accurate enough for that.  With inputs and
       taps of deviation 1, 3x3 taps may round like values of a deviation of at most 24: F(4x4, 3x3)
       with the points 0,
       +-sqrt(1/2), +-sqrt(2), infinity; the points 0, +-1, +-2 give 94, which is too much.  5x5
       taps, whose direct sums have nearly twice the deviation, may round like 73: F(3x3, 5x5) with
       0, +-1/2,
       +-5/4, +-3; the points 0, +-1/2, +-1, +-2 give 149. */
    size_t mixes;
    /* For products that round their inputs before they multiply (to TF32, or weights to bfloat16):
       the largest relative rounding error.  0 for every other operator.  Inputs that are stored as
       bfloat16 are not rounded again. */
    double input_rounding;
    /* The chosen algorithm, in words without tabulators and line breaks: "winograd4".  Two
       algorithms that round differently have different names.  Valid until `release`. */
    const char *algorithm;
    /* The measured times of the algorithms, for a person: "winograd4 38.0 ms, direct 54.2 ms". NULL
       or empty if nothing was measured and nothing is remembered.  Valid until `release`. */
    const char *measured;
    /* Of a deterministic operator: `run` honours dpt_op_args.grain. */
    bool has_grains;
} dpt_op_info;

/* What an operator is prepared for. */
typedef struct dpt_op_request {
    const dpt_op_desc *desc;
    size_t max_samples;
    /* The algorithm to take, even if another one is faster: the dpt_op_info.algorithm of the same
       description on such a device earlier, perhaps with another max_samples, in another process.
       NULL: the device chooses. */
    const char *wanted;
    /* Results have the bits that docs/reproducibility.md defines for this description.  They depend
       on the inputs alone: not on the device, its threads or its instruction set, and not on other
       samples of the call.  Outputs that are sums over samples are sums over the samples of the
       call, in their order, and DPT_RUN_ACCUMULATE adds the finished float32 sum to what was there.
       Tensors with samples may begin at any sample.  `wanted` is NULL.  DPT_E_UNSUPPORTED if the
       device cannot do it. */
    bool deterministic;
} dpt_op_request;

enum {
    DPT_RUN_ACCUMULATE = 1u << 0,
    DPT_MOST_GRAINS = 16, /* of a call */
};

/* Where one call finds its tensors.  The slots are those of op_list.h, in its order.  Unused slots
   are {NULL, 0}. */
typedef struct dpt_op_args {
    dpt_location in[DPT_MAX_INPUTS];
    dpt_location out[DPT_MAX_OUTPUTS];
    dpt_location workspace;
    dpt_location step; /* a dpt_step_block; set for operators that read it */
    dpt_location halt; /* one float32, for operators that honour it; {NULL, 0}: never halts */
    uint32_t flags;
    /* Samples of a grain, for operators with dpt_op_info.has_grains.  From the first sample on, the
       samples of the call are cut into grains of so many; the last one may have fewer.  There are
       at most DPT_MOST_GRAINS.  Each sum over samples is the sum over each grain, and the sums of
       grains are added up along the tree of docs/reproducibility.md whose grain 0 begins with the
       call.  DPT_RUN_ACCUMULATE adds the sum of the tree to what was there.  An output that is a
       DPT_PART (op_list.h) has a row for each grain instead, in the order of the grains.  0: all
       samples are one grain. */
    size_t grain;
} dpt_op_args;

struct dpt_operator_ops {
    /* Required.  Validates the description, chooses the algorithm and builds plans.  It is the only
       call that says what a device supports: DPT_OK means that `run` succeeds for every
       n <= max_samples.  DPT_E_UNSUPPORTED if this device has no algorithm for the description, or
       not the wanted one.  The record says which part of the description is the obstacle, or which
       algorithm the device has. */
    dpt_status (*prepare)(dpt_device *device, const dpt_op_request *request, dpt_op **out,
                          dpt_op_info *info);
    /* Required.  Accepts NULL. */
    void (*release)(dpt_device *device, dpt_op *op);
    /* Required.  Enqueues the operator for 0 <= n_samples <= max_samples.  With n_samples 0 an
       output without a sample axis is set to zero, unless the call accumulates to it. */
    dpt_status (*run)(dpt_stream *stream, dpt_op *op, size_t n_samples, const dpt_op_args *args);
};

#endif
