/* The transport through MPI: non-blocking messages on a communicator of our own.  All calls come
   from one thread, so MPI_THREAD_FUNNELED is enough. */
#include "transport.h"

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>

enum { FIRST_TAG = 1, MOST_BYTES = 1 << 30 }; /* MPI counts in int */

typedef struct mpi_job {
    MPI_Comm world;
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

/* ---- Joining and leaving --------------------------------------------------------------------- */

static void transport_close(void *self)
{
    mpi_job *job = self;
    (void)MPI_Barrier(job->world);
    (void)MPI_Comm_free(&job->world);
    (void)MPI_Finalize();
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
    if (!started) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for messages");
    for (size_t i = 0; i < n; i++) {
        const int code = start_message(job, &messages[i], started);
        if (code == MPI_SUCCESS) continue;
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
    mpi_requests *started = request;
    int all = 0;
    (void)self;
    const int code = MPI_Testall(started->n, started->requests, &all, started->statuses);
    *done = all != 0;
    if (code == MPI_SUCCESS && !all) return DPT_OK;
    const dpt_status status = code == MPI_SUCCESS
                                  ? check_sizes(started, error)
                                  : fail(first_code(started, code), "MPI_Testall", error);
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
};

DPT_API const dpt_transport *dpt_transport_entry(uint32_t abi);

const dpt_transport *dpt_transport_entry(uint32_t abi)
{
    return abi == DPT_TRANSPORT_ABI ? &transport : NULL;
}
