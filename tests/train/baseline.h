/* What one CPU device makes of a network with batch-norms, and the two measures that hold any other
   devices against it:

   (a) After one step, every gradient tensor and every statistic of the batch lies as near to the
       double-precision one as one device's does: |x - ref| <= 4 |one device - ref| + 1e-7 |ref|.
   (b) After 20 steps in which the loss falls by a fifth, weights and running statistics are within
       4 times the distance that one device moves when the samples of each batch are summed in
       another order.  Or, where they are not, in a second pair of runs with the samples in another
       order: seldom, once in some two hundred pairs that were looked at, a value rounds to the
       other side of ReLU's kink where its gradient is large, and the weights move several times as
       far.  A defect shows in every order.

   Biases that feed a batch-norm are exempt: their true gradient is zero. */
#ifndef DPT_TEST_BASELINE_H
#define DPT_TEST_BASELINE_H

#include "harness.h"
#include "train/flat.h"
#include "train/mixes.h"

enum { BASELINE_PERMUTATIONS = 3, BASELINE_TENSORS = 128 };

typedef struct baseline {
    dpt_context *context;
    dpt_model *model;
    flat_training training;
    dpt_dataset *data, *permuted[BASELINE_PERMUTATIONS];
    interpreter reference;          /* after one step, committed; gradients as before */
    double error[BASELINE_TENSORS]; /* of one device's gradients, per parameter */
    float *last;                    /* one device's parameters after FLAT_STEPS steps */
    double losses[FLAT_STEPS];
    double moved; /* by a change of order: without exempt biases */
} baseline;

/* Trains b->model, which is made in b->context, with b->training on one CPU device.  Fails the test
   unless that device is right by itself and learns. */
void baseline_create(test *t, baseline *b);
/* Everything, the model and the context too; accepts half-made ones. */
void baseline_destroy(baseline *b);

/* One step on one CPU device, unless told otherwise. */
flat_task baseline_task(const baseline *b, const dpt_dataset *data, size_t batch);
/* flat_run, with a failed check that names devices and shares if it fails.  Free the outcome in any
   case. */
bool baseline_run(test *t, const baseline *b, const flat_task *task, flat_outcome *out);

/* Measure (a) after one step, and (b) after FLAT_STEPS: checked, or only asked. */
void baseline_check_gradients(test *t, const baseline *b, const flat_task *task,
                              const flat_outcome *o);
void baseline_check_weights(test *t, const baseline *b, const flat_task *task,
                            const flat_outcome *o);
bool baseline_gradients_agree(const baseline *b, const flat_outcome *o);
bool baseline_weights_agree(const baseline *b, const flat_outcome *o);
/* Whether two runs of FLAT_STEPS are alike by measure (b): weights and losses. */
bool baseline_runs_agree(const baseline *b, const flat_outcome *o, const flat_outcome *p);
/* Whether two tasks are, on the samples in another order. */
bool baseline_agree_in_another_order(test *t, const baseline *b, const flat_task *one,
                                     const flat_task *other);
/* `steps` steps on one of these devices and shares; and by the measures, on all of them. */
flat_task baseline_mix_task(const baseline *b, const mix *m, size_t steps);
void baseline_check_mixes_gradients(test *t, const baseline *b, mix_list mixes);
void baseline_check_mixes_weights(test *t, const baseline *b, mix_list mixes);
/* The task twice: the same bits. */
void baseline_check_repeats(test *t, const baseline *b, const flat_task *task);

#endif
