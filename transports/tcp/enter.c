/* The process that comes: it connects to the first process of a job that runs, learns from it who
   else is there, and connects to all of them.  They work on meanwhile. */
#include "door.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static const double tell_seconds = 5;
static const long first_pause = 100, most_pause = 1000; /* milliseconds between attempts */
enum { MOST_CLOSED = 5 }; /* connections that are closed without an answer */

static const char is_busy[] = "it does not train yet, or lets another process in",
                  is_silent[] =
                      "a program accepts connections there and does not answer; it stands "
                      "still, or is not the first process of a job",
                  has_ended[] = "its first process has ended";

/* The way in, with all of its attempts. */
typedef struct entrance {
    join *j;
    tcp_settings *settings;
    char address[TCP_ADDRESS_TEXT]; /* of the first process, for messages */
    uint32_t port;                  /* where this process listens */
    bool answered;                  /* the first process has answered at any time */
    double ended;                   /* since when nobody listens there any more; 0: somebody does */
    size_t n_closed;
    double tell;
    long pause;
    char why[DPT_MESSAGE_BYTES]; /* what this process waits for */
    /* Of one attempt. */
    uint32_t visit;
    tcp_welcome welcome;
    tcp_entry *out;
} entrance;

/* ---- Waiting --------------------------------------------------------------------------------- */

static dpt_status wait_because(entrance *e, const char *why)
{
    snprintf(e->why, sizeof e->why, "%s", why);
    return DPT_OK;
}

/* Waits before the next attempt.  DPT_E_IO at the deadline. */
static dpt_status wait_for_job(entrance *e, dpt_error *error)
{
    const double now = dpt_tcp_seconds();
    if (now >= e->j->deadline)
        return DPT_FAIL(error, DPT_E_IO,
                        "the job at %s has not let this process in within %g s "
                        "(DPTRAIN_JOIN_TIMEOUT): %.300s",
                        e->address, e->settings->join_timeout, e->why);
    if (now >= e->tell) {
        (void)fprintf(stderr, "dptrain: waiting for the job at %s: %.300s\n", e->address, e->why);
        e->tell = e->j->deadline;
    }
    (void)nanosleep(&(struct timespec){e->pause / 1000, e->pause % 1000 * 1000000L}, NULL);
    e->pause = 2 * e->pause < most_pause ? 2 * e->pause : most_pause;
    return DPT_OK;
}

/* Nobody listens at the address, or no host is there. */
static dpt_status tell_nobody(entrance *e, dpt_error *error)
{
    const double now = dpt_tcp_seconds();
    const dpt_error what = *error;
    if (!e->answered)
        return DPT_FAIL_NATIVE(error, DPT_E_IO, what.native,
                               "%.200s; give the address of the first process of a job that was "
                               "started with DPTRAIN_JOINERS and has not ended",
                               what.message);
    /* The process that follows the first one listens at the same port of its own address, which may
       be the same. */
    if (e->ended == 0) e->ended = now;
    if (now - e->ended < GUEST_SECONDS) return wait_because(e, has_ended);
    return DPT_FAIL_NATIVE(error, DPT_E_IO, what.native,
                           "the first process of the job has ended while this process came, and "
                           "nobody listens at %s any more: if the job goes on, one of its "
                           "processes has told on stderr where processes may come now; give that "
                           "address",
                           e->address);
}

/* After an attempt to reach the first process: DPT_OK if another one may help. */
static dpt_status judge_failure(entrance *e, const target *to, dpt_error *error)
{
    const long code = error->native;
    if (error->status == DPT_E_STATE) {
        e->answered = true;
        e->n_closed = 0;
        e->pause = first_pause;
        return wait_because(e, is_busy);
    }
    if (error->status != DPT_E_IO) return error->status;
    if (!to->connected) return tell_nobody(e, error);
    e->ended = 0;
    if (code == ETIMEDOUT) {
        /* An attempt that is cut short by the deadline says less than those before. */
        const bool is_cut = *e->why && dpt_tcp_seconds() >= e->j->deadline;
        return is_cut ? DPT_OK : wait_because(e, is_silent);
    }
    if (code != ECONNRESET && code != EPIPE) return error->status;
    /* A job whose last process has just joined drops connections that are half made, and so does a
       process that dies. */
    if (++e->n_closed < MOST_CLOSED) return wait_because(e, error->message);
    return DPT_FAIL_NATIVE(error, DPT_E_IO, code,
                           "a program at %s has closed %d connections without an answer: it is not "
                           "the first process of a job, or its DPTRAIN_NETWORKS lack this host's "
                           "address (it has told so on stderr then)",
                           e->address, MOST_CLOSED);
}

