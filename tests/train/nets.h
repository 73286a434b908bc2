/* Small networks with every combination of layers: those that the compiler fuses, and those that
   prevent fusion. */
#ifndef DPT_TEST_NETS_H
#define DPT_TEST_NETS_H

#include "dptrain.h"

enum { NET_SIDE = 4, NET_CHANNELS = 2, NET_CLASSES = 3, NET_IDS = 6, NET_VOCABULARY = 7 };

typedef struct net {
    const char *name;
    dpt_value (*build)(dpt_model *model, dpt_value x); /* yields the logits */
    size_t n_unfused; /* activations and additions that stay instructions of their own */
    dpt_loss loss;
    float delta; /* of DPT_LOSS_HUBER */
    float smoothing;
    const float *class_weights; /* (NET_CLASSES) or NULL */
    size_t n_labels;            /* of a sample; 0: one */
    bool ids;                   /* reads NET_IDS ids below NET_VOCABULARY, and no images */
} net;

extern const net nets[];
extern const size_t n_nets;

/* Networks over values of any rank (support_tensor_nets.c). */
dpt_value net_views(dpt_model *model, dpt_value x);
dpt_value net_broadcasts(dpt_model *model, dpt_value x);
dpt_value net_extremes(dpt_model *model, dpt_value x);
dpt_value net_joins(dpt_model *model, dpt_value x);
dpt_value net_axes(dpt_model *model, dpt_value x);
dpt_value net_products(dpt_model *model, dpt_value x);
dpt_value net_reshapes(dpt_model *model, dpt_value x);
dpt_value net_embeddings(dpt_model *model, dpt_value x);
dpt_value net_tokens(dpt_model *model, dpt_value x);
dpt_value net_token_labels(dpt_model *model, dpt_value x);
dpt_value net_token_logits(dpt_model *model, dpt_value x);
dpt_value net_pixels(dpt_model *model, dpt_value x);
dpt_value net_transposed(dpt_model *model, dpt_value x);
dpt_value net_filters(dpt_model *model, dpt_value x);

/* Networks with recurrent layers, and with attention (support_recurrent_nets.c). */
dpt_value net_lstm(dpt_model *model, dpt_value x);
dpt_value net_attention(dpt_model *model, dpt_value x);
dpt_value net_memory(dpt_model *model, dpt_value x);
dpt_value net_gru(dpt_model *model, dpt_value x);
dpt_value net_lstm_states(dpt_model *model, dpt_value x);
dpt_value net_gru_states(dpt_model *model, dpt_value x);

/* The model is there, to be destroyed, even after a failure, if it could be created. */
DPT_CHECK_RESULT dpt_status net_create(dpt_context *context, const net *n, dpt_model **out);

#endif
