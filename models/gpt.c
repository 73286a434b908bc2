/* GPT-2 (Radford et al. 2019): learned positions, norms before each branch, GELU by tanh, a head
   that shares the table of the tokens.  Names and layouts are those of `transformers`
   (GPT2LMHeadModel), whose linear layers are stored as (in, out).  There is no dropout. */
#include "text.h"

#include <math.h>
#include <stdio.h>

static const float deviation = 0.02f;

/* x * (1 + tanh(u)) / 2 = x * sigmoid(2 u) with u = sqrt(2 / pi) * (x + 0.044715 x^3). */
static const char gelu_tanh[] =
    "a * sigmoid(a * (1.5957691216057308 + 0.07135481627260025 * a * a))";

/* A linear layer of a block. */
static dpt_value project(dpt_model *model, dpt_value x, const char *name,
                         dpt_sequence_linear_options options)
{
    options.size = sizeof options;
    options.in_first = true;
    return dpt_sequence_linear(model, x, name, &options);
}

static dpt_value norm(dpt_model *model, dpt_value x, const char *name, const dptm_text *t)
{
    return dpt_layer_norm(
        model, x, name,
        &(dpt_norm_options){.size = sizeof(dpt_norm_options), .epsilon = t->epsilon});
}

static dpt_value add_block(dpt_model *model, dpt_value x, const dptm_text *t, size_t i)
{
    char block[DPTM_NAME_BYTES], name[DPTM_NAME_BYTES];
    const float last = deviation / sqrtf(2 * (float)t->layers); /* of what is added to x */
    dptm_indexed_name(block, "transformer.h", i);
    dpt_value y = norm(model, x, dptm_name(name, block, "ln_1"), t);
    y = project(model, y, dptm_name(name, block, "attn.c_attn"),
                (dpt_sequence_linear_options){.out = 3 * t->width, .deviation = deviation});
    y = dpt_attend(model, y,
                   &(dpt_attend_options){
                       .size = sizeof(dpt_attend_options), .heads = t->heads, .causal = true});
    y = project(model, y, dptm_name(name, block, "attn.c_proj"),
                (dpt_sequence_linear_options){.out = t->width, .deviation = last});
    x = dpt_add(model, x, y);
    y = norm(model, x, dptm_name(name, block, "ln_2"), t);
    y = project(model, y, dptm_name(name, block, "mlp.c_fc"),
                (dpt_sequence_linear_options){.out = t->hidden, .deviation = deviation});
    y = dpt_elementwise(model, gelu_tanh, &y, 1);
    y = project(model, y, dptm_name(name, block, "mlp.c_proj"),
                (dpt_sequence_linear_options){.out = t->width, .deviation = last});
    return dpt_add(model, x, y);
}

dpt_value dptm_gpt(dpt_model *model, dpt_value ids, const dptm_text *t)
{
    dpt_value x = dpt_embedding(model, ids, "transformer.wte",
                                &(dpt_embedding_options){.size = sizeof(dpt_embedding_options),
                                                         .rows = t->vocabulary,
                                                         .width = t->width,
                                                         .deviation = deviation});
    x = dpt_positions(model, x, "transformer.wpe",
                      &(dpt_positions_options){.size = sizeof(dpt_positions_options),
                                               .rows = t->context,
                                               .deviation = deviation});
    for (size_t i = 0; i < t->layers; i++)
        x = add_block(model, x, t, i);
    x = norm(model, x, "transformer.ln_f", t);
    return dpt_sequence_linear(
        model, x, "lm_head",
        &(dpt_sequence_linear_options){.size = sizeof(dpt_sequence_linear_options),
                                       .table = "transformer.wte",
                                       .no_bias = true});
}

int dptm_gpt_config(const dptm_text *t, char *out, size_t n_bytes)
{
    return snprintf(out, n_bytes,
                    "{\n"
                    "  \"architectures\": [\"GPT2LMHeadModel\"],\n"
                    "  \"model_type\": \"gpt2\",\n"
                    "  \"activation_function\": \"gelu_new\",\n"
                    "  \"attn_pdrop\": 0.0,\n"
                    "  \"bos_token_id\": null,\n"
                    "  \"embd_pdrop\": 0.0,\n"
                    "  \"eos_token_id\": null,\n"
                    "  \"initializer_range\": 0.02,\n"
                    "  \"layer_norm_epsilon\": %.6g,\n"
                    "  \"n_ctx\": %zu,\n"
                    "  \"n_embd\": %zu,\n"
                    "  \"n_head\": %zu,\n"
                    "  \"n_inner\": %zu,\n"
                    "  \"n_layer\": %zu,\n"
                    "  \"n_positions\": %zu,\n"
                    "  \"resid_pdrop\": 0.0,\n"
                    "  \"tie_word_embeddings\": true,\n"
                    "  \"vocab_size\": %zu\n"
                    "}\n",
                    (double)t->epsilon, t->context, t->width, t->heads, t->hidden, t->layers,
                    t->context, t->vocabulary);
}
