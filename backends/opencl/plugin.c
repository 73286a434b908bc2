/* The plug-in's descriptor and its one exported symbol. */
#include "operators.h"
#include "tables.h"

static const dpt_backend backend = {
    .abi = DPT_BACKEND_ABI,
    .name = "opencl",
    .description = "OpenCL devices of any vendor",
    .params = dpt_cl_param_specs,
    .device = &dpt_cl_device_ops,
    .memory = &dpt_cl_memory_ops,
    .stream = &dpt_cl_stream_ops,
    .operators = &dpt_common_operator_ops,
};

DPT_API const dpt_backend *dpt_backend_entry(uint32_t abi);

const dpt_backend *dpt_backend_entry(uint32_t abi)
{
    return abi == DPT_BACKEND_ABI ? &backend : NULL;
}
