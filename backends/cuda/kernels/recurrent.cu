/* recurrent.cl as CUDA. */
#define OPTIONS OPTION(GATES)
#include "recurrent.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("recurrent.cl", dpt_recurrent_forward),
#if GATES == 1
    KERNEL_ROW("recurrent.cl", dpt_recurrent_backward),
    KERNEL_ROW("recurrent.cl", dpt_recurrent_begin),
    KERNEL_ROW("recurrent.cl", dpt_recurrent_end),
#endif
    END_OF_TABLE,
};
