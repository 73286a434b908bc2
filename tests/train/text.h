/* Weights and samples of the golden runs of language models, which the scripts that made these runs
   compute in the same way (tests/golden/make_text.py). */
#ifndef TRAIN_TEXT_H
#define TRAIN_TEXT_H

#include "dptrain.h"

/* Of a sample, and of its ids and labels. */
enum { LENGTH = 16, VOCABULARY = 61 };

/* Fills out (elements of the parameter). */
void make_text_weights(const dpt_parameter_info *p, float *out);
/* Writes ids and labels (LENGTH) of sample i.  Its first labels are ignored, 0 to 12 of them. */
void make_text_sample(size_t i, int32_t *ids, int32_t *labels);

#endif
