/* The service thread: moves the control connections, sends a sign of life through each of them, and
   notices processes that have ended or are silent. */
#include "job.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A data connection that ends a moment before the control connection is not worth a word. */
static const double data_grace = 1;

void dpt_tcp_wake(const tcp_job *job)
{
    const uint64_t one = 1;
    if (write(job->wake, &one, sizeof one) < 0) return; /* it is awake already */
}

bool dpt_tcp_lives(const tcp_job *job, size_t place)
{
    return dpt_tcp_has(&job->in_job, place) &&
           (place == job->place || job->peers[place].fate == TCP_LIVES);
}

/* ---- Sending --------------------------------------------------------------------------------- */

/* Sends what is queued, as far as it goes.  What fails shows when the connection is read. */
static void flush(tcp_peer *peer)
{
    if (peer->control < 0 || peer->n_out == 0) return;
    const ssize_t n = send(peer->control, peer->out, peer->n_out, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n <= 0) return;
    peer->n_out -= (size_t)n;
    memmove(peer->out, peer->out + n, peer->n_out);
}

void dpt_tcp_send(tcp_job *job, size_t place, tcp_kind kind)
{
    tcp_peer *peer = &job->peers[place];
    tcp_frame frame = {.kind = kind,
                       .generation = job->generation,
                       .count = job->count,
                       .settled = job->settled,
                       .in_settle = job->wait == TCP_IN_SETTLE,
                       .admits = job->admits,
                       .guest = dpt_tcp_guest_told(job),
                       .members = job->in_job};
    if (place == job->place || peer->control < 0) return;
    for (size_t p = 0; p < job->n; p++) {
        if (!dpt_tcp_has(&job->in_job, p) || dpt_tcp_lives(job, p)) continue;
        dpt_tcp_add(job->peers[p].fate == TCP_CLOSED ? &frame.closed : &frame.silent, p);
    }
    /* Whoever has not read so many frames is silent too. */
    if (peer->n_out + sizeof frame > sizeof peer->out) return;
    memcpy(peer->out + peer->n_out, &frame, sizeof frame);
    peer->n_out += sizeof frame;
    flush(peer);
    if (peer->n_out > 0) dpt_tcp_wake(job);
}

void dpt_tcp_send_all(tcp_job *job, tcp_kind kind)
{
    for (size_t p = 0; p < job->n; p++)
        if (dpt_tcp_lives(job, p)) dpt_tcp_send(job, p, kind);
}

void dpt_tcp_end_connections(tcp_job *job)
{
    for (size_t p = 0; p < job->n; p++) {
        tcp_peer *peer = &job->peers[p];
        flush(peer);
        if (peer->control >= 0) (void)shutdown(peer->control, SHUT_RDWR);
    }
}

/* A process that is taken for silent gets none, so that it takes this one for silent too. */
static void send_beats(tcp_job *job)
{
    for (size_t p = 0; p < job->n; p++)
        if (job->peers[p].n_out == 0 && (dpt_tcp_lives(job, p) || p == job->guest))
            dpt_tcp_send(job, p, TCP_BEAT);
}

/* ---- Processes that end ---------------------------------------------------------------------- */

/* Whether the process of a connection that has ended may have left this one behind before that.
   The frame that says so may be lost, for example if the network was cut.  A process leaves another
   one behind if nothing has come from that one for the timeout.  Nothing has then come from it
   either since about the same time, or this process has stood still. */
static bool may_have_gone_on(const tcp_job *job, const tcp_peer *peer, double heard)
{
    const double now = dpt_tcp_seconds();
    return peer->fate == TCP_SILENT || now - heard > job->timeout / 2 || now < job->stood_until;
}

/* The connection has ended; something came from it last at the time `heard`.  Its process has died
   if its kernel has closed the connection; after another error (a code) it may live.  A process
   that may have gone on with others counts as silent, dead or not: the others may still go on. */
static void note_end(tcp_job *job, size_t place, int code, double heard)
{
    tcp_peer *peer = &job->peers[place];
    (void)close(peer->control);
    peer->control = -1;
    peer->n_out = 0;
    dpt_tcp_guest_ended(job, place);
    if (!dpt_tcp_has(&job->in_job, place)) return;
    peer->fate = code != 0 || may_have_gone_on(job, peer, heard) ? TCP_SILENT : TCP_CLOSED;
    job->told = job->n; /* the state has changed */
    if (!peer->bye) dpt_tcp_revoke(job, "process %zu of those that joined has ended", place);
}

static void note_silence(tcp_job *job, size_t place, const char *what)
{
    job->peers[place].fate = TCP_SILENT;
    job->told = job->n;
    dpt_tcp_revoke(job, "%s process %zu of those that joined for longer than %g s", what, place,
                   job->timeout);
}

