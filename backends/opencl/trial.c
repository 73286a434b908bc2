/* Tries launches in the helper process (trial.h). */
#include "trial.h"
#include "cache.h"
#include "compile.h"
#include "tried.h"

#include <string.h>

enum { NARROW = 0xffff };

/* Of a buffer; the backend would say so if it had none. */
static size_t buffer_bytes(cl_mem memory)
{
    size_t n_bytes = 0;
    if (!memory ||
        clGetMemObjectInfo(memory, CL_MEM_SIZE, sizeof n_bytes, &n_bytes, NULL) != CL_SUCCESS)
        return 0;
    return n_bytes;
}

static void describe(const dpt_launch *launch, dpt_cl_argument *arguments, dpt_cl_part *values)
{
    for (unsigned i = 0; i < launch->n_arguments; i++) {
        const unsigned char *value = launch->bytes + launch->at[i];
        arguments[i] = (dpt_cl_argument){.n_bytes = launch->n_bytes_of[i],
                                         .is_buffer = launch->buffers >> i & 1};
        values[i] = (dpt_cl_part){value, launch->n_bytes_of[i]};
        if (!arguments[i].is_buffer) continue;
        cl_mem memory;
        memcpy(&memory, value, sizeof memory);
        arguments[i].buffer_bytes = buffer_bytes(memory);
    }
}

/* The helper launches one group, or as many as make the launch wide. */
static dpt_cl_trial launch_in_helper(const dpt_launch *launch, const size_t n_groups[3],
                                     const size_t group[3])
{
    const dpt_cl_device *cl = dpt_cl_device_of(launch->stream->device);
    dpt_cl_argument arguments[DPT_MAX_ARGUMENTS];
    dpt_cl_part values[DPT_MAX_ARGUMENTS];
    size_t few[3];
    describe(launch, arguments, values);
    for (size_t i = 0; i < 3; i++)
        few[i] = n_groups[i] * group[i] > NARROW ? NARROW / group[i] + 1 : 1;
    const dpt_cl_trial_launch trial = {.id = launch->kernel->program->id,
                                       .kernel = launch->kernel->name,
                                       .n_groups = few,
                                       .group = group,
                                       .arguments = arguments,
                                       .values = values,
                                       .n_arguments = launch->n_arguments};
    return dpt_cl_compiler_launch(cl->compiler, &trial);
}

/* Sends the program before, if the helper has not compiled it. */
static dpt_status try_launch(const dpt_launch *launch, const size_t n_groups[3],
                             const size_t group[3], dpt_cl_verdict *verdict)
{
    dpt_device *device = launch->stream->device;
    dpt_cl_program *program = launch->kernel->program;
    dpt_cl_trial trial = {.verdict = DPT_CL_GOOD};
    if (!dpt_cl_compiler_has(dpt_cl_device_of(device)->compiler, program->id)) {
        DPT_TRY(dpt_cl_program_send(device, program, &trial));
        free(trial.bytes);
    }
    if (trial.verdict == DPT_CL_GOOD) {
        trial = launch_in_helper(launch, n_groups, group);
        free(trial.bytes);
    }
    *verdict = trial.verdict;
    if (trial.verdict != DPT_CL_FATAL) return DPT_OK;
    return dpt_cl_program_fatal(device, launch->kernel->name, &trial);
}

dpt_status dpt_cl_trial_launched(const dpt_launch *launch, const size_t n_groups[3],
                                 const size_t group[3])
{
    const dpt_cl_device *cl = dpt_cl_device_of(launch->stream->device);
    dpt_cl_launch_size size = {.group = {group[0], group[1], group[2]}};
    dpt_cl_verdict verdict;
    if (!cl->found->is_cpu || !dpt_cl_contained()) return DPT_OK;
    for (size_t i = 0; i < 3; i++)
        size.wide = size.wide || n_groups[i] * group[i] > NARROW;
    if (dpt_cl_tried_has(launch->kernel, &size)) return DPT_OK;
    const int lock = dpt_cl_program_lock(launch->stream->device);
    const dpt_status status = try_launch(launch, n_groups, group, &verdict);
    dpt_cache_unlock(lock);
    DPT_TRY(status);
    dpt_cl_tried_add(launch->kernel, &size, verdict == DPT_CL_GOOD && !cl->tuner.trying);
    return DPT_OK;
}
