/* Names of layers inside blocks, as PyTorch names modules inside modules. */
#include "models_table.h"

#include <stdio.h>

const char *dptm_name(char out[DPTM_NAME_BYTES], const char *block, const char *layer)
{
    snprintf(out, DPTM_NAME_BYTES, "%s%s%s", block, *block ? "." : "", layer);
    return out;
}

const char *dptm_indexed_name(char out[DPTM_NAME_BYTES], const char *block, size_t index)
{
    snprintf(out, DPTM_NAME_BYTES, "%s.%zu", block, index);
    return out;
}

const char *dptm_block_name(char out[DPTM_NAME_BYTES], size_t stage, size_t index)
{
    snprintf(out, DPTM_NAME_BYTES, "layer%zu.%zu", stage, index);
    return out;
}
