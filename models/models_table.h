/* The builders of the networks, one file each.  Private to models/. */
#ifndef DPTRAIN_MODELS_TABLE_H
#define DPTRAIN_MODELS_TABLE_H

#include "dptrain_models.h"

/* Adds the network's layers for images x and returns the logits, `classes` of them.  Failures stick
   to the model and come out of dpt_model_finish. */
typedef dpt_value dptm_builder(dpt_model *model, dpt_value x, size_t classes);

dptm_builder dptm_linear, dptm_mlp, dptm_lenet;

#endif
