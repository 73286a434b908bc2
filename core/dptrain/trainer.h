/* The trainer: steps, device events, evaluation, prediction, and reading
   and writing single tensors.
   Part of the public API: programs include dptrain.h. */
#ifndef DPTRAIN_TRAINER_H
#define DPTRAIN_TRAINER_H

#include "dptrain/callback.h"
#include "dptrain/data.h"
#include "dptrain/device.h"
#include "dptrain/model.h"
#include "dptrain/split.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A trainer: one replica of a model on every device of a set, and the loop that keeps the replicas
   equal. */
typedef struct dpt_trainer dpt_trainer;

typedef enum dpt_optimizer { DPT_OPTIMIZER_SGD = 0, DPT_OPTIMIZER_ADAMW = 1 } dpt_optimizer;

typedef enum dpt_loss {
    DPT_LOSS_CROSS_ENTROPY = 0, /* softmax cross-entropy with the label */
    /* The losses below compare the model's outputs with the data's targets, which are (count,
       outputs).  The loss of a sample is the mean over its outputs; the loss of a step is the mean
       over all elements of the global batch, as PyTorch's losses compute it by default.  With
       y an output and t its target: */
    DPT_LOSS_SQUARED_ERROR = 1,  /* (y - t)^2 */
    DPT_LOSS_ABSOLUTE_ERROR = 2, /* |y - t|, as L1Loss; the gradient at y = t is 0 */
    /* As HuberLoss: (y - t)^2 / 2 up to |y - t| = delta, above that delta * (|y - t| - delta / 2),
       with delta the option `huber_delta`. */
    DPT_LOSS_HUBER = 3,
    /* -t * log(sigmoid(y)) - (1 - t) * log(1 - sigmoid(y)), as BCEWithLogitsLoss, computed so that
       nothing overflows.  Outputs are logits, and every output is a yes-or-no question of its own.
       Targets are probabilities from 0 to 1; the library does not check that they are. */
    DPT_LOSS_BINARY_CROSS_ENTROPY = 4,
    /* A function of the program (the option `own_loss`, callback.h), of the outputs and the data's
       targets, or of the outputs and the labels. */
    DPT_LOSS_OWN_OF_TARGETS = 5,
    DPT_LOSS_OWN_OF_LABELS = 6,
    /* The model's only output is the loss of a sample.  What it is compared with is an input of the
       model, and the data need no labels or targets.  A model of an ONNX file whose output is a
       loss (dpt_model_gives_loss) has this loss, also if cross-entropy is asked for. */
    DPT_LOSS_OUTPUT = 7,
} dpt_loss;

/* The samples over which batch-norm takes its statistics in training. */
typedef enum dpt_batch_norm_mode {
    DPT_BATCH_NORM_SYNC = 0, /* the global batch; training is then the same on any mix of devices */
    /* Each device's shard.  The running statistics, which evaluation uses and checkpoints store,
       are the mean over the devices, weighted by samples. */
    DPT_BATCH_NORM_LOCAL = 1,
    /* None: batch-norms normalise by their running statistics, which keep their bits, as modules of
       PyTorch do that are in evaluation mode.  Their weights and biases are trained.  Devices
       exchange nothing within a batch, and training is the same on any mix of devices. */
    DPT_BATCH_NORM_FROZEN = 2,
} dpt_batch_norm_mode;

/* The format between processes of gradients, or, with local steps, of what has changed in a round.
   Within one process everything is float32.  What rounding drops is kept and added to what is sent
   next (error feedback; docs/processes.md). */
typedef enum dpt_compression {
    DPT_COMPRESS_NONE = 0,    /* as float32 */
    DPT_COMPRESS_BF16 = 1,    /* rounded to bfloat16 */
    DPT_COMPRESS_INT8 = 2,    /* blocks of 256 integers of 8 bits with a common scale, a bfloat16 */
    DPT_COMPRESS_LOWRANK = 3, /* matrices of low rank (compress_rank), whose factors are rounded to
                                 bfloat16; other tensors as float32 */
} dpt_compression;

/* The distribution of the initial weights. */
typedef enum dpt_init_kind {
    DPT_INIT_DEFAULT = 0, /* that of PyTorch's layers */
    DPT_INIT_NORMAL = 1,  /* normal, with the given deviation; biases are 0 */
    DPT_INIT_XAVIER = 2,  /* Glorot and Bengio 2010; biases are 0 */
    DPT_INIT_HE = 3,      /* He et al. 2015; biases are 0 */
} dpt_init_kind;

