/* The builders of the networks, one file each.  Private to models/. */
#ifndef DPTRAIN_MODELS_TABLE_H
#define DPTRAIN_MODELS_TABLE_H

#include "dptrain_models.h"

/* Adds the network's layers for images x and returns the logits, `classes` of them.  Failures stick
   to the model and come out of dpt_model_finish. */
typedef dpt_value dptm_builder(dpt_model *model, dpt_value x, size_t classes);

dptm_builder dptm_linear, dptm_mlp, dptm_lenet, dptm_resnet18_d2l, dptm_resnet18, dptm_resnet34,
    dptm_resnet50, dptm_resnet18_imagenet, dptm_resnet34_imagenet, dptm_resnet50_imagenet,
    dptm_vgg11;

/* Names of layers: "BLOCK.LAYER" (just LAYER if the block is ""), "BLOCK.INDEX", and of a residual
   block "layerSTAGE.INDEX".  They return `out`. */
enum { DPTM_NAME_BYTES = 48 };
const char *dptm_name(char out[DPTM_NAME_BYTES], const char *block, const char *layer);
const char *dptm_indexed_name(char out[DPTM_NAME_BYTES], const char *block, size_t index);
const char *dptm_block_name(char out[DPTM_NAME_BYTES], size_t stage, size_t index);

#endif
