/* Sequences of the public interface: images of height 1, whose pixels are the places. */
#ifndef DPTI_SEQUENCE_H
#define DPTI_SEQUENCE_H

#include "graph/tensor.h"

/* Whether x is an image of height 1.  DPT_E_INVALID with the layer's name if it is not. */
bool dpti_is_sequence(dpt_model *model, dpt_value x, const char *layer);
/* A sequence of dptrain/sequence.h as (length, channels).  DPT_E_INVALID with the layer's name if x
   is none. */
dpt_value dpti_rows_of_sequence(dpt_model *model, dpt_value x, const char *layer);
/* An image of height 1 as (width, channels). */
dpt_value dpti_as_sequence(dpt_model *model, dpt_value x);
/* (width, channels) as an image of height 1. */
dpt_value dpti_sequence_as_image(dpt_model *model, dpt_value x);

#endif