typedef struct dpt_init {
    dpt_init_kind kind;
    double deviation; /* NORMAL only, from 1e-10 to 1e3; else 0 */
} dpt_init;

/* Random changes of each training image.  They are drawn anew in each epoch and keyed by the
   sample. */
typedef struct dpt_augment_options {
    size_t crop_padding; /* the image is padded by this many zeros on each side, and a random window
                            of the original size is taken */
    bool flip;           /* a horizontal flip, with probability 1/2 */
    float erase;         /* the probability of random erasing (Zhong et al. 2020) */
    /* For pictures in folders that are read on demand: a random window of the picture is scaled to
       the image, as by torchvision's RandomResizedCrop.  The window has at least this part of the
       picture's area, and 3/4 to 4/3 of the image's aspect ratio. torchvision's default is 0.08. 0:
       the centre of the picture is used. */
    float resized_crop;
} dpt_augment_options;

/* Random changes of the colours of each training image, as by torchvision's ColorJitter.  A factor
   of brightness, contrast and saturation is drawn from max(0, 1 - x) to 1 + x, and a turn of the
   hue from -x to x.  The four changes are made in a random order.  Images of bytes with 1 or 3
   channels only. */
typedef struct dpt_jitter_options {
    float brightness, contrast, saturation; /* from 0 to 1 */
    float hue;                              /* from 0 to 0.5 */
} dpt_jitter_options;

/* RandAugment (Cubuk et al. 2020), as torchvision has it: so many operations on each training
   image, drawn from 14.  Images of bytes with 1 or 3 channels only. */
typedef struct dpt_randaugment_options {
    size_t ops;       /* at most 6; 0: none; torchvision's default is 2 */
    size_t magnitude; /* from 0 to 30; torchvision's default is 9 */
} dpt_randaugment_options;

/* Tensors that are trained in another way than the rest. */
typedef struct dpt_parameter_group {
    /* The tensors whose names match, with the names that dpt_trainer_get takes.  In a pattern `*`
       stands for any characters, also for none: "layer1.*" has all tensors of that layer. */
    const char *pattern;
    float lr_factor;    /* the learning rate is multiplied by this number; from 0, which means 1, to
                           1e6 */
    float weight_decay; /* in place of the option of that name, if `has_weight_decay` */
    bool has_weight_decay;
    /* The tensors keep their bits: no update, no weight decay, no momentum.  Their gradients are 0,
       so that clipping does not count them.  The gradients of a layer are not computed if all of
       its tensors are frozen, nor is anything below the lowest layer that is trained.  Frozen
       tensors take no memory for gradients and for the optimizer's state, and devices exchange
       nothing for them.
       A batch-norm goes on to normalise by the statistics of the batch, unless the option
       `batch_norm` is DPT_BATCH_NORM_FROZEN.  Its running statistics
       are tensors too, such as "bn1.running_mean": they move, as in PyTorch, unless a pattern
       matches their names. */
    bool frozen;
} dpt_parameter_group;

typedef enum dpt_recompute {
    DPT_RECOMPUTE_AUTO = 0, /* on a device whose memory does not hold the activations of the fewest
                               samples that it can compute at once */
    DPT_RECOMPUTE_OFF = 1,
    DPT_RECOMPUTE_ON = 2,
} dpt_recompute;

/* What devices hold in parts and not each for itself. */
typedef enum dpt_shard {
    DPT_SHARD_NONE = 0,
    DPT_SHARD_OPTIMIZER = 1,  /* the optimizer's state */
    DPT_SHARD_GRADIENTS = 2,  /* the optimizer's state and the sums of gradients */
    DPT_SHARD_PARAMETERS = 3, /* the optimizer's state, the sums of gradients, and the parameters */
    DPT_SHARD_AUTO = 4,       /* an option only: the trainer chooses */
} dpt_shard;

