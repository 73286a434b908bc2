/* Softmax regression: one linear layer on the pixels. */
#include "models_table.h"

dpt_value dptm_linear(dpt_model *model, dpt_value x, size_t classes)
{
    x = dpt_flatten(model, x); /* (h*w*c) */
    return dpt_linear(model, x, "fc",
                      &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = classes});
}
