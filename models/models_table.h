/* The builders of the networks, one file each.  Private to models/. */
#ifndef DPTRAIN_MODELS_TABLE_H
#define DPTRAIN_MODELS_TABLE_H

#include "dptrain_models.h"

/* Adds the network's layers behind the images x and returns the logits, one for each class.  An
   error is kept in the model, and dpt_model_finish returns it. */
typedef dpt_value dptm_builder(dpt_model *model, dpt_value x, size_t classes);

dptm_builder dptm_linear, dptm_mlp, dptm_lenet, dptm_resnet18_d2l, dptm_resnet18, dptm_resnet34,
    dptm_resnet50, dptm_resnet18_imagenet, dptm_resnet34_imagenet, dptm_resnet50_imagenet,
    dptm_vgg11;

/* Write the name of a layer to `out` and return `out`: "BLOCK.LAYER" (or LAYER if the block is ""),
   "BLOCK.INDEX", and "layerSTAGE.INDEX" for a residual block. */
enum { DPTM_NAME_BYTES = 48 };
const char *dptm_name(char out[DPTM_NAME_BYTES], const char *block, const char *layer);
const char *dptm_indexed_name(char out[DPTM_NAME_BYTES], const char *block, size_t index);
const char *dptm_block_name(char out[DPTM_NAME_BYTES], size_t stage, size_t index);

#endif
