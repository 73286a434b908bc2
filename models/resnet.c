/* ResNet-18, -34 and -50 (He et al. 2016), each with two stems.  For images of ImageNet's size the
   stem is a 7x7 convolution and a 3x3 max-pool, each of stride 2.  For small images it is a 3x3
   convolution of stride 1.  Blocks and names are torchvision's: stride 2 is in the bottleneck's 3x3
   convolution ("v1.5"), convolutions have no biases, and a shortcut that changes the shape is a 1x1
   convolution with batch-norm ("downsample.0" and "downsample.1"). */
#include "models_table.h"

enum { N_STAGES = 4 };

/* The names of a convolution and its batch-norm, and the activation behind them. */
typedef struct conv_layer {
    const char *block; /* "layer1.0", or "" */
    const char *conv, *norm;
    dpt_activation activation;
} conv_layer;

static dpt_value conv_norm(dpt_model *model, dpt_value x, conv_layer layer,
                           const dpt_conv2d_options *conv)
{
    char text[DPTM_NAME_BYTES];
    x = dpt_conv2d(model, x, dptm_name(text, layer.block, layer.conv), conv);
    return dpt_batch_norm(
        model, x, dptm_name(text, layer.block, layer.norm),
        &(dpt_norm_options){.size = sizeof(dpt_norm_options), .activation = layer.activation});
}

static dpt_conv2d_options conv1x1(size_t out_channels, size_t stride)
{
    return (dpt_conv2d_options){
        .size = sizeof(dpt_conv2d_options),
        .out_channels = out_channels,
        .kernel = {1, 1},
        .stride = {stride, stride},
        .no_bias = true,
    };
}

