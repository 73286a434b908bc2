/* Probing, describing and opening the processor.  It is one device, whose entries in a device list
   divide its cores. */
#include "algorithm.h"
#include "choose.h"
#include "state.h"
#include "tables.h"

#include <stdlib.h>
#include <string.h>

const dpt_param_spec dpt_cpu_params[] = {
    {.key = "threads",
     .help = "threads to compute with, 1 to 1024 (default: a fair part of the cores)",
     .type = DPT_PARAM_NUMBER,
     .min = 1,
     .max = DPT_CPU_MAX_THREADS},
    {.key = "algorithm",
     .help = "the beginning of the name of the only convolutions considered where they apply: "
             "direct, depthwise, winograd2, winograd3, winograd4 (default: the fastest)"},
    {.key = NULL},
};

static dpt_status probe(size_t *n_devices, dpt_error *error)
{
    (void)error;
    (void)dpt_cpu_host_get(); /* before a thread is bound, and while the process has few threads */
    *n_devices = 1;
    return DPT_OK;
}

/* ---- Parameters ------------------------------------------------------------------------------ */

/* Returns the value of threads=, or 0 if the request has none. */
static unsigned requested_threads(const dpt_device_request *request)
{
    const dpt_param *param = dpt_param_find(request, "threads");
    return param ? (unsigned)param->number : 0;
}

/* *out: a copy of the value of algorithm=, which the caller frees, or NULL if there is none. */
static dpt_status requested_algorithm(const dpt_device_request *request, char **out,
                                      dpt_error *error)
{
    const dpt_param *param = dpt_param_find(request, "algorithm");
    if (!param) return DPT_OK;
    DPT_TRY(dpt_cpu_check_algorithm("algorithm=", param->text, error));
    *out = strdup(param->text);
    if (!*out) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to open a CPU device");
    return DPT_OK;
}

/* ---- Cores ----------------------------------------------------------------------------------- */

/* The cores of one entry of the device list. */
typedef struct core_share {
    unsigned n_threads;
    unsigned first; /* index of the first core among the cores of the process */
    bool bound;
} core_share;

/* Whether the system lets this process run fewer threads at once than it has cores, as a container
   with a quota. */
static bool has_quota(size_t n_processors, unsigned n_cores)
{
    return n_processors < n_cores;
}

/* Divides the cores among the entries of the device list, or as many of them as threads may run at
   once.  Entries with threads= take their cores first, in the order of the list.  The others divide
   the rest and get at least one thread each.  If there are more threads than cores, no thread is
   bound: bound teams that share a core would wait for each other, and unbound threads are moved by
   the system.  With a quota none is bound either: other containers would choose the same cores. */
