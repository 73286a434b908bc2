/* adamw.cl as CUDA. */
#include "adamw.cl"
#include "table.h"

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW("adamw.cl", dpt_adamw),
    KERNEL_ROW("adamw.cl", dpt_adamw_quads),
    END_OF_TABLE,
};
