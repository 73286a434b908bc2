/* Weights and samples of the golden runs of language models, which the scripts that made these runs
   compute in the same way (tests/golden/make_text.py). */
#ifndef TRAIN_TEXT_H
#define TRAIN_TEXT_H

#include "dptrain.h"
#include "harness.h"

/* Of a sample, and of its ids and labels. */
enum { LENGTH = 16, VOCABULARY = 61 };

/* Fills out (elements of the parameter). */
void make_text_weights(const dpt_parameter_info *p, float *out);
/* Writes ids and labels (LENGTH) of sample i.  Its first labels are ignored, 0 to 12 of them. */
void make_text_sample(size_t i, int32_t *ids, int32_t *labels);

/* What PyTorch has computed in a golden run. */
enum { MOST_TEXT_STEPS = 30 };
typedef struct text_golden {
    double logits[VOCABULARY]; /* of the last place of sample 0, before training */
    double losses[MOST_TEXT_STEPS];
} text_golden;

/* Reads it from a file below the folder of the tests, with `steps` losses.  Returns whether the
   file has all of that; a failed check of `t` says what it lacks. */
bool read_text_golden(test *t, const char *path, size_t steps, text_golden *out);

#endif
