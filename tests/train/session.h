/* What a test holds while it trains one model: how all of it is released, and the steps. */
#ifndef DPT_TEST_SESSION_H
#define DPT_TEST_SESSION_H

#include "dptrain.h"
#include "harness.h"

typedef struct session {
    dpt_context *context;
    dpt_device_set *devices;
    dpt_dataset *data;
    dpt_model *model;
    dpt_trainer *trainer;
} session;

/* Releases what there is.  Each field may be NULL. */
void session_end(session *s);

/* Makes the model "linear": one layer "fc" over inputs that are flat. */
dpt_status session_linear(session *s, size_t inputs, size_t outputs);

/* Trains for n steps and stores the loss of each, if `losses` is not NULL.  Stops at a failure of
   the test and returns false. */
bool session_train(test *t, const session *s, size_t n, double *losses);

#endif