static core_share share_cores(const dpt_open_args *args, unsigned all_cores)
{
    const bool quota = has_quota(args->n_processors, all_cores);
    const unsigned n_cores = quota ? (unsigned)args->n_processors : all_cores;
    size_t n_asked = 0; /* threads= summed */
    size_t n_open = 0;  /* requests without one */
    size_t asked_before_self = 0, open_before_self = 0;
    unsigned own = 0;
    for (size_t i = 0; i < args->n_requests; i++) {
        const unsigned n_threads = requested_threads(&args->requests[i]);
        if (i == args->self) own = n_threads;
        if (i < args->self) {
            asked_before_self += n_threads;
            open_before_self += n_threads == 0;
        }
        n_asked += n_threads;
        n_open += n_threads == 0;
    }
    const size_t left = n_asked < n_cores ? n_cores - n_asked : 0;
    const size_t each = n_open > 0 ? left / n_open : 0;
    const size_t more = n_open > 0 ? left % n_open : 0;
    core_share share;
    if (own > 0) {
        share = (core_share){.n_threads = own, .first = (unsigned)asked_before_self};
    } else {
        const size_t extra = open_before_self < more ? open_before_self : more;
        const size_t n_threads = each + (open_before_self < more);
        share = (core_share){.n_threads = n_threads > 0 ? (unsigned)n_threads : 1,
                             .first = (unsigned)(n_asked + each * open_before_self + extra)};
    }
    share.bound = n_asked + (n_open > left ? n_open : 0) <= n_cores && !quota;
    return share;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static void enter_thread(const void *argument)
{
    dpt_cpu_blas_enter(argument);
}

static dpt_status open_device(dpt_device *device, const dpt_open_args *args)
{
    const dpt_cpu_host *host = dpt_cpu_host_get();
    if (host->problem.status != DPT_OK) {
        device->error = host->problem;
        return host->problem.status;
    }
    const core_share share = share_cores(args, host->n_cores);
    dpt_cpu_device *cpu = calloc(1, sizeof *cpu);
    if (!cpu) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory to open a CPU device");
    device->state = cpu;
    *cpu = (dpt_cpu_device){.host = host,
                            .n_threads = share.n_threads,
                            .self = (unsigned)args->self,
                            .n_processors = (unsigned)args->n_processors,
                            .bound = share.bound};
    DPT_TRY(requested_algorithm(&args->requests[args->self], &cpu->algorithm, &device->error));
    cpu->choices = dpt_cpu_choices_get(host);
    if (!cpu->choices)
        return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory to open a CPU device");
    const dpt_cpu_team_args team_args = {
        .n_threads = share.n_threads,
        .cores = share.bound ? host->cores + share.first : NULL,
        .enter = enter_thread,
        .argument = &host->blas,
    };
    return dpt_cpu_team_create(&team_args, &cpu->team, &device->error);
}

static void close_device(dpt_device *device)
{
    dpt_cpu_device *cpu = dpt_cpu_device_of(device);
    if (!cpu) return;
    dpt_cpu_team_destroy(cpu->team);
    free(cpu->algorithm);
    free(cpu);
    device->state = NULL;
}

/* ---- Describing ------------------------------------------------------------------------------ */

static void fill_info(const dpt_cpu_host *host, dpt_device_properties *info)
{
    *info = (dpt_device_properties){
        .memory_bytes = host->memory_bytes,
        .alignment_bytes = DPT_CPU_ALIGNMENT_BYTES,
        .n_threads = host->n_cores,
        .cache_bytes = host->n_cores * host->cache_bytes,
        .flags = DPT_DEVICE_IS_HOST_CPU | DPT_DEVICE_DETERMINISTIC,
        .memory_domain = "host",
        .compute_domain = "host-cores",
        .fault_domain = "host:0",
    };
    snprintf(info->name, sizeof info->name, "%s", host->name);
    snprintf(info->detail, sizeof info->detail, "%s kernels, %s%s%s",
             host->kernels ? host->kernels->name : "no", host->blas.description,
             host->algorithm[0] ? ", DPTRAIN_CPU_ALGORITHM=" : "", host->algorithm);
}

static dpt_status describe(size_t index, dpt_device_properties *info, dpt_error *error)
{
    if (index != 0)
        return DPT_FAIL(error, DPT_E_NOT_FOUND, "there is one cpu device, cpu:0, not cpu:%zu",
                        index);
    fill_info(dpt_cpu_host_get(), info);
    return DPT_OK;
}

static dpt_status info(dpt_device *device, dpt_device_properties *out)
{
    const dpt_cpu_device *cpu = dpt_cpu_device_of(device);
    fill_info(cpu->host, out);
    out->n_threads = cpu->n_threads;
    if (cpu->n_threads < cpu->host->n_cores)
        out->cache_bytes = cpu->n_threads * cpu->host->cache_bytes;
    if (cpu->bound) out->flags |= DPT_DEVICE_DRIVER_COMPUTES;
    snprintf(out->fault_domain, sizeof out->fault_domain, "host:%u", cpu->self);
    const size_t n = strlen(out->detail);
    if (has_quota(cpu->n_processors, cpu->host->n_cores))
        snprintf(out->detail + n, sizeof out->detail - n,
                 ", not bound: its control group grants %u of %u cores", cpu->n_processors,
                 cpu->host->n_cores);
    else
        snprintf(out->detail + n, sizeof out->detail - n, ", %s",
                 cpu->bound ? "bound to cores" : "not bound: more threads than cores");
    return DPT_OK;
}

const dpt_device_ops dpt_cpu_device_ops = {
    .probe = probe,
    .describe = describe,
    .open = open_device,
    .close = close_device,
    .info = info,
};
