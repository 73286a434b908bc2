/* Keeps the programs of a device and their kernels. */
#include "program.h"
#include "compile.h"

#include <stdlib.h>
#include <string.h>

struct dpt_cl_programs {
    dpt_cl_program *first;
};

dpt_status dpt_cl_programs_create(dpt_device *device, dpt_cl_programs **out)
{
    dpt_cl_programs *programs = calloc(1, sizeof *programs);
    if (!programs) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for programs");
    *out = programs;
    return DPT_OK;
}

static void destroy_entry(dpt_cl_program *entry)
{
    while (entry->kernels) {
        dpt_kernel *kernel = entry->kernels;
        entry->kernels = kernel->next;
        (void)clReleaseKernel(kernel->handle);
        free(kernel->name);
        free(kernel->launches);
        free(kernel);
    }
    if (entry->program) (void)clReleaseProgram(entry->program);
    free(entry->tried);
    free(entry);
}

void dpt_cl_programs_destroy(dpt_cl_programs *programs)
{
    if (!programs) return;
    while (programs->first) {
        dpt_cl_program *entry = programs->first;
        programs->first = entry->next;
        destroy_entry(entry);
    }
    free(programs);
}

/* ---- Kernels --------------------------------------------------------------------------------- */

static dpt_status find_program(dpt_device *device, const dpt_program_key *key, dpt_cl_program **out)
{
    dpt_cl_programs *programs = dpt_cl_device_of(device)->programs;
    dpt_cl_program *entry = programs->first;
    while (entry && (strcmp(entry->key.file, key->file) != 0 ||
                     strcmp(entry->key.options, key->options) != 0 ||
                     strcmp(entry->key.constants, key->constants) != 0))
        entry = entry->next;
    if (!entry) {
        entry = calloc(1, sizeof *entry);
        if (!entry) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for a program");
        entry->key = *key;
        const dpt_status status = dpt_cl_program_make(device, entry);
        if (status != DPT_OK) {
            destroy_entry(entry);
            return status;
        }
        entry->next = programs->first;
        programs->first = entry;
    }
    *out = entry;
    return DPT_OK;
}

static dpt_status make_kernel(dpt_device *device, dpt_cl_program *program, const char *name,
                              dpt_kernel **out)
{
    cl_int code;
    dpt_kernel *entry = calloc(1, sizeof *entry);
    if (entry) entry->name = strdup(name);
    if (!entry || !entry->name) {
        free(entry);
        return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for a kernel");
    }
    entry->program = program;
    entry->handle = clCreateKernel(program->program, name, &code);
    if (!entry->handle) {
        free(entry->name);
        free(entry);
        return DPT_CL_FAIL(&device->error, code, "clCreateKernel");
    }
    entry->next = program->kernels;
    program->kernels = entry;
    *out = entry;
    return DPT_OK;
}

dpt_status dpt_kernel_get(dpt_device *device, const dpt_program_key *key, const char *name,
                          dpt_kernel **out)
{
    dpt_cl_program *program = NULL;
    DPT_TRY(find_program(device, key, &program));
    if (!program->stored && !dpt_cl_device_of(device)->tuner.trying)
        dpt_cl_program_store(device, program);
    for (dpt_kernel *entry = program->kernels; entry; entry = entry->next) {
        if (strcmp(entry->name, name) != 0) continue;
        *out = entry;
        return DPT_OK;
    }
    return make_kernel(device, program, name, out);
}
