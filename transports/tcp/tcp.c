/* The transport through TCP: processes join without MPI, and the job goes on when one of them has
   died.  This file has the table of functions; job.h says how a job is made. */
#include "job.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* How long close waits for the other side to close. */
static const double linger_seconds = 1;

/* ---- Opening and closing --------------------------------------------------------------------- */

static void drop_socket(int socket)
{
    if (socket >= 0) (void)close(socket);
}

/* Accepts what is half made. */
static void destroy(tcp_job *job)
{
    dpt_tcp_drop(job);
    for (size_t p = 0; job->peers && p < job->n; p++) {
        tcp_peer *peer = &job->peers[p];
        const int data = peer->stream.socket;
        drop_socket(peer->control);
        drop_socket(data < -1 ? -1 - data : data); /* one that has ended is kept so */
        free(peer->stream.lanes);
        free(peer->stream.staging);
    }
    drop_socket(job->wake);
    pthread_cond_destroy(&job->changed);
    pthread_mutex_destroy(&job->mutex);
    free(job->peers);
    free(job->members);
    free(job->polls);
    free(job);
}

static tcp_job *create(const tcp_settings *settings)
{
    tcp_job *job = calloc(1, sizeof *job);
    if (!job) return NULL;
    *job = (tcp_job){.n = settings->n,
                     .place = settings->rank,
                     .timeout = settings->timeout,
                     .beat = settings->timeout / 5 < 1 ? settings->timeout / 5 : 1,
                     .n_members = settings->n,
                     .told = settings->n,
                     .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    pthread_mutex_init(&job->mutex, NULL);
    pthread_cond_init(&job->changed, NULL);
    job->peers = calloc(job->n, sizeof *job->peers);
    job->members = calloc(job->n, sizeof *job->members);
    job->polls = calloc(job->n + 1, sizeof *job->polls);
    bool whole = job->peers && job->members && job->polls && job->wake >= 0;
    for (size_t p = 0; job->peers && p < job->n; p++) {
        tcp_peer *peer = &job->peers[p];
        peer->control = peer->stream.socket = -1;
        dpt_tcp_add(&job->in_job, p);
        if (job->members) job->members[p] = p;
        if (p == job->place) continue;
        peer->stream.lanes = calloc(DPT_TRANSPORT_CHANNELS, sizeof *peer->stream.lanes);
        peer->stream.staging = malloc(TCP_STAGING_BYTES);
        whole = whole && peer->stream.lanes && peer->stream.staging;
    }
    if (whole) return job;
    destroy(job);
    return NULL;
}

static dpt_status join(const tcp_settings *settings, tcp_job *job, dpt_error *error)
{
    tcp_sockets *sockets = calloc(job->n, sizeof *sockets);
    if (!sockets) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to join other processes");
    dpt_status status = dpt_tcp_join(settings, sockets, error);
    for (size_t p = 0; status == DPT_OK && p < job->n; p++) {
        job->peers[p].control = sockets[p].control;
        job->peers[p].stream.socket = sockets[p].data;
    }
    free(sockets);
    if (status != DPT_OK) return status;
    const int code = dpt_tcp_service_start(job);
    if (code == 0) return DPT_OK;
    return DPT_FAIL_NATIVE(error, DPT_E_INTERNAL, code, "cannot start a thread: %s",
                           strerror(code));
}

static dpt_status transport_open(void **self, size_t *rank, size_t *n_ranks, dpt_error *error)
{
    tcp_settings *settings = malloc(sizeof *settings);
    if (!settings) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to join other processes");
    tcp_job *job = NULL;
    dpt_status status = dpt_tcp_settings_read(settings, error);
    if (status == DPT_OK) {
        job = create(settings);
        status = job ? join(settings, job, error)
                     : DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to join other processes");
    }
    if (status == DPT_OK) {
        *self = job;
        *rank = job->place;
        *n_ranks = job->n;
    } else if (job) {
        destroy(job);
    }
    explicit_bzero(settings, sizeof *settings); /* it holds the secret */
    free(settings);
    return status;
}

/* The last frames are read before the connections close: closing one with unread bytes would
   destroy what is still on its way. */
static void linger(const tcp_job *job)
{
    const double until = dpt_tcp_seconds() + linger_seconds;
    for (size_t p = 0; p < job->n; p++)
        if (job->peers[p].control >= 0) (void)shutdown(job->peers[p].control, SHUT_WR);
    for (size_t p = 0; p < job->n; p++) {
        const tcp_peer *peer = &job->peers[p];
        char room[sizeof(tcp_frame)];
        struct pollfd one = {.fd = peer->control, .events = POLLIN};
        while (peer->control >= 0 && !peer->left) {
            const double left = until - dpt_tcp_seconds();
            if (left <= 0 || poll(&one, 1, (int)(1000 * left) + 1) <= 0) break;
            if (recv(peer->control, room, sizeof room, MSG_DONTWAIT) <= 0) break;
        }
    }
}

static void transport_close(void *self)
{
    tcp_job *job = self;
    dpt_tcp_part(job);
    dpt_tcp_service_stop(job);
    linger(job);
    destroy(job);
}

/* ---- The table ------------------------------------------------------------------------------- */

static dpt_status transport_start(void *self, const dpt_message *messages, size_t n, void **request,
                                  dpt_error *error)
{
    tcp_request *started = NULL;
    DPT_TRY(dpt_tcp_start(self, (tcp_messages){messages, n}, &started, error));
    *request = started;
    return DPT_OK;
}

static dpt_status transport_test(void *self, void *request, bool *done, dpt_error *error)
{
    return dpt_tcp_test(self, request, done, error);
}

static bool transport_survives(void *self)
{
    const tcp_job *job = self;
    return job->n > 1;
}

static dpt_status transport_settle(void *self, dpt_error *error)
{
    return dpt_tcp_settle(self, error);
}

static dpt_status transport_mend(void *self, size_t *rank, size_t *n_ranks, dpt_error *error)
{
    tcp_job *job = self;
    DPT_TRY(dpt_tcp_mend(job, error));
    dpt_tcp_renew(job);
    for (size_t i = 0; i < job->n_members; i++)
        if (job->members[i] == job->place) *rank = i;
    *n_ranks = job->n_members;
    return DPT_OK;
}

static void transport_leave(void *self)
{
    dpt_tcp_leave(self);
}

static const dpt_transport transport = {
    .abi = DPT_TRANSPORT_ABI,
    .name = "tcp",
    .open = transport_open,
    .close = transport_close,
    .start = transport_start,
    .test = transport_test,
    .survives = transport_survives,
    .settle = transport_settle,
    .mend = transport_mend,
    .leave = transport_leave,
};

DPT_API const dpt_transport *dpt_transport_entry(uint32_t abi);

const dpt_transport *dpt_transport_entry(uint32_t abi)
{
    return abi == DPT_TRANSPORT_ABI ? &transport : NULL;
}
