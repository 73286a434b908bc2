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
        drop_socket(peer->guest_data);
        drop_socket(data < -1 ? -1 - data : data); /* one that has ended is kept so */
        free(peer->stream.lanes);
        free(peer->stream.staging);
    }
    drop_socket(job->wake);
    pthread_cond_destroy(&job->changed);
    pthread_mutex_destroy(&job->mutex);
    free(job->text);
    free(job->peers);
    free(job->members);
    free(job->polls);
    free(job);
}

static tcp_job *create(const tcp_settings *settings)
{
    tcp_job *job = calloc(1, sizeof *job);
    if (!job) return NULL;
    const size_t n = settings->n + settings->n_joiners;
    *job = (tcp_job){.n = n,
                     .n_first = settings->n,
                     .place = settings->rank,
                     .guest = n,
                     .timeout = settings->timeout,
                     .beat = settings->timeout / 5 < 1 ? settings->timeout / 5 : 1,
                     .n_members = settings->n,
                     .told = n,
                     .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    pthread_mutex_init(&job->mutex, NULL);
    pthread_cond_init(&job->changed, NULL);
    job->peers = calloc(job->n, sizeof *job->peers);
    job->members = calloc(job->n, sizeof *job->members);
    job->polls = calloc(job->n + 1, sizeof *job->polls);
    bool whole = job->peers && job->members && job->polls && job->wake >= 0;
    for (size_t p = 0; job->peers && p < job->n; p++) {
        tcp_peer *peer = &job->peers[p];
        peer->control = peer->stream.socket = peer->guest_data = -1;
        if (p < job->n_first) dpt_tcp_add(&job->in_job, p);
        if (job->members) job->members[p] = p;
        if (p == job->place) continue;
        peer->stream.lanes = calloc(DPT_TRANSPORT_CHANNELS, sizeof *peer->stream.lanes);
        peer->stream.staging = malloc(TCP_STAGING_BYTES);
        whole = whole && peer->stream.lanes && peer->stream.staging;
    }
    job->used = job->in_job;
    if (whole) return job;
    destroy(job);
    return NULL;
}

static void take_sockets(tcp_job *job, const tcp_sockets *sockets, size_t n)
{
    for (size_t p = 0; p < n; p++) {
        job->peers[p].control = sockets[p].control;
        job->peers[p].stream.socket = sockets[p].data;
    }
}

/* Starts the threads of a job that is connected.  Takes *parts, also on failure. */
static dpt_status start_threads(const tcp_settings *settings, tcp_job *job, tcp_door_parts *parts,
                                dpt_error *error)
{
    if (job->n > job->n_first) DPT_TRY(dpt_tcp_door_open(job, settings, parts, error));
    const int code = dpt_tcp_service_start(job);
    if (code == 0) return DPT_OK;
    dpt_tcp_door_close(job->door);
    return DPT_FAIL_NATIVE(error, DPT_E_INTERNAL, code, "cannot start a thread: %s",
                           strerror(code));
}

static dpt_status join(const tcp_settings *settings, tcp_job **out, dpt_error *error)
{
    tcp_door_parts parts;
    tcp_job *job = create(settings);
    tcp_sockets *sockets = job ? calloc(job->n_first, sizeof *sockets) : NULL;
    dpt_status status = DPT_E_NO_MEMORY;
    if (sockets) {
        status = dpt_tcp_join(settings, sockets, &parts, error);
        if (status == DPT_OK) take_sockets(job, sockets, job->n_first);
        if (status == DPT_OK) status = start_threads(settings, job, &parts, error);
    } else {
        (void)DPT_FAIL(error, status, "no memory to join other processes");
    }
    free(sockets);
    if (status == DPT_OK)
        *out = job;
    else if (job)
        destroy(job);
    return status;
}

/* Comes to a job that runs.  Nothing can be sent until `mend`, which waits until this process is
   let in. */
static dpt_status come(tcp_settings *settings, tcp_job **out, dpt_error *error)
{
    tcp_entry entry;
    DPT_TRY(dpt_tcp_enter(settings, &entry, error));
    tcp_job *job = create(settings);
    if (!job) {
        /* The process ends, and with it the connections. */
        free(entry.sockets);
        free(entry.parts.places);
        free(entry.text);
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to join other processes");
    }
    take_sockets(job, entry.sockets, job->n);
    free(entry.sockets);
    job->in_job = entry.members;
    job->used = entry.used;
    dpt_tcp_add(&job->in_job, job->place);
    dpt_tcp_add(&job->used, job->place);
    job->text = entry.text;
    job->n_text = entry.n_text;
    job->comes = true;
    job->members[0] = job->place;
    job->n_members = 1;
    atomic_store(&job->revoked, true);
    snprintf(job->reason, sizeof job->reason, "the job has not let this process in yet");
    const dpt_status status = start_threads(settings, job, &entry.parts, error);
    if (status == DPT_OK)
        *out = job;
    else
        destroy(job);
    return status;
}

static dpt_status transport_open(void **self, size_t *rank, size_t *n_ranks, dpt_error *error)
{
    tcp_settings *settings = malloc(sizeof *settings);
    if (!settings) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to join other processes");
    tcp_job *job = NULL;
    dpt_status status = dpt_tcp_settings_read(settings, error);
    if (status == DPT_OK)
        status = settings->comes ? come(settings, &job, error) : join(settings, &job, error);
    if (status == DPT_OK) {
        *self = job;
        *rank = job->comes ? 0 : job->place;
        *n_ranks = job->comes ? 1 : job->n_first;
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
    dpt_tcp_door_close(job->door);
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
    return job->n > 1; /* also one process to which others may come */
}

static dpt_status transport_settle(void *self, dpt_error *error)
{
    return dpt_tcp_settle(self, error);
}

static void number_ranks(tcp_job *job, size_t *rank, size_t *n_ranks)
{
    dpt_tcp_renew(job);
    for (size_t i = 0; i < job->n_members; i++)
        if (job->members[i] == job->place) *rank = i;
    *n_ranks = job->n_members;
}

static dpt_status transport_mend(void *self, size_t *rank, size_t *n_ranks, dpt_error *error)
{
    DPT_TRY(dpt_tcp_mend(self, error));
    number_ranks(self, rank, n_ranks);
    return DPT_OK;
}

static void transport_leave(void *self)
{
    dpt_tcp_leave(self);
}

/* ---- Processes that come --------------------------------------------------------------------- */

static size_t transport_most(void *self)
{
    const tcp_job *job = self;
    return job->n;
}

static size_t transport_left(void *self)
{
    tcp_job *job = self;
    size_t n = 0;
    pthread_mutex_lock(&job->mutex);
    for (size_t p = job->n_first; p < job->n; p++)
        n += !dpt_tcp_has(&job->used, p);
    pthread_mutex_unlock(&job->mutex);
    return n;
}

static bool transport_comes(void *self, size_t *place, size_t *n_first)
{
    tcp_job *job = self;
    *place = job->place;
    *n_first = job->n_first;
    pthread_mutex_lock(&job->mutex);
    const bool comes = job->comes;
    pthread_mutex_unlock(&job->mutex);
    return comes;
}

/* The text of a process that comes is not changed before it is let in. */
static const char *transport_told(void *self)
{
    const tcp_job *job = self;
    return job->text;
}

static dpt_status transport_tell(void *self, const char *text, dpt_error *error)
{
    tcp_job *job = self;
    const size_t n_text = strlen(text);
    if (n_text > TCP_MOST_TEXT)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "the options of this training take %zu bytes, and at most %d are told to a "
                        "process that comes: start it without DPTRAIN_JOINERS",
                        n_text, TCP_MOST_TEXT);
    char *copy = strdup(text);
    if (!copy) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for processes that come");
    pthread_mutex_lock(&job->mutex);
    free(job->text);
    job->text = copy;
    job->n_text = n_text;
    pthread_mutex_unlock(&job->mutex);
    return DPT_OK;
}

static bool transport_waits(void *self)
{
    tcp_job *job = self;
    return atomic_load(&job->ready);
}

static dpt_status transport_admit(void *self, size_t *rank, size_t *n_ranks, dpt_error *error)
{
    DPT_TRY(dpt_tcp_admit(self, error));
    number_ranks(self, rank, n_ranks);
    return DPT_OK;
}

static const dpt_transport_guests guests = {
    .most = transport_most,
    .left = transport_left,
    .comes = transport_comes,
    .told = transport_told,
    .tell = transport_tell,
    .waits = transport_waits,
    .admit = transport_admit,
};

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
    .guests = &guests,
};

DPT_API const dpt_transport *dpt_transport_entry(uint32_t abi);

const dpt_transport *dpt_transport_entry(uint32_t abi)
{
    return abi == DPT_TRANSPORT_ABI ? &transport : NULL;
}