/* Asks until the first process has a place. */
static dpt_status knock(entrance *e, target *to, int *out, dpt_error *error)
{
    while (dpt_tcp_reach_once(e->j, to, out, error) != DPT_OK) {
        DPT_TRY(judge_failure(e, to, error));
        DPT_TRY(wait_for_job(e, error));
    }
    e->answered = true;
    e->ended = 0;
    e->n_closed = 0;
    return DPT_OK;
}

/* ---- One attempt ----------------------------------------------------------------------------- */

static bool is_sound(const tcp_welcome *w)
{
    return w->n <= TCP_MOST_PROCESSES && w->n_first >= 1 && w->n_first <= w->place &&
           w->place < w->n && w->first < w->n && dpt_tcp_has(&w->members, w->first) &&
           !dpt_tcp_has(&w->members, w->place) && w->n_text <= TCP_MOST_TEXT && w->timeout > 0;
}

static bool make_tables(const entrance *e)
{
    const size_t n = e->welcome.n;
    tcp_entry *out = e->out;
    out->sockets = calloc(n, sizeof *out->sockets);
    out->parts.places = calloc(n, sizeof *out->parts.places);
    out->text = calloc((size_t)e->welcome.n_text + 1, 1);
    for (size_t p = 0; out->sockets && p < n; p++)
        out->sockets[p] = (tcp_sockets){.control = -1, .data = -1};
    return out->sockets && out->parts.places && out->text;
}

/* Receives the greeting. */
static dpt_status learn(entrance *e, int socket, dpt_error *error)
{
    tcp_welcome *w = &e->welcome;
    tcp_entry *out = e->out;
    /* It has GUEST_SECONDS to send it. */
    const double until = dpt_tcp_seconds() + 2 * GUEST_SECONDS;
    int code = dpt_tcp_receive_bytes(until, socket, w, sizeof *w);
    if (code == 0 && !is_sound(w))
        return DPT_FAIL(error, DPT_E_INTERNAL, "the greeting of the first process is not sound");
    if (code == 0 && !make_tables(e))
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to join other processes");
    if (code == 0)
        code = dpt_tcp_receive_bytes(until, socket, out->parts.places,
                                     w->n * sizeof *out->parts.places);
    if (code == 0 && w->n_text > 0)
        code = dpt_tcp_receive_bytes(until, socket, out->text, w->n_text);
    if (code != 0)
        return DPT_FAIL_NATIVE(error, DPT_E_IO, code,
                               "the first process has %s before it greeted this one",
                               code == ETIMEDOUT ? "stood still" : "ended");
    out->n_text = w->n_text;
    out->members = w->members;
    out->used = w->used;
    return DPT_OK;
}

/* Connects to a process of the job.  A failure that is no refusal of this process means that the
   other one has ended; its port may be another program's by now. */
static dpt_status connect_to(const entrance *e, target *to, int *out, dpt_error *error)
{
    const dpt_status status = dpt_tcp_reach_once(e->j, to, out, error);
    const dpt_error why = *error;
    if (status == DPT_E_IO && !to->connected)
        return DPT_FAIL_NATIVE(error, status, why.native,
                               "process %zu of the job is not reached at %s: %s", to->rank,
                               to->text, strerror((int)why.native));
    if (status == DPT_E_INVALID)
        return DPT_FAIL(error, DPT_E_STATE, "process %zu of the job has ended: %.300s", to->rank,
                        why.message);
    return status;
}

/* Makes what is missing of the connections to one process. */
static dpt_status reach_member(const entrance *e, size_t p, dpt_error *error)
{
    target to = {.rank = p, .kind = TCP_CONTROL, .port = e->port, .visit = e->visit};
    tcp_sockets *there = &e->out->sockets[p];
    if (!dpt_tcp_place_read(e->j, &e->out->parts.places[p], &to.address) ||
        !dpt_tcp_is_allowed(e->settings, &to.address))
        return DPT_FAIL(error, DPT_E_INVALID,
                        "the address of process %zu is in no network of DPTRAIN_NETWORKS: add it",
                        p);
    if (there->control < 0) DPT_TRY(connect_to(e, &to, &there->control, error));
    to.kind = TCP_DATA;
    return connect_to(e, &to, &there->data, error);
}

