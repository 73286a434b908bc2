/* VGG-11 (Simonyan and Zisserman 2015) with torchvision's names, whose indices also count
   activations, pools and dropouts.  Five max-pools halve the image, so the smallest image is 32x32.
   There is no adaptive pool to 7x7: classifier.0 takes the feature map as it is.  For images of 224
   to 255 pixels a side the network is torchvision's. */
#include "models_table.h"

/* Channels of the convolutions; 0 is a max-pool. */
static const size_t features[] = {64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0};

static dpt_value add_features(dpt_model *model, dpt_value x)
{
    const dpt_pool2d_options halve = {.size = sizeof halve, .kind = DPT_POOL_MAX, .kernel = {2, 2}};
    size_t index = 0; /* torchvision's */
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        if (features[i] == 0) {
            x = dpt_pool2d(model, x, &halve);
            index += 1;
            continue;
        }
        char name[DPTM_NAME_BYTES];
        x = dpt_conv2d(model, x, dptm_indexed_name(name, "features", index),
                       &(dpt_conv2d_options){.size = sizeof(dpt_conv2d_options),
                                             .out_channels = features[i],
                                             .kernel = {3, 3},
                                             .padding = {1, 1},
                                             .activation = DPT_ACT_RELU});
        index += 2; /* the convolution and its ReLU */
    }
    return x;
}

/* Shapes in the comments are those of 32x32 images. */
dpt_value dptm_vgg11(dpt_model *model, dpt_value x, size_t classes)
{
    const dpt_linear_options hidden = {
        .size = sizeof hidden, .out = 4096, .activation = DPT_ACT_RELU};
    x = dpt_flatten(model, add_features(model, x)); /* (512) of (1, 1, 512) */
    x = dpt_dropout(model, dpt_linear(model, x, "classifier.0", &hidden), 0.5F);
    x = dpt_dropout(model, dpt_linear(model, x, "classifier.3", &hidden), 0.5F);
    return dpt_linear(model, x, "classifier.6",
                      &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = classes});
}
