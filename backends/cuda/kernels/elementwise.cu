/* elementwise.cl as CUDA: a row for each line of DPT_ELEMENTWISE_LIST. */
#include "backend/op_list.h"
#include "elementwise.cl"
#include "table.h"

#define ROW(KIND, name, ...) KERNEL_ROW("elementwise.cl", dpt_##name),

const struct dpt_kernel KERNEL_TABLE[] = {
    DPT_ELEMENTWISE_LIST(ROW) END_OF_TABLE,
};
