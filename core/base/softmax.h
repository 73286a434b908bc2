/* Softmax and sigmoid on the host: probabilities of logits. */
#ifndef DPTI_SOFTMAX_H
#define DPTI_SOFTMAX_H

#include <stddef.h>

/* Replaces each of n_rows rows of `rows` (n_rows, n) by its softmax, computed in double precision.
 */
void dpti_softmax_rows(float *rows, size_t n_rows, size_t n);
/* Replaces each of n values by its sigmoid, computed in double precision. */
void dpti_sigmoid_all(float *values, size_t n);

#endif
