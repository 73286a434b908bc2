/* The transport through MPI: non-blocking messages on a communicator of our own.  All calls come
   from one thread, so MPI_THREAD_FUNNELED is enough.

   Where MPI has ULFM (User-Level Failure Mitigation) and mpirun has enabled it, the job goes on
   when a process dies: the communicator is revoked and shrunk. */
#include "transport.h"

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

enum { FIRST_TAG = 1, MOST_BYTES = 1 << 30 }; /* MPI counts in int */

typedef struct mpi_job {
    MPI_Comm world;
    bool survives;  /* MPI goes on when a process dies */
    double timeout; /* as transport.h has it */
    bool known;     /* all living processes know that the job has to be mended */
    bool mended;    /* processes were left behind */
} mpi_job;

typedef struct mpi_requests {
    int n;
    MPI_Request *requests;
    MPI_Status *statuses;
    int *n_bytes; /* of a receive; of a send -1 */
} mpi_requests;

static dpt_status fail(int code, const char *what, dpt_error *error)
{
    char words[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    if (MPI_Error_string(code, words, &length) != MPI_SUCCESS) words[0] = '\0';
    return DPT_FAIL_NATIVE(error, DPT_E_IO, code, "%s: %.300s", what, words);
}

/* ---- Processes that die ---------------------------------------------------------------------- */

#ifdef OMPI_HAVE_MPI_EXT_FTMPI

/* A variable of Open MPI; zeros if it is not there. */
typedef union variable {
    bool is;
    double number;
    long room[8];
} variable;

static variable read_variable(const char *name)
{
    int index = -1, count = 0;
    variable value = {.room = {0}};
    MPI_T_cvar_handle handle;
    if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS ||
        MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS)
        return value;
    if (count != 1 || MPI_T_cvar_read(handle, &value) != MPI_SUCCESS)
        value = (variable){.room = {0}};
    (void)MPI_T_cvar_handle_free(&handle);
    return value;
}

/* The library has ULFM, and `mpirun --with-ft ulfm` enables it.  Its failure detector watches
   processes that stand still, if it is enabled.  Without a thread of its own it sends no heartbeat
   while a process computes. */
static dpt_status find_what_is_enabled(mpi_job *job, dpt_error *error)
{
    int level = 0;
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &level) != MPI_SUCCESS) return DPT_OK;
    job->survives = read_variable("mpi_ft_enable").is;
    const bool detects = job->survives && read_variable("mpi_ft_detector").is,
               threaded = read_variable("mpi_ft_detector_thread").is;
    const double period = read_variable("mpi_ft_detector_period").number,
                 timeout = read_variable("mpi_ft_detector_timeout").number;
    (void)MPI_T_finalize();
    if (detects && !threaded)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "with --mca mpi_ft_detector true alone, MPI takes a process that computes "
                        "for a dead one: add --mca mpi_ft_detector_thread true");
    if (detects && !(timeout > 3 * period && period > 0))
        return DPT_FAIL(error, DPT_E_INVALID,
                        "mpi_ft_detector_timeout is %g s and mpi_ft_detector_period %g s: the "
                        "timeout has to be more than three periods",
                        timeout, period);
    /* The others count from the last heartbeat, up to a period before, and one may be late. */
    if (detects) job->timeout = timeout - 2 * period;
    return DPT_OK;
}

/* Fails what is in flight in all processes. */
static void revoke(const mpi_job *job)
{
    if (job->survives) (void)MPIX_Comm_revoke(job->world);
}

/* All living processes call it.  *all: whether `fine` was true in all of them, and none has died.
 */
static int agree(const mpi_job *job, bool fine, bool *all)
{
    int value = fine;
    const int code = MPIX_Comm_agree(job->world, &value);
    const bool died = code == MPIX_ERR_PROC_FAILED; /* in the results of all */
    *all = value != 0 && !died;
    return died ? MPI_SUCCESS : code;
}

static int shrink(const mpi_job *job, MPI_Comm *left)
{
    return MPIX_Comm_shrink(job->world, left);
}

#else

static dpt_status find_what_is_enabled(mpi_job *job, dpt_error *error)
{
    (void)job;
    (void)error;
    return DPT_OK;
}

static void revoke(const mpi_job *job)
{
    (void)job;
}

static int agree(const mpi_job *job, bool fine, bool *all)
{
    (void)job;
    *all = fine;
    return MPI_ERR_UNSUPPORTED_OPERATION;
}

static int shrink(const mpi_job *job, MPI_Comm *left)
{
    (void)job;
    (void)left;
    return MPI_ERR_UNSUPPORTED_OPERATION;
}

#endif

