/* Instructions of attention, forward and backward. */
#include "graph/compile.h"

/* in: the values of a node's inputs.  Returns their number. */
static size_t values_of(const dpti_compiler *c, const dpti_node *node, int *in)
{
    for (size_t k = 0; k < node->n_inputs; k++)
        in[k] = c->value[c->root[node->inputs[k]]];
    return node->n_inputs;
}

/* What the backward pass needs, beside the output, is kept in c->moments. */
dpt_status dpti_emit_attention(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    const dpt_attention_desc *d = &node->forward.u.attention;
    const bool saves = dpti_is_training(c) && c->needs[i];
    int in[3];
    dpti_instruction forward = dpti_instruction_of(c, node);
    forward.desc.u.attention.no_gradient = !saves;
    if (saves) DPT_TRY(dpti_add_sampled(c, d->heads * d->queries, &c->moments[i]));
    const size_t n = values_of(c, node, in);
    return dpti_emit(c, forward, (dpti_tensor_ids){in, n},
                     (dpti_tensor_ids){(int[]){c->value[i], c->moments[i]}, 2});
}

dpt_status dpti_emit_attention_backward(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    dpti_target targets[3];
    int in[6] = {c->gradient[i], c->value[i], c->moments[i]}, out[3];
    const size_t n = values_of(c, node, in + 3);
    dpti_instruction backward = dpti_instruction_of(c, node);
    backward.desc.kind = DPT_OP_ATTENTION_BACKWARD;
    for (size_t k = 0; k < n; k++) {
        DPT_TRY(dpti_open_target(c, c->root[node->inputs[k]], &targets[k]));
        out[k] = targets[k].tensor;
    }
    DPT_TRY(dpti_emit(c, backward, (dpti_tensor_ids){in, 3 + n}, (dpti_tensor_ids){out, n}));
    for (size_t k = 0; k < n; k++)
        DPT_TRY(dpti_close_target(c, node, &targets[k]));
    return DPT_OK;
}
