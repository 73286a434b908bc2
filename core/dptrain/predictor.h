/* The predictor: the outputs of a model on the devices of a set, without a trainer.
   Part of the public API: programs include dptrain.h. */
#ifndef DPTRAIN_PREDICTOR_H
#define DPTRAIN_PREDICTOR_H

#include "dptrain/data.h"
#include "dptrain/device.h"
#include "dptrain/model.h"
#include "dptrain/split.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A model with its weights on every device of a set, for predictions alone.  A predictor takes the
   memory of the forward pass and of one copy of the weights on each device.  It has no gradients
   and no state of an optimizer. */
typedef struct dpt_predictor dpt_predictor;

typedef struct dpt_predictor_options {
    size_t size;         /* sizeof(dpt_predictor_options) */
    const char *weights; /* a file that dpt_trainer_save or dpt_fit has written; NULL: the weights
                            of the ONNX file that the model was made of */
    size_t micro_batch;  /* largest number of samples that a device computes at once; default 64.  A
                            device whose memory does not hold so many computes fewer */
    /* What the samples are.  `like`: they have the type and the normalisation of this data set,
       which is not read.  NULL: the next three fields tell. */
    const dpt_dataset *like;
    dpt_dtype dtype;             /* DPT_F32 or DPT_U8; for a model that reads ids always DPT_I32 */
    float mean[4], deviation[4]; /* as in dpt_dataset_memory */
    bool logits;                 /* outputs are the logits, or the predictions of a regression; by
                                    default they are probabilities, the softmax of the logits.  An
                                    output of integers, as of ArgMax, is what it is */
    /* The rule by which the samples of a call are divided among the devices.  DPT_SPLIT_MEASURED:
       each device takes the next samples as soon as it has computed those before.
       DPT_SPLIT_EQUAL and DPT_SPLIT_PROPORTIONS give fixed shards, so that a call has the same bits
       whenever it is repeated.  DPT_SPLIT_REPLAY is not allowed. */
    dpt_split split;
    double device_timeout; /* seconds that a device may take for one call of its driver, and ten
                              times as many while it is prepared; it is lost after that time; 0: ten
                              minutes */
    bool sigmoid; /* outputs are the sigmoid of each logit, the probabilities of a model that was
                     trained with DPT_LOSS_BINARY_CROSS_ENTROPY.  Not with `logits` (else
                     DPT_E_INVALID) */
    /* Outputs have the same bits on any devices that support it, with any split, and they are those
       that a deterministic trainer evaluates (dpt_trainer_options.deterministic).  With a device, a
       layer or a function of the program that cannot do it the errors are those of
       dpt_trainer_create. */
    bool deterministic;
} dpt_predictor_options;

/* Creates a predictor: prepares the forward pass on every device and copies the weights.  `options`
   may be NULL: all defaults.  `model` must be finished.  The model and the device set must outlive
   the predictor; the data set `like` need not.  Several predictors may use one model and one device
   set, also beside trainers.  A device that is lost meanwhile takes no part if another device is
   left (dpt_predictor_lost counts it).  The caller owns `out` and destroys it with
   dpt_predictor_destroy.

   Only the devices of this process take part; every process of several may have predictors of its
   own.

   Errors: DPT_E_INVALID if an option is out of range, `size` is 0, the file's weights belong to
   another model, or the model has no weights and no file is given (no message if `devices` is
   NULL); DPT_E_NOT_FOUND; DPT_E_IO; DPT_E_FORMAT for a damaged file; DPT_E_UNSUPPORTED if a device
   cannot compute a layer (the message names both); DPT_E_NO_MEMORY; the devices' own failures. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_predictor_create(dpt_device_set *devices,
                                                         const dpt_model *model,
                                                         const dpt_predictor_options *options,
                                                         dpt_predictor **out);
/* Destroys a predictor.  Accepts NULL.  Cannot fail; a device that does not answer keeps its memory
   (dpt_context_abandoned). */
DPT_API void dpt_predictor_destroy(dpt_predictor *predictor);

enum { DPT_WHY_BYTES = 512 };

/* Computes the outputs of `count` samples.  `samples` is (count, height, width, channels) of the
   predictor's type, or (count, ids).  `outputs` is (count, labels, n), with the numbers that
   dpt_model_labels and dpt_model_outputs return.  If a logit of a sample is not finite, all
   probabilities of the sample are NaN.

   Several threads may call this function at the same time, with one predictor or with several of
   one context.  The calls on one predictor are computed one after the other.  Therefore the message
   of a failure is not in the context: it is written into `why`, which may be NULL.

   If a device fails, except by running out of memory, it is lost, and the other devices compute its
   samples.  Errors: DPT_E_INVALID if a pointer is NULL, an id is out of range, or the model has
   several inputs; DPT_E_NO_MEMORY;
   the devices' own failures if no device is left.  After a failure `outputs` is undefined. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_predictor_run(dpt_predictor *predictor, const void *samples,
                                                      size_t count, float *outputs,
                                                      char why[DPT_WHY_BYTES]);
/* Computes the outputs of samples first to first + count - 1 of a data set.  The data set must have
   the type of the predictor's samples; its normalisation is not used.  Images that are read on
   demand are read.  Otherwise as dpt_predictor_run.  Errors: as dpt_predictor_run; DPT_E_INVALID
   also if the samples do not exist or do not fit the model; failures of reading images. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_predictor_run_data(dpt_predictor *predictor,
                                                           const dpt_dataset *data, size_t first,
                                                           size_t count, float *outputs,
                                                           char why[DPT_WHY_BYTES]);

/* Returns the number of lost devices.  Cannot fail. */
DPT_API size_t dpt_predictor_lost(dpt_predictor *predictor);
/* What a predictor knows of one of its devices.  The predictor owns the strings. */
typedef struct dpt_predictor_device_info {
    size_t size;    /* sizeof(dpt_predictor_device_info), to be set before the call */
    const char *id; /* as in dpt_device_info */
    size_t bytes;   /* of the device's memory that the predictor takes; 0 if the device is lost */
    bool lost;      /* the device takes no part any more */
    const char *message; /* why it is lost; NULL if it is not */
} dpt_predictor_device_info;

/* Describes device i of the set.  Any thread may call it.  Errors: DPT_E_INVALID if there is no
   such device, a pointer is NULL, or the size is 0. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_predictor_device(dpt_predictor *predictor, size_t device,
                                                         dpt_predictor_device_info *out);

#ifdef __cplusplus
}
#endif

#endif
