/* A model compiled for a purpose: a sequence of instructions over numbered tensors, cut into
   segments where devices must exchange something.  Uses no device.  Sizes are per sample; the
   memory plan is made for a number of samples. */
#ifndef DPTI_PROGRAM_H
#define DPTI_PROGRAM_H

#include "data/data.h"
#include "graph/call.h"
#include "graph/model.h"

/* Where a tensor is stored. */
typedef enum dpti_home {
    DPTI_HOME_ARENA, /* the arena: activations, their gradients, labels; the memory plan places them
                      */
    DPTI_HOME_PARAMETERS, /* the flat buffer of that name, at `offset` elements */
    DPTI_HOME_GRADIENTS,
    DPTI_HOME_VELOCITY,
    DPTI_HOME_SQUARES,
    DPTI_HOME_IMAGES, /* the data set */
    DPTI_HOME_LABELS,
    DPTI_HOME_INDEX, /* the step buffer: the record numbers of this step */
    DPTI_HOME_ROWS,  /* the numbers 0, 1, ...: the places of records that are sent with the step */
    DPTI_HOME_CONSTANTS,    /* the model's constants, at `offset` elements */
    DPTI_HOME_HALT,         /* the halt word of a single-launch program */
    DPTI_HOME_PARTNERS,     /* the step buffer: the record numbers of the samples' partners */
    DPTI_HOME_PARTNER_ROWS, /* the places of these records, if they are sent with the step */
    DPTI_HOME_MIX,          /* the step buffer: what is drawn for each sample, to mix it */
} dpti_home;

typedef struct dpti_program_tensor {
    dpti_home home;
    size_t per_sample_bytes; /* ARENA: bytes per sample */
    size_t fixed_bytes;      /* ARENA: bytes of a tensor without a sample axis */
    size_t
        row_bytes; /* ARENA: if not 0, the tensor has such a row for each of DPTI_GRAINS grains */
    size_t chunk_row_bytes; /* ARENA: if not 0, the tensor has such a row for each row of a chunk
                               (dpti_chunks) and is used by instructions of chunks only */
    size_t offset;          /* flat buffers: offset in elements */
    bool discarded; /* ARENA: the gradient of a frozen parameter, which nothing reads: an operator
                       computes it with that of another parameter */
    /* ARENA: the instructions that write it first and use it last, which are its lifetime. */
    size_t first, last;
} dpti_program_tensor;

enum {
    DPTI_NO_TENSOR = -1,
    /* Tensors that an instruction writes.  A call writes the gradient of each input. */
    DPTI_INSTRUCTION_OUTPUTS = DPT_MAX_INPUTS - 1
};

typedef struct dpti_instruction {
    dpt_op_desc desc;
    dpti_call call; /* of a function of the program, in place of an operator of the device */
    int in[DPT_MAX_INPUTS], out[DPTI_INSTRUCTION_OUTPUTS]; /* tensor numbers, or DPTI_NO_TENSOR */
    uint32_t flags;                                        /* DPT_RUN_ACCUMULATE */
    bool per_step;     /* runs once per step with n = 1, not per sample */
    bool clears;       /* deterministic: writes a part of a sum over samples, whose rest is zero */
    bool halts;        /* writes nothing while the halt word is not 0 */
    size_t repeat;     /* takes so many rows of a sample as samples of its own; 0: one */
    size_t again;      /* 1 + the node whose forward pass it repeats (recompute.c); else 0 */
    const char *layer; /* for messages */
} dpti_instruction;

/* What devices exchange at the end of a segment. */
typedef enum dpti_exchange {
    DPTI_EXCHANGE_NONE,
    DPTI_EXCHANGE_CONTRIBUTE, /* every device contributes its parts, and does not wait for the parts
                                 of the others */
    DPTI_EXCHANGE_TAKE,       /* waits until the parts that were contributed last are gathered */
    DPTI_EXCHANGE_BUCKET,    /* elements [begin, end) of the gradients are written: their all-reduce
                                begins, and no device waits for it */
    DPTI_EXCHANGE_GRADIENTS, /* the rest of the flat buffer is all-reduced, and the devices vote */
} dpti_exchange;

/* Parts that are gathered.  Every device's `part` is a tensor of `count` float32.  The tensor
   `parts` of every device gets the parts of all devices: (devices, count). */
typedef struct dpti_part {
    int part, parts;
    size_t count;
} dpti_part;

enum { DPTI_MOST_PARTS = 2 }; /* parts at one rendezvous */

