/* Llama (Touvron et al. 2023): rotary positions, root-mean-square norms, a gated perceptron with
   SiLU (SwiGLU), grouped-query attention, no biases.  Names and layouts are those of `transformers`
   (LlamaForCausalLM). */
#include "text.h"

#include <math.h>
#include <stdio.h>

static const float deviation = 0.02f;

static dpt_value project(dpt_model *model, dpt_value x, const char *name, size_t out)
{
    return dpt_sequence_linear(
        model, x, name,
        &(dpt_sequence_linear_options){.size = sizeof(dpt_sequence_linear_options),
                                       .out = out,
                                       .deviation = deviation,
                                       .no_bias = true});
}

static dpt_value norm(dpt_model *model, dpt_value x, const char *name, const dptm_text *t)
{
    return dpt_rms_norm(
        model, x, name,
        &(dpt_norm_options){.size = sizeof(dpt_norm_options), .epsilon = t->epsilon});
}

static dpt_value turn(dpt_model *model, dpt_value x, size_t heads, double base)
{
    return dpt_rotary(
        model, x,
        &(dpt_rotary_options){.size = sizeof(dpt_rotary_options), .heads = heads, .base = base});
}

static dpt_value attend(dpt_model *model, dpt_value x, const dptm_text *t, const char *block)
{
    char name[DPTM_NAME_BYTES];
    const size_t wide = t->head * t->heads, narrow = t->head * t->key_heads;
    const dpt_value q = project(model, x, dptm_name(name, block, "self_attn.q_proj"), wide),
                    k = project(model, x, dptm_name(name, block, "self_attn.k_proj"), narrow),
                    v = project(model, x, dptm_name(name, block, "self_attn.v_proj"), narrow);
    const dpt_attend_options options = {.size = sizeof options,
                                        .keys = turn(model, k, t->key_heads, t->rotary_base),
                                        .values = v,
                                        .heads = t->heads,
                                        .key_heads = t->key_heads,
                                        .causal = true};
    x = dpt_attend(model, turn(model, q, t->heads, t->rotary_base), &options);
    return project(model, x, dptm_name(name, block, "self_attn.o_proj"), t->width);
}

static dpt_value add_block(dpt_model *model, dpt_value x, const dptm_text *t, size_t i)
{
    char block[DPTM_NAME_BYTES], name[DPTM_NAME_BYTES];
    dptm_indexed_name(block, "model.layers", i);
    dpt_value y = norm(model, x, dptm_name(name, block, "input_layernorm"), t);
    x = dpt_add(model, x, attend(model, y, t, block));
    y = norm(model, x, dptm_name(name, block, "post_attention_layernorm"), t);
    const dpt_value gate = project(model, y, dptm_name(name, block, "mlp.gate_proj"), t->hidden),
                    up = project(model, y, dptm_name(name, block, "mlp.up_proj"), t->hidden);
    y = dpt_elementwise(model, "a * sigmoid(a) * b", (dpt_value[]){gate, up}, 2);
    return dpt_add(model, x, project(model, y, dptm_name(name, block, "mlp.down_proj"), t->width));
}

dpt_value dptm_llama(dpt_model *model, dpt_value ids, const dptm_text *t)
{
    dpt_value x = dpt_embedding(model, ids, "model.embed_tokens",
                                &(dpt_embedding_options){.size = sizeof(dpt_embedding_options),
                                                         .rows = t->vocabulary,
                                                         .width = t->width,
                                                         .deviation = deviation});
    for (size_t i = 0; i < t->layers; i++)
        x = add_block(model, x, t, i);
    x = norm(model, x, "model.norm", t);
    const dpt_sequence_linear_options head = {.size = sizeof head,
                                              .out = t->vocabulary,
                                              .table = t->tied ? "model.embed_tokens" : NULL,
                                              .deviation = deviation,
                                              .no_bias = true};
    return dpt_sequence_linear(model, x, "lm_head", &head);
}

int dptm_llama_config(const dptm_text *t, char *out, size_t n_bytes)
{
    const int places = t->rotary_base == floor(t->rotary_base) ? 1 : 9;
    return snprintf(out, n_bytes,
                    "{\n"
                    "  \"architectures\": [\"LlamaForCausalLM\"],\n"
                    "  \"model_type\": \"llama\",\n"
                    "  \"attention_bias\": false,\n"
                    "  \"bos_token_id\": null,\n"
                    "  \"eos_token_id\": null,\n"
                    "  \"head_dim\": %zu,\n"
                    "  \"hidden_act\": \"silu\",\n"
                    "  \"hidden_size\": %zu,\n"
                    "  \"initializer_range\": 0.02,\n"
                    "  \"intermediate_size\": %zu,\n"
                    "  \"max_position_embeddings\": %zu,\n"
                    "  \"mlp_bias\": false,\n"
                    "  \"num_attention_heads\": %zu,\n"
                    "  \"num_hidden_layers\": %zu,\n"
                    "  \"num_key_value_heads\": %zu,\n"
                    "  \"rms_norm_eps\": %.6g,\n"
                    "  \"rope_parameters\": {\"rope_theta\": %.*f, \"rope_type\": \"default\"},\n"
                    "  \"rope_theta\": %.*f,\n"
                    "  \"tie_word_embeddings\": %s,\n"
                    "  \"vocab_size\": %zu\n"
                    "}\n",
                    t->head, t->width, t->hidden, t->context, t->heads, t->layers, t->key_heads,
                    (double)t->epsilon, places, t->rotary_base, places, t->rotary_base,
                    t->tied ? "true" : "false", t->vocabulary);
}
