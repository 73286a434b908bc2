/* A model compiled for a purpose: a sequence of instructions over numbered tensors, cut into
   segments where devices must exchange something.  Uses no device.  Sizes are per sample; the
   memory plan is made for a number of samples. */
#ifndef DPTI_PROGRAM_H
#define DPTI_PROGRAM_H

#include "data/data.h"
#include "device/device.h"
#include "graph/model.h"

/* Where a tensor lives. */
typedef enum dpti_home {
    DPTI_HOME_ARENA,      /* activations, their gradients, labels: placed by the memory plan */
    DPTI_HOME_PARAMETERS, /* `offset` elements into the flat buffer of that name */
    DPTI_HOME_GRADIENTS,
    DPTI_HOME_VELOCITY,
    DPTI_HOME_SQUARES,
    DPTI_HOME_IMAGES, /* the data set */
    DPTI_HOME_LABELS,
    DPTI_HOME_INDEX, /* the step buffer: which records of the data set this step takes */
    DPTI_HOME_ROWS,  /* 0, 1, ...: where those lie that were sent with the step */
    DPTI_HOME_HALT,  /* the halt word of a program that is whole */
} dpti_home;

typedef struct dpti_program_tensor {
    dpti_home home;
    size_t per_sample_bytes; /* ARENA: size for one sample, */
    size_t fixed_bytes;      /* or of a tensor without a sample axis */
    size_t offset;           /* flat buffers: elements */
    /* ARENA: instructions that define it first and use it last; the plan's lifetime. */
    size_t first, last;
} dpti_program_tensor;

enum { DPTI_NO_TENSOR = -1 };

typedef struct dpti_instruction {
    dpt_op_desc desc;
    int in[DPT_MAX_INPUTS], out[DPT_MAX_OUTPUTS]; /* tensors, or DPTI_NO_TENSOR */
    uint32_t flags;                               /* DPT_RUN_ACCUMULATE */
    bool per_step;                                /* runs once a step, with n = 1, not per sample */
    bool halts;                                   /* writes nothing where the halt word is not 0 */
    const char *layer;                            /* for messages */
} dpti_instruction;

/* What devices do together at the end of a segment. */
typedef enum dpti_exchange {
    DPTI_EXCHANGE_NONE,
    DPTI_EXCHANGE_CONTRIBUTE, /* every device's parts are there, and nobody waits for those of the
                            others yet */
    DPTI_EXCHANGE_TAKE,       /* what was brought last is gathered, when all have come */
    DPTI_EXCHANGE_BUCKET,    /* elements [begin, end) of the gradients are written: their all-reduce
                                begins, and nobody waits for it */
    DPTI_EXCHANGE_GRADIENTS, /* the rest of the flat buffer is all-reduced, and the step confirmed
                              */
} dpti_exchange;

/* Every device's `part`, a tensor of `count` float32, is gathered in everybody's `parts`, one of
   devices x `count`. */
typedef struct dpti_part {
    int part, parts;
    size_t count;
} dpti_part;

enum { DPTI_MOST_PARTS = 2 }; /* at one meeting */

typedef struct dpti_segment {
    size_t first, last; /* instructions [first, last) */
    dpti_exchange exchange;
    dpti_part parts[DPTI_MOST_PARTS]; /* BRING and TAKE: the same */
    size_t n_parts;
    size_t begin, end; /* BUCKET: the first one ends where weights end, each other one where the one
                          before it begins */
    /* Changes what lasts: runs only after every exchange before it was confirmed, and on every
       device, also on those without samples; or, in a program that is whole, halts. */
    bool commits;
} dpti_segment;

typedef struct dpti_program {
    dpti_program_tensor *tensors;
    size_t n_tensors, tensors_capacity;
    dpti_instruction *instructions;
    size_t n_instructions, instructions_capacity;
    dpti_segment *segments;
    size_t n_segments, segments_capacity;
    int result;             /* what comes out for every sample: */
    size_t result_elements; /* (n, 2) loss and hit, or the logits, */
    dpt_dtype result_type;  /* which are activations */
} dpti_program;