typedef struct dpt_trainer_options {
    size_t size;       /* sizeof(dpt_trainer_options) */
    size_t batch_size; /* samples of the global batch, at most the data's count; default 256, or the
                          data's count if that is less */
    /* Number of batches in a step.  A step computes this many batches one after the other and adds
       up their gradients before devices exchange them.  The step equals the step of one batch of
       that total size, except that batch-norm takes its statistics over each batch. 0 means 1. With
       `deterministic` the two steps have the same bits, and a batch-norm must be
       DPT_BATCH_NORM_FROZEN (else DPT_E_INVALID). */
    size_t accumulate;
    /* Largest number of samples that a device computes at once. 0: as many as the device's memory
       holds, and no more than its caches hold in a model without batch-norm, or with
       DPT_BATCH_NORM_FROZEN. */
    size_t micro_batch;
    dpt_split split; /* the rule by which a batch is divided into shards */
    /* Disables standby.  Standby applies with a measured split, in one process and without
       stop_on_loss.  A device that slows the others down, whatever its shard is, is put on standby:
       it takes no part in steps while measurements show that steps are faster without it.  Every
       now and then a trial measures again whether this is still so.  The library changes the set of
       standby devices, and updates their stale replicas, in a submit with no step in flight.  A
       program that keeps steps in flight must therefore collect all of them now and then.  With
       no_standby all devices always take part.  no_rest is the name of version 0.1 for the same
       field.  It is removed in the next version. */
    union {
        bool no_standby;
        bool no_rest;
    };
    /* By default devices exchange gradients in buckets while the backward pass still runs.  With
       no_overlap devices exchange all gradients at once after the backward pass.  The weights are
       the same to the bit, unless `compress` is set. */
    bool no_overlap;
    dpt_compression compress; /* between processes (docs/processes.md) */
    /* Smallest size in bytes of the first bucket.  The other buckets have an eighth of all weights.
       0: 256 KiB; between processes that do not compress, both sizes follow from the measured cost
       of sums.  A layer with more than an eighth of all weights is computed in parts whose size
       follows from this number.  So the bits of the result depend on this option, but not on what
       is measured. */
    size_t bucket_bytes;
    dpt_optimizer optimizer;
    float lr;             /* default 0.1, of AdamW 0.001 */
    size_t lr_base_batch; /* if set, lr belongs to a batch of this size and is scaled linearly to
                             the samples of a step */
    float momentum, weight_decay;
    bool nesterov;
    bool no_bias_decay;          /* no weight decay on biases and on the parameters of norms */
    float beta1, beta2, epsilon; /* of AdamW; defaults 0.9, 0.999, 1e-8 */
    float clip_norm;             /* largest global norm of the gradient; 0: none */
    dpt_loss loss;
    float label_smoothing; /* in [0, 1); evaluation does not use it */
    dpt_batch_norm_mode batch_norm;
    dpt_augment_options augment;
    dpt_init init;
    uint64_t seed;
    bool no_shuffle; /* take the samples in the order of the data */
    /* true: the failure of a device ends the call in which the device fails, and the program may
       try again with the same device. false: training goes on with the other devices
       (docs/reliability.md). */
    bool stop_on_loss;
    /* Time limit in seconds of one call into a device's backend, in a step, an evaluation or a
       transfer of weights.  A device that exceeds the limit is lost, and is abandoned when the
       trainer is destroyed. 0: 60 seconds, or 20 times the longest step so far if that is more; ten
       minutes before the first step.  While a device is prepared, which compiles and measures, the
       limit is ten times as long.  If the preparation in dpt_trainer_create exceeds its limit,
       dpt_trainer_create fails; later the device is lost. */
    double device_timeout;
    /* Number of steps between two comparisons of the replicas; 0: never.  Before such a step each
       device computes a hash of its training state.  A replica that differs from the others is
       restored from them, and takes part in the step (docs/reliability.md).  In one process only
       (else DPT_E_INVALID). */
    size_t verify_replicas;
    /* Seconds after the loss of a device until the first attempt to readmit it; 0: never.  Each
       following pause is twice as long, up to 64 times this value.  A device that answers is opened
       anew, gets the training state of the others, and takes part again from the next step that is
       submitted with no step in flight.  In one process only, and not with stop_on_loss (else
       DPT_E_INVALID).  After a readmission the results of earlier calls of dpt_trainer_operation
       for the device are no longer valid. */
    double readmit_after;
    float huber_delta; /* DPT_LOSS_HUBER only, from 1e-20 to 1e20; default 1; else 0 */
    /* (n_class_weights) a weight for each class, as PyTorch's CrossEntropyLoss(weight=...) has it;
       NULL: every class has the weight 1.  The loss of a step is the sum of w[y] * loss over all
       labels y of the global batch, divided by the sum of w[y]; so the loss does not depend on how
       the batch is divided among devices.  A batch whose labels all have the weight 0 has the loss
       0.  Evaluation does not use the weights.  Weights are finite, at least 0, and not all 0;
       n_class_weights is dpt_model_outputs of the model.  Only with cross-entropy and without label
       smoothing (else DPT_E_INVALID).  The trainer copies them. */
    const float *class_weights;
    size_t n_class_weights;
    /* (n_groups) groups of tensors; NULL: none.  Of several groups that match a tensor, the first
       one counts.  Errors: DPT_E_INVALID if a group matches no tensor, or a number is out of range.
       The trainer does not keep the array. */
    const dpt_parameter_group *groups;
    size_t n_groups;
    /* The function of DPT_LOSS_OWN_OF_TARGETS and DPT_LOSS_OWN_OF_LABELS, and what it is given;
       NULL with other losses.  Also for evaluation. */
    dpt_loss_function own_loss;
    void *own_loss_user;
    /* Weights, running statistics, losses and evaluations have the same bits on any devices that
       support it, with any shares and micro-batches (docs/reproducibility.md).  DPT_E_UNSUPPORTED,
       with the device or the layer, if a device or a layer cannot do it; DPT_E_INVALID with
       `compress`, DPT_BATCH_NORM_LOCAL, `accumulate` above 1 where a batch-norm takes statistics,
       and functions of the program that do not say that they are deterministic. */
    bool deterministic;
    /* own_loss gives the same bits for the same sample on every machine, as
       dpt_operator_options.deterministic says it of an operator.  Ignored with other losses. */
    bool own_loss_deterministic;
    /* Whether values of the forward pass are computed again in the backward pass and not kept: less
       memory for activations, more operations, the same bits. */
    dpt_recompute recompute;
    /* With the cross-entropy of several labels a sample, behind a linear layer: for how many labels
       logits, loss and gradients are computed at a time, so that the logits of all labels are never
       in memory at once.  0: the device's memory and caches decide.  With `deterministic` it is all
       samples or those of a grain. */
    size_t logit_rows;
    /* More changes of each training image, drawn like those of `augment`.  The order is crop, flip,
       rotation, RandAugment, jitter, erase. */
    float rotate; /* the greatest angle in degrees, from 0 to 180, to both sides.  The nearest pixel
                     is taken, and what was outside of the image is zero. */
    dpt_jitter_options jitter;
    /* Mixup and CutMix: each sample is mixed with the next one of its batch, by a lambda of
       Beta(alpha, alpha), and its loss is lambda times that of its own label and 1 - lambda times
       that of the other one.  A correct prediction is the label with the larger part.  The numbers
       are alpha, from 0.01 to 100; 0: not used.  With both, each has half of the samples, at
       random. Only with cross-entropy, one label a sample and no class weights (else
       DPT_E_INVALID). */
    float mixup, cutmix;
    dpt_randaugment_options randaugment; /* behind the rotation, before the jitter */
    /* Local steps, for slow networks (docs/processes.md).  Processes take so many steps by
       themselves, each on its part of the global batch: a round.  Then they exchange what has
       changed, and take an outer step with its mean: SGD with Nesterov's rule.  A round also ends
       with an epoch, and by dpt_trainer_end_round.  0: processes share each step.  1 with an
       outer_lr of 1 and no_outer_momentum is the same.  DPT_E_INVALID with one process, and, unless
       it is the same, with `accumulate` and `deterministic`. */
    size_t local_steps;
    float outer_lr;         /* from 1e-6 to 10; default 0.7 */
    float outer_momentum;   /* in [0, 1); default 0.9 */
    bool no_outer_momentum; /* the outer momentum is 0 */
    /* DPT_SHARD_OPTIMIZER: the optimizer's state is divided among the devices in proportion to the
       memory that each has left, and each device updates its part of the parameters.  The bits are
       those of a training without it, and files are the same.  Host memory holds a copy of the
       training state, so that the loss of a device loses nothing.  No device is put on standby.  A
       training with one device, or whose optimizer has no state, is not changed.  With several
       processes the devices are those of all of them.  Each process has two such copies, and each
       process sends its part of the training state to every other one in each step.  DPT_E_INVALID
       with local_steps.

       DPT_SHARD_GRADIENTS: so is the state of every optimizer, and a device keeps of the summed
       gradients only those of its part.  It keeps its own gradients of a bucket until the bucket is
       summed.  With several micro-batches, host memory keeps them between micro-batches.
       DPT_E_INVALID with no_overlap, and with `deterministic` if gradients follow from sums over
       the batch (of weights that several layers share, or of a weight-norm).

       DPT_SHARD_PARAMETERS: so are parameters.  A device keeps the weights of its part, and all
       biases, parameters of norms and running statistics.  It gathers other weights, and those that
       are frozen, from the host's copy before a layer needs them, in each forward and backward
       pass, and keeps them until another layer needs its own.  A device needs room for the largest
       tensor at once.  DPT_E_INVALID as for DPT_SHARD_GRADIENTS.

       DPT_SHARD_AUTO: the trainer chooses the cheapest combination of `shard`, `offload` and, with
       DPT_RECOMPUTE_AUTO, `recompute` with which the training fits: nothing, if it fits as it is.
       dpt_trainer_candidate tells what it has tried.  Combinations that would be refused are not
       tried.  Nothing is chosen anew while the trainer exists, also when devices are lost.
       DPT_E_INVALID with `offload`, which is chosen, too, and over several processes. */
    dpt_shard shard;
    /* With local steps: the exchange of a round runs while the next round goes on, and the outer
       step is taken behind so many of its steps (docs/processes.md).  A process keeps what it has
       learnt meanwhile.  All processes have the same weights at the end of an epoch and behind
       dpt_trainer_end_round only; the optimizer's state and running statistics become the mean
       there only.  0: the processes wait.  Less than local_steps (else DPT_E_INVALID). */
    size_t outer_delay;
    /* With an outer delay: the parameters are exchanged in so many fragments, one after the other,
       at equal distances within a round (Streaming DiLoCo).  Each is exchanged once in a round.
       outer_delay is less than the distance, local_steps / outer_fragments rounded down (else
       DPT_E_INVALID).  0 or 1: in one. */
    size_t outer_fragments;
    /* The parts of `shard` are held by the CPUs of a mix alone, in proportion to the memory that
       each has left, and these do the update; without `shard`, DPT_SHARD_OPTIMIZER is meant.  Other
       devices hold nothing of what is divided.  Bits and files are the same.  If no CPU is left,
       the devices that are left hold the parts.  DPT_E_INVALID without a CPU, without a device that
       is none, and where there is nothing to divide. */
    bool offload;
    /* With DPT_COMPRESS_LOWRANK: the rank of the matrices, from 1 to 256.  0: 4.  Gradients are
       exchanged after the backward pass, as with no_overlap.  DPT_E_INVALID with another
       compression, and with local steps. */
    size_t compress_rank;
} dpt_trainer_options;

