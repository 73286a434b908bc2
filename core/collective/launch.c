/* Finds out whether this process is one of several: from the environment variables that launchers
   set, or that name an address to join at, and through the plug-in of the transport.  The public
   functions on processes are here too. */
#include "collective/launch.h"
#include "collective/arrivals.h"
#include "context/context.h"

#include "base/environment.h"
#include "base/parse.h"
#include "base/print.h"
#include "device/plugin.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The variables in which launchers say how many processes they have started: mpirun of Open MPI;
   PMI of MPICH, Intel MPI and Slurm; MVAPICH. */
static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"};

/* Of each of these, the variable in which it tells a process its rank. */
static const char *const rank_variables[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                             "MV2_COMM_WORLD_RANK"};

enum { MOST_PROCESSES = 65536, MOST_DELAY = 10 /* seconds */ };

/* PMIx has no such variable: a step of `srun --mpi=pmix` has its size from Slurm.  SLURM_NTASKS may
   be that of the whole allocation where there is no step. */
static bool find_step(size_t *n, const char **which)
{
    static const char *const sizes[] = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"};
    if (!dpti_environment("PMIX_RANK") || !dpti_environment("SLURM_STEP_ID")) return false;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *value = dpti_environment(sizes[i]);
        if (!value || !dpti_parse_size(value, 1, MOST_PROCESSES, n)) continue;
        *which = sizes[i];
        return true;
    }
    return false;
}

/* Returns whether processes are to join through TCP, without a launcher. */
static bool is_tcp_meant(void)
{
    const char *wanted = dpti_environment_trusted("DPTRAIN_TRANSPORT");
    if (wanted) return strcmp(wanted, "tcp") == 0;
    return dpti_environment("DPTRAIN_ADDRESS") || dpti_environment("DPTRAIN_JOIN");
}

/* Returns whether processes may come later, also to one process alone. */
static bool may_others_come(void)
{
    const char *n = dpti_environment("DPTRAIN_JOINERS");
    return is_tcp_meant() && n && strcmp(n, "0") != 0;
}

/* As dpti_launched, for processes that join through TCP. */
static dpt_status find_tcp(size_t *n, const char **which, dpt_error *error)
{
    static const char name[] = "DPTRAIN_PROCESSES";
    const char *value = dpti_environment(name);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        if (!dpti_environment(variables[i]) || dpti_environment_trusted("DPTRAIN_TRANSPORT"))
            continue;
        return DPT_FAIL(error, DPT_E_INVALID,
                        "DPTRAIN_ADDRESS (to join through TCP) and %s (of an MPI launcher) are "
                        "both set: unset one of them, or say which one counts with "
                        "DPTRAIN_TRANSPORT=tcp or DPTRAIN_TRANSPORT=mpi",
                        variables[i]);
    }
    if (dpti_environment("DPTRAIN_JOIN")) {
        *n = 2; /* this process, and those that are there */
        return DPT_OK;
    }
    if (!value || !dpti_parse_size(value, 1, MOST_PROCESSES, n))
        return DPT_FAIL(error, DPT_E_INVALID,
                        "DPTRAIN_PROCESSES is \"%.40s\": give the number of processes that are to "
                        "join, and each its DPTRAIN_RANK",
                        value ? value : "");
    const char *rank = dpti_environment("DPTRAIN_RANK");
    if (*n == 1 && rank && strcmp(rank, "0") != 0)
        return DPT_FAIL(
            error, DPT_E_INVALID,
            "DPTRAIN_RANK is \"%.40s\", and DPTRAIN_PROCESSES is 1: one process has rank "
            "0",
            rank);
    *which = name;
    return DPT_OK;
}

/* A process that lacks the address alone would train by itself, and the others would wait. */
static dpt_status check_address(dpt_error *error)
{
    static const char *const names[] = {"DPTRAIN_PROCESSES", "DPTRAIN_RANK", "DPTRAIN_JOINERS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!dpti_environment(names[i]) || dpti_environment_trusted("DPTRAIN_TRANSPORT")) continue;
        return DPT_FAIL(error, DPT_E_INVALID,
                        "%s is set and DPTRAIN_ADDRESS is not: export DPTRAIN_ADDRESS=HOST:PORT in "
                        "all processes that are to join through TCP, or unset %s",
                        names[i], names[i]);
    }
    return DPT_OK;
}

dpt_status dpti_launched(size_t *n, const char **which, dpt_error *error)
{
    *n = 1;
    *which = NULL;
    if (is_tcp_meant()) return find_tcp(n, which, error);
    DPT_TRY(check_address(error));
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = dpti_environment(variables[i]);
        if (!value) continue;
        if (!dpti_parse_size(value, 1, MOST_PROCESSES, n))
            return DPT_FAIL(error, DPT_E_INVALID,
                            "%s is \"%.40s\", which is no number of processes: start with mpirun, "
                            "or unset it to train in one process",
                            variables[i], value);
        *which = variables[i];
        return DPT_OK;
    }
    (void)find_step(n, which);
    return DPT_OK;
}

