/* The process that comes: it connects to the first process of a job that runs, learns from it who
   else is there, and connects to all of them.  They work on meanwhile. */
#include "door.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double tell_seconds = 5;

/* Asks until the first process has a place. */
static dpt_status knock(const join *j, target *to, int *out, dpt_error *error)
{
    double tell = dpt_tcp_seconds() + tell_seconds;
    for (;;) {
        const dpt_status status = dpt_tcp_reach_once(j, to, out, error);
        const dpt_error why = *error;
        if (status == DPT_E_IO && why.native == ECONNREFUSED)
            return DPT_FAIL_NATIVE(error, status, why.native,
                                   "%.200s; give the address of the first process of a job that "
                                   "was started with DPTRAIN_JOINERS",
                                   why.message);
        /* A job whose last process has just joined drops connections that are half made. */
        const bool dropped = status == DPT_E_IO && why.native == ECONNRESET;
        if (status != DPT_E_STATE && !dropped) return status;
        const double now = dpt_tcp_seconds();
        if (now >= j->deadline)
            return DPT_FAIL(error, DPT_E_IO,
                            "the job at %s has not let this process in within %g s "
                            "(DPTRAIN_JOIN_TIMEOUT): it does not train yet, or another process "
                            "comes",
                            to->text, j->settings->join_timeout);
        if (now >= tell) {
            (void)fprintf(stderr,
                          "dptrain: waiting for the job at %s, which does not train yet, or lets "
                          "another process in\n",
                          to->text);
            tell = j->deadline;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = TCP_LOOK_MILLISECONDS * 1000000L}, NULL);
    }
}

static bool is_sound(const tcp_welcome *w)
{
    return w->n <= TCP_MOST_PROCESSES && w->n_first >= 1 && w->n_first <= w->place &&
           w->place < w->n && w->first < w->n && dpt_tcp_has(&w->members, w->first) &&
           !dpt_tcp_has(&w->members, w->place) && w->n_text <= TCP_MOST_TEXT && w->timeout > 0;
}

/* One attempt. */
typedef struct entrance {
    join *j;
    tcp_settings *settings;
    tcp_welcome welcome;
    uint32_t port; /* where this process listens */
    tcp_entry *out;
} entrance;

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
    int code = dpt_tcp_receive_bytes(e->j, socket, w, sizeof *w);
    if (code == 0 && !is_sound(w))
        return DPT_FAIL(error, DPT_E_INTERNAL, "the greeting of the first process is not sound");
    if (code == 0 && !make_tables(e))
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to join other processes");
    if (code == 0)
        code = dpt_tcp_receive_bytes(e->j, socket, out->parts.places,
                                     w->n * sizeof *out->parts.places);
    if (code == 0 && w->n_text > 0)
        code = dpt_tcp_receive_bytes(e->j, socket, out->text, w->n_text);
    if (code != 0)
        return DPT_FAIL_NATIVE(error, DPT_E_IO, code,
                               "the first process has not greeted this one: %s", strerror(code));
    out->n_text = w->n_text;
    out->members = w->members;
    out->used = w->used;
    return DPT_OK;
}

/* Makes what is missing of the connections to one process. */
static dpt_status reach_member(const entrance *e, size_t p, dpt_error *error)
{
    target to = {.rank = p, .kind = TCP_CONTROL, .port = e->port};
    tcp_sockets *there = &e->out->sockets[p];
    if (!dpt_tcp_place_read(e->j, &e->out->parts.places[p], &to.address) ||
        !dpt_tcp_is_allowed(e->settings, &to.address))
        return DPT_FAIL(error, DPT_E_INVALID,
                        "the address of process %zu is in no network of DPTRAIN_NETWORKS: add it",
                        p);
    if (there->control < 0) DPT_TRY(dpt_tcp_reach_once(e->j, &to, &there->control, error));
    to.kind = TCP_DATA;
    return dpt_tcp_reach_once(e->j, &to, &there->data, error);
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

static dpt_status enter(entrance *e, dpt_error *error)
{
    target first = {.address = e->settings->address, .kind = TCP_ENTER};
    int socket = -1;
    DPT_TRY(dpt_tcp_listen_beside(e->j, &e->port, error));
    first.port = e->port;
    DPT_TRY(knock(e->j, &first, &socket, error));
    dpt_status status = learn(e, socket, error);
    if (status != DPT_OK) {
        (void)close(socket);
        return status;
    }
    take_greeting(e, socket);
    for (size_t p = 0; p < e->welcome.n && status == DPT_OK; p++)
        if (dpt_tcp_has(&e->welcome.members, p)) status = reach_member(e, p, error);
    if (status != DPT_OK) return status;
    e->out->parts.listener = e->j->listener;
    e->j->listener = -1;
    return DPT_OK;
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

dpt_status dpt_tcp_enter(tcp_settings *settings, tcp_entry *out, dpt_error *error)
{
    join *j = malloc(sizeof *j);
    entrance e = {.j = j, .settings = settings, .out = out};
    *out = (tcp_entry){.parts = {.listener = -1}};
    if (!j) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to join other processes");
    dpt_tcp_join_begin(settings, j);
    const dpt_status status = enter(&e, error);
    dpt_tcp_join_end(j);
    free(j);
    if (status != DPT_OK) release(out, e.welcome.n);
    return status;
}
