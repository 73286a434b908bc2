/* The plug-in's descriptor and its one exported symbol. */
#include "tables.h"

static const dpt_backend backend = {
    .abi = DPT_BACKEND_ABI,
    .name = "cpu",
    .description = "this machine's processor cores",
    .params = dpt_cpu_params,
    .device = &dpt_cpu_device_ops,
    .memory = &dpt_cpu_memory_ops,
    .stream = &dpt_cpu_stream_ops,
    .operators = &dpt_cpu_operator_ops,
    .capture = &dpt_cpu_capture_ops,
};

DPT_API const dpt_backend *dpt_backend_entry(uint32_t abi);

const dpt_backend *dpt_backend_entry(uint32_t abi)
{
    return abi == DPT_BACKEND_ABI ? &backend : NULL;
}
