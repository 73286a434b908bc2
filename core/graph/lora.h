/* The adapters of a model (dptrain/lora.h). */
#ifndef DPTI_LORA_H
#define DPTI_LORA_H

#include "graph/builder.h"
#include "graph/lora_options.h"

/* Whether a layer gets adapters. */
bool dpti_lora_wants(const dpt_model *model, const char *layer);
/* Adds the adapters of a layer over the rows x (length, in), whose result is y (length, out).
   Returns the sum, a sequence. */
dpt_value dpti_lora_add(dpt_model *model, dpt_value x, dpt_value y, const char *layer);
/* Whether a parameter is part of the base of a model with adapters. */
static inline bool dpti_is_of_base(const dpt_model *model, const dpti_parameter *parameter)
{
    return model->lora && !parameter->is_adapter;
}
/* Fails the model if a name of a layer has matched none.  Marks the parameters of the base. */
void dpti_lora_finish(dpt_model *model);

#endif
