/* Decides which nodes share a tensor, and which layers compute the operation that follows them. */
#include "graph/compile.h"

#include <string.h>

static dpt_activation own_activation(const dpti_node *node)
{
    switch (node->kind) {
    case DPTI_NODE_CONV2D: return node->forward.u.conv2d.activation;
    case DPTI_NODE_LINEAR: return node->forward.u.linear.activation;
    case DPTI_NODE_BATCH_NORM: return node->forward.u.batch_norm.activation;
    case DPTI_NODE_ACTIVATE:
        /* If the derivative is no function of the output, the activation's own backward operator
           applies it. */
        return dpt_activation_fuses(node->forward.u.activation.kind)
                   ? node->forward.u.activation.kind
                   : DPT_ACT_NONE;
    default: return DPT_ACT_NONE;
    }
}

/* Returns whether a node is only another view of its input. */
static bool passes_on(const dpti_compiler *c, const dpti_node *node)
{
    return node->kind == DPTI_NODE_FLATTEN || node->kind == DPTI_NODE_VIEW ||
           (node->kind == DPTI_NODE_DROPOUT && !dpti_is_training(c));
}

/* Counts the readers of every root, as if nothing were fused. */
static void count_consumers(dpti_compiler *c)
{
    const dpt_model *m = c->model;
    for (size_t i = 0; i < m->n_nodes; i++) {
        const dpti_node *node = &m->nodes[i];
        c->root[i] = passes_on(c, node) ? c->root[node->inputs[0]] : i;
        c->activation[i] = own_activation(node);
        if (passes_on(c, node)) continue;
        for (size_t j = 0; j < node->n_inputs; j++)
            c->consumers[c->root[node->inputs[j]]]++;
    }
    c->consumers[c->root[m->logits]]++;
}

/* `root` computes node i too: readers of the node become readers of the root. */
static void absorb(dpti_compiler *c, size_t root, size_t i)
{
    c->consumers[root] = c->consumers[i];
    c->root[i] = root;
}

static void fuse_activation(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    const size_t before = c->root[node->inputs[0]];
    const dpti_node_kind kind = c->model->nodes[before].kind;
    if (kind != DPTI_NODE_CONV2D && kind != DPTI_NODE_LINEAR && kind != DPTI_NODE_BATCH_NORM)
        return;
    if (!dpt_activation_fuses(node->forward.u.activation.kind) ||
        c->activation[before] != DPT_ACT_NONE || c->consumers[before] != 1)
        return;
    c->activation[before] = c->activation[i];
    absorb(c, before, i);
}

static bool takes_residual(const dpti_compiler *c, size_t root)
{
    return c->model->nodes[root].kind == DPTI_NODE_BATCH_NORM && c->consumers[root] == 1 &&
           c->activation[root] == DPT_ACT_NONE && c->residual[root] == SIZE_MAX;
}

/* The later of the two inputs adds the other one, which exists by then. */
static void fuse_residual(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    const size_t a = c->root[node->inputs[0]], b = c->root[node->inputs[1]];
    const size_t later = a > b ? a : b, earlier = a > b ? b : a;
    if (a == b || !takes_residual(c, later)) return;
    c->residual[later] = earlier;
    absorb(c, later, i);
}

bool dpti_is_frozen(const dpti_compiler *c, size_t parameter)
{
    const dpti_parameter_rule *rules = c->options->optimizer.rules;
    return parameter == SIZE_MAX || (rules && rules[parameter].frozen);
}

/* Marks the roots whose values reach the logits without an integer on the way, which has no
   gradient. */
static void find_reaching(const dpti_compiler *c)
{
    const dpt_model *m = c->model;
    c->reaches[c->root[m->logits]] = true;
    for (size_t i = m->n_nodes; i-- > 0;) {
        const dpti_node *node = &m->nodes[i];
        if (!c->reaches[c->root[i]] || node->integer) continue;
        for (size_t j = 0; j < node->n_inputs; j++)
            c->reaches[c->root[node->inputs[j]]] = true;
    }
}

/* A root has a gradient if it depends on a parameter that is trained, and the logits on it. */
static void find_needs(dpti_compiler *c)
{
    for (size_t i = 0; i < c->model->n_nodes; i++) {
        const dpti_node *node = &c->model->nodes[i];
        bool needs = !dpti_is_frozen(c, node->weight) || !dpti_is_frozen(c, node->bias);
        for (size_t j = 0; j < node->n_inputs; j++)
            needs = needs || c->needs[c->root[node->inputs[j]]];
        if (needs && !node->integer && c->reaches[c->root[i]]) c->needs[c->root[i]] = true;
    }
}

/* Readers without a gradient contribute nothing to the gradients of what they read. */
static void find_pending(dpti_compiler *c)
{
    const dpt_model *m = c->model;
    memcpy(c->pending, c->consumers, m->n_nodes * sizeof *c->pending);
    for (size_t i = 0; i < m->n_nodes; i++) {
        const dpti_node *node = &m->nodes[i];
        if (passes_on(c, node) || c->needs[c->root[i]]) continue;
        for (size_t j = 0; j < node->n_inputs; j++)
            if (c->root[node->inputs[j]] != c->root[i]) c->pending[c->root[node->inputs[j]]]--;
    }
}

void dpti_fuse(dpti_compiler *c)
{
    const dpt_model *m = c->model;
    count_consumers(c);
    for (size_t i = 0; i < m->n_nodes; i++) {
        const dpti_node *node = &m->nodes[i];
        if (passes_on(c, node)) c->root[i] = c->root[node->inputs[0]];
        if (node->kind == DPTI_NODE_ACTIVATE) fuse_activation(c, i);
        if (node->kind == DPTI_NODE_ADD) fuse_residual(c, i);
    }
    find_reaching(c);
    find_needs(c);
    find_pending(c);
}
