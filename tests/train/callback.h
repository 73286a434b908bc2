/* Trainings of networks with functions of the program, and of the same networks of built-in layers
   and losses: what the tests of operators and of losses share. */
#ifndef DPT_TEST_CALLBACK_H
#define DPT_TEST_CALLBACK_H

#include "train/mixes.h"
#include "train/session.h"

#include <stdatomic.h>

enum { SAMPLES = 64, SIDE = 4, CHANNELS = 2, PIXELS = SIDE * SIDE, OUTPUTS = 3, IDS = 6 };
enum { BATCH = 32, STEPS = 6, WIDE = 3 * PIXELS, HIDDEN = 5 };

/* What the functions are given: counters, and when to fail. */
typedef struct counts {
    atomic_size_t forwards, backwards, losses, samples;
    atomic_size_t fail_forward, fail_backward, fail_loss; /* from this call on, once; 0: never */
    atomic_bool spoil;                                    /* the gradient is not finite */
    bool declared; /* the operators of IMAGE_OWN say that they are deterministic */
    float weight;
} counts;

typedef enum answers { TARGETS, SELF, NO_ANSWERS, LABELS, PIXEL_LABELS } answers;

typedef enum network {
    IMAGE,
    IMAGE_OWN,
    RAMP,
    RAMP_FLAT,
    IDS_PLAIN,
    IDS_OWN,
    PIXEL,
    NEAR,
    DISTANCE,
    SCALED,
    SCALED_OWN
} network;

typedef struct run {
    const mix *where;
    network network;
    answers answers;
    counts *counts;
    dpt_trainer_options options;
} run;

typedef struct outcome {
    double losses[STEPS], evaluated;
    size_t hits[STEPS];
    float predicted[SAMPLES * PIXELS * OUTPUTS];
} outcome;

/* Whether the call of this number is the one that is to fail. */
bool callback_fails(atomic_size_t *at, size_t number);

/* y = a * b, of HIDDEN elements. */
dpt_status callback_forward_product(const dpt_operator_call *call);
dpt_status callback_backward_product(const dpt_operator_call *call);

/* The mean of weight * (y - t)^2 over the outputs.  `user` is a `counts`. */
dpt_status callback_lose_squares(const dpt_loss_call *call);

dpt_status callback_build(dpt_model *m, network kind, counts *c);
dpt_dataset *callback_data(test *t, dpt_context *context, answers kind, bool ids);

/* Makes all that the run trains with.  After a failure, too, the session is to be ended. */
bool callback_open(test *t, const run *r, session *s);
/* The run from its beginning to its end. */
bool callback_train(test *t, const run *r, outcome *out);

/* Both learn, and the second one does what the first does: its losses are the first one's times the
   factor. */
void callback_compare(test *t, const outcome *a, const outcome *b, double factor, double tolerance);
/* Compares the plain run on one device with the own run on each mix of the test. */
void callback_compare_networks(test *t, run plain, run own, double factor);

/* Runs the cases on the mixes of the tested backend.  Returns the exit status of the program. */
int callback_main(int argc, char **argv, const test_case *cases, size_t n_cases);

#endif
