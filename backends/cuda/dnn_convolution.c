/* A convolution as a graph of cuDNN's: one operation, or with bias and ReLU behind it. */
#include "dnn_graph.h"

enum {
    ALIGNMENT = 16,  /* of tensors, in bytes: no less than our buffers have */
    UID_PRODUCT = 5, /* within the graph, where something follows, */
    UID_SUM = 6,     /* and this */
    /* By number: newer headers have deprecated the names, for what they made the rule. */
    POINTWISE_NAN_PROPAGATION = 2,
    TYPE_NAN_PROPAGATION = 10,
};

/* The type of a tensor's elements, and whether cuDNN never stores the tensor. */
typedef struct tensor_kind {
    cudnnDataType_t type;
    bool is_virtual;
} tensor_kind;

/* A tensor NHWC (or OHWI), whose sizes are in cuDNN's order: n, c, h, w. */
static dpt_dnn_descriptor make_any_tensor(dpt_dnn_maker *m, int64_t uid, tensor_kind kind,
                                          const int64_t nchw[4])
{
    const int64_t strides[4] = {nchw[1] * nchw[2] * nchw[3], 1, nchw[1] * nchw[3], nchw[1]};
    dpt_dnn_descriptor tensor = dpt_dnn_create(m, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    dpt_dnn_set(
        m, tensor,
        &(dpt_dnn_attribute){CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &kind.type});
    dpt_dnn_set(m, tensor,
                &(dpt_dnn_attribute){CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, nchw});
    dpt_dnn_set(m, tensor,
                &(dpt_dnn_attribute){CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides});
    dpt_dnn_set_integer(m, tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, uid);
    dpt_dnn_set_integer(m, tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, ALIGNMENT);
    if (kind.is_virtual)
        dpt_dnn_set(m, tensor,
                    &(dpt_dnn_attribute){CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1,
                                         &kind.is_virtual});
    dpt_dnn_finalize(m, tensor);
    return tensor;
}

static dpt_dnn_descriptor make_tensor(dpt_dnn_maker *m, const dpt_dnn_graph *g, int64_t uid,
                                      const int64_t nchw[4])
{
    return make_any_tensor(m, uid, (tensor_kind){g->type, false}, nchw);
}

/* A float32 tensor between two operations, which cuDNN never stores. */
static dpt_dnn_descriptor make_virtual(dpt_dnn_maker *m, int64_t uid, const int64_t nchw[4])
{
    return make_any_tensor(m, uid, (tensor_kind){CUDNN_DATA_FLOAT, true}, nchw);
}

static void make_tensors(dpt_dnn_maker *m, const dpt_cuda_convolution *c, size_t n,
                         dpt_dnn_graph *g)
{
    const dpt_conv2d_desc *d = &c->desc->u.conv2d;
    const int64_t x[4] = {(int64_t)n, (int64_t)d->in_channels, (int64_t)d->in_h, (int64_t)d->in_w};
    const int64_t w[4] = {(int64_t)d->out_channels, (int64_t)(d->in_channels / d->groups),
                          (int64_t)d->kernel_h, (int64_t)d->kernel_w};
    const int64_t y[4] = {(int64_t)n, (int64_t)d->out_channels, (int64_t)d->out_h,
                          (int64_t)d->out_w};
    const int64_t bias[4] = {1, (int64_t)d->out_channels, 1, 1};
    g->type = c->type == DPT_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    g->x = make_tensor(m, g, DPT_DNN_UID_X, x);
    g->w = make_tensor(m, g, DPT_DNN_UID_W, w);
    g->y = make_tensor(m, g, DPT_DNN_UID_Y, y);
    if (!c->has_bias) return;
    g->bias = make_tensor(m, g, DPT_DNN_UID_BIAS, bias);
    g->product = make_virtual(m, UID_PRODUCT, y);
    if (c->has_relu) g->sum = make_virtual(m, UID_SUM, y);
}

static dpt_dnn_descriptor make_conv2d(dpt_dnn_maker *m, const dpt_conv2d_desc *d)
{
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t pads[2] = {(int64_t)d->pad_h, (int64_t)d->pad_w};
    const int64_t strides[2] = {(int64_t)d->stride_h, (int64_t)d->stride_w};
    const int64_t dilations[2] = {(int64_t)d->dilation_h, (int64_t)d->dilation_w};
    dpt_dnn_descriptor c = dpt_dnn_create(m, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    dpt_dnn_set(
        m, c,
        &(dpt_dnn_attribute){CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type});
    dpt_dnn_set(m, c,
                &(dpt_dnn_attribute){CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
                                     1, &mode});
    dpt_dnn_set_integer(m, c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2);
    dpt_dnn_set(
        m, c, &(dpt_dnn_attribute){CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pads});
    dpt_dnn_set(
        m, c,
        &(dpt_dnn_attribute){CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pads});
    dpt_dnn_set(
        m, c,
        &(dpt_dnn_attribute){CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, strides});
    dpt_dnn_set(
        m, c,
        &(dpt_dnn_attribute){CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilations});
    dpt_dnn_finalize(m, c);
    return c;
}

/* cuDNN's names of the attributes of a pass. */
typedef struct pass {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t alpha, beta, conv2d, x, w, y;
} pass;

static pass pass_of(dpt_op_kind kind)
{
    switch (kind) {
    case DPT_OP_CONV2D_FORWARD:
        return (pass){
            .type = CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            .alpha = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
            .beta = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
            .conv2d = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            .x = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
            .w = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
            .y = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
        };
    case DPT_OP_CONV2D_BACKWARD_DATA:
        return (pass){
            .type = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            .alpha = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
            .beta = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
            .conv2d = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            .x = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            .w = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
            .y = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
        };
    default:
        return (pass){
            .type = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
            .alpha = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
            .beta = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
            .conv2d = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
            .x = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
            .w = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
            .y = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
        };
    }
}

/* tensors[2] = mode(tensors[0][, tensors[1]]) for every element.  *operation: the operation;
   returns the descriptor of its mode. */
static dpt_dnn_descriptor make_pointwise(dpt_dnn_maker *m, cudnnPointwiseMode_t mode,
                                         const dpt_dnn_descriptor tensors[3],
                                         dpt_dnn_descriptor *operation)
{
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const int keeps_nan = 1; /* training that diverges must show it */
    dpt_dnn_descriptor p = dpt_dnn_create(m, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    dpt_dnn_set(
        m, p, &(dpt_dnn_attribute){CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode});
    dpt_dnn_set(
        m, p, &(dpt_dnn_attribute){CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type});
    if (mode == CUDNN_POINTWISE_RELU_FWD)
        dpt_dnn_set(m, p,
                    &(dpt_dnn_attribute){(cudnnBackendAttributeName_t)POINTWISE_NAN_PROPAGATION,
                                         (cudnnBackendAttributeType_t)TYPE_NAN_PROPAGATION, 1,
                                         &keeps_nan});
    dpt_dnn_finalize(m, p);
    *operation = dpt_dnn_create(m, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    dpt_dnn_set_descriptor(m, *operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, p);
    dpt_dnn_set_descriptor(m, *operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, tensors[0]);
    if (tensors[1])
        dpt_dnn_set_descriptor(m, *operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, tensors[1]);
    dpt_dnn_set_descriptor(m, *operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tensors[2]);
    dpt_dnn_finalize(m, *operation);
    return p;
}

/* Bias and ReLU of the forward pass. */
static void make_rest(dpt_dnn_maker *m, const dpt_cuda_convolution *c, dpt_dnn_graph *g)
{
    if (!c->has_bias) return;
    g->add = make_pointwise(
        m, CUDNN_POINTWISE_ADD,
        (const dpt_dnn_descriptor[3]){g->product, g->bias, c->has_relu ? g->sum : g->y},
        &g->addition);
    if (c->has_relu)
        g->relu = make_pointwise(m, CUDNN_POINTWISE_RELU_FWD,
                                 (const dpt_dnn_descriptor[3]){g->sum, NULL, g->y}, &g->activation);
}

void dpt_dnn_graph_make(dpt_dnn_maker *m, const dpt_cuda_convolution *c, size_t n, dpt_dnn_graph *g)
{
    const pass p = pass_of(c->desc->kind);
    const float one = 1.0f, zero = 0.0f;
    make_tensors(m, c, n, g);
    g->conv2d = make_conv2d(m, &c->desc->u.conv2d);
    g->operation = dpt_dnn_create(m, p.type);
    dpt_dnn_set_descriptor(m, g->operation, p.conv2d, g->conv2d);
    dpt_dnn_set_descriptor(m, g->operation, p.x, g->x);
    dpt_dnn_set_descriptor(m, g->operation, p.w, g->w);
    dpt_dnn_set_descriptor(m, g->operation, p.y, c->has_bias ? g->product : g->y);
    dpt_dnn_set(m, g->operation, &(dpt_dnn_attribute){p.alpha, CUDNN_TYPE_FLOAT, 1, &one});
    dpt_dnn_set(m, g->operation, &(dpt_dnn_attribute){p.beta, CUDNN_TYPE_FLOAT, 1, &zero});
    dpt_dnn_finalize(m, g->operation);
    make_rest(m, c, g);
    const dpt_dnn_descriptor operations[] = {g->operation, g->addition, g->activation};
    const size_t n_operations = (size_t)1 + c->has_bias + c->has_relu;
    g->graph = dpt_dnn_create(m, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    dpt_dnn_set_handle(m, g->graph, DPT_DNN_GRAPH_HANDLE);
    dpt_dnn_set(m, g->graph,
                &(dpt_dnn_attribute){CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                     n_operations, operations});
    dpt_dnn_finalize(m, g->graph);
}

void dpt_dnn_graph_drop(dpt_dnn_graph *g)
{
    dpt_dnn_drop(g->graph);
    dpt_dnn_drop(g->activation);
    dpt_dnn_drop(g->relu);
    dpt_dnn_drop(g->addition);
    dpt_dnn_drop(g->add);
    dpt_dnn_drop(g->operation);
    dpt_dnn_drop(g->conv2d);
    dpt_dnn_drop(g->sum);
    dpt_dnn_drop(g->product);
    dpt_dnn_drop(g->bias);
    dpt_dnn_drop(g->y);
    dpt_dnn_drop(g->w);
    dpt_dnn_drop(g->x);
}