bool dpti_launched_rank(size_t *rank)
{
    const size_t n_known = sizeof variables / sizeof *variables;
    const char *which, *value = NULL;
    dpt_error error;
    size_t n;
    *rank = 0;
    if (dpti_launched(&n, &which, &error) != DPT_OK) return false;
    if (!which) return true;
    for (size_t i = 0; i < n_known; i++)
        if (strcmp(which, variables[i]) == 0) value = dpti_environment(rank_variables[i]);
    if (!value) value = dpti_environment(is_tcp_meant() ? "DPTRAIN_RANK" : "PMIX_RANK");
    return value && dpti_parse_size(value, 0, n - 1, rank);
}

dpt_status dpti_delay_wanted(double *out, dpt_error *error)
{
    static const char name[] = "DPTRAIN_TRANSPORT_DELAY";
    const char *value = dpti_environment(name);
    double delay = 0;
    if (value && !dpti_parse_seconds(value, MOST_DELAY, &delay))
        return DPT_FAIL(error, DPT_E_INVALID,
                        "%s is \"%.40s\", which is no delay of messages: give a time of at most "
                        "%d s with its unit, as in 500us, 5ms or 0.02s, or unset it",
                        name, value, MOST_DELAY);
    *out = delay;
    return DPT_OK;
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

/* A launcher of another MPI than the plug-in's is recognized by this: every process is alone. */
static dpt_status check_count(const dpti_processes *processes, size_t n, const char *which,
                              dpt_error *error)
{
    if (!which || dpti_processes_count(processes) == n) return DPT_OK;
    return DPT_FAIL(error, DPT_E_ABSENT,
                    "%s says that %zu processes were started, but %s sees %zu; use the mpirun of "
                    "the MPI that dptrain was built with",
                    which, n, dpti_processes_transport(processes), dpti_processes_count(processes));
}

/* The same in every version, because processes exchange these bytes first. */
enum { INTRODUCTION_BYTES = 128 };

/* Names the first process whose introduction differs from that of process 0. */
static dpt_status compare(char (*all)[INTRODUCTION_BYTES], size_t n, dpt_error *error)
{
    for (size_t r = 0; r < n; r++) {
        all[r][INTRODUCTION_BYTES - 1] = '\0';
        if (strcmp(all[r], all[0]) == 0) continue;
        return DPT_FAIL(error, DPT_E_INVALID,
                        "process 0 is dptrain %s, process %zu is dptrain %s; start the same "
                        "command and version in all",
                        all[0], r, all[r]);
    }
    return DPT_OK;
}

dpt_status dpti_processes_introduce(dpti_processes *processes, const char *version,
                                    const char *purpose, dpt_error *error)
{
    const size_t n = dpti_processes_count(processes);
    char(*all)[INTRODUCTION_BYTES] = calloc(n, sizeof *all);
    size_t *begins = calloc(n + 1, sizeof *begins);
    dpt_status verdict = DPT_OK, status = DPT_E_NO_MEMORY;
    if (all && begins) {
        for (size_t r = 0; r <= n; r++)
            begins[r] = r * sizeof *all;
        snprintf(all[dpti_processes_rank(processes)], sizeof *all, "%s%s%s", version,
                 *purpose ? " " : "", purpose);
        status = dpti_processes_share(processes, &(dpti_table){all, begins}, &verdict, error);
        if (status == DPT_OK) status = compare(all, n, error);
        if (status == DPT_E_INVALID) dpti_processes_know(processes);
    } else {
        dpti_processes_give_up(processes);
        (void)DPT_FAIL(error, status, "no memory to join other processes");
    }
    free(begins);
    free(all);
    return status;
}

/* Once all processes have joined, one that dies is left behind. */
static dpt_status meet_others(dpti_processes *processes, const char *purpose, dpt_error *error)
{
    dpt_status status = dpti_processes_introduce(processes, DPT_VERSION, purpose, error);
    if (status == DPT_OK) status = dpti_processes_tell_delays(processes, error);
    while (status != DPT_OK && dpti_processes_to_mend(processes)) {
        status = dpti_processes_mend(processes, error);
        if (status == DPT_OK)
            status = dpti_processes_introduce(processes, DPT_VERSION, purpose, error);
    }
    return status;
}

/* The transport's name if this process is to join others by it; NULL if it trains alone. */
static const char *choose_transport(size_t n)
{
    const char *wanted = dpti_environment_trusted("DPTRAIN_TRANSPORT");
    if (wanted) return strcmp(wanted, "none") == 0 ? NULL : wanted;
    if (n <= 1 && !may_others_come()) return NULL;
    return is_tcp_meant() ? "tcp" : "mpi";
}

size_t dpt_processes_launched(void)
{
    const char *which;
    size_t n;
    dpt_error error;
    if (dpti_launched(&n, &which, &error) != DPT_OK) return 1;
    return choose_transport(n) ? n : 1;
}

dpt_status dpt_processes_join_for(dpt_context *context, const char *purpose)
{
    const char *which;
    const dpt_transport *transport = NULL;
    dpt_error error = {.status = DPT_OK};
    char prefix[160];
    double delay = 0;
    size_t n;
    if (context->processes) return DPT_OK;
    const dpt_status launched = dpti_launched(&n, &which, &error);
    /* A number that cannot be read counts as several processes, unless the transport is switched
     * off. */
    const char *name = choose_transport(launched == DPT_OK ? n : 2);
    if (!name) return DPT_OK;
    if (launched != DPT_OK) return dpti_context_fail(context, NULL, &error);
    if (which)
        snprintf(prefix, sizeof prefix, "%zu processes are to train together (%s), but cannot", n,
                 which);
    else if (dpti_environment("DPTRAIN_JOIN"))
        snprintf(prefix, sizeof prefix, "this process cannot join");
    else
        snprintf(prefix, sizeof prefix,
                 "this process is to train with others (DPTRAIN_TRANSPORT=%.40s), but cannot",
                 name);
    dpt_status status = dpti_delay_wanted(&delay, &error);
    if (status == DPT_OK) status = dpti_transport_load(name, &transport, &error);
    if (status == DPT_OK)
        status = dpti_processes_start(transport, delay, &context->processes, &error);
    if (status == DPT_OK) {
        status = check_count(context->processes, n, which, &error);
        if (status != DPT_OK) dpti_processes_give_up(context->processes);
    }
    snprintf(context->purpose, sizeof context->purpose, "%s", purpose);
    if (status == DPT_OK && dpti_processes_come(context->processes))
        return dpti_arrivals_check(context, prefix);
    if (status == DPT_OK) status = meet_others(context->processes, purpose, &error);
    if (status == DPT_OK) context->process_name.rank = dpti_processes_rank(context->processes);
    if (status == DPT_OK) context->process_name.rank_known = true;
    return status == DPT_OK ? DPT_OK : dpti_context_fail(context, prefix, &error);
}

dpt_status dpt_processes_join(dpt_context *context)
{
    return dpt_processes_join_for(context, "");
}

size_t dpt_process_count(const dpt_context *context)
{
    return context->processes ? dpti_processes_count(context->processes) : 1;
}

size_t dpt_process_rank(const dpt_context *context)
{
    return context->processes ? dpti_processes_rank(context->processes) : 0;
}

double dpt_process_delay(const dpt_context *context, size_t rank)
{
    const double *delays = context->processes ? dpti_processes_delays(context->processes) : NULL;
    return delays ? delays[rank] : 0;
}

void dpti_processes_words(const dpti_processes *processes, char *out, size_t n_bytes)
{
    static const double ms = 1e3;
    const char *name = dpti_processes_transport(processes);
    const double *delays = dpti_processes_delays(processes);
    double least = delays ? delays[0] : 0, most = least;
    for (size_t r = 0; delays && r < dpti_processes_count(processes); r++) {
        if (delays[r] < least) least = delays[r];
        if (delays[r] > most) most = delays[r];
    }
    if (!delays)
        snprintf(out, n_bytes, "%s", name);
    else if (least < most)
        snprintf(out, n_bytes, "%s, delayed by %g to %g ms", name, ms * least, ms * most);
    else
        snprintf(out, n_bytes, "%s, delayed by %g ms", name, ms * most);
}

void dpt_process_transport(const dpt_context *context, char *out, size_t n_bytes)
{
    if (context->processes)
        dpti_processes_words(context->processes, out, n_bytes);
    else if (n_bytes > 0)
        *out = '\0';
}

bool dpt_process_survives(const dpt_context *context)
{
    return context->processes && dpti_processes_survive(context->processes);
}

double dpt_process_timeout(const dpt_context *context)
{
    return context->processes ? dpti_processes_timeout(context->processes) : 0;
}

bool dpt_process_agreed(const dpt_context *context)
{
    return !context->processes || dpti_processes_agreed(context->processes);
}

bool dpt_process_cut_off(const dpt_context *context)
{
    return context->processes && dpti_processes_cut_off(context->processes);
}

bool dpt_process_speaks(const dpt_context *context)
{
    return dpt_process_rank(context) == 0 || !dpt_process_agreed(context);
}

void dpt_process_give_up(dpt_context *context)
{
    if (context->processes) dpti_processes_give_up(context->processes);
}
