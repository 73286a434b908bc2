/* The backend's table of operators: prepare, release, run.  `prepare` makes a plan from a
   description; `run` makes addresses from locations and hands the call to the stream. */
#include "choose.h"
#include "state.h"
#include "stream.h"
#include "tables.h"

#include <stdlib.h>

/* A call of less work runs on thread 0 alone, because starting the team costs some microseconds. */
static const double alone_work = 4000.0;

static void release(dpt_device *device, dpt_op *op)
{
    (void)device;
    if (!op) return;
    free(op->plan.state);
    free(op);
}

static dpt_status prepare(dpt_device *device, const dpt_op_request *request, dpt_op **out,
                          dpt_op_info *info)
{
    const dpt_op_desc *desc = request->desc;
    const dpt_cpu_device *cpu = dpt_cpu_device_of(device);
    if (!cpu->host->kernels->prepare[desc->kind])
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED, "the CPU has no operator %s",
                        dpt_op_name(desc->kind));
    if (desc->type != DPT_F32)
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED,
                        "the CPU stores activations as float32 and in no other type");
    dpt_op *op = malloc(sizeof *op);
    if (!op) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for an operator");
    *op = (dpt_op){.desc = *desc,
                   .max_samples = request->max_samples,
                   .blas = &cpu->host->blas,
                   .n_threads = cpu->n_threads,
                   .deterministic = request->deterministic};
    dpt_status status = dpt_cpu_prepare_best(device, op, request->wanted);
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
                          .has_grains = op->plan.has_grains,
                          .algorithm = op->plan.algorithm,
                          .measured = op->measured};
    *out = op;
    return DPT_OK;
}

static dpt_status run(dpt_stream *stream, dpt_op *op, size_t n_samples, const dpt_op_args *args)
{
    dpt_cpu_work work = {
        .kernel = op->plan.kernel,
        .call = {.op = op,
                 .n_samples = n_samples,
                 .workspace =
                     args->workspace.buffer ? dpt_cpu_address(args->workspace) : &op->no_workspace,
                 .step = dpt_cpu_address(args->step),
                 .halt = dpt_cpu_address(args->halt),
                 .accumulate = (args->flags & DPT_RUN_ACCUMULATE) != 0,
                 .grain = args->grain},
        .alone = !((double)n_samples * op->plan.work >= alone_work),
    };
    for (size_t i = 0; i < DPT_MAX_INPUTS; i++)
        work.call.in[i] = dpt_cpu_address(args->in[i]);
    for (size_t i = 0; i < DPT_MAX_OUTPUTS; i++)
        work.call.out[i] = dpt_cpu_address(args->out[i]);
    return dpt_cpu_stream_do(stream, work);
}

const dpt_operator_ops dpt_cpu_operator_ops = {
    .prepare = prepare,
    .release = release,
    .run = run,
};