/* Creates a trainer: prepares every operator on every device and allocates all memory.  Several
   trainers may use one device set.  `options` may be NULL: all defaults.  The model, the data set
   and the device set must outlive the trainer.  The caller owns `out` and destroys it with
   dpt_trainer_destroy.  A device that is lost meanwhile, while others are left,
   takes no part in training (dpt_trainer_next_event tells), unless `stop_on_loss` is set.  Errors:
   DPT_E_INVALID if an option is out of range, the data do not fit the model's input or classes, or
   another pointer is NULL (no message if `devices` is NULL); DPT_E_UNSUPPORTED if a device cannot
   compute a layer (the message names both); DPT_E_IO if the weights of a network's file cannot be
   read (dpt_model_from_onnx); DPT_E_NO_MEMORY; DPT_E_DEVICE_LOST if a device does not
   answer, or is lost and no other is left; the devices' own failures. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_create(dpt_device_set *devices,
                                                       const dpt_model *model,
                                                       const dpt_dataset *data,
                                                       const dpt_trainer_options *options,
                                                       dpt_trainer **out);
/* Destroys a trainer.  Accepts NULL.  Cannot fail; a device that does not answer keeps its memory
   (dpt_context_abandoned). */
DPT_API void dpt_trainer_destroy(dpt_trainer *trainer);

