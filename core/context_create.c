/* Creates and destroys contexts. */
#include "context_create.h"
#include "collective/launch.h"
#include "collective/processes.h"
#include "context/context.h"
#include "context/sized.h"
#include "device/registry.h"

#include <stdlib.h>
#include <unistd.h>

static void find_process_name(dpti_process_name *name)
{
    name->rank_known = dpti_launched_rank(&name->rank);
    if (gethostname(name->host, sizeof name->host - 1) != 0) name->host[0] = '\0';
}

dpt_status dpti_context_create_empty(dpt_context **out)
{
    dpt_context *context = calloc(1, sizeof *context);
    if (!context) return DPT_E_NO_MEMORY;
    find_process_name(&context->process_name);
    const dpt_status status = dpti_registry_create(context, &context->registry);
    if (status != DPT_OK) {
        free(context);
        return status;
    }
    *out = context;
    return DPT_OK;
}

dpt_status dpt_context_create(dpt_context **out)
{
    return dpt_context_create_with(NULL, out);
}

dpt_status dpt_context_create_with(const dpt_context_options *options, dpt_context **out)
{
    dpt_context *context;
    dpt_context_options o;
    DPT_TRY(dpti_read_sized(&(dpti_sized){"dpt_context_options", options, sizeof o}, &o, NULL));
    if (!(o.device_timeout >= 0 && o.device_timeout <= 1e9)) return DPT_E_INVALID;
    DPT_TRY(dpti_context_create_empty(&context));
    context->device_timeout = o.device_timeout;
    const dpt_status status = dpti_registry_scan(context->registry, o.devices);
    if (status != DPT_OK) {
        dpt_context_destroy(context);
        return status;
    }
    *out = context;
    return DPT_OK;
}

void dpt_context_destroy(dpt_context *context)
{
    if (!context) return;
    dpti_processes_stop(context->processes);
    if (context->carried.object) context->carried.destroy(context->carried.object);
    free(context->counts.of);
    free(context->invitation);
    for (size_t i = 0; i < DPTI_TOLD_HEADERS; i++)
        free(context->told_headers[i]);
    dpti_registry_destroy(context->registry);
    free(context->precision);
    free(context);
}
