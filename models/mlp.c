/* A perceptron with two hidden layers of 1024. */
#include "models_table.h"

dpt_value dptm_mlp(dpt_model *model, dpt_value x, size_t classes)
{
    const dpt_linear_options hidden = {
        .size = sizeof hidden, .out = 1024, .activation = DPT_ACT_RELU};
    x = dpt_flatten(model, x); /* (h*w*c) */
    x = dpt_linear(model, x, "fc1", &hidden);
    x = dpt_linear(model, x, "fc2", &hidden);
    return dpt_linear(model, x, "fc3",
                      &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = classes});
}