static bool transport_survives(void *self)
{
    const mpi_job *job = self;
    return job->survives;
}

static double transport_timeout(void *self)
{
    const mpi_job *job = self;
    return job->timeout;
}

static dpt_status transport_settle(void *self, dpt_error *error)
{
    mpi_job *job = self;
    bool all = false;
    const int code = agree(job, true, &all);
    if (code != MPI_SUCCESS) return fail(code, "MPIX_Comm_agree", error);
    if (all) return DPT_OK;
    job->known = true;
    revoke(job);
    return DPT_FAIL(error, DPT_E_IO, "a process has died");
}

/* A process that waits in `settle` learns of the failure first. */
static dpt_status transport_mend(void *self, size_t *rank, size_t *n_ranks, dpt_error *error)
{
    mpi_job *job = self;
    MPI_Comm left = MPI_COMM_NULL;
    bool all = false;
    int before = 0, mine = 0, n = 0;
    int code = job->known ? MPI_SUCCESS : agree(job, false, &all);
    if (code != MPI_SUCCESS) return fail(code, "MPIX_Comm_agree", error);
    job->known = true;
    code = shrink(job, &left);
    if (code != MPI_SUCCESS) return fail(code, "MPIX_Comm_shrink", error);
    code = MPI_Comm_set_errhandler(left, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS) code = MPI_Comm_size(job->world, &before);
    if (code == MPI_SUCCESS) code = MPI_Comm_rank(left, &mine);
    if (code == MPI_SUCCESS) code = MPI_Comm_size(left, &n);
    if (code != MPI_SUCCESS) return fail(code, "MPI", error);
    (void)MPI_Comm_free(&job->world);
    job->world = left;
    job->known = false;
    job->mended = true;
    if (n == before)
        return DPT_FAIL(error, DPT_E_IO, "messages have failed though no process has died");
    *rank = (size_t)mine;
    *n_ranks = (size_t)n;
    return DPT_OK;
}

/* ---- Joining and leaving --------------------------------------------------------------------- */

/* The MPI_Finalize of Open MPI 5.0.11 sometimes waits for processes that have died, for ever. Where
   a thread sends heartbeats, it always does. */
static void transport_close(void *self)
{
    mpi_job *job = self;
    bool all = !job->mended && job->timeout == 0;
    if (job->survives)
        (void)agree(job, all, &all);
    else
        (void)MPI_Barrier(job->world);
    if (all) {
        (void)MPI_Comm_free(&job->world);
        (void)MPI_Finalize();
    }
    free(job);
}

static dpt_status initialize(dpt_error *error)
{
    int is = 0, level = 0;
    if (MPI_Initialized(&is) == MPI_SUCCESS && is)
        return DPT_FAIL(error, DPT_E_STATE, "MPI has been initialized by somebody else");
    const int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    if (code != MPI_SUCCESS) return fail(code, "MPI_Init_thread", error);
    if (level < MPI_THREAD_FUNNELED)
        return DPT_FAIL(error, DPT_E_UNSUPPORTED, "this MPI library knows no threads");
    return DPT_OK;
}

static dpt_status transport_open(void **self, size_t *rank, size_t *n_ranks, dpt_error *error)
{
    int mine = 0, n = 0;
    DPT_TRY(initialize(error));
    mpi_job *job = calloc(1, sizeof *job);
    if (!job) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for MPI");
    int code = MPI_Comm_dup(MPI_COMM_WORLD, &job->world);
    if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(job->world, MPI_ERRORS_RETURN);
    if (code == MPI_SUCCESS) code = MPI_Comm_rank(job->world, &mine);
    if (code == MPI_SUCCESS) code = MPI_Comm_size(job->world, &n);
    if (code == MPI_SUCCESS && find_what_is_enabled(job, error) != DPT_OK) {
        free(job);
        return error->status;
    }
    /* Some failures of processes are reported there. */
    if (job->survives) code = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (code != MPI_SUCCESS) {
        free(job);
        return fail(code, "MPI", error);
    }
    *self = job;
    *rank = (size_t)mine;
    *n_ranks = (size_t)n;
    return DPT_OK;
}

/* ---- Messages -------------------------------------------------------------------------------- */

static size_t pieces(size_t n_bytes)
{
    return n_bytes / MOST_BYTES + (n_bytes % MOST_BYTES != 0);
}

static void requests_free(mpi_requests *r)
{
    free(r->n_bytes);
    free(r->statuses);
    free(r->requests);
    free(r);
}

