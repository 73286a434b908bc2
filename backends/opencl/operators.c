/* Preparing, running and releasing operators, and launching kernels. */
#include "operators.h"
#include "span.h"

#include <stdlib.h>

/* ---- The table ------------------------------------------------------------------------------- */

#define PREPARE_ROW(name, member) [DPT_OP_##name] = dpt_cl_prepare_##member,
static dpt_cl_prepare *const prepare_kind[DPT_OP_COUNT] = {DPT_OP_LIST(PREPARE_ROW)};
#undef PREPARE_ROW

static void release(dpt_device *device, dpt_op *op)
{
    (void)device;
    if (!op) return;
    free(op->plan.state);
    free(op);
}

static dpt_status prepare(dpt_device *device, const dpt_op_desc *desc, size_t max_samples,
                          dpt_op **out, dpt_op_info *info)
{
    dpt_op *op = malloc(sizeof *op);
    if (!op) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for an operator");
    *op = (dpt_op){.device = device, .desc = *desc, .max_samples = max_samples};
    dpt_status status = prepare_kind[desc->kind](op);
    if (status == DPT_OK && op->plan.workspace_bytes > SIZE_MAX / 4)
        status = DPT_FAIL(&device->error, DPT_E_UNSUPPORTED,
                          "the operator's scratch memory exceeds what can be addressed");
    if (status != DPT_OK) {
        release(device, op);
        return status;
    }
    *info = (dpt_op_info){.workspace_bytes = op->plan.workspace_bytes,
                          .flops = op->plan.flops,
                          .exact = op->plan.exact,
                          .mixes = op->plan.mixes,
                          .algorithm = op->plan.algorithm};
    *out = op;
    return DPT_OK;
}

static dpt_status run(dpt_stream *stream, dpt_op *op, size_t n_samples, const dpt_op_args *args)
{
    const dpt_cl_call call = {
        .stream = stream,
        .op = op,
        .n_samples = n_samples,
        .args = args,
        .accumulate = (args->flags & DPT_RUN_ACCUMULATE) != 0,
    };
    return op->plan.run(&call);
}

const dpt_operator_ops dpt_cl_operator_ops = {
    .prepare = prepare,
    .release = release,
    .run = run,
};

void *dpt_cl_state(dpt_op *op, size_t n_bytes)
{
    op->plan.state = calloc(1, n_bytes);
    if (!op->plan.state)
        (void)DPT_FAIL(&op->device->error, DPT_E_NO_MEMORY, "no memory for an operator");
    return op->plan.state;
}

dpt_status dpt_cl_check_sample(const dpt_op *op, size_t n_elements)
{
    if (n_elements < (size_t)1 << 31) return DPT_OK;
    return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                    "a sample of %zu elements; OpenCL devices do up to 2^31 - 1", n_elements);
}

/* ---- Launching ------------------------------------------------------------------------------- */

dpt_cl_launch dpt_cl_launch_begin(dpt_stream *stream, cl_kernel kernel)
{
    return (dpt_cl_launch){.stream = stream, .kernel = kernel};
}

void dpt_cl_launch_value(dpt_cl_launch *launch, const void *value, size_t n_bytes)
{
    if (launch->code != CL_SUCCESS) return;
    launch->code = clSetKernelArg(launch->kernel, launch->n_arguments++, n_bytes, value);
}

void dpt_cl_launch_tensor(dpt_cl_launch *launch, dpt_location location, dpt_dtype dtype)
{
    const cl_mem memory = location.buffer ? location.buffer->memory : NULL;
    const cl_ulong place = location.offset_bytes / dpt_dtype_bytes(dtype);
    dpt_cl_launch_value(launch, memory ? &memory : NULL, sizeof memory);
    dpt_cl_launch_value(launch, &place, sizeof place);
}

dpt_status dpt_cl_launch_groups(dpt_cl_launch *launch, const size_t n_groups[3],
                                const size_t group[3])
{
    dpt_device *device = launch->stream->device;
    if (launch->code != CL_SUCCESS)
        return DPT_CL_FAIL(&device->error, launch->code, "clSetKernelArg");
    if (n_groups[0] == 0 || n_groups[1] == 0 || n_groups[2] == 0) return DPT_OK;
    const size_t items[3] = {n_groups[0] * group[0], n_groups[1] * group[1],
                             n_groups[2] * group[2]};
    DPT_CL_TRY(device, clEnqueueNDRangeKernel(launch->stream->queue, launch->kernel, 3, NULL, items,
                                              group, 0, NULL, NULL));
    return DPT_OK;
}

dpt_status dpt_cl_launch_items(dpt_cl_launch *launch, size_t n_items)
{
    const size_t group = dpt_cl_device_of(launch->stream->device)->found->group_size;
    return dpt_cl_launch_groups(launch, (const size_t[3]){dpt_cl_ceil_div(n_items, group), 1, 1},
                                (const size_t[3]){group, 1, 1});
}

dpt_status dpt_cl_launch_elements(dpt_cl_launch *launch, size_t per_sample, size_t n_samples)
{
    const dpt_cl_found *found = dpt_cl_device_of(launch->stream->device)->found;
    const size_t items = found->is_cpu ? 1 : found->group_size;
    const size_t elements = found->is_cpu ? SPAN : items; /* of a group */
    const size_t n_groups[3] = {dpt_cl_ceil_div(per_sample, elements), n_samples, 1};
    return dpt_cl_launch_groups(launch, n_groups, (const size_t[3]){items, 1, 1});
}
