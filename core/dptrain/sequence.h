/* Layers over sequences, of which language models consist.  Part of the public API: programs
   include dptrain.h.

   A sequence is an image of height 1, whose pixels are the places: dpt_embedding gives one, and
   dpt_layer_norm, dpt_lstm, dpt_add and dpt_elementwise take it and give one.  A part of its
   channels (dpt_split_axis and dpt_slice along axis 0) is a sequence, too, for the functions of
   this header.  Every function gives a sequence.  dpt_model_finish_per_pixel ends a model whose
   logits are a sequence. */
#ifndef DPTRAIN_SEQUENCE_H
#define DPTRAIN_SEQUENCE_H

#include "dptrain/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dpt_sequence_linear_options {
    size_t size;       /* sizeof(dpt_sequence_linear_options) */
    size_t out;        /* channels of the result; with `table` it may be 0 */
    const char *table; /* NULL: the layer has weights of its own.  Otherwise the name of an
                          embedding of this model, whose table is the weights: a tied head */
    float deviation;   /* of the normal numbers that the init "default" draws as weights; the bias
                          then begins with zeros.  0: as dpt_linear */
    bool no_bias;
    bool in_first; /* checkpoints have the weights as (in, out), as GPT-2's do */
} dpt_sequence_linear_options;

/* Adds a linear layer for each place: (length, in) to (length, out).  The parameters are
   NAME.weight, (out, in) in checkpoints or (in, out) with `in_first`, and NAME.bias (out).  With
   `table` the layer has no weight of its own; the table has as many columns as x has channels, and
   as many rows as `out`, if that is not 0.  A failure sticks to the model (DPT_E_INVALID,
   DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_sequence_linear(dpt_model *model, dpt_value x, const char *name,
                                      const dpt_sequence_linear_options *options);

typedef struct dpt_positions_options {
    size_t size;     /* sizeof(dpt_positions_options) */
    size_t rows;     /* the longest sequence that the table serves */
    float deviation; /* of the normal numbers that the init "default" draws; default 1 */
} dpt_positions_options;

/* Adds learned positions: row i of the parameter NAME.weight (rows, channels) is added to place i.
   A sequence of fewer places than rows reads the first rows; the others have the gradient 0.  A
   longer sequence is DPT_E_INVALID.  A failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or
   DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_positions(dpt_model *model, dpt_value x, const char *name,
                                const dpt_positions_options *options);

/* Adds a root-mean-square norm (Zhang, Sennrich 2019): at each place, x divided by the root of (the
   mean of the squares of its channels + epsilon), times the parameter NAME.weight (channels).
   `options` may be NULL: all defaults; momentum is not read.  A failure sticks to the model
   (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_rms_norm(dpt_model *model, dpt_value x, const char *name,
                               const dpt_norm_options *options);

typedef struct dpt_rotary_options {
    size_t size;  /* sizeof(dpt_rotary_options) */
    size_t heads; /* must divide the channels into an even number for each head; default 1 */
    double base;  /* default 10000 */
} dpt_rotary_options;

/* Turns the channels of queries or of keys by angles that grow with the place (rotary positions, Su
   et al. 2021), in the arrangement of Llama in `transformers`: channels j and j + n / 2 of a head
   of n channels are a pair, which is turned by place * base^(-2 j / n).  `options` may be NULL: all
   defaults.  A failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_rotary(dpt_model *model, dpt_value x, const dpt_rotary_options *options);

typedef struct dpt_attend_options {
    size_t size;            /* sizeof(dpt_attend_options) */
    dpt_value keys, values; /* sequences of one length; id 0 for both: they are parts of x */
    size_t heads;           /* of queries; default 1 */
    size_t key_heads;       /* of keys and values: divides `heads`; default `heads` */
    bool causal;            /* each place reads itself and the places before it */
} dpt_attend_options;

/* Adds attention alone, without its linear layers (dpt_attention has them): for each head,
   softmax(queries * keys^T / sqrt(channels of a head)) * values.

   x   The queries: heads * n channels, of which head i has those from i * n on.  Keys and values
       have key_heads * n channels; heads / key_heads heads of queries in a row read the same keys
       (grouped-query attention).  Without `keys` and `values`, x has (heads + 2 * key_heads) * n
       channels: those of queries, of keys and of values, in this order.

   The result is (length, heads * n).  `options` may be NULL: all defaults.  A failure sticks to the
   model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_attend(dpt_model *model, dpt_value x, const dpt_attend_options *options);

#ifdef __cplusplus
}
#endif

#endif