/* Room for n; NULL without memory, or for more than MPI counts. */
static mpi_requests *requests_create(size_t n)
{
    mpi_requests *r = n <= INT_MAX ? calloc(1, sizeof *r) : NULL;
    if (!r) return NULL;
    r->requests = calloc(n + 1, sizeof(MPI_Request));
    r->statuses = calloc(n + 1, sizeof(MPI_Status));
    r->n_bytes = calloc(n + 1, sizeof(int));
    if (r->requests && r->statuses && r->n_bytes) return r;
    requests_free(r);
    return NULL;
}

/* After a failure: fails what is in flight in all processes, and waits until nothing uses the
   memory of these requests. */
static void end_requests(const mpi_job *job, mpi_requests *r)
{
    revoke(job);
    if (job->survives) (void)MPI_Waitall(r->n, r->requests, r->statuses);
}

static int start_message(const mpi_job *job, const dpt_message *m, mpi_requests *started)
{
    const int tag = FIRST_TAG + (int)m->channel;
    char *data = m->data;
    for (size_t left = m->n_bytes; left > 0;) {
        const size_t n = left < MOST_BYTES ? left : MOST_BYTES;
        MPI_Request *request = &started->requests[started->n];
        const int code =
            m->receive ? MPI_Irecv(data, (int)n, MPI_BYTE, (int)m->peer, tag, job->world, request)
                       : MPI_Isend(data, (int)n, MPI_BYTE, (int)m->peer, tag, job->world, request);
        if (code != MPI_SUCCESS) return code;
        started->n_bytes[started->n++] = m->receive ? (int)n : -1;
        data += n;
        left -= n;
    }
    return MPI_SUCCESS;
}

static dpt_status transport_start(void *self, const dpt_message *messages, size_t n, void **request,
                                  dpt_error *error)
{
    const mpi_job *job = self;
    size_t n_requests = 0;
    for (size_t i = 0; i < n; i++)
        n_requests += pieces(messages[i].n_bytes);
    mpi_requests *started = requests_create(n_requests);
    if (!started) {
        revoke(job);
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for messages");
    }
    for (size_t i = 0; i < n; i++) {
        const int code = start_message(job, &messages[i], started);
        if (code == MPI_SUCCESS) continue;
        end_requests(job, started);
        requests_free(started);
        return fail(code, messages[i].receive ? "MPI_Irecv" : "MPI_Isend", error);
    }
    *request = started;
    return DPT_OK;
}

/* The failure that stands in a status, where MPI says only that one does. */
static int first_code(const mpi_requests *r, int code)
{
    for (int i = 0; code == MPI_ERR_IN_STATUS && i < r->n; i++) {
        const int one = r->statuses[i].MPI_ERROR;
        if (one != MPI_SUCCESS && one != MPI_ERR_PENDING) return one;
    }
    return code;
}

/* MPI fails a receive of too much, and takes one of too little for whole. */
static dpt_status check_sizes(const mpi_requests *r, dpt_error *error)
{
    for (int i = 0; i < r->n; i++) {
        int n_bytes = 0;
        if (r->n_bytes[i] < 0) continue;
        const int code = MPI_Get_count(&r->statuses[i], MPI_BYTE, &n_bytes);
        if (code != MPI_SUCCESS) return fail(code, "MPI_Get_count", error);
        if (n_bytes != r->n_bytes[i])
            return DPT_FAIL(error, DPT_E_INTERNAL, "%d bytes are sent where %d are expected",
                            n_bytes, r->n_bytes[i]);
    }
    return DPT_OK;
}

static dpt_status transport_test(void *self, void *request, bool *done, dpt_error *error)
{
    const mpi_job *job = self;
    mpi_requests *started = request;
    int all = 0;
    const int code = MPI_Testall(started->n, started->requests, &all, started->statuses);
    *done = all != 0;
    if (code == MPI_SUCCESS && !all) return DPT_OK;
    const dpt_status status = code == MPI_SUCCESS
                                  ? check_sizes(started, error)
                                  : fail(first_code(started, code), "MPI_Testall", error);
    if (status != DPT_OK) end_requests(job, started);
    requests_free(started);
    return status;
}

/* ---- Entry ----------------------------------------------------------------------------------- */

static const dpt_transport transport = {
    .abi = DPT_TRANSPORT_ABI,
    .name = "mpi",
    .open = transport_open,
    .close = transport_close,
    .start = transport_start,
    .test = transport_test,
    .survives = transport_survives,
    .settle = transport_settle,
    .mend = transport_mend,
    .timeout = transport_timeout,
};

DPT_API const dpt_transport *dpt_transport_entry(uint32_t abi);

const dpt_transport *dpt_transport_entry(uint32_t abi)
{
    return abi == DPT_TRANSPORT_ABI ? &transport : NULL;
}
