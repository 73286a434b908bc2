/* The functions that backends/common needs: launches of kernels, and families of convolutions. */
#include "launch.h"
#include "conv2d.h"
#include "families.h"
#include "program.h"
#include "state.h"
#include "trial.h"

#include <stdio.h>

const void *dpt_buffer_argument(const dpt_buffer *buffer)
{
    return buffer->memory;
}

/* A driver's own words for it do not say which kernel, nor which of its arguments. */
static dpt_status fail(dpt_device *device, cl_kernel kernel, cl_int code, const char *what)
{
    char name[64] = "?", call[128];
    (void)clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL);
    snprintf(call, sizeof call, "%s of %s", what, name);
    return DPT_CL_FAIL(&device->error, code, call);
}

static dpt_status set_arguments(const dpt_launch *launch, cl_kernel kernel)
{
    char what[32];
    for (unsigned i = 0; i < launch->n_arguments; i++) {
        const cl_int code =
            clSetKernelArg(kernel, i, launch->n_bytes_of[i], launch->bytes + launch->at[i]);
        if (code == CL_SUCCESS) continue;
        snprintf(what, sizeof what, "clSetKernelArg: argument %u", i);
        return fail(launch->stream->device, kernel, code, what);
    }
    return DPT_OK;
}

dpt_status dpt_launch_enqueue(const dpt_launch *launch, const size_t n_groups[3],
                              const size_t group[3])
{
    dpt_device *device = launch->stream->device;
    const cl_kernel kernel = launch->kernel->handle;
    DPT_TRY(dpt_cl_trial_launched(launch, n_groups, group));
    DPT_TRY(set_arguments(launch, kernel));
    const size_t items[3] = {n_groups[0] * group[0], n_groups[1] * group[1],
                             n_groups[2] * group[2]};
    const cl_int code =
        clEnqueueNDRangeKernel(launch->stream->queue, kernel, 3, NULL, items, group, 0, NULL, NULL);
    return code == CL_SUCCESS ? DPT_OK : fail(device, kernel, code, "clEnqueueNDRangeKernel");
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