/* Returns the number of devices that the trainer trains on.  With one process these are the devices
   of the set.  With several processes these are the devices of all processes, in the order of ranks
   and then of their lists.  The functions below number devices in this order.  Cannot fail. */
DPT_API size_t dpt_trainer_device_count(const dpt_trainer *trainer);
/* Returns the number of scalars that are trained: those of dpt_model_parameter_count without
   tensors that a group freezes.  Cannot fail. */
DPT_API size_t dpt_trainer_trained_count(const dpt_trainer *trainer);
/* What the devices hold in parts.  DPT_SHARD_NONE, whatever the option `shard` asks for, where
   there is nothing to divide: with one device, or for DPT_SHARD_OPTIMIZER an optimizer without
   state.  Cannot fail. */
DPT_API dpt_shard dpt_trainer_sharded(const dpt_trainer *trainer);
/* Whether the CPUs hold these parts for all devices (dpt_trainer_options.offload).  False while no
   CPU is left.  Cannot fail. */
DPT_API bool dpt_trainer_offloaded(const dpt_trainer *trainer);
/* Describes a device of the trainer.  The trainer owns the strings.  Errors: DPT_E_INVALID if there
   is no such device. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_device(const dpt_trainer *trainer, size_t device,
                                                       dpt_device_info *out);

typedef struct dpt_step_metrics {
    size_t size;  /* sizeof(dpt_step_metrics), to be set before the call */
    size_t step;  /* from 1 */
    size_t epoch; /* from 1 */
    bool last_of_epoch;
    double lr;      /* the learning rate of the update */
    size_t samples; /* of the global batch */
    double loss;    /* mean over the labels of the global batch, weighted by class_weights */
    size_t hits;    /* correctly classified labels; 0 with a loss of targets */
    double seconds; /* from the end of the previous step, or from the start of this step if no step
                       was in flight */
    double data_seconds; /* part of `seconds` in which no step was computed because images that are
                            read on demand were not ready in this process */
    size_t n_devices;
    const size_t
        *shards; /* (n_devices) samples of each device.  This array and those below are valid until
                    the second next step, or until a step in which a device is lost */
    const double *device_seconds;   /* (n_devices) busy time in seconds: computing, by the device's
                                       clock, and the device's own part of uploads and exchanges */
    const double *exchange_seconds; /* part of device_seconds: uploads, and the part in exchanges */
    const double *waiting_seconds;  /* time in seconds that the device waited for other devices */
    const char *rebalance;    /* why the shards differ from those of the step before, or NULL */
    const double *throughput; /* modelled samples per second of each device; 0 until known */
    size_t n_lost;            /* number of lost devices */
    size_t labels; /* labels of the global batch that are not ignored: `loss` is the mean over them,
                      and `hits` counts them.  Equal to `samples` with one label a sample */
    double round_seconds; /* part of `seconds`: the exchange at the end of a round of local steps; 0
                             if the step ends no round */
} dpt_step_metrics;

