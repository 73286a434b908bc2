/* Images and losses of samples that are mixed with a partner (train/components/mix.h), as programs
   over elements, which all devices compute alike. */
#ifndef DPTI_MIXED_H
#define DPTI_MIXED_H

#include "graph/compile.h"

/* Mixes images with those of their partners:
   out = own (1 - row column) + other (row column). */
DPT_CHECK_RESULT dpt_status dpti_emit_mixed_images(dpti_compiler *c, int own, int other, int out);

/* What the loss of the own labels, and that of the partners' labels, have written. */
typedef struct dpti_two_losses {
    int rows[2], gradients[2]; /* (n, 2) losses and hits; (n, classes) */
} dpti_two_losses;

/* Mixes losses, hits and gradients: the loss and the gradient by the weights of the labels, and the
   hit is that of the label with the larger weight.  The losses are those of `two`; rows and
   gradient are written. */
DPT_CHECK_RESULT dpt_status dpti_emit_mixed_loss(dpti_compiler *c, const dpti_two_losses *two,
                                                 int rows, int gradient);

#endif
