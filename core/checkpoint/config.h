/* The description of a network beside its weights: config.json, or adapter_config.json of adapters.
   Uses no trainer and no device. */
#ifndef DPTI_CONFIG_H
#define DPTI_CONFIG_H

#include "dpt_error.h"
#include "graph/model.h"

/* Writes the model's description into the folder of a file of its weights: config.json, if the
   model has one, or adapter_config.json if it has adapters.  Errors: DPT_E_IO; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_config_write(const dpt_model *model, const char *weights,
                                              dpt_error *error);
/* Writes config.json, also of a model with adapters. */
DPT_CHECK_RESULT dpt_status dpti_config_write_base(const dpt_model *model, const char *weights,
                                                   dpt_error *error);

#endif