/* Makes one step: scatter, forward pass, backward pass, all-reduce and update.  All devices vote
   before any training state changes, and the step is committed only if all votes agree.

   After a failure before the commit, the training state and the position in the data are those
   before the step; another call tries the same batch again.  If a device fails during the update of
   a committed step, the call fails too, but the step counts (see dpt_trainer_steps): the other
   replicas have the update, and the next submit restores the device's replica from them.

   Loss of a device.  A device that fails in any call, except by running out of memory, is lost
   together with the other devices of its fault domain.  The same batch is divided among the
   remaining devices and retried, and training goes on without the lost devices
   (dpt_trainer_next_event reports them).  The call fails because of a lost device only if no device
   would be left, if the remaining devices cannot hold a batch, or with the option stop_on_loss.

   Out of memory.  With the split "measured", if a device runs out of memory before the commit, the
   step is retried with the same samples, and that device gets fewer samples from then on.  If a
   device has no memory for the update while another device has made the update, and stop_on_loss is
   not set, the replica is restored at once; if the same happens in the next step, the device is
   lost.  In both cases the call does not fail.

   Errors: DPT_E_NOT_FINITE if the loss or a gradient is not finite; the message names the step, and
   the devices unless it was so on all devices; no training state has changed.  DPT_E_NO_MEMORY if a
   device runs out of memory with another split, or all devices together cannot hold a batch.
   DPT_E_DEVICE and DPT_E_DEVICE_LOST: see above.  DPT_E_STATE within dpt_fit or if steps are in
   flight.  Failures of reading images. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_step(dpt_trainer *trainer, dpt_step_metrics *out);

/* dpt_trainer_step in two halves, so that devices never wait for the host. dpt_trainer_submit
   enqueues the next step and returns. dpt_trainer_collect waits for the oldest step in flight and
   writes its metrics.  At most two steps may be in flight.

   Errors of submit: DPT_E_STATE if two steps are in flight, if a round of local steps ends behind
   those in flight, or within dpt_fit; failures of reading images (dpt_dataset_from_reader), after
   which the steps in flight stay in flight.  Errors of collect: DPT_E_STATE if no step is in
   flight; those of dpt_trainer_step.  After any other failure all steps in flight are dropped and
   not committed.  If a step in flight must be submitted again, and its images cannot be read, the
   collect of that step fails, unless a submit before it succeeds for both steps. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_submit(dpt_trainer *trainer);
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_collect(dpt_trainer *trainer,
                                                        dpt_step_metrics *out);
/* Ends a round of local steps behind the steps that were collected: all processes call it, at the
   same step, exchange what has changed, and go on from the same weights.  Where a round ends by
   itself, the collect of its last step does this, and no step may be submitted before
   (DPT_E_STATE). The same is true of a step behind which a delayed outer step is taken. Within a
   round each process has weights of its own, which dpt_trainer_get reads; calls that need the
   weights of all processes, such as evaluations and saving, fail with DPT_E_STATE.  Does nothing if
   no round is open.  Errors: DPT_E_STATE within dpt_fit or if steps are in flight; DPT_E_INVALID,
   in all processes, if one of them takes a step instead or has taken more steps; DPT_E_NOT_FINITE;
   the failures of devices and of the transport.  After a failure there are no weights: load a
   state. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_end_round(dpt_trainer *trainer);
/* Returns the number of steps in flight, 0 to 2.  Cannot fail. */
DPT_API size_t dpt_trainer_in_flight(const dpt_trainer *trainer);
/* Returns the number of steps that the weights contain.  Cannot fail. */
DPT_API size_t dpt_trainer_steps(const dpt_trainer *trainer);

