/* Preparing, running and releasing operators. */
#include "operators.h"

#include <stdlib.h>

/* ---- The table ------------------------------------------------------------------------------- */

static dpt_op_prepare *const prepare_family[DPT_FAMILY_COUNT] = {
#define PREPARE_ROW(FAMILY, name) [DPT_FAMILY_##FAMILY] = dpt_prepare_##name,
    DPT_OP_FAMILY_LIST(PREPARE_ROW)
#undef PREPARE_ROW
};

/* Whether a deterministic operator can be prepared, or why not. */
static dpt_status check_deterministic(dpt_device *device, const dpt_op_desc *desc)
{
    const dpt_traits *traits = dpt_traits_of(device);
    if (traits->varies)
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED,
                        "%.60s does not compute with the same bits as other devices: %s; leave the "
                        "device or deterministic out",
                        traits->name, traits->varies);
    if (traits->activations != DPT_F32 || desc->type != DPT_F32)
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED,
                        "%.60s stores activations as bfloat16, and deterministic operators need "
                        "float32: leave precision=bf16 or deterministic out",
                        traits->name);
    return DPT_OK;
}

void dpt_op_plan_clear(dpt_op_plan *plan)
{
    if (plan->destroy && plan->state)
        plan->destroy(plan->state);
    else
        free(plan->state);
    *plan = (dpt_op_plan){.run = NULL};
}

static void release(dpt_device *device, dpt_op *op)
{
    (void)device;
    if (!op) return;
    dpt_op_plan_clear(&op->plan);
    free(op);
}

static dpt_status prepare(dpt_device *device, const dpt_op_request *request, dpt_op **out,
                          dpt_op_info *info)
{
    const dpt_dtype type = request->desc->type;
    if (type != DPT_F32 && type != dpt_traits_of(device)->activations)
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED,
                        "this device stores activations as float32 and in no other type");
    if (request->deterministic) DPT_TRY(check_deterministic(device, request->desc));
    dpt_op *op = malloc(sizeof *op);
    if (!op) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for an operator");
    *op = (dpt_op){.device = device,
                   .desc = *request->desc,
                   .max_samples = request->max_samples,
                   .wanted = request->wanted,
                   .deterministic = request->deterministic};
    dpt_status status = prepare_family[dpt_op_family_of(op->desc.kind)](op);
    op->wanted = NULL;
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
                          .input_rounding = op->plan.input_rounding,
                          .has_grains = op->plan.has_grains,
                          .algorithm = op->plan.algorithm,
                          .measured = op->measured};
    *out = op;
    return DPT_OK;
}

static dpt_status run(dpt_stream *stream, dpt_op *op, size_t n_samples, const dpt_op_args *args)
{
    const dpt_call call = {
        .stream = stream,
        .op = op,
        .n_samples = n_samples,
        .args = args,
        .accumulate = (args->flags & DPT_RUN_ACCUMULATE) != 0,
        .grain = args->grain,
    };
    return op->plan.run(&call);
}

const dpt_operator_ops dpt_common_operator_ops = {
    .prepare = prepare,
    .release = release,
    .run = run,
};

void dpt_op_key(const dpt_op *op, dpt_program_key *key)
{
    if (op->deterministic)
        dpt_program_key_deterministic(key);
    else
        dpt_program_key_store(key, op->desc.type);
}

dpt_status dpt_op_kernel(const dpt_op *op, const char *file, const char *name, dpt_kernel **out)
{
    dpt_program_key key = {.file = file};
    dpt_op_key(op, &key);
    return dpt_kernel_get(op->device, &key, name, out);
}

void *dpt_op_state(dpt_op *op, size_t n_bytes)
{
    op->plan.state = calloc(1, n_bytes);
    if (!op->plan.state)
        (void)DPT_FAIL(&op->device->error, DPT_E_NO_MEMORY, "no memory for an operator");
    return op->plan.state;
}

dpt_status dpt_check_sample(const dpt_op *op, size_t n_elements)
{
    if (n_elements < (size_t)1 << 31) return DPT_OK;
    return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                    "a sample of %zu elements; this device does up to 2^31 - 1", n_elements);
}
