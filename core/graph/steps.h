/* Models that read a sequence step by step, a few places at a time.

   Such a model is built as any other, by the functions of dptrain/sequence.h.  What these functions
   need of the places before those of a step is in parameters of the model, which begin with zeros:
   the keys and values of an attention, and the states of an LSTM.  The result of the model has what
   the step adds to them.  The caller writes these rows into the parameters before the next step.

   Layers that compute each place on its own need nothing else.  dpt_positions, dpt_rotary,
   dpt_attend and dpt_lstm know of steps; dpt_attention, dpt_gru, dpt_rnn, an attention that is not
   causal, and an LSTM in both directions are refused. */
#ifndef DPTI_STEPS_H
#define DPTI_STEPS_H

#include "graph/model.h"

struct dpti_recurrence; /* recurrent.h */

/* Makes an empty model one that is read in steps, and adds its input: the ids of `length` tokens,
   then the numbers of their places, which follow one another.  *ids are the tokens.  The model
   frees model->steps.  Failures as in builder.h. */
void dpti_steps_begin(dpt_model *model, size_t context, size_t length, dpt_value *ids);
/* Finishes the model.  Its result is the fresh rows of all that is kept, in this order, then the
   logits (length, vocabulary), a sequence, if their id is not 0.  Without logits, layers that lead
   to nothing are not computed. */
DPT_CHECK_RESULT dpt_status dpti_steps_finish(dpt_model *model, dpt_value logits);

/* The rows of a table, which is a parameter, for the places of the step: (length, columns). */
dpt_value dpti_steps_rows(dpt_model *model, size_t table);
/* Where the cosines and the sines of dpt_rotary are written: for each place 2 * half of both, and
   the next place lies `stride` elements behind. */
typedef struct dpti_angles {
    float *cosines, *sines;
    size_t half, stride;
} dpti_angles;
/* A rotation: the channels of a head in pairs, their base, and the function that computes a table
   of so many places. */
typedef struct dpti_rotation {
    size_t half;
    double base;
    void (*fill)(size_t n_places, double base, const dpti_angles *out);
} dpti_rotation;
/* The cosines and the sines for the places of the step: both (length, 1, 2, half). */
void dpti_steps_angles(dpt_model *model, const dpti_rotation *rotation, dpt_value out[2]);

/* Causal attention, as dpt_attend: queries (length, n * width), keys and values (length,
   of_keys * width). */
typedef struct dpti_steps_heads {
    size_t n, of_keys, width;
} dpti_steps_heads;
dpt_value dpti_steps_attend(dpt_model *model, const dpti_steps_heads *heads,
                            const dpt_value parts[3]);
/* A recurrence of LSTM cells as dpti_recurrent, whose states begin with those behind the place
   before the step. */
dpt_value dpti_steps_lstm(dpt_model *model, dpt_value x, const struct dpti_recurrence *of);
/* Fails: layers of this kind cannot be read in steps. */
dpt_value dpti_steps_refuse(dpt_model *model, const char *layer, const char *what);

#endif
