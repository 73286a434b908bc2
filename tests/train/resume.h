/* Trainings that are interrupted and resumed: what the tests of checkpoints share. */
#ifndef DPT_TEST_RESUME_H
#define DPT_TEST_RESUME_H

#include "dptrain.h"
#include "harness.h"
#include "train/state/trainer.h"

enum { BATCH = 32, STEPS_PER_EPOCH = 5, EPOCHS = 3, STEPS = EPOCHS * STEPS_PER_EPOCH };

/* What the tests of a program share: their `user`. */
typedef struct setting {
    dpt_context *context;
    dpt_dataset *data, *validation;
    dpt_model *model; /* convolution, batch-norm, dropout */
} setting;

typedef struct training {
    dpt_device_set *devices;
    dpt_trainer *trainer;
} training;

extern const char resume_devices[]; /* two CPU devices */

/* SGD with momentum and with augmentation; AdamW with batch-norm of each device. */
extern const dpt_trainer_options resume_sgd, resume_adamw;

/* Opens devices and makes a trainer of the setting's model and data.  A failure fails the test, and
   the result is false.  The training is to be closed in any case. */
bool resume_open(test *t, const char *devices, const dpt_trainer_options *options, training *out);
void resume_close(training *w); /* accepts a zeroed struct; sets it to zero */

/* Makes n steps without dpt_fit. */
void resume_make_steps(test *t, training *w, size_t n);

/* Removes all checkpoints of a folder, which need not exist. */
void resume_empty(test *t, const char *folder);

/* What dpt_fit has told, and when it is to stop. */
typedef struct record {
    double loss[STEPS + 1], train_loss[EPOCHS + 1]; /* by step, by epoch */
    size_t n_steps;
    size_t stop_after; /* training is to end after so many steps; 0: never */
    void (*at)(struct record *r, size_t step); /* called after each step; NULL: nothing */
    size_t n_infos, n_warnings;
    char last[256]; /* notice */
} record;

/* dpt_fit_options.progress: notes steps and epochs in a `record`. */
int resume_note(const dpt_fit_progress *progress, void *user);

/* EPOCHS epochs with validation, and a checkpoint every two steps in the folder, of which none is
   deleted.  `folder` may be NULL: there are none.  All that dpt_fit tells is noted in *r. */
dpt_fit_options resume_fit_options(const setting *s, const char *folder, record *r);

/* The devices of b have the training state of the first device of a, to the bit. */
void resume_check_same(test *t, const training *a, const training *b);
void resume_check_results(test *t, const dpt_fit_result *a, const dpt_fit_result *b);

/* Runs the cases with a `setting`.  Returns the exit status of the program. */
int resume_main(int argc, char **argv, const test_case *cases, size_t n_cases);

#endif
