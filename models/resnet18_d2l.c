/* The ResNet-18 of the textbook's chapters on several devices: a 3x3 stem without max-pool, and
   four stages of two residual blocks.  Two things differ from torchvision's network: every
   convolution has a bias, and the shortcut of the first block of stages 2 to 4 is a 1x1 convolution
   without batch-norm.  The layers of a block have the textbook's names (conv1, bn1, conv2, bn2, and
   conv3 for the shortcut).  Blocks and the other layers have torchvision's (layer2.0, conv1, bn1,
   fc). */
#include "models_table.h"

enum { N_STAGES = 4, STAGE_BLOCKS = 2 };

typedef struct block {
    const char *name;
    size_t channels;
    bool halve; /* stride 2, and a convolution on the shortcut */
} block;

static dpt_value add_block(dpt_model *model, dpt_value x, const block *b)
{
    const size_t stride = b->halve ? 2 : 1;
    const dpt_conv2d_options first = {.size = sizeof first,
                                      .out_channels = b->channels,
                                      .kernel = {3, 3},
                                      .stride = {stride, stride},
                                      .padding = {1, 1}};
    const dpt_conv2d_options second = {
        .size = sizeof second, .out_channels = b->channels, .kernel = {3, 3}, .padding = {1, 1}};
    const dpt_conv2d_options project = {.size = sizeof project,
                                        .out_channels = b->channels,
                                        .kernel = {1, 1},
                                        .stride = {stride, stride}};
    const dpt_norm_options relu = {.size = sizeof relu, .activation = DPT_ACT_RELU},
                           plain = {.size = sizeof plain};
    char name[DPTM_NAME_BYTES];
    dpt_value y = dpt_conv2d(model, x, dptm_name(name, b->name, "conv1"), &first);
    y = dpt_batch_norm(model, y, dptm_name(name, b->name, "bn1"), &relu);
    y = dpt_conv2d(model, y, dptm_name(name, b->name, "conv2"), &second);
    y = dpt_batch_norm(model, y, dptm_name(name, b->name, "bn2"), &plain);
    if (b->halve) x = dpt_conv2d(model, x, dptm_name(name, b->name, "conv3"), &project);
    return dpt_activate(model, dpt_add(model, y, x), DPT_ACT_RELU);
}

/* Shapes in the comments are those of 28x28x1 images. */
dpt_value dptm_resnet18_d2l(dpt_model *model, dpt_value x, size_t classes)
{
    x = dpt_conv2d(model, x, "conv1",
                   &(dpt_conv2d_options){.size = sizeof(dpt_conv2d_options),
                                         .out_channels = 64,
                                         .kernel = {3, 3},
                                         .padding = {1, 1}});
    x = dpt_batch_norm(
        model, x, "bn1",
        &(dpt_norm_options){.size = sizeof(dpt_norm_options), .activation = DPT_ACT_RELU});
    for (size_t stage = 0; stage < N_STAGES; stage++) { /* (28, 28, 64) to (4, 4, 512) */
        for (size_t i = 0; i < STAGE_BLOCKS; i++) {
            char name[DPTM_NAME_BYTES];
            const block b = {
                .name = dptm_block_name(name, stage + 1, i),
                .channels = (size_t)64 << stage,
                .halve = stage > 0 && i == 0,
            };
            x = add_block(model, x, &b);
        }
    }
    x = dpt_flatten(model, dpt_global_average_pool(model, x)); /* (512) */
    return dpt_linear(model, x, "fc",
                      &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = classes});
}