/* The kind of a device event. */
typedef enum dpt_device_event_kind {
    DPT_DEVICE_LOST = 0, /* the device takes no part from this step on */
    DPT_DEVICE_NOT_FINITE =
        1, /* the loss or the gradients of this device were not finite, while those of another
              device were; the call that makes the step fails with DPT_E_NOT_FINITE */
    DPT_REPLICA_RESTORED =
        2, /* the device's replica differed from the others before this step, or had missed the
              update of the step before because the device had no memory for it; it was restored */
    DPT_DEVICE_READMITTED = 3, /* the device was lost and takes part again from this step on */
    DPT_ISLAND_LOST = 4,    /* the device is the first of an island whose communicator failed; from
                               this step on its devices exchange gradients through the host */
    DPT_DEVICE_STANDBY = 5, /* the device is put on standby, because steps are faster without it */
    DPT_DEVICE_PRESENT = 6, /* the device was on standby and takes part again */
    DPT_STEPS_IN_SEGMENTS =
        7, /* the device trains alone, but cannot use single-launch steps; it goes on with steps in
              several segments, which are slower and give the same bits */
    DPT_DEVICE_JOINED = 8, /* the device takes part from this step on, because its process has come
                              to the job (dptrain/process.h) */
    /* The names of version 0.1 for three of these.  They are removed in the next version. */
    DPT_DEVICE_RESTS = DPT_DEVICE_STANDBY,
    DPT_DEVICE_WAKES = DPT_DEVICE_PRESENT,
    DPT_STEPS_IN_PARTS = DPT_STEPS_IN_SEGMENTS
} dpt_device_event_kind;

typedef struct dpt_device_event {
    size_t size; /* sizeof(dpt_device_event), to be set before the call */
    dpt_device_event_kind kind;
    size_t device;     /* the number of the device: see dpt_trainer_device */
    const char *id;    /* as in dpt_device_info */
    size_t step;       /* the first step without the device, or with it again; from 1 */
    dpt_status status; /* why */
    const char
        *message; /* the reason in words; valid until the next call of dpt_trainer_next_event */
} dpt_device_event;

