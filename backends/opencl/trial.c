/* Tries launches in the helper process, and remembers which need no trial (trial.h). */
#include "trial.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES = DPT_HASH_CHARS + 32, LINE_BYTES = 256, NARROW = 0xffff };

dpt_status dpt_cl_trial_fatal(dpt_device *device, const char *what, const dpt_cl_trial *trial)
{
    const dpt_cl_device *cl = dpt_cl_device_of(device);
    /* Of candidates that are timed the others may be well: this process and its device are. */
    const dpt_status status = cl->tuner.trying ? DPT_E_DEVICE : DPT_E_DEVICE_LOST;
    return DPT_FAIL(&device->error, status,
                    "the compiler of %.40s (driver %.40s) did not survive %.40s: its process was "
                    "ended %.300s",
                    cl->found->name, cl->found->driver, what, trial->words);
}

/* ---- What is remembered ---------------------------------------------------------------------- */

static void name_file(const dpt_cl_program *program, char out[FILE_BYTES])
{
    snprintf(out, FILE_BYTES, "%.*s.tried", (int)(strlen(program->file) - strlen(".bin")),
             program->file);
}

void dpt_cl_trials_read(dpt_cl_program *program)
{
    char file[FILE_BYTES];
    size_t n_bytes = 0;
    name_file(program, file);
    free(program->tried);
    program->tried = (char *)dpt_cache_read(file, &n_bytes);
}

static void print_line(const dpt_kernel *kernel, const dpt_cl_launch_size *size,
                       char out[LINE_BYTES])
{
    snprintf(out, LINE_BYTES, "%.128s %zu %zu %zu %d\n", kernel->name, size->group[0],
             size->group[1], size->group[2], size->wide);
}

/* Whether the line, with its end, is one of the lines. */
static bool has_line(const char *lines, const char *line)
{
    const char *found = lines;
    while (found && (found = strstr(found, line))) {
        if (found == lines || found[-1] == '\n') return true;
        found++;
    }
    return false;
}

/* Adds a line to what other processes have written meanwhile. */
static void write_down(dpt_cl_program *program, const char *line)
{
    char file[FILE_BYTES];
    name_file(program, file);
    const int lock = dpt_cache_lock(file);
    dpt_cl_trials_read(program);
    if (!has_line(program->tried, line)) {
        const size_t n = program->tried ? strlen(program->tried) : 0, more = strlen(line);
        char *grown = realloc(program->tried, n + more + 1);
        if (grown) {
            memcpy(grown + n, line, more + 1);
            program->tried = grown;
            (void)dpt_cache_write(file, grown, n + more);
        }
    }
    dpt_cache_unlock(lock);
}

static bool is_known(const dpt_kernel *kernel, const dpt_cl_launch_size *size)
{
    for (size_t i = 0; i < kernel->n_launches; i++)
        if (memcmp(kernel->launches[i].group, size->group, sizeof size->group) == 0 &&
            kernel->launches[i].wide == size->wide)
            return true;
    return false;
}

/* Without memory it is tried once more. */
static void remember(dpt_kernel *kernel, const dpt_cl_launch_size *size)
{
    dpt_cl_launch_size *grown = realloc(kernel->launches, (kernel->n_launches + 1) * sizeof *grown);
    if (!grown) return;
    kernel->launches = grown;
    kernel->launches[kernel->n_launches++] = *size;
}

/* ---- Trying ---------------------------------------------------------------------------------- */

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
    return dpt_cl_trial_fatal(device, launch->kernel->name, &trial);
}

dpt_status dpt_cl_trial_launched(const dpt_launch *launch, const size_t n_groups[3],
                                 const size_t group[3])
{
    const dpt_cl_device *cl = dpt_cl_device_of(launch->stream->device);
    dpt_kernel *kernel = launch->kernel;
    dpt_cl_launch_size size = {.group = {group[0], group[1], group[2]}};
    char line[LINE_BYTES];
    dpt_cl_verdict verdict = DPT_CL_GOOD;
    if (!cl->found->is_cpu || !dpt_cl_contained()) return DPT_OK;
    for (size_t i = 0; i < 3; i++)
        size.wide = size.wide || n_groups[i] * group[i] > NARROW;
    if (is_known(kernel, &size)) return DPT_OK;
    print_line(kernel, &size, line);
    if (!has_line(kernel->program->tried, line)) {
        DPT_TRY(try_launch(launch, n_groups, group, &verdict));
        if (verdict == DPT_CL_GOOD && !cl->tuner.trying) write_down(kernel->program, line);
    }
    remember(kernel, &size);
    return DPT_OK;
}
