/* The LeNet of the textbook's chapters on several devices: two convolutions with ReLU and average
   pooling, and two linear layers.  Shapes in the comments are those of 28x28x1 images. */
#include "models_table.h"

dpt_value dptm_lenet(dpt_model *model, dpt_value x, size_t classes)
{
    const dpt_pool2d_options halve = {
        .size = sizeof halve, .kind = DPT_POOL_AVERAGE, .kernel = {2, 2}};
    x = dpt_conv2d(model, x, "conv1",
                   &(dpt_conv2d_options){.size = sizeof(dpt_conv2d_options),
                                         .out_channels = 20,
                                         .kernel = {3, 3},
                                         .activation = DPT_ACT_RELU});
    x = dpt_pool2d(model, x, &halve); /* (13, 13, 20) */
    x = dpt_conv2d(model, x, "conv2",
                   &(dpt_conv2d_options){.size = sizeof(dpt_conv2d_options),
                                         .out_channels = 50,
                                         .kernel = {5, 5},
                                         .activation = DPT_ACT_RELU});
    x = dpt_pool2d(model, x, &halve); /* (4, 4, 50) */
    x = dpt_flatten(model, x);        /* (800) */
    x = dpt_linear(model, x, "fc1",
                   &(dpt_linear_options){
                       .size = sizeof(dpt_linear_options), .out = 128, .activation = DPT_ACT_RELU});
    return dpt_linear(model, x, "fc2",
                      &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = classes});
}
