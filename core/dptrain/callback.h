/* Functions of the program within a network: operators and a loss of the program's own.
   Part of the public API: programs include dptrain.h.

   The functions compute in host memory.  That is slow: on a device with memory of its own, every
   call waits for the device, copies the values to the host and copies the results back, and the
   functions use one thread each.  A formula (dpt_elementwise) is faster where it can say the same.

   Rules for the functions:

   - Samples are independent.  A call gets any number of samples, from 1 to those of a batch, since
     each device calls the functions for its own shard, in one micro-batch or in several.  What a
     function computes for a sample must not depend on the other samples of the call.
   - The functions of one device are never called at the same time.  Those of several devices are,
     each by a thread of the device, and so are those of trainers and predictors that are used by
     several threads.  What `user` points at is shared by all of them: to make the functions safe is
     the program's duty.  Repeated calls with the same values must give the same results.
   - The arrays are valid during the call only.  They are float32 on every device, also where the
     device computes with bfloat16.  A function writes all elements of its results.
   - A function must not call dptrain with objects of the same context.  It returns.  A function
     that does not return is a device that hangs (`device_timeout`).
   - A function that does not return DPT_OK fails the step, the evaluation or the prediction with
     DPT_E_CALLBACK.  No device is lost by that, and the step changes nothing.  The program may try
     again.  A result that is not finite counts as one of the network itself: DPT_E_NOT_FINITE.
   - The functions and `user` must live as long as the model, or as the trainer for a loss. */
#ifndef DPTRAIN_CALLBACK_H
#define DPTRAIN_CALLBACK_H

#include "dptrain/model.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    DPT_OPERATOR_INPUTS = 5,     /* the largest number of inputs of an operator */
    DPT_CALLBACK_WHY_BYTES = 256 /* with the zero at the end */
};

/* What a function of an operator is called with.  The order of the elements of a sample is that of
   (height, width, channels) for an image, (channels, height, width) for what dpt_flatten has made
   of an image, as in PyTorch, and row-major for the values of dptrain/tensor.h.  A value that is
   the same for all samples, such as a parameter, is repeated for each of them. */
typedef struct dpt_operator_call {
    size_t size; /* sizeof(dpt_operator_call) in the library's release */
    void *user;
    size_t n_samples; /* at least 1 */
    bool training;    /* false: evaluation or prediction, which call `forward` only */
    /* (n_inputs) arrays of (n_samples, elements): float, or int32_t if the input is ids. */
    const void *const *inputs;
    float *output; /* `forward`: to be written, (n_samples, elements); `backward`: NULL */
    const float *output_gradient; /* `backward`: (n_samples, elements); `forward`: NULL */
    /* `backward`: (n_inputs) arrays to be written, (n_samples, elements).  The array of an input
       that needs no gradient is NULL.  `forward`: NULL. */
    float *const *input_gradients;
    char *why; /* (DPT_CALLBACK_WHY_BYTES) a function that fails may write the reason */
} dpt_operator_call;

typedef dpt_status (*dpt_operator_function)(const dpt_operator_call *call);

typedef struct dpt_operator_options {
    size_t size;                    /* sizeof(dpt_operator_options) */
    size_t height, width, channels; /* of an output that is an image, else 0 */
    size_t elements; /* of an output that is a vector, else 0; dpt_reshape gives it other axes */
    dpt_operator_function forward;
    /* Computes the gradients of the inputs: for each input, the sum over the outputs of
       output_gradient times the derivative of the output by the input.  Not called if no input
       depends on a parameter. */
    dpt_operator_function backward;
    void *user; /* given to both functions */
    /* The functions give the same bits for the same sample on every machine on which the program
       trains: with any number of samples in a call, in any order of calls and on any thread.  A
       deterministic training (dpt_trainer_options.deterministic) needs that, and refuses an
       operator that does not say so.  The library cannot check it.  Functions that add, multiply,
       divide and take square roots in an order of their own, compiled without contraction
       (-ffp-contract=off) and without -ffast-math, have the same bits everywhere.  Those that call
       exp, sin and the like of a C library may not. */
    bool deterministic;
} dpt_operator_options;

/* Adds an operator of the program's own: a value of a declared shape, computed from one to
   DPT_OPERATOR_INPUTS values of any shape, of real numbers or ids.  It has no parameters;
   dpt_linear and others make them.  `name` is new in the model and appears in messages.  A
   checkpoint does not hold the functions: to go on with it or to predict with it, a program builds
   the model again.  dpt_model_to_onnx refuses such a model.  A failure sticks to the model
   (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_operator(dpt_model *model, const char *name, const dpt_value *inputs,
                               size_t n_inputs, const dpt_operator_options *options);

/* What the function of a loss is called with. */
typedef struct dpt_loss_call {
    size_t size; /* sizeof(dpt_loss_call) in the library's release */
    void *user;
    size_t n_samples;      /* at least 1 */
    bool training;         /* false: evaluation */
    const float *outputs;  /* (n_samples, labels of a sample, outputs) of the model, as
                              dpt_model_labels and  dpt_model_outputs count them */
    const float *targets;  /* DPT_LOSS_OWN_OF_TARGETS: (n_samples, outputs), else NULL */
    const int32_t *labels; /* DPT_LOSS_OWN_OF_LABELS: (n_samples, labels of a sample), else NULL;
                              below 0: to be ignored */
    float *losses; /* to be written, (n_samples): the loss of a sample, which is the sum over
                      its labels if it has several */
    /* To be written in training, (n_samples, labels of a sample, outputs): the derivative of a
       sample's loss by its outputs.  NULL in evaluation.  The library divides it by the number of
       samples, or of labels that are not ignored, in the global batch, as it does with `losses`. */
    float *gradients;
    float *hits; /* (n_samples) the labels of a sample that are predicted right, for the accuracy; 0
                    before the call */
    char *why;   /* (DPT_CALLBACK_WHY_BYTES) a function that fails may write the reason */
} dpt_loss_call;

typedef dpt_status (*dpt_loss_function)(const dpt_loss_call *call);

#ifdef __cplusplus
}
#endif

#endif
