/* dptrain trains neural networks with synchronous data parallelism on any mix of devices, in one
   process or in several.  This header is the public API of libdptrain.  It includes one header
   for each subject:

       context.h     version, statuses, messages, the context
       device.h      backends, devices, device sets, measured rates
       process.h     several processes that train together
       array.h       arrays on devices
       collective.h  sums and copies of arrays over devices and processes
       model.h       networks, built layer by layer or read from ONNX files
       tensor.h      layers over values with any number of axes
       callback.h    operators and a loss of the program's own
       data.h        data sets
       split.h       how a batch is divided among devices
       trainer.h     steps, device events, evaluation, prediction
       classification.h  figures of classes, AUC, the confusion matrix
       predictor.h   predictions without a trainer
       pictures.h    the pictures below a folder, for predictions
       generate.h    text from language models, token by token
       weights.h     files of weights and of the training state
       report.h      memory, plans, operations and times of the devices
       fit.h         the training loop
       log.h         comparing the logs of two runs

   Networks by name are declared in dptrain_models.h.

       dpt_context_create(&context);
       dpt_device_set_open(context, "cpu,cpu", &devices);
       dpt_dataset_open(context, "fashion-mnist", NULL, DPT_TRAIN, &data);

       dpt_model_create(context, "mine", &model);
       dpt_value x = dpt_flatten(model, dpt_input(model, 28, 28, 1));
       dpt_model_finish(model, dpt_linear(model, x, "fc", &(dpt_linear_options){
           .size = sizeof(dpt_linear_options), .out = 10}));

       dpt_trainer_create(devices, model, data, &options, &trainer);
       dpt_trainer_step(trainer, &metrics);

   Errors.  A function that can fail returns DPT_OK or a negative status.  After a failure
   dpt_error_message(context) says in one line what failed and what to do.

   Arguments.  Outputs come last and are written only on success.  Destroy functions accept NULL.
   Any other pointer may be NULL only where the function's comment says so.  Options structs are
   filled with designated initialisers.  A zero field takes the default that the field's comment
   names.  NULL in place of options means all defaults, except where a field has no default.

   Sizes of structs.  A struct whose first field is `size` grows at its end from release to release.
   The program sets `size` to the sizeof the struct before the call, also for a struct that the call
   fills.  So a program that was built for one release runs with the library of the next.  A call
   that gets options without a size gives DPT_E_INVALID and says so.  A call that fills a struct
   without a size gives DPT_E_INVALID if it returns a status, and else leaves the struct unchanged.
   A field of options that the library does not know must be 0, or the call gives DPT_E_INVALID.
   Structs without a size do not change.

   Lifetime.  Every object belongs to one context and must be destroyed before the context.  A
   device set must outlive the arrays and trainers that use the set.  A dataset and a model must
   outlive the trainers that use them.

   Threads.  Only one thread at a time may use a context and the objects of the context.  Different
   contexts are independent.  A child that is forked while a context exists has none of the
   context's threads.  Such a child may only call exec or _exit and must destroy nothing.

   Text.  Numbers in strings and files use a decimal point, whatever the program's locale is.
 */
#ifndef DPTRAIN_H
#define DPTRAIN_H

#include "dptrain/array.h"
#include "dptrain/callback.h"
#include "dptrain/classification.h"
#include "dptrain/collective.h"
#include "dptrain/context.h"
#include "dptrain/data.h"
#include "dptrain/device.h"
#include "dptrain/export.h"
#include "dptrain/fit.h"
#include "dptrain/generate.h"
#include "dptrain/log.h"
#include "dptrain/lora.h"
#include "dptrain/model.h"
#include "dptrain/pictures.h"
#include "dptrain/predictor.h"
#include "dptrain/process.h"
#include "dptrain/report.h"
#include "dptrain/sequence.h"
#include "dptrain/split.h"
#include "dptrain/tensor.h"
#include "dptrain/tokenizer.h"
#include "dptrain/trainer.h"
#include "dptrain/weights.h"

#endif