/* Takes the oldest event that the program has not taken yet.  Returns false if there is no such
   event; *out is then unchanged.  Always false within the callbacks of dpt_fit, because dpt_fit
   passes events to `progress`.  Cannot fail. */
DPT_API bool dpt_trainer_next_event(dpt_trainer *trainer, dpt_device_event *out);

/* Sets the learning rate, from the next submitted step on.  If processes set different learning
   rates, that step fails in all processes with DPT_E_INVALID.  Errors: DPT_E_INVALID if `lr` is not
   in (0, 1e6]; DPT_E_STATE within dpt_fit. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_set_lr(dpt_trainer *trainer, float lr);

typedef struct dpt_evaluation {
    size_t size; /* sizeof(dpt_evaluation), to be set before the call */
    size_t samples, hits;
    double loss, accuracy; /* means over the labels; with a loss of targets `hits` and
                              `accuracy` are 0 */
    double seconds;
    size_t labels; /* that are not ignored; with one label a sample, the number of samples */
} dpt_evaluation;

/* Computes loss and accuracy over a data set, on all devices, in the proportions of the split.
   Errors: DPT_E_STATE if a step is in flight; DPT_E_INVALID if the data do not fit the model;
   DPT_E_NOT_FINITE if the loss is not finite, for example because the weights have overflowed;
   DPT_E_NO_MEMORY; failures of reading images; the devices' own failures if no device is left.
   With several processes, of dpt_trainer_predict too: DPT_E_INVALID if a process has other weights,
   or data of another size, than process 0. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_evaluate(dpt_trainer *trainer,
                                                         const dpt_dataset *data,
                                                         dpt_evaluation *out);

/* Computes the outputs of samples first to first + count - 1 of a data set and writes them to
   `outputs` (count, labels, n), with the numbers that dpt_model_labels and dpt_model_outputs
   return.  The outputs are class probabilities, which are the softmax of the
   logits.  With DPT_LOSS_BINARY_CROSS_ENTROPY the outputs are the sigmoid of each logit.  With the
   other losses of targets the outputs are the model's predictions as they are.
   Errors: DPT_E_STATE if a step is in flight; DPT_E_INVALID if the samples do not exist or do not
   fit the model, and as for dpt_trainer_evaluate with several processes; DPT_E_NO_MEMORY; failures
   of reading images; the devices' own failures if no device is left. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_predict(dpt_trainer *trainer,
                                                        const dpt_dataset *data, size_t first,
                                                        size_t count, float *outputs);

typedef enum dpt_tensor_kind {
    DPT_PARAMETER = 0, /* and running statistics */
    DPT_GRADIENT = 1,  /* of the last step, reduced over the devices */
    DPT_VELOCITY = 2,  /* SGD's, or AdamW's first moment; DPT_E_NOT_FOUND without momentum */
    DPT_SQUARES = 3,   /* AdamW's second moment; DPT_E_NOT_FOUND for SGD */
} dpt_tensor_kind;

/* dpt_trainer_get reads a tensor from the replica of one device of this process.  dpt_trainer_set
   writes a tensor to every replica.  Both use the layout of a checkpoint.  `size` must be the
   tensor's number of elements.  If a device fails during dpt_trainer_set, the call fails, but the
   other devices have the new values; the next step or evaluation restores the failed device from
   the others.  Several processes must write or load the same values; otherwise the next step fails
   in all processes with DPT_E_INVALID.
   Errors of both: DPT_E_STATE if a step is in flight; DPT_E_INVALID for a wrong kind or size;
   DPT_E_NOT_FOUND for a tensor that does not exist; DPT_E_NO_MEMORY; the devices' own failures.
   dpt_trainer_get: DPT_E_INVALID if the device is not one of this process; DPT_E_DEVICE_LOST if the
   device is lost.  dpt_trainer_set: DPT_E_STATE within dpt_fit, or if no device holds valid weights
   any more. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_get(dpt_trainer *trainer, size_t device,
                                                    dpt_tensor_kind kind, const char *name,
                                                    float *out, size_t size);
DPT_API DPT_CHECK_RESULT dpt_status dpt_trainer_set(dpt_trainer *trainer, dpt_tensor_kind kind,
                                                    const char *name, const float *values,
                                                    size_t size);

#ifdef __cplusplus
}
#endif

#endif
