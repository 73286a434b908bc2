/* The formats of packed all-reduces. */
#include "collective/packing.h"

#include "base/bfloat16.h"
#include "base/int8_blocks.h"

#include <stdint.h>

_Static_assert(DPTI_PACKING_UNIT % DPTI_INT8_BLOCK == 0, "a unit has whole blocks");

static size_t bfloat16_bytes(size_t n)
{
    return n * sizeof(uint16_t);
}

const dpti_packing dpti_packing_bf16 = {
    .name = "bf16",
    .n_bytes = bfloat16_bytes,
    .pack = dpti_bfloat16_pack,
    .unpack = dpti_bfloat16_unpack,
    .add = dpti_bfloat16_add,
};

const dpti_packing dpti_packing_int8 = {
    .name = "int8",
    .n_bytes = dpti_int8_bytes,
    .pack = dpti_int8_pack,
    .unpack = dpti_int8_unpack,
    .add = dpti_int8_add,
};

const dpti_packing *dpti_packing_of(dpt_compression compression)
{
    switch (compression) {
    case DPT_COMPRESS_BF16: return &dpti_packing_bf16;
    case DPT_COMPRESS_INT8: return &dpti_packing_int8;
    default: return NULL;
    }
}
