/* A language model of recurrent layers: a table of tokens, LSTM layers of the same width, a linear
   layer.  The names are those of PyTorch's example of word language models (encoder, rnn, decoder),
   and the layers begin as PyTorch's do. */
#include "text.h"

dpt_value dptm_lstm(dpt_model *model, dpt_value ids, const dptm_text *t)
{
    dpt_value x = dpt_embedding(model, ids, "encoder",
                                &(dpt_embedding_options){.size = sizeof(dpt_embedding_options),
                                                         .rows = t->vocabulary,
                                                         .width = t->width});
    x = dpt_lstm(model, x, "rnn",
                 &(dpt_recurrent_options){.size = sizeof(dpt_recurrent_options),
                                          .hidden = t->width,
                                          .layers = t->layers});
    return dpt_sequence_linear(
        model, x, "decoder",
        &(dpt_sequence_linear_options){.size = sizeof(dpt_sequence_linear_options),
                                       .out = t->vocabulary});
}