typedef enum dpti_purpose {
    DPTI_PURPOSE_EVALUATE, /* forward and loss */
    DPTI_PURPOSE_PREDICT,  /* forward */
    DPTI_PURPOSE_TRAIN,    /* forward, loss, backward, optimizer */
} dpti_purpose;

typedef struct dpti_optimizer {
    dpt_optimizer kind;
    bool nesterov;
    bool no_decay_bias;
    float momentum, weight_decay;
    float beta1, beta2, epsilon; /* AdamW */
    float clip_norm;             /* 0: none */
} dpti_optimizer;

/* How large buckets are, in elements. */
typedef struct dpti_bucket_sizes {
    size_t first;  /* the first one; others are no smaller, but where large layers do not fit */
    size_t others; /* or what is still to be written, if that is less */
} dpti_bucket_sizes;

typedef struct dpti_program_options {
    const dpt_dataset *data; /* what the first instructions gather from */
    size_t fed; /* records that are on the device at a time, sent with the step; 0: all of data */
    dpti_purpose purpose;
    dpt_dtype type;  /* of activations and their gradients: the device's, see dpt_device_info */
    bool norms_mask; /* the device's DPT_DEVICE_NORMS_MASK; training is the same within rounding */
    dpt_loss loss;
    /* Of training only. */
    float label_smoothing;
    dpt_augment_options augment;
    dpti_optimizer optimizer;
    size_t n_parts;     /* devices whose batch-norm statistics are combined, in so many exchanges;
                           0 or 1: every device takes its own */
    bool holds_filters; /* n_parts > 1: gradients of filters are computed at meetings, between bring
                           and take; the bits are the same */
    /* A step is one segment, which the host need not look into: a device that exchanges nothing,
       and does a step in one pass, sets the replica's halt word itself if a loss or a gradient is
       not finite, and changes nothing that lasts while it is set. */
    bool whole;
    bool accumulate; /* gradients are added to, for shares that are worked off in several passes */
    /* Elements of the least bucket, and by it of the least slice; 0: gradients are exchanged with
       nobody.  What is computed, and so its bits, depends on this, but neither on how large buckets
       are nor on whether all is exchanged at the end. */
    size_t least_bucket;
    dpti_bucket_sizes buckets; /* zeros: dpti_default_buckets */
    bool exchange_at_end;
} dpti_program_options;

/* The least one first, and an eighth of all weights (buckets.c). */
dpti_bucket_sizes dpti_default_buckets(const dpt_model *model, size_t least_bucket);

/* Forward, loss and, in training, reverse-mode differentiation and the optimizer.  Fuses an
   activation into the layer before it, a residual addition into the batch-norm before it, and an
   activation's derivative into the operator behind it.
   DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_compile(const dpt_model *model,
                                         const dpti_program_options *options, dpti_program *out,
                                         dpt_error *error);
void dpti_program_free(dpti_program *program); /* accepts a zeroed one */

/* The static memory plan: where every ARENA tensor and every instruction's workspace stands, such
   that two that are alive at the same time never overlap. */
typedef struct dpti_plan {
    size_t *tensor_offsets;    /* (n_tensors) bytes; undefined for other homes */
    size_t *workspace_offsets; /* (n_instructions) bytes */
    size_t arena_bytes;
} dpti_plan;

/* workspace_bytes (n_instructions).  Offsets are multiples of 256. */
DPT_CHECK_RESULT dpt_status dpti_plan_memory(const dpti_program *program, size_t max_samples,
                                             const size_t *workspace_bytes, dpti_plan *out,
                                             dpt_error *error);
void dpti_plan_free(dpti_plan *plan); /* accepts a zeroed one */

#endif
