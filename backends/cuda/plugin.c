/* The plug-in's descriptor and its one exported symbol. */
#include "operators.h"
#include "tables.h"

static const dpt_backend backend = {
    .abi = DPT_BACKEND_ABI,
    .name = "cuda",
    .description = "NVIDIA cards: CUDA, cuBLASLt, cuDNN, NCCL",
    .params = dpt_cuda_param_specs,
    .device = &dpt_cuda_device_ops,
    .memory = &dpt_cuda_memory_ops,
    .stream = &dpt_cuda_stream_ops,
    .operators = &dpt_common_operator_ops,
    .capture = &dpt_cuda_capture_ops,
    .collective = &dpt_cuda_collective_ops,
};

DPT_API const dpt_backend *dpt_backend_entry(uint32_t abi);

const dpt_backend *dpt_backend_entry(uint32_t abi)
{
    return abi == DPT_BACKEND_ABI ? &backend : NULL;
}