typedef struct dpti_segment {
    size_t first, last; /* instructions [first, last) */
    dpti_exchange exchange;
    dpti_part parts[DPTI_MOST_PARTS]; /* CONTRIBUTE and TAKE: the parts */
    size_t n_parts;
    bool calls;        /* it calls functions of the program, so that it cannot be recorded */
    size_t begin, end; /* BUCKET: the first bucket ends where the weights end; each other one ends
                          where the one before it begins */
    /* The segment runs only after all votes agree, and on every device, also on devices without
       samples.  The last one changes training state; one before it computes gradients from sums
       (deferred.c).  In a single-launch program it obeys the halt word
       instead. */
    bool commits;
} dpti_segment;

/* Instructions that run for a chunk of rows at a time, all of them for one chunk before the first
   one for the next: the last product of a model with many classes, the loss, and the gradients of
   the product.  No tensor then has the logits of all rows.  Every operator of the instructions
   takes a row as a sample.  Sums over samples add up over the chunks.  In a deterministic program
   with such sums a chunk is one grain, or all samples at once, so that the bits are the same. */
typedef struct dpti_chunks {
    size_t first, last; /* instructions [first, last); equal: none */
    size_t rows;        /* of a sample */
    size_t most;        /* rows of a chunk, at most */
    size_t grain;       /* samples of a grain, of a deterministic program with sums; else 0 */
    size_t row_bytes;   /* of tensors that only chunks use, for each row */
    size_t sum_bytes;   /* of memory that adding up grains takes */
    bool told;          /* `most` was given, and is no choice by memory */
} dpti_chunks;

typedef struct dpti_program {
    dpti_program_tensor *tensors;
    size_t n_tensors, tensors_capacity;
    dpti_instruction *instructions;
    size_t n_instructions, instructions_capacity;
    dpti_segment *segments;
    size_t n_segments, segments_capacity;
    dpti_chunks chunks;
    size_t n_gradients;     /* of training: elements of the flat buffer of the gradients.  Those
                               behind the parameters' are sums that are used later (deferred.c) */
    bool accumulates;       /* of training: gradients add to those of earlier micro-batches */
    int result;             /* the tensor with a result for every sample: */
    size_t result_elements; /* (n, 2) loss and hit, or the logits, */
    dpt_dtype result_type;  /* whose type is that of activations */
} dpti_program;

typedef enum dpti_purpose {
    DPTI_PURPOSE_EVALUATE, /* forward pass and loss */
    DPTI_PURPOSE_PREDICT,  /* forward pass */
    DPTI_PURPOSE_TRAIN,    /* forward pass, loss, backward pass, optimizer */
} dpti_purpose;

/* How a parameter is updated. */
typedef struct dpti_parameter_rule {
    bool frozen;        /* it keeps its bits */
    float lr_factor;    /* of the step's learning rate */
    float weight_decay; /* 0 where the parameter has none */
} dpti_parameter_rule;

typedef struct dpti_optimizer {
    dpt_optimizer kind;
    bool nesterov;
    bool no_bias_decay;
    float momentum, weight_decay;
    float beta1, beta2, epsilon; /* AdamW */
    float clip_norm;             /* 0: none */
    /* (n_parameters) of the model, which then say what is decayed; NULL: all are updated alike */
    const dpti_parameter_rule *rules;
    /* If `divided`, the device holds the optimizer's state of elements [begin, end) of the flat
       buffer alone, and updates these alone; they may be none. */
    bool divided;
    size_t begin, end;
    /* If `divided_sums`, too, the device keeps of the summed gradients only those of its elements
       and of running statistics, and they are clipped before the device gets them. */
    bool divided_sums;
    /* If `divided_parameters`, too, the device keeps of the parameters only its elements, and those
       that are neither weights nor frozen (graph/gathered.h). */
    bool divided_parameters;
} dpti_optimizer;

/* The sizes of buckets, in elements. */
typedef struct dpti_bucket_sizes {
    size_t
        first; /* the first bucket; no other bucket is smaller, unless a large layer does not fit */
    size_t others; /* the other buckets, or what is still to be written if that is less */
} dpti_bucket_sizes;