static void look_for_silence(tcp_job *job)
{
    const double now = dpt_tcp_seconds();
    for (size_t p = 0; p < job->n; p++) {
        const tcp_peer *peer = &job->peers[p];
        if (p == job->place || !dpt_tcp_lives(job, p)) continue;
        if (now - peer->heard > job->timeout)
            note_silence(job, p, "nothing has come from");
        else if (peer->data_ended > 0 && !peer->bye && now - peer->data_ended > data_grace)
            note_silence(job, p, "one of two connections has ended to");
    }
}

/* ---- Receiving ------------------------------------------------------------------------------- */

/* Receives what is there.  *open: the connection has not ended.  Returns 0, or the number of an
   error that is no answer of the other kernel. */
static int receive(tcp_job *job, size_t place, bool *open)
{
    tcp_peer *peer = &job->peers[place];
    for (;;) {
        const ssize_t n = recv(peer->control, (char *)&peer->in + peer->n_in,
                               sizeof peer->in - peer->n_in, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        *open = n > 0 || (n < 0 && errno == EAGAIN);
        if (n <= 0) return n == 0 || *open || errno == ECONNRESET || errno == EPIPE ? 0 : errno;
        peer->heard = dpt_tcp_seconds();
        peer->n_in += (size_t)n;
        if (peer->n_in < sizeof peer->in) continue;
        peer->n_in = 0;
        const tcp_frame frame = peer->in;
        dpt_tcp_hear(job, place, &frame);
    }
}

/* Waits for frames; the mutex is locked otherwise. */
static void wait(tcp_job *job, double seconds)
{
    struct pollfd *all = job->polls;
    for (size_t p = 0; p < job->n; p++) {
        const tcp_peer *peer = &job->peers[p];
        all[p] = (struct pollfd){.fd = peer->left ? -1 : peer->control,
                                 .events = (short)(POLLIN | (peer->n_out > 0 ? POLLOUT : 0))};
    }
    all[job->n] = (struct pollfd){.fd = job->wake, .events = POLLIN};
    pthread_mutex_unlock(&job->mutex);
    if (poll(all, job->n + 1, seconds > 0 ? (int)(1000 * seconds) + 1 : 0) < 0)
        for (size_t p = 0; p <= job->n; p++)
            all[p].revents = 0;
    pthread_mutex_lock(&job->mutex);
}

static void move(tcp_job *job)
{
    const struct pollfd *all = job->polls;
    uint64_t n = 0;
    if (all[job->n].revents && read(job->wake, &n, sizeof n) < 0) n = 0;
    for (size_t p = 0; p < job->n; p++) {
        tcp_peer *peer = &job->peers[p];
        if (peer->control < 0) continue;
        flush(peer);
        if (peer->left || !all[p].revents) continue;
        bool open = true;
        const double heard = peer->heard;
        const int code = receive(job, p, &open);
        if (!open) note_end(job, p, code, heard);
    }
}

/* After this process has stood still (SIGSTOP, a machine that slept): nobody was heard meanwhile,
   so all get another timeout. */
static void note_standstill(tcp_job *job, double now)
{
    job->stood_until = now + job->timeout;
    for (size_t p = 0; p < job->n; p++)
        job->peers[p].heard = now;
}

static void *serve(void *argument)
{
    tcp_job *job = argument;
    pthread_mutex_lock(&job->mutex);
    double last = dpt_tcp_seconds(), beat = last;
    while (!job->stop) {
        const double before = dpt_tcp_seconds();
        wait(job, beat - before);
        const double now = dpt_tcp_seconds();
        if (now - last > job->timeout) note_standstill(job, now);
        last = now;
        move(job);
        look_for_silence(job);
        if (now >= beat) {
            send_beats(job);
            beat = now + job->beat;
        }
        dpt_tcp_look(job);
    }
    for (size_t p = 0; p < job->n; p++)
        flush(&job->peers[p]);
    pthread_mutex_unlock(&job->mutex);
    return NULL;
}

/* Signals go to other threads of the program. */
int dpt_tcp_thread_start(pthread_t *out, void *(*function)(void *), void *argument)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    const int code = pthread_create(out, NULL, function, argument);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

int dpt_tcp_service_start(tcp_job *job)
{
    const double now = dpt_tcp_seconds();
    for (size_t p = 0; p < job->n; p++)
        job->peers[p].heard = now;
    return dpt_tcp_thread_start(&job->thread, serve, job);
}

void dpt_tcp_service_stop(tcp_job *job)
{
    pthread_mutex_lock(&job->mutex);
    job->stop = true;
    pthread_mutex_unlock(&job->mutex);
    dpt_tcp_wake(job);
    (void)pthread_join(job->thread, NULL);
}
