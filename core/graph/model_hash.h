/* A hash by which checkpoints and processes compare models. */
#ifndef DPTI_MODEL_HASH_H
#define DPTI_MODEL_HASH_H

#include "dptrain.h"

/* Returns a CRC-32 of names, kinds, extents, connections, and all numbers that determine what the
   layers compute. */
uint32_t dpti_model_hash(const dpt_model *model);

#endif
