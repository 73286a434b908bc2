/* Probing, describing, opening and closing OpenCL devices. */
#include "cache.h"
#include "clblast.h"
#include "contain.h"
#include "memory.h"
#include "platforms.h"
#include "program.h"
#include "size.h"
#include "source.h"
#include "state.h"
#include "tables.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char *const paths[] = {"local", "registers", NULL};

const dpt_param_spec dpt_cl_param_specs[] = {
    {.key = "path",
     .help = "local or registers: which convolutions and products are considered (default: "
             "whichever measures faster)",
     .type = DPT_PARAM_CHOICE,
     .choices = paths},
    {.key = "algorithm",
     .help = "the beginning of the name of the only ones considered where they apply, as "
             "winograd (default: whichever measures faster)"},
    {.key = "precision",
     .help = "fp32 or bf16: as what activations are stored; everything is computed in float32 "
             "(default: fp32)",
     .type = DPT_PARAM_PRECISION,
     .precisions = 1u << DPT_PRECISION_FP32 | 1u << DPT_PRECISION_BF16},
    {.key = NULL},
};

static dpt_status probe(size_t *n_devices, dpt_error *error)
{
    const dpt_cl_platforms *platforms = dpt_cl_platforms_get();
    if (platforms->problem.status != DPT_OK) {
        *error = platforms->problem;
        return platforms->problem.status;
    }
    *n_devices = platforms->n_devices;
    return DPT_OK;
}

/* ---- Describing ------------------------------------------------------------------------------ */

/* What a person should know of containment, in what is left of the detail. */
static void add_detail(dpt_device_properties *info)
{
    const char *absent = dpt_cl_platforms_get()->absent;
    const size_t n = strlen(info->detail), room = sizeof info->detail - n;
    if (!dpt_cl_contained())
        snprintf(info->detail + n, room, ", compiled for in this process");
    else if (absent[0])
        snprintf(info->detail + n, room, "; absent: %.200s", absent);
}

static void fill_info(const dpt_cl_found *found, dpt_device_properties *info)
{
    *info = (dpt_device_properties){
        .memory_bytes = found->memory_bytes,
        .alignment_bytes = DPT_ALIGNMENT_BYTES,
        .n_threads = found->compute_units,
        /* `prepare` says why a device has no deterministic operators. */
        .flags = DPT_DEVICE_DETERMINISTIC | (found->is_host_cpu ? DPT_DEVICE_IS_HOST_CPU : 0),
    };
    snprintf(info->name, sizeof info->name, "%.95s", found->name);
    snprintf(info->detail, sizeof info->detail, "%.60s, driver %.60s", found->platform_name,
             found->driver);
    add_detail(info);
    snprintf(info->group, sizeof info->group, "%.15s", found->group);
    memcpy(info->uuid, found->uuid, sizeof info->uuid);
    memcpy(info->pci_id, found->pci_id, sizeof info->pci_id);
    snprintf(info->memory_domain, sizeof info->memory_domain, "opencl:%zu", found->index);
    if (found->is_host_cpu)
        snprintf(info->compute_domain, sizeof info->compute_domain, "host-cores");
    else
        snprintf(info->compute_domain, sizeof info->compute_domain, "opencl:%zu", found->index);
    snprintf(info->fault_domain, sizeof info->fault_domain, "opencl:%zu", found->index);
}

static dpt_status describe(size_t index, dpt_device_properties *info, dpt_error *error)
{
    const dpt_cl_platforms *platforms = dpt_cl_platforms_get();
    if (index >= platforms->n_devices)
        return DPT_FAIL(error, DPT_E_NOT_FOUND, "there is no opencl:%zu: there are %zu devices",
                        index, platforms->n_devices);
    fill_info(&platforms->devices[index], info);
    return DPT_OK;
}

static dpt_status info(dpt_device *device, dpt_device_properties *out)
{
    const dpt_cl_device *cl = dpt_cl_device_of(device);
    fill_info(cl->found, out);
    out->activations = cl->params.activations;
    if (out->activations == DPT_BF16)
        snprintf(out->detail + strlen(out->detail), sizeof out->detail - strlen(out->detail),
                 ", bf16 activations");
    return DPT_OK;
}

/* ---- Parameters ------------------------------------------------------------------------------ */

static dpt_status read_params(const dpt_device_request *request, dpt_cl_params *out,
                              dpt_error *error)
{
    const dpt_param *path = dpt_param_find(request, "path");
    const dpt_param *algorithm = dpt_param_find(request, "algorithm");
    out->activations = request->precision == DPT_PRECISION_BF16 ? DPT_BF16 : DPT_F32;
    if (path) out->path = path->number == 0 ? DPT_CL_PATH_LOCAL : DPT_CL_PATH_REGISTERS;
    if (!algorithm) return DPT_OK;
    out->algorithm = strdup(algorithm->text);
    if (!out->algorithm) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a device");
    return DPT_OK;
}

/* ---- Contexts -------------------------------------------------------------------------------- */

/* One context for each physical device, so that its replicas share the data, and so that what one
   device breaks stays with it. */
typedef struct shared_context {
    const dpt_cl_found *found;
    cl_context context;
    size_t n_users;
    struct shared_context *next;
} shared_context;

static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static shared_context *contexts;

static dpt_status create_context(const dpt_cl_found *found, cl_context *out, dpt_error *error)
{
    cl_int code;
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                                (cl_context_properties)found->platform, 0};
    const cl_context context = clCreateContext(properties, 1, &found->id, NULL, NULL, &code);
    if (!context) return DPT_CL_FAIL(error, code, "clCreateContext");
    shared_context *shared = malloc(sizeof *shared);
    if (!shared) {
        (void)clReleaseContext(context);
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a device");
    }
    *shared = (shared_context){found, context, 1, contexts};
    contexts = shared;
    *out = context;
    return DPT_OK;
}

