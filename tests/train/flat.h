/* Small coloured images, a residual network for them, and runs of any model whose flat buffers are
   inspected. */
#ifndef DPT_TEST_FLAT_H
#define DPT_TEST_FLAT_H

#include "train/interpreter.h"
#include "train/state/trainer.h"

enum {
    FLAT_SIDE = 8,
    FLAT_CHANNELS = 3,
    FLAT_PIXELS = FLAT_SIDE * FLAT_SIDE * FLAT_CHANNELS,
    FLAT_CLASSES = 5,
    FLAT_BATCH = 29,
    FLAT_COUNT = 7 * FLAT_BATCH + 11, /* the last batch has 11; 20 steps are two epochs and 4 */
    FLAT_STEPS = 20,
};

/* The first `count` of FLAT_COUNT images.  A class has a colour and a place.  With `order` not 0
   each run of FLAT_BATCH is permuted, from that seed. */
DPT_CHECK_RESULT dpt_status flat_data(dpt_context *context, size_t count, uint64_t order,
                                      dpt_dataset **out);

/* Images of that shape, and their labels. */
typedef struct flat_images {
    size_t count;
    const uint8_t *pixels; /* (count, FLAT_PIXELS) */
    const uint8_t *labels; /* (count) */
} flat_images;

/* A data set of a copy of these, normalised as that of flat_data. */
DPT_CHECK_RESULT dpt_status flat_data_of(dpt_context *context, const flat_images *images,
                                         dpt_dataset **out);

/* Two residual blocks, the second with a shortcut of its own; convolutions with biases. */
DPT_CHECK_RESULT dpt_status flat_residual(dpt_context *context, dpt_model **out);

/* Of SGD; zeros stand for FLAT_RATE and biases as they are initialised. */
typedef struct flat_training {
    float lr;
    float norm_bias; /* first value of the biases of norms: lifts values off ReLU's kink, where a
                        rounding error changes a gradient by a thousandth in a deep network */
} flat_training;

/* Layers whose result depends on the sample alone: tanh, layer-norm, GELU, dropout (its mask
   depends on the sample's index), a sum and max-pooling.  Returns what comes behind an input of
   that shape. */
dpt_value flat_dropout_trunk(dpt_model *m);

typedef struct flat_task {
    const dpt_model *model;
    const dpt_dataset *data;
    flat_training training;
    const char *devices, *split; /* devices: "A|B": of two processes (processes.h) */
    size_t batch, accumulate, micro_batch, steps;
    dpt_batch_norm_mode mode;
    dpt_compression compress;
    size_t compress_rank; /* as that of dpt_trainer_options */
    bool no_overlap, deterministic;
    dpt_recompute recompute;
    size_t bucket_bytes; /* as those of dpt_trainer_options */
} flat_task;

/* What came of it. */
typedef struct flat_outcome {
    float *weights, *gradients; /* of the first device, after the last step */
    double losses[FLAT_STEPS];
    size_t n_devices;
    size_t shards[8], at_once[8]; /* of the last step; the most samples of a micro-batch */
    bool replicas_agree;          /* to the bit, running statistics and velocity included */
    dpti_link_probe link_probe;   /* what was measured before, */
    dpti_bucket_sizes buckets;    /* and chosen by it: */
    bool choices_agree;           /* the same in all processes */
} flat_outcome;

/* Trains from the default initialisation, seed 1, in the order of the data, with momentum
   FLAT_MOMENTUM, weight decay FLAT_DECAY.  The context has the message of a failure.  Free the
   outcome in any case. */
#define FLAT_RATE     0.05f
#define FLAT_MOMENTUM 0.9f
#define FLAT_DECAY    1e-3f
DPT_CHECK_RESULT dpt_status flat_run(dpt_context *context, const flat_task *task,
                                     flat_outcome *out);
/* The same on devices that are open. */
DPT_CHECK_RESULT dpt_status flat_train(dpt_device_set *devices, const flat_task *task,
                                       flat_outcome *out);
void flat_free(flat_outcome *outcome);

/* One step of that training from the default initialisation, up to the commit: samples 0, 1, 2 ...
   of the data, so many each virtual device, whose gradients are not exchanged in buckets unless
   the task says of which size. */
DPT_CHECK_RESULT bool flat_interpret(const flat_task *task, size_t n_devices, const size_t *shards,
                                     interpreter *out);

/* Per parameter, |gradients - reference|. */
void flat_errors(const dpt_model *m, const float *gradients, const double *reference,
                 double *errors);
/* A parameter whose true gradient is zero, so that what is computed is rounding errors: it feeds a
   batch-norm, or nothing but batch-norms that subtract it again behind a ReLU that lets it all
   through. */
bool flat_gradient_is_zero(const dpt_model *m, size_t parameter, const double *reference);
/* |gradients - reference| <= 4 errors + 1e-7 |reference| for every parameter but those.  `worst`,
   which may be NULL, gets the first one that is out of bounds. */
bool flat_gradients_agree(const dpt_model *m, const float *gradients, const double *reference,
                          const double *errors, const char **worst);
/* The 2-norm of a - b, without the same parameters. */
double flat_distance(const dpt_model *m, const float *a, const float *b);
/* The part of one parameter in it. */
double flat_parameter_distance(const dpt_model *m, size_t parameter, const float *a,
                               const float *b);

#endif