/* The settings of the job, and how this process reaches the one that has greeted it. */
static void take_greeting(const entrance *e, int socket)
{
    const tcp_welcome *w = &e->welcome;
    tcp_settings *s = e->settings;
    const in_port_t port =
        s->address.any.sa_family == AF_INET6 ? s->address.v6.sin6_port : s->address.v4.sin_port;
    e->out->sockets[w->first].control = socket;
    dpt_tcp_place_write(&e->out->parts.places[w->first], &s->address, ntohs(port));
    s->n = w->n_first;
    s->n_joiners = w->n - w->n_first;
    s->rank = w->place;
    s->timeout = w->timeout / 1000.0;
}

/* Whether a process has ended, or has dropped this one, while the others were connected. */
static bool has_lost_any(const entrance *e)
{
    for (size_t p = 0; p < e->welcome.n; p++) {
        struct pollfd one = {.fd = e->out->sockets[p].control, .events = POLLRDHUP};
        if (one.fd >= 0 && poll(&one, 1, 0) > 0) return true;
    }
    return false;
}

/* One attempt.  *again: another one may succeed, because processes of the job have ended, or have
   not missed yet a process that has gone. */
static dpt_status enter(entrance *e, bool *again, dpt_error *error)
{
    target first = {.address = e->settings->address, .kind = TCP_ENTER, .port = e->port};
    int socket = -1;
    *again = false;
    e->welcome.n = 0;
    if (getrandom(&e->visit, sizeof e->visit, 0) != (ssize_t)sizeof e->visit)
        return DPT_FAIL_NATIVE(error, DPT_E_IO, errno, "no random numbers: %s", strerror(errno));
    first.visit = e->visit;
    DPT_TRY(knock(e, &first, &socket, error));
    dpt_status status = learn(e, socket, error);
    *again = status == DPT_E_IO;
    if (status != DPT_OK) {
        (void)close(socket);
        return status;
    }
    take_greeting(e, socket);
    for (size_t p = 0; p < e->welcome.n && status == DPT_OK; p++)
        if (dpt_tcp_has(&e->welcome.members, p)) status = reach_member(e, p, error);
    if (status == DPT_OK && has_lost_any(e))
        status = DPT_FAIL(error, DPT_E_STATE, "a process of the job has ended meanwhile");
    *again = status == DPT_E_IO || status == DPT_E_STATE;
    return status;
}

static void release(tcp_entry *entry, size_t n)
{
    for (size_t p = 0; entry->sockets && p < n; p++) {
        if (entry->sockets[p].control >= 0) (void)close(entry->sockets[p].control);
        if (entry->sockets[p].data >= 0) (void)close(entry->sockets[p].data);
    }
    free(entry->sockets);
    free(entry->parts.places);
    free(entry->text);
    *entry = (tcp_entry){.parts = {.listener = -1}};
}

/* A process that comes has nothing to lose, so it tries again whatever happens to the job. */
static dpt_status enter_in_time(entrance *e, dpt_error *error)
{
    bool again = false;
    DPT_TRY(dpt_tcp_listen_beside(e->j, &e->port, error));
    for (;;) {
        const dpt_status status = enter(e, &again, error);
        if (status == DPT_OK) break;
        release(e->out, e->welcome.n);
        if (!again) return status;
        DPT_TRY(wait_because(e, error->message));
        DPT_TRY(wait_for_job(e, error));
    }
    e->out->parts.listener = e->j->listener;
    e->j->listener = -1;
    return DPT_OK;
}

dpt_status dpt_tcp_enter(tcp_settings *settings, tcp_entry *out, dpt_error *error)
{
    join *j = malloc(sizeof *j);
    *out = (tcp_entry){.parts = {.listener = -1}};
    if (!j) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to join other processes");
    dpt_tcp_join_begin(settings, j);
    entrance e = {.j = j,
                  .settings = settings,
                  .pause = first_pause,
                  .tell = dpt_tcp_seconds() + tell_seconds,
                  .out = out};
    dpt_tcp_address_text(&settings->address, e.address);
    const dpt_status status = enter_in_time(&e, error);
    dpt_tcp_join_end(j);
    free(j);
    return status;
}