static dpt_conv2d_options conv3x3(size_t out_channels, size_t stride)
{
    return (dpt_conv2d_options){
        .size = sizeof(dpt_conv2d_options),
        .out_channels = out_channels,
        .kernel = {3, 3},
        .stride = {stride, stride},
        .padding = {1, 1},
        .no_bias = true,
    };
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

typedef struct block {
    const char *name;
    size_t in_channels, width;
    size_t stride;
} block;

/* The branch that is added to the shortcut: `expansion` times `width` channels. */
typedef dpt_value branch_builder(dpt_model *model, dpt_value x, const block *b);

static dpt_value basic_branch(dpt_model *model, dpt_value x, const block *b)
{
    const dpt_conv2d_options first = conv3x3(b->width, b->stride), second = conv3x3(b->width, 1);
    x = conv_norm(model, x, (conv_layer){b->name, "conv1", "bn1", DPT_ACT_RELU}, &first);
    return conv_norm(model, x, (conv_layer){b->name, "conv2", "bn2", DPT_ACT_NONE}, &second);
}

static dpt_value bottleneck_branch(dpt_model *model, dpt_value x, const block *b)
{
    const dpt_conv2d_options narrow = conv1x1(b->width, 1), middle = conv3x3(b->width, b->stride),
                             wide = conv1x1(4 * b->width, 1);
    x = conv_norm(model, x, (conv_layer){b->name, "conv1", "bn1", DPT_ACT_RELU}, &narrow);
    x = conv_norm(model, x, (conv_layer){b->name, "conv2", "bn2", DPT_ACT_RELU}, &middle);
    return conv_norm(model, x, (conv_layer){b->name, "conv3", "bn3", DPT_ACT_NONE}, &wide);
}

typedef struct architecture {
    size_t blocks[N_STAGES];
    branch_builder *branch;
    size_t expansion;
} architecture;

static dpt_value add_block(dpt_model *model, dpt_value x, const architecture *a, const block *b)
{
    const size_t out_channels = a->expansion * b->width;
    const dpt_value branch = a->branch(model, x, b);
    dpt_value shortcut = x;
    if (b->stride != 1 || b->in_channels != out_channels) {
        const dpt_conv2d_options project = conv1x1(out_channels, b->stride);
        shortcut =
            conv_norm(model, x, (conv_layer){b->name, "downsample.0", "downsample.1", DPT_ACT_NONE},
                      &project);
    }
    return dpt_activate(model, dpt_add(model, branch, shortcut), DPT_ACT_RELU);
}

/* ---- Networks -------------------------------------------------------------------------------- */

typedef dpt_value stem_builder(dpt_model *model, dpt_value x);

/* (32, 32, 3) -> (32, 32, 64) */
static dpt_value small_stem(dpt_model *model, dpt_value x)
{
    const dpt_conv2d_options conv = conv3x3(64, 1);
    return conv_norm(model, x, (conv_layer){"", "conv1", "bn1", DPT_ACT_RELU}, &conv);
}

/* (224, 224, 3) -> (112, 112, 64) -> (56, 56, 64) */
static dpt_value imagenet_stem(dpt_model *model, dpt_value x)
{
    const dpt_conv2d_options conv = {.size = sizeof conv,
                                     .out_channels = 64,
                                     .kernel = {7, 7},
                                     .stride = {2, 2},
                                     .padding = {3, 3},
                                     .no_bias = true};
    const dpt_pool2d_options pool = {.size = sizeof pool,
                                     .kind = DPT_POOL_MAX,
                                     .kernel = {3, 3},
                                     .stride = {2, 2},
                                     .padding = {1, 1}};
    x = conv_norm(model, x, (conv_layer){"", "conv1", "bn1", DPT_ACT_RELU}, &conv);
    return dpt_pool2d(model, x, &pool);
}

/* The blocks of a network, and its first layers. */
typedef struct network {
    const architecture *blocks;
    stem_builder *stem;
} network;

/* Shapes in the comments are those of ResNet-18. */
static dpt_value build(dpt_model *model, dpt_value x, size_t classes, const network *n)
{
    const architecture *a = n->blocks;
    x = n->stem(model, x); /* (h, w, 64) */
    size_t channels = 64;
    for (size_t stage = 0; stage < N_STAGES; stage++) { /* to (h/8, w/8, 512) */
        for (size_t i = 0; i < a->blocks[stage]; i++) {
            char name[DPTM_NAME_BYTES];
            const block b = {
                .name = dptm_block_name(name, stage + 1, i),
                .in_channels = channels,
                .width = (size_t)64 << stage,
                .stride = stage > 0 && i == 0 ? 2 : 1,
            };
            x = add_block(model, x, a, &b);
            channels = a->expansion * b.width;
        }
    }
    x = dpt_flatten(model, dpt_global_average_pool(model, x)); /* (512) */
    return dpt_linear(model, x, "fc",
                      &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = classes});
}

static const architecture resnet18 = {{2, 2, 2, 2}, basic_branch, 1},
                          resnet34 = {{3, 4, 6, 3}, basic_branch, 1},
                          resnet50 = {{3, 4, 6, 3}, bottleneck_branch, 4};

dpt_value dptm_resnet18(dpt_model *model, dpt_value x, size_t classes)
{
    return build(model, x, classes, &(network){&resnet18, small_stem});
}

dpt_value dptm_resnet34(dpt_model *model, dpt_value x, size_t classes)
{
    return build(model, x, classes, &(network){&resnet34, small_stem});
}

dpt_value dptm_resnet50(dpt_model *model, dpt_value x, size_t classes)
{
    return build(model, x, classes, &(network){&resnet50, small_stem});
}

dpt_value dptm_resnet18_imagenet(dpt_model *model, dpt_value x, size_t classes)
{
    return build(model, x, classes, &(network){&resnet18, imagenet_stem});
}

dpt_value dptm_resnet34_imagenet(dpt_model *model, dpt_value x, size_t classes)
{
    return build(model, x, classes, &(network){&resnet34, imagenet_stem});
}

dpt_value dptm_resnet50_imagenet(dpt_model *model, dpt_value x, size_t classes)
{
    return build(model, x, classes, &(network){&resnet50, imagenet_stem});
}
