/* Functions of the program as parts of a network (dptrain/callback.h): the layer, its instructions,
   and how an instruction that calls a function is run.

   Such an instruction is no operator of the device.  The device's driver thread waits for the
   device, calls the function, and goes on.  A function reads and writes the tensors themselves if
   the device's memory is the host's, and else copies of them in host memory. */
#ifndef DPTI_CALL_H
#define DPTI_CALL_H

#include "dpt_error.h"
#include "dptrain.h"
#include "graph/model.h"

typedef enum dpti_call_kind {
    DPTI_CALL_NONE,     /* an operator of the device */
    DPTI_CALL_FORWARD,  /* the inputs give the output */
    DPTI_CALL_BACKWARD, /* the inputs and the output's gradient give the gradients of inputs */
    DPTI_CALL_LOSS,     /* outputs and answers give (n, 2) losses and hits, and the gradient */
} dpti_call_kind;

/* What an instruction calls.  Tensors of real numbers are float32. */
typedef struct dpti_call {
    dpti_call_kind kind;
    bool training;
    bool targets;                     /* LOSS: of targets, not of labels */
    bool wanted[DPT_OPERATOR_INPUTS]; /* BACKWARD: which inputs have a gradient */
    size_t n_inputs;                  /* of the operator */
    size_t count, n_labels;           /* LOSS: of a sample, elements of the outputs and labels */
    dpt_operator_function operate;    /* FORWARD, BACKWARD */
    dpt_loss_function lose;           /* LOSS */
    void *user;
} dpti_call;

typedef struct dpti_executable dpti_executable;
typedef struct dpti_plan dpti_plan;

/* Returns whether a layer of the model is an operator of the program's own. */
bool dpti_model_calls(const dpt_model *model);
/* Returns DPT_E_INVALID if such a layer does not say that its functions are deterministic; *error
   names the layer. */
DPT_CHECK_RESULT dpt_status dpti_check_calls_declared(const dpt_model *model, dpt_error *error);

/* What a bound executable needs for its calls. */
typedef struct dpti_calls {
    size_t *offsets; /* (tensors of the program) bytes in the arena; NULL: it calls nothing */
    float *scores;   /* (2 * capacity) losses and hits */
    uint8_t *copies; /* of the tensors of one call; NULL if the device's memory is the host's */
    size_t copies_bytes;
} dpti_calls;

/* [driver] Allocates the host memory of the calls of an executable whose arena is planned, if it
   calls anything. */
DPT_CHECK_RESULT dpt_status dpti_calls_create(dpti_executable *executable, const dpti_plan *plan,
                                              dpt_error *error);
/* [driver] Accepts an executable without calls. */
void dpti_calls_destroy(dpti_executable *executable);
/* [driver] Waits for the device and calls the function of instruction i for n_samples.  Errors:
   DPT_E_CALLBACK if the function fails; failures of the device. */
DPT_CHECK_RESULT dpt_status dpti_calls_run(dpti_executable *executable, size_t i, size_t n_samples);

#endif
