/* A hash of what the layers of a model compute. */
#include "graph/model_hash.h"

#include "base/print.h"
#include "graph/model.h"

#include <libdeflate.h>
#include <stdio.h>
#include <string.h>

/* The program of an element-wise layer, in one number, and the inputs after the second one. */
static void describe_program(const dpti_node *node, char *text, size_t n)
{
    const dpt_map_desc *d = &node->forward.u.map;
    uint32_t crc = 0;
    for (size_t i = 0; i < d->n_code; i++) {
        const dpt_map_instruction *at = &d->code[i];
        const uint8_t numbers[] = {at->code, at->a, at->b, at->c, at->index};
        crc = libdeflate_crc32(crc, numbers, sizeof numbers);
        crc = libdeflate_crc32(crc, &at->constant, sizeof at->constant);
    }
    if (node->has_shape)
        for (size_t i = 0; i < d->n_in; i++) {
            crc = libdeflate_crc32(crc, d->in[i].stride, sizeof d->in[i].stride);
            crc = libdeflate_crc32(crc, &d->in[i].offset, sizeof d->in[i].offset);
        }
    snprintf(text, n, "%08x %u %zu %zu", (unsigned)crc, d->value[0], node->inputs[2],
             node->inputs[3]);
}

static uint32_t hash_shape(const dpti_shape *shape)
{
    uint32_t crc = libdeflate_crc32(0, &shape->offset, sizeof shape->offset);
    crc = libdeflate_crc32(crc, shape->extent, shape->rank * sizeof *shape->extent);
    return libdeflate_crc32(crc, shape->stride, shape->rank * sizeof *shape->stride);
}

static void describe_shape(const dpti_shape *shape, char *text, size_t n)
{
    snprintf(text, n, "%08x", (unsigned)hash_shape(shape));
}

static void describe_join(const dpti_node *node, char *text, size_t n)
{
    const dpti_join *j = &node->join;
    uint32_t crc = libdeflate_crc32(0, j->offset, node->n_inputs * sizeof *j->offset);
    crc = libdeflate_crc32(crc, j->step, sizeof j->step);
    crc = libdeflate_crc32(crc, node->inputs, node->n_inputs * sizeof *node->inputs);
    crc = libdeflate_crc32(crc, &j->fill, sizeof j->fill);
    snprintf(text, n, "%08x %08x", (unsigned)crc, (unsigned)hash_shape(&node->shape));
}

/* The places of the matrices of a product. */
static void describe_product(const dpti_node *node, char *text, size_t n)
{
    const dpt_matmul_desc *d = &node->forward.u.matmul;
    const dpt_matmul_operand *const operands[] = {&d->a, &d->b};
    uint32_t crc = 0;
    for (size_t i = 0; i < 2; i++) {
        const dpt_matmul_operand *o = operands[i];
        const uint64_t numbers[] = {o->offset,          o->batch_stride[0], o->batch_stride[1],
                                    o->batch_stride[2], o->row_stride,      o->column_stride};
        crc = libdeflate_crc32(crc, numbers, sizeof numbers);
    }
    snprintf(text, n, "%08x %zu %zu %zu", (unsigned)crc, d->rows, d->columns, d->inner);
}

static void describe_recurrence(const dpti_node *node, char *text, size_t n)
{
    const dpt_recurrent_desc *d = &node->forward.u.recurrent;
    const uint32_t crc = libdeflate_crc32(0, node->inputs, node->n_inputs * sizeof *node->inputs);
    snprintf(text, n, "%d %u%u%u%u %d,%d,%d %d%d%d%d %08x", (int)d->cell, d->place[0], d->place[1],
             d->place[2], d->place[3], (int)d->activation[0], (int)d->activation[1],
             (int)d->activation[2], d->reverse, d->has_bias, d->has_initial, d->gives_cell,
             (unsigned)crc);
}

static void describe_attention(const dpti_node *node, char *text, size_t n)
{
    const dpt_attention_desc *d = &node->forward.u.attention;
    const int written = dpti_print(text, n, "%.9g", (double)d->scale);
    snprintf(text + written, n - (size_t)written, " %zu/%zu %d %zu", d->heads, d->key_heads,
             d->causal, node->inputs[2]);
}

