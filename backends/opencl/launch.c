/* What backends/common asks for: launches of kernels, and this backend's ways to convolve. */
#include "launch.h"
#include "conv2d.h"
#include "device.h"
#include "families.h"

const void *dpt_buffer_argument(const dpt_buffer *buffer)
{
    return buffer->memory;
}

dpt_status dpt_launch_enqueue(const dpt_launch *launch, const size_t n_groups[3],
                              const size_t group[3])
{
    dpt_device *device = launch->stream->device;
    const cl_kernel kernel = (cl_kernel)launch->kernel;
    for (unsigned i = 0; i < launch->n_arguments; i++)
        DPT_CL_TRY(device,
                   clSetKernelArg(kernel, i, launch->n_bytes_of[i], launch->bytes + launch->at[i]));
    const size_t items[3] = {n_groups[0] * group[0], n_groups[1] * group[1],
                             n_groups[2] * group[2]};
    DPT_CL_TRY(device, clEnqueueNDRangeKernel(launch->stream->queue, kernel, 3, NULL, items, group,
                                              0, NULL, NULL));
    return DPT_OK;
}

const dpt_alternative *const *dpt_conv2d_families(const dpt_device *device)
{
    static const dpt_alternative *const of_cpu[] = {dpt_cl_conv2d_registers, dpt_cl_conv2d_winograd,
                                                    dpt_conv2d_local, NULL};
    static const dpt_alternative *const of_gpu[] = {dpt_conv2d_local, dpt_cl_conv2d_winograd,
                                                    dpt_cl_conv2d_registers, NULL};
    static const dpt_alternative *const of_bf16[] = {dpt_conv2d_local, NULL};
    if (dpt_cl_device_of(device)->params.activations == DPT_BF16) return of_bf16;
    return dpt_cl_device_of(device)->found->is_cpu ? of_cpu : of_gpu;
}