typedef struct dpti_program_options {
    const dpt_dataset *data; /* the data set from which the first instructions gather */
    size_t fed; /* records that are on the device at a time because they are sent with the step; 0:
                   the whole data set is there */
    dpti_purpose purpose;
    dpt_dtype type;  /* the type of activations and their gradients, from dpt_device_properties */
    bool norms_mask; /* the device's DPT_DEVICE_NORMS_MASK; false if training is deterministic,
                        since it is the same within rounding only */
    dpt_loss loss;
    size_t chunk_rows;          /* rows of logits that are computed at a time, at most; 0: all.  It
                                   is for the cross-entropy with several labels a sample */
    bool chunk_rows_told;       /* this number was given, and is no choice by memory */
    float huber_delta;          /* of DPT_LOSS_HUBER */
    dpt_loss_function own_loss; /* of DPT_LOSS_OWN_OF_TARGETS and DPT_LOSS_OWN_OF_LABELS */
    void *own_loss_user;
    /* For training only. */
    float label_smoothing;
    const float *class_weights; /* (classes) of the cross-entropy; NULL: none.  The replica's
                                   constants must have a table of them (loss.h) */
    dpt_augment_options augment;
    float rotate;
    dpt_jitter_options jitter;
    dpt_randaugment_options randaugment;
    float mixup, cutmix; /* if either is above 0, programs of training mix samples (mixed.h) */
    dpti_optimizer optimizer;
    size_t n_parts;     /* devices whose batch-norm statistics are combined, one exchange per
                           batch-norm; 0 or 1: every device uses its own statistics */
    bool norms_frozen;  /* batch-norms normalise by their running statistics, which keep their bits;
                           n_parts is then 0 or 1 */
    bool alone;         /* the device has all parts of each batch, so it exchanges none */
    bool holds_filters; /* if n_parts > 1: gradients of filters are computed during a rendezvous,
                           between contribute and take; the bits are the same */
    /* Single-launch: a step is one segment, which the host does not inspect.  It is for a device
       that exchanges nothing and computes its shard in one micro-batch.  If a loss or a gradient
       is not finite, the device sets the replica's halt word itself, and it changes no training
       state while the word is set. */
    bool single_launch;
    bool accumulate; /* gradients are added up over several micro-batches */
    /* Operators are prepared as deterministic, and sums over samples are computed grain by grain
       (base/grains.h).  Parts of batch-norms are those of grains: n_parts is DPTI_GRAINS, or 1. */
    bool deterministic;
    size_t grain;   /* of a deterministic program of training: the most samples of a grain */
    bool recompute; /* most values are computed again in the backward pass; the bits are the same */
    /* Elements of the smallest bucket, which also determines the smallest slice; 0: gradients are
       not exchanged.  The bits of the result depend on this number, but not on the sizes of
       buckets, and not on whether all gradients are exchanged at the end. */
    size_t least_bucket;
    dpti_bucket_sizes buckets; /* all 0: dpti_default_buckets */
    bool exchange_at_end;
} dpti_program_options;

/* What GATHER does to images of these data in training; a description without an augmentation if
   the options ask for none. */
dpt_augment dpti_augment_of(const dpti_program_options *options, const dpt_dataset *data);

/* Whether samples of a training are mixed with partners. */
static inline bool dpti_mixes(const dpti_program_options *options)
{
    return options->mixup > 0 || options->cutmix > 0;
}

/* The numbers that are drawn for each sample (train/components/mix.h); 0: samples are not mixed. */
static inline size_t dpti_mix_elements(const dpti_program_options *options)
{
    return dpti_mixes(options) ? 2 + options->data->height + options->data->width : 0;
}

/* Returns the smallest size first, and an eighth of all weights for the others (buckets.c). */
dpti_bucket_sizes dpti_default_buckets(const dpt_model *model, size_t least_bucket);

/* Compiles the forward pass, the loss and, for training, reverse-mode differentiation and the
   optimizer.  Fuses an activation into the layer before it, a residual addition into the
   batch-norm before it, and an activation's derivative into the operator behind it.  Errors:
   DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_compile(const dpt_model *model,
                                         const dpti_program_options *options, dpti_program *out,
                                         dpt_error *error);
void dpti_program_free(dpti_program *program); /* accepts a zeroed one */
/* The n_gradients that a program of training with these options has, on any device. */
DPT_CHECK_RESULT dpt_status dpti_count_gradients(const dpt_model *model,
                                                 const dpti_program_options *options, size_t *out,
                                                 dpt_error *error);

/* The static memory plan: the place of every ARENA tensor and of every instruction's workspace.
   Two of them that are alive at the same time never overlap. */
typedef struct dpti_plan {
    size_t *tensor_offsets;    /* (n_tensors) bytes; undefined for other homes */
    size_t *workspace_offsets; /* (n_instructions) bytes */
    size_t arena_bytes;
} dpti_plan;

/* The program whose memory is planned, for at most max_samples at once. */
typedef struct dpti_plan_request {
    const dpti_program *program;
    size_t max_samples;
    const size_t *workspace_bytes; /* (n_instructions) */
} dpti_plan_request;

/* The rows of a chunk of a program whose memory is planned for at most max_samples at once; 0 if it
   has no chunks. */
size_t dpti_rows_of_chunk(const dpti_program *program, size_t max_samples);

/* Computes the plan.  Offsets are multiples of 256. */
DPT_CHECK_RESULT dpt_status dpti_plan_memory(const dpti_plan_request *request, dpti_plan *out,
                                             dpt_error *error);
void dpti_plan_free(dpti_plan *plan); /* accepts a zeroed one */

#endif