/* Writes the numbers that determine what a layer computes and that its extents do not tell. */
static void describe_operation(const dpt_model *m, const dpti_node *node, char *text, size_t n)
{
    const dpt_conv2d_desc *conv = &node->forward.u.conv2d;
    const dpt_pool2d_desc *pool = &node->forward.u.pool2d;
    text[0] = '\0';
    switch (node->kind) {
    case DPTI_NODE_CONV2D_TRANSPOSE:
    case DPTI_NODE_CONV2D:
        snprintf(text, n, "%zux%zu /%zux%zu +%zux%zu *%zux%zu %zu", conv->kernel_h, conv->kernel_w,
                 conv->stride_h, conv->stride_w, conv->pad_h, conv->pad_w, conv->dilation_h,
                 conv->dilation_w, conv->groups);
        break;
    case DPTI_NODE_POOL2D:
        snprintf(text, n, "%d %zux%zu /%zux%zu +%zux%zu", (int)pool->kind, pool->kernel_h,
                 pool->kernel_w, pool->stride_h, pool->stride_w, pool->pad_h, pool->pad_w);
        break;
    case DPTI_NODE_ACTIVATE: snprintf(text, n, "%d", (int)node->forward.u.activation.kind); break;
    case DPTI_NODE_DROPOUT: dpti_print(text, n, "%.9g", (double)node->forward.u.dropout.p); break;
    case DPTI_NODE_BATCH_NORM:
        dpti_print(text, n, "%.9g %.9g%s", (double)node->forward.u.batch_norm.epsilon,
                   (double)m->parameters[node->mean].momentum,
                   node->weight == SIZE_MAX ? " plain" : "");
        break;
    case DPTI_NODE_LAYER_NORM:
        dpti_print(text, n, "%.9g", (double)node->forward.u.layer_norm.epsilon);
        break;
    case DPTI_NODE_ELEMENTWISE: describe_program(node, text, n); break;
    case DPTI_NODE_VIEW: describe_shape(&node->shape, text, n); break;
    case DPTI_NODE_JOIN: describe_join(node, text, n); break;
    case DPTI_NODE_CONSTANT:
        snprintf(text, n, "%08x",
                 (unsigned)libdeflate_crc32(0, m->constants + node->constant,
                                            node->elements * sizeof(float)));
        break;
    case DPTI_NODE_SOFTMAX:
        snprintf(text, n, "%zu %d", node->forward.u.row_softmax.columns,
                 node->forward.u.row_softmax.log);
        break;
    case DPTI_NODE_PRODUCT: describe_product(node, text, n); break;
    case DPTI_NODE_RECURRENT: describe_recurrence(node, text, n); break;
    case DPTI_NODE_ATTENTION: describe_attention(node, text, n); break;
    case DPTI_NODE_CALL:
        snprintf(
            text, n, "%08x",
            (unsigned)libdeflate_crc32(0, node->inputs, node->n_inputs * sizeof *node->inputs));
        break;
    case DPTI_NODE_PROJECTION: snprintf(text, n, "%zu", node->inputs[2]); break;
    case DPTI_NODE_EMBEDDING:
    case DPTI_NODE_PARAMETER: snprintf(text, n, "%zu", node->weight); break;
    case DPTI_NODE_INPUT:
    case DPTI_NODE_LINEAR:
    case DPTI_NODE_ADD:
    case DPTI_NODE_FLATTEN: break;
    }
}

uint32_t dpti_model_hash(const dpt_model *model)
{
    const dpt_model *m = model;
    uint32_t crc = 0;
    char text[512], operation[128];
    for (size_t i = 0; i < m->n_nodes; i++) {
        const dpti_node *node = &m->nodes[i];
        dpt_layer_info info = {.size = sizeof info};
        dpt_model_layer(m, i, &info);
        describe_operation(m, node, operation, sizeof operation);
        const int n = snprintf(
            text, sizeof text, "%.200s %s %zu %zu %zu %zu %.0f %s %zu %zu\n", info.name, info.kind,
            info.height, info.width, info.channels, info.parameters, info.multiply_adds, operation,
            node->n_inputs > 0 ? node->inputs[0] : 0, node->n_inputs > 1 ? node->inputs[1] : 0);
        if (n > 0) crc = libdeflate_crc32(crc, text, strlen(text));
    }
    return crc;
}
