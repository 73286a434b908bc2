/* Whether this process is one of several: what launchers leave in the environment, and the plug-in
   of the transport.  The public face of it is here too. */
#include "collective/processes.h"

#include "base/base.h"
#include "device/device.h"
#include "device/plugin.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The variables in which launchers tell how many processes they have started: Open MPI's mpirun;
   MPICH's, Intel's and Slurm's PMI; MVAPICH's. */
static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"};

enum { MOST_PROCESSES = 65536 };

size_t dpti_launched(const char **which)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = dpti_environment(variables[i]);
        size_t n;
        if (!value || !dpti_parse_size(value, 1, MOST_PROCESSES, &n)) continue;
        if (which) *which = variables[i];
        return n;
    }
    if (which) *which = NULL;
    return 1;
}

/* ---- The plug-in ----------------------------------------------------------------------------- */

static dpt_status load(const char *path, const dpt_transport **out, dpt_error *error)
{
    void *symbol;
    dpt_transport_entry_fn entry;
    DPT_TRY(dpti_plugin_symbol(path, DPT_TRANSPORT_ENTRY_NAME, &symbol, error));
    memcpy(&entry, &symbol, sizeof entry); /* C has no cast from a pointer to a function's */
    const dpt_transport *transport = entry(DPT_TRANSPORT_ABI);
    if (!transport || transport->abi != DPT_TRANSPORT_ABI)
        return DPT_FAIL(error, DPT_E_UNSUPPORTED,
                        "%s is built for another version of dptrain: rebuild or reinstall it",
                        path);
    *out = transport;
    return DPT_OK;
}

dpt_status dpti_transport_load(const char *name, const dpt_transport **out, dpt_error *error)
{
    char *folders[DPTI_MAX_PLUGIN_FOLDERS];
    size_t n = 0;
    if (dpti_plugin_folders(folders, &n) != DPT_OK)
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to look for plug-ins");
    dpt_status status =
        DPT_FAIL(error, DPT_E_ABSENT, "there is no plug-in transports/libdptrain-%s.so", name);
    bool found = false;
    for (size_t i = 0; i < n; i++) {
        char *path = found ? NULL : dpti_format("%s/transports/libdptrain-%s.so", folders[i], name);
        found = found || (path && access(path, F_OK) == 0);
        if (path && found) status = load(path, out, error);
        free(path);
        free(folders[i]);
    }
    return status;
}

/* ---- Joining --------------------------------------------------------------------------------- */

/* A launcher of another MPI than the plug-in's shows itself so: every process is alone. */
static dpt_status check_count(const dpti_processes *processes, size_t n, const char *which,
                              const char *name, dpt_error *error)
{
    if (!which || dpti_processes_count(processes) == n) return DPT_OK;
    return DPT_FAIL(error, DPT_E_ABSENT,
                    "%s says that %zu processes were started, but %s sees %zu; use the mpirun of "
                    "the MPI that dptrain was built with",
                    which, n, name, dpti_processes_count(processes));
}

dpt_status dpt_processes_join(dpt_context *context)
{
    const char *which;
    const size_t n = dpti_launched(&which);
    const char *wanted = dpti_environment_trusted("DPTRAIN_TRANSPORT");
    const char *name = wanted ? wanted : "mpi";
    const dpt_transport *transport = NULL;
    dpt_error error = {.status = DPT_OK};
    char prefix[160];
    if (context->processes || strcmp(name, "none") == 0 || (!wanted && n == 1)) return DPT_OK;
    snprintf(prefix, sizeof prefix, "%zu processes are to train together (%s), but cannot", n,
             which ? which : "DPTRAIN_TRANSPORT");
    dpt_status status = dpti_transport_load(name, &transport, &error);
    if (status == DPT_OK) status = dpti_processes_start(transport, &context->processes, &error);
    if (status == DPT_OK) {
        status = check_count(context->processes, n, which, name, &error);
        if (status != DPT_OK) dpti_processes_give_up(context->processes);
    }
    return status == DPT_OK ? DPT_OK : dpti_context_fail(context, prefix, &error);
}

size_t dpt_process_count(const dpt_context *context)
{
    return context->processes ? dpti_processes_count(context->processes) : 1;
}

size_t dpt_process_rank(const dpt_context *context)
{
    return context->processes ? dpti_processes_rank(context->processes) : 0;
}

bool dpt_process_speaks(const dpt_context *context)
{
    return dpt_process_rank(context) == 0 || !dpti_processes_agreed(context->processes);
}

void dpt_process_give_up(dpt_context *context)
{
    if (context->processes) dpti_processes_give_up(context->processes);
}