static dpt_status take_context(const dpt_cl_found *found, cl_context *out, dpt_error *error)
{
    dpt_status status = DPT_OK;
    pthread_mutex_lock(&contexts_lock);
    shared_context *shared = contexts;
    while (shared && shared->found != found)
        shared = shared->next;
    if (shared) {
        shared->n_users++;
        *out = shared->context;
    } else {
        status = create_context(found, out, error);
    }
    pthread_mutex_unlock(&contexts_lock);
    return status;
}

static void leave_context(cl_context context)
{
    pthread_mutex_lock(&contexts_lock);
    shared_context **link = &contexts;
    while (*link && (*link)->context != context)
        link = &(*link)->next;
    shared_context *shared = *link;
    if (shared && --shared->n_users == 0) {
        *link = shared->next;
        (void)clReleaseContext(shared->context);
        free(shared);
    }
    pthread_mutex_unlock(&contexts_lock);
}

/* ---- For backends/common --------------------------------------------------------------------- */

static void set_traits(dpt_cl_device *cl)
{
    const dpt_cl_found *found = cl->found;
    cl->traits = (dpt_traits){
        .name = found->name,
        .is_cpu = found->is_cpu,
        .n_units = found->compute_units,
        .group_size = found->group_size,
        .vector_width = found->vector_width,
        .most_group_size = found->max_group,
        .most_shared_bytes = found->local_bytes,
        .activations = cl->params.activations,
        .varies = found->varies,
    };
}

/* What an alternative's name says it was written for. */
static bool suits(const dpt_device *device, const char *name)
{
    const dpt_cl_device *cl = dpt_cl_device_of(device);
    const bool registers = cl->params.path == DPT_CL_PATH_REGISTERS ||
                           (cl->params.path == DPT_CL_PATH_MEASURED && cl->found->is_cpu);
    return strstr(name, registers ? "local" : "registers") == NULL;
}

static dpt_status finish(dpt_stream *stream)
{
    DPT_CL_TRY(stream->device, clFinish(stream->queue));
    return DPT_OK;
}

/* Choices of devices of one name and driver; forgotten when a kernel changes. */
static void name_choices(const dpt_cl_found *found, char *out, size_t n_bytes)
{
    dpt_hash hash = dpt_hash_text(dpt_hash_begin(), found->platform_name);
    hash = dpt_hash_text(hash, found->name);
    hash = dpt_hash_text(hash, found->version);
    hash = dpt_hash_text(hash, found->driver);
    for (const dpt_cl_source *source = dpt_cl_sources; source->name; source++)
        hash = dpt_hash_add(hash, source->text, source->n_bytes);
    char digits[DPT_HASH_CHARS + 1];
    dpt_hash_print(hash, digits);
    snprintf(out, n_bytes, "opencl/tuning-%.16s.txt", digits);
}

static dpt_status set_tuner(dpt_device *device)
{
    dpt_cl_device *cl = dpt_cl_device_of(device);
    char file[64];
    name_choices(cl->found, file, sizeof file);
    cl->tuner = (dpt_tuner){.stream = &cl->scratch,
                            .algorithm = cl->params.algorithm,
                            .finish = finish,
                            .suits = suits};
    return dpt_tuning_open(device, file, &cl->tuner.choices);
}

const dpt_traits *dpt_traits_of(const dpt_device *device)
{
    return &dpt_cl_device_of(device)->traits;
}

dpt_tuner *dpt_tuner_of(const dpt_device *device)
{
    return &dpt_cl_device_of(device)->tuner;
}

dpt_device *dpt_stream_device(const dpt_stream *stream)
{
    return stream->device;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static dpt_status open_device(dpt_device *device, const dpt_open_args *args)
{
    const dpt_device_request *request = &args->requests[args->self];
    const dpt_cl_platforms *platforms = dpt_cl_platforms_get();
    if (request->index >= platforms->n_devices)
        return DPT_FAIL(&device->error, DPT_E_NOT_FOUND, "there is no opencl:%zu", request->index);
    dpt_cl_device *cl = calloc(1, sizeof *cl);
    if (!cl) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory to open a device");
    device->state = cl;
    cl->found = &platforms->devices[request->index];
    DPT_TRY(read_params(request, &cl->params, &device->error));
    DPT_TRY(take_context(cl->found, &cl->context, &device->error));
    DPT_TRY(dpt_cl_queue_create(device, &cl->queue));
    cl->scratch = (dpt_stream){.device = device, .queue = cl->queue};
    set_traits(cl);
    DPT_TRY(dpt_cl_programs_create(device, &cl->programs));
    cl->compiler = dpt_cl_compiler_create(cl->found);
    if (!cl->compiler)
        return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory to open a device");
    return set_tuner(device);
}

static void close_device(dpt_device *device)
{
    dpt_cl_device *cl = dpt_cl_device_of(device);
    if (!cl) return;
    dpt_cl_clblast_leave(device);
    dpt_cl_compiler_destroy(cl->compiler);
    dpt_cl_programs_destroy(cl->programs);
    dpt_cl_pinned_destroy(device);
    dpt_cl_streams_destroy(device);
    if (cl->queue) (void)clReleaseCommandQueue(cl->queue);
    if (cl->context) leave_context(cl->context);
    free(cl->params.algorithm);
    free(cl);
    device->state = NULL;
}

const dpt_device_ops dpt_cl_device_ops = {
    .probe = probe,
    .describe = describe,
    .open = open_device,
    .close = close_device,
    .info = info,
};
