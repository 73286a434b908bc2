/* Joining.  Process 0 listens at the address that all know.  Every other process connects to it,
   and says at which port it listens itself.  When all are there, process 0 sends all of them the
   table of addresses.  Each process then connects to those of a lower rank, and waits for those of
   a higher one.  Connecting waits for lower ranks only, so the processes do not wait in a circle.
 */
#include "join.h"
#include "join_parts.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* How many refusals are told. */
enum { MOST_REFUSALS = 20 };
typedef tcp_place place;
static const double tell_waiting_seconds = 5;

double dpt_tcp_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void drop(int *socket)
{
    if (*socket >= 0) (void)close(*socket);
    *socket = -1;
}

/* ---- Sockets --------------------------------------------------------------------------------- */

/* Small messages are not held back.  The sizes of the buffers are left to Linux, which lets them
   grow with what is in flight; sizes that a program sets are fixed, and small. */
static void tune(int socket)
{
    const int on = 1;
    (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static dpt_status listen_at(const tcp_address *address, int *out, dpt_error *error)
{
    const int on = 1;
    char text[TCP_ADDRESS_TEXT];
    dpt_tcp_address_text(address, text);
    const int socket_number =
        socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket_number < 0)
        return DPT_FAIL_NATIVE(error, DPT_E_IO, errno, "no socket: %s", strerror(errno));
    (void)setsockopt(socket_number, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(socket_number, &address->any, dpt_tcp_address_bytes(address)) != 0 ||
        listen(socket_number, SOMAXCONN) != 0) {
        const int code = errno;
        (void)close(socket_number);
        return DPT_FAIL_NATIVE(error, DPT_E_IO, code,
                               "cannot listen at %s: %s; DPTRAIN_ADDRESS is to be a free port of "
                               "the host of process 0",
                               text, strerror(code));
    }
    *out = socket_number;
    return DPT_OK;
}

/* Waits for a socket.  Returns false at the deadline. */
static bool await(int socket, short events, double deadline)
{
    for (;;) {
        struct pollfd one = {.fd = socket, .events = events};
        const double left = deadline - dpt_tcp_seconds();
        if (left <= 0) return false;
        const int n = poll(&one, 1, left < 1 ? (int)(1000 * left) + 1 : 1000);
        if (n > 0) return true;
        if (n < 0 && errno != EINTR) return false;
    }
}

/* As dpt_tcp_send_bytes and dpt_tcp_receive_bytes. */
static int move(double deadline, int socket, struct iovec what, bool receive)
{
    char *at = what.iov_base;
    while (what.iov_len > 0) {
        if (!await(socket, receive ? POLLIN : POLLOUT, deadline)) return ETIMEDOUT;
        const ssize_t n = receive ? recv(socket, at, what.iov_len, MSG_DONTWAIT)
                                  : send(socket, at, what.iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n == 0) return ECONNRESET;
        if (n < 0 && errno != EINTR && errno != EAGAIN) return errno;
        if (n < 0) continue;
        at += n;
        what.iov_len -= (size_t)n;
    }
    return 0;
}

int dpt_tcp_send_bytes(double deadline, int socket, const void *data, size_t n_bytes)
{
    return move(deadline, socket, (struct iovec){(void *)(uintptr_t)data, n_bytes}, false);
}

int dpt_tcp_receive_bytes(double deadline, int socket, void *data, size_t n_bytes)
{
    return move(deadline, socket, (struct iovec){data, n_bytes}, true);
}

/* ---- Connecting ------------------------------------------------------------------------------ */

/* Whether a socket is connected to itself.  Linux makes such a connection if nobody listens at a
   port from which it chooses the ports of connections. */
static bool is_own_end(int socket)
{
    tcp_address here, there;
    socklen_t n_here = sizeof here, n_there = sizeof there;
    memset(&here, 0, sizeof here);
    memset(&there, 0, sizeof there);
    if (getsockname(socket, &here.any, &n_here) != 0) return false;
    if (getpeername(socket, &there.any, &n_there) != 0) return false;
    return n_here == n_there && memcmp(&here, &there, n_here) == 0;
}

/* Returns a connected socket, or -1 with errno. */
static int connect_once(const tcp_address *address, double deadline)
{
    const int one = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int code = 0;
    socklen_t n_bytes = sizeof code;
    if (one < 0) return -1;
    if (connect(one, &address->any, dpt_tcp_address_bytes(address)) != 0 && errno != EINPROGRESS)
        code = errno;
    else if (!await(one, POLLOUT, deadline))
        code = ETIMEDOUT;
    else
        (void)getsockopt(one, SOL_SOCKET, SO_ERROR, &code, &n_bytes);
    if (code == 0 && is_own_end(one)) code = ECONNREFUSED; /* nobody listens there */
    if (code == 0) return one;
    (void)close(one);
    errno = code;
    return -1;
}

/* Tries until the other process listens.  A try ends after some seconds, because a host that is not
   there yet does not answer. */
static dpt_status connect_to(const join *j, const target *to, int *out, dpt_error *error)
{
    double tell = dpt_tcp_seconds() + tell_waiting_seconds;
    int why = 0; /* the last try is cut short by the deadline, and says less than those before */
    for (;;) {
        const double soon = dpt_tcp_seconds() + GUEST_SECONDS;
        *out = connect_once(&to->address, soon < j->deadline ? soon : j->deadline);
        if (*out >= 0) break;
        if (why == 0 || errno != ETIMEDOUT) why = errno;
        if (dpt_tcp_seconds() >= j->deadline)
            return DPT_FAIL_NATIVE(error, DPT_E_IO, why,
                                   "process %zu is not reached at %s within %g s "
                                   "(DPTRAIN_JOIN_TIMEOUT): %s",
                                   to->rank, to->text, j->settings->join_timeout, strerror(why));
        if (dpt_tcp_seconds() >= tell) {
            (void)fprintf(stderr, "dptrain: process %zu waits for process %zu at %s: %s\n",
                          j->settings->rank, to->rank, to->text, strerror(why));
            tell = j->deadline;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = TCP_LOOK_MILLISECONDS * 1000000L}, NULL);
    }
    tune(*out);
    return DPT_OK;
}

/* Receives a hello.  What another program sends may be shorter than a hello. */
static int receive_hello(const target *to, int socket, tcp_hello *out)
{
    const int code = dpt_tcp_receive_bytes(to->deadline, socket, out->magic, sizeof out->magic);
    if (code != 0 || !dpt_tcp_hello_is(out)) return code;
    return dpt_tcp_receive_bytes(to->deadline, socket, &out->version,
                                 sizeof *out - offsetof(tcp_hello, version));
}

/* The side of the handshake that connects. */
static dpt_status introduce(const join *j, int socket, const target *to, dpt_error *error)
{
    tcp_nonces nonces;
    tcp_answer answer = {.verdict = TCP_WRONG_SECRET};
    tcp_claim claim = {.n = (uint32_t)j->settings->n,
                       .rank = (uint32_t)j->settings->rank,
                       .to = (uint32_t)to->rank,
                       .kind = to->kind,
                       .port = to->port,
                       .timeout = dpt_tcp_timeout_ms(j->settings),
                       .joiners = (uint32_t)j->settings->n_joiners,
                       .visit = to->visit};
    DPT_TRY(dpt_tcp_hello_make(&nonces.from_client, error));
    int code =
        dpt_tcp_send_bytes(to->deadline, socket, &nonces.from_client, sizeof nonces.from_client);
    if (code == 0) code = receive_hello(to, socket, &nonces.from_server);
    if (code != 0) return dpt_tcp_tell_code(code, to, error);
    if (!dpt_tcp_hello_is(&nonces.from_server)) return dpt_tcp_tell_program(j->settings, to, error);
    if (nonces.from_server.version != TCP_VERSION)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "the process at %s is of another version of dptrain or another kind of "
                        "machine: start the same version in all processes",
                        to->text);
    dpt_tcp_claim_prove(j->settings, &nonces, &claim);
    code = dpt_tcp_send_bytes(to->deadline, socket, &claim, sizeof claim);
    if (code == 0) code = dpt_tcp_receive_bytes(to->deadline, socket, &answer, sizeof answer);
    if (code != 0) return dpt_tcp_tell_code(code, to, error);
    if (!dpt_tcp_answer_holds(j->settings, &nonces, &claim, &answer))
        answer.verdict = TCP_WRONG_SECRET;
    return dpt_tcp_tell_answer(j->settings, &answer, to, error);
}

static void tell_closed(const join *j, const target *to)
{
    (void)fprintf(
        stderr,
        "dptrain: process %zu waits for process %zu at %s, which has closed a connection: "
        "see its message\n",
        j->settings->rank, to->rank, to->text);
}

/* *out becomes a connection that is whole; -1 on failure.  A connection that is closed without an
   answer is made again within the time to join: many strangers may have taken its place. */
static dpt_status reach(const join *j, target *to, int *out, dpt_error *error)
{
    double tell = dpt_tcp_seconds() + tell_waiting_seconds;
    dpt_tcp_address_text(&to->address, to->text);
    to->deadline = j->deadline;
    for (long pause = TCP_LOOK_MILLISECONDS;; pause = pause < 1000 ? 2 * pause : pause) {
        DPT_TRY(connect_to(j, to, out, error));
        const dpt_status status = introduce(j, *out, to, error);
        if (status == DPT_OK) return DPT_OK;
        drop(out);
        const double now = dpt_tcp_seconds();
        const bool closed = error->native == ECONNRESET || error->native == EPIPE;
        if (!closed || now >= j->deadline) return status;
        if (now >= tell) {
            tell_closed(j, to);
            tell = j->deadline;
        }
        (void)nanosleep(&(struct timespec){pause / 1000, pause % 1000 * 1000000L}, NULL);
    }
}

/* ---- Those who connect ----------------------------------------------------------------------- */

/* Says why somebody is refused.  This process goes on, so there is no error to return. */
DPT_PRINTF(3, 4)
static void refuse(join *j, guest *g, const char *format, ...)
{
    char text[TCP_ADDRESS_TEXT], words[256];
    va_list arguments;
    drop(&g->socket);
    if (j->n_refusals++ >= MOST_REFUSALS) return;
    dpt_tcp_address_text(&g->address, text);
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    (void)fprintf(stderr, "dptrain: process %zu: a connection from %s is refused: %s%s\n",
                  j->settings->rank, text, words,
                  j->n_refusals == MOST_REFUSALS ? " (more refusals are not told)" : "");
}

/* The place for another guest: the one who has been here longest goes if all are taken. */
static guest *find_place(join *j)
{
    guest *oldest = &j->guests[0];
    for (size_t i = 0; i < MOST_GUESTS; i++) {
        if (j->guests[i].socket < 0) return &j->guests[i];
        if (j->guests[i].since < oldest->since) oldest = &j->guests[i];
    }
    refuse(j, oldest, "others are waiting, and it has not said who it is");
    return oldest;
}

static void receive_guest(join *j)
{
    tcp_address address;
    socklen_t n_bytes = sizeof address;
    const int one = accept4(j->listener, &address.any, &n_bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (one < 0) {
        /* Whoever connects waits until this process has files again. */
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            (void)nanosleep(&(struct timespec){.tv_nsec = TCP_LOOK_MILLISECONDS * 1000000L}, NULL);
        return;
    }
    guest *g = find_place(j);
    *g = (guest){.socket = one, .since = dpt_tcp_seconds(), .address = address};
    tune(one);
    if (!dpt_tcp_is_allowed(j->settings, &address))
        refuse(j, g, "its address is in no network of DPTRAIN_NETWORKS");
}

static tcp_verdict judge(const join *j, const tcp_claim *claim, uint32_t *value)
{
    const tcp_settings *s = j->settings;
    if (j->host) return j->host->judge(j->host->user, claim, value);
    *value = 0;
    if (claim->kind == TCP_ENTER) return s->n_joiners > 0 ? TCP_BUSY : TCP_NO_PLACE;
    *value = (uint32_t)s->n;
    if (claim->n != s->n) return TCP_WRONG_COUNT;
    *value = (uint32_t)s->n_joiners;
    if (claim->joiners != s->n_joiners) return TCP_WRONG_JOINERS;
    if (claim->rank >= s->n || claim->rank == s->rank) return TCP_WRONG_RANK;
    *value = dpt_tcp_timeout_ms(s);
    if (claim->timeout != *value) return TCP_WRONG_TIMEOUT;
    *value = (uint32_t)s->rank;
    if (claim->to != s->rank || claim->rank < s->rank || claim->kind > TCP_DATA ||
        claim->port > 65535)
        return TCP_OTHER_PLACE;
    const tcp_sockets *there = &j->sockets[claim->rank];
    if ((claim->kind == TCP_CONTROL ? there->control : there->data) >= 0) return TCP_TWICE;
    return TCP_ACCEPTED;
}

static void place_write(place *out, const tcp_address *address, uint32_t port)
{
    *out = (place){.family = address->any.sa_family == AF_INET6 ? 6 : 4, .port = port};
    if (out->family == 6)
        memcpy(out->bytes, &address->v6.sin6_addr, 16);
    else
        memcpy(out->bytes, &address->v4.sin_addr, 4);
}

static void tell_refusal(join *j, guest *g, tcp_verdict verdict)
{
    const unsigned rank = (unsigned)g->claim.rank;
    if (verdict == TCP_WRONG_SECRET)
        refuse(j, g, "it has another secret");
    else if (verdict == TCP_WRONG_COUNT)
        refuse(j, g, "it is one of %u processes, and this job has %zu", (unsigned)g->claim.n,
               j->settings->n);
    else if (verdict == TCP_WRONG_TIMEOUT)
        refuse(j, g, "its DPTRAIN_PROCESS_TIMEOUT is %g, and that of this process %g",
               g->claim.timeout / 1000.0, j->settings->timeout);
    else if (verdict == TCP_BUSY)
        drop(&g->socket); /* it tries again */
    else if (verdict == TCP_NO_PLACE)
        refuse(j, g, "no more processes may come (DPTRAIN_JOINERS)");
    else if (verdict == TCP_WRONG_JOINERS)
        refuse(j, g, "its DPTRAIN_JOINERS is %u, and that of this process %zu",
               (unsigned)g->claim.joiners, j->settings->n_joiners);
    else if (verdict == TCP_TWICE)
        refuse(j, g, "it says that it is process %u, which has joined already", rank);
    else if (g->claim.kind == TCP_ENTER)
        refuse(j, g, "it comes to the job, and only the first process lets others in");
    else
        refuse(j, g, "it says that it is process %u, which does not connect here", rank);
}

static void answer_claim(join *j, guest *g)
{
    tcp_answer answer = {.verdict = TCP_WRONG_SECRET};
    if (dpt_tcp_claim_holds(j->settings, &g->nonces, &g->claim)) {
        answer.verdict = judge(j, &g->claim, &answer.value);
        dpt_tcp_answer_prove(j->settings, &g->nonces, &g->claim, &answer);
    }
    const bool sent = send(g->socket, &answer, sizeof answer, MSG_DONTWAIT | MSG_NOSIGNAL) ==
                      (ssize_t)sizeof answer;
    if (answer.verdict != TCP_ACCEPTED) {
        tell_refusal(j, g, (tcp_verdict)answer.verdict);
        return;
    }
    if (!sent) {
        drop(&g->socket);
        return;
    }
    if (j->host) {
        j->host->seat(j->host->user, g);
        return;
    }
    tcp_sockets *there = &j->sockets[g->claim.rank];
    *(g->claim.kind == TCP_CONTROL ? &there->control : &there->data) = g->socket;
    if (g->claim.kind == TCP_CONTROL)
        place_write(&j->places[g->claim.rank], &g->address, g->claim.port);
    g->socket = -1;
}

static void answer_hello(join *j, guest *g)
{
    dpt_error error;
    if (!dpt_tcp_hello_is(&g->nonces.from_client)) {
        refuse(j, g, "it does not speak as dptrain does");
        return;
    }
    const bool sent = dpt_tcp_hello_make(&g->nonces.from_server, &error) == DPT_OK &&
                      send(g->socket, &g->nonces.from_server, sizeof g->nonces.from_server,
                           MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof g->nonces.from_server;
    if (g->nonces.from_client.version != TCP_VERSION)
        refuse(j, g, "it is of another version of dptrain or another kind of machine");
    else if (!sent)
        refuse(j, g, "it cannot be answered");
    g->greeted = true;
    g->got = 0;
}

/* Reads what a guest has sent, and answers what is whole. */
static void hear(join *j, guest *g)
{
    const size_t whole = g->greeted ? sizeof g->claim : sizeof g->nonces.from_client;
    char *to = g->greeted ? (char *)&g->claim : (char *)&g->nonces.from_client;
    const ssize_t n = recv(g->socket, to + g->got, whole - g->got, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
        refuse(j, g, "it has gone before it said who it is");
        return;
    }
    g->got += (size_t)n;
    if (g->got < whole) return;
    if (g->greeted)
        answer_claim(j, g);
    else
        answer_hello(j, g);
}

/* Waits a moment for guests and hears them. */
static void look_at_guests(join *j)
{
    struct pollfd all[MOST_GUESTS + 1] = {{.fd = j->listener, .events = POLLIN}};
    for (size_t i = 0; i < MOST_GUESTS; i++)
        all[i + 1] = (struct pollfd){.fd = j->guests[i].socket, .events = POLLIN};
    if (poll(all, MOST_GUESTS + 1, TCP_LOOK_MILLISECONDS) <= 0)
        for (size_t i = 0; i <= MOST_GUESTS; i++)
            all[i].revents = 0;
    for (size_t i = 0; i < MOST_GUESTS; i++) {
        guest *g = &j->guests[i];
        if (g->socket < 0) continue;
        if (all[i + 1].revents)
            hear(j, g);
        else if (dpt_tcp_seconds() - g->since > GUEST_SECONDS)
            refuse(j, g, "it has not said who it is in %d s", GUEST_SECONDS);
    }
    if (all[0].revents) receive_guest(j);
}

/* ---- Waiting for all ------------------------------------------------------------------------- */

/* Writes "1, 2 and 5"; returns how many are missing. */
static size_t list_missing(const join *j, uint32_t kind, char *out, size_t n_bytes)
{
    size_t n = 0, length = 0;
    *out = '\0';
    for (size_t r = j->settings->rank + 1; r < j->settings->n; r++) {
        const tcp_sockets *there = &j->sockets[r];
        if ((kind == TCP_CONTROL ? there->control : there->data) >= 0) continue;
        n++;
        if (length + 8 < n_bytes)
            length +=
                (size_t)snprintf(out + length, n_bytes - length, "%s%zu", n > 1 ? ", " : "", r);
    }
    return n;
}

/* Looks for processes that have joined and gone.  Before the table is sent another process may come
   in their place. */
static dpt_status look_at_members(join *j, dpt_error *error)
{
    for (size_t r = 0; r < j->settings->n; r++) {
        struct pollfd one = {.fd = j->sockets[r].control, .events = POLLRDHUP};
        if (one.fd < 0 || poll(&one, 1, 0) <= 0) continue;
        if (j->seated)
            return DPT_FAIL(error, DPT_E_IO,
                            "process %zu has ended while the processes joined: see its message", r);
        drop(&j->sockets[r].control);
        (void)fprintf(stderr,
                      "dptrain: process %zu: process %zu has ended before all had joined; "
                      "another one may take its rank\n",
                      j->settings->rank, r);
    }
    return DPT_OK;
}

/* Waits for the connections of one kind from the processes of higher ranks. */
static dpt_status await_members(join *j, uint32_t kind, dpt_error *error)
{
    char missing[160];
    for (;;) {
        const size_t n = list_missing(j, kind, missing, sizeof missing);
        if (n == 0) return DPT_OK;
        const double now = dpt_tcp_seconds();
        if (now >= j->deadline)
            return DPT_FAIL(error, DPT_E_IO,
                            "%zu of %zu processes have not joined within %g s "
                            "(DPTRAIN_JOIN_TIMEOUT): %s",
                            n, j->settings->n, j->settings->join_timeout, missing);
        if (j->told_waiting > 0 && now >= j->told_waiting) {
            (void)fprintf(stderr, "dptrain: process %zu waits for process%s %s\n",
                          j->settings->rank, n > 1 ? "es" : "", missing);
            j->told_waiting = 0;
        }
        look_at_guests(j);
        DPT_TRY(look_at_members(j, error));
    }
}

static dpt_status hand_out_places(const join *j, dpt_error *error)
{
    const size_t n_bytes = j->settings->n * sizeof *j->places;
    for (size_t r = 1; r < j->settings->n; r++) {
        const int code = dpt_tcp_send_bytes(j->deadline, j->sockets[r].control, j->places, n_bytes);
        if (code != 0)
            return DPT_FAIL_NATIVE(error, DPT_E_IO, code,
                                   "process %zu has ended while the processes joined: %s", r,
                                   strerror(code));
    }
    return DPT_OK;
}

static dpt_status join_as_first(join *j, dpt_error *error)
{
    DPT_TRY(listen_at(&j->settings->address, &j->listener, error));
    DPT_TRY(await_members(j, TCP_CONTROL, error));
    j->seated = true;
    DPT_TRY(hand_out_places(j, error));
    return await_members(j, TCP_DATA, error);
}

/* ---- The others ------------------------------------------------------------------------------ */

/* A link-local address is reached through the interface that leads to process 0: it was found as
   the address of a host towards process 0. */
static bool place_read(const join *j, const place *from, tcp_address *out)
{
    memset(out, 0, sizeof *out);
    if (from->port > 65535) return false;
    const in_port_t port = htons((uint16_t)from->port);
    if (from->family == 6) {
        out->v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = port};
        memcpy(&out->v6.sin6_addr, from->bytes, 16);
        if (IN6_IS_ADDR_LINKLOCAL(&out->v6.sin6_addr))
            out->v6.sin6_scope_id = j->settings->address.v6.sin6_scope_id;
    } else {
        out->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port};
        memcpy(&out->v4.sin_addr, from->bytes, 4);
    }
    return true;
}

/* Listens at the address that this host has towards process 0, which is known once both are
   connected.  *port becomes the port. */
static dpt_status listen_beside(join *j, uint32_t *port, dpt_error *error)
{
    tcp_address mine;
    socklen_t n_bytes = sizeof mine;
    /* A connection of datagrams sends nothing, and tells which address it would have. */
    const int probe = socket(j->settings->address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool known = probe >= 0 &&
                       connect(probe, &j->settings->address.any,
                               dpt_tcp_address_bytes(&j->settings->address)) == 0 &&
                       getsockname(probe, &mine.any, &n_bytes) == 0;
    const int code = errno;
    if (probe >= 0) (void)close(probe);
    if (!known)
        return DPT_FAIL_NATIVE(error, DPT_E_IO, code, "this host has no way to process 0: %s",
                               strerror(code));
    if (!dpt_tcp_is_allowed(j->settings, &mine))
        return DPT_FAIL(error, DPT_E_INVALID,
                        "this host's address towards process 0 is in no network of "
                        "DPTRAIN_NETWORKS: add it");
    if (mine.any.sa_family == AF_INET6)
        mine.v6.sin6_port = 0;
    else
        mine.v4.sin_port = 0;
    DPT_TRY(listen_at(&mine, &j->listener, error));
    n_bytes = sizeof mine;
    (void)getsockname(j->listener, &mine.any, &n_bytes);
    *port = ntohs(mine.any.sa_family == AF_INET6 ? mine.v6.sin6_port : mine.v4.sin_port);
    return DPT_OK;
}

/* Makes both connections to a process of a lower rank; to process 0 the second. */
static dpt_status reach_lower(join *j, size_t rank, dpt_error *error)
{
    target to = {.rank = rank, .kind = TCP_CONTROL};
    if (rank == 0)
        to.address = j->settings->address;
    else if (!place_read(j, &j->places[rank], &to.address) ||
             !dpt_tcp_is_allowed(j->settings, &to.address))
        return DPT_FAIL(error, DPT_E_INVALID,
                        "the address of process %zu is in no network of DPTRAIN_NETWORKS: add it",
                        rank);
    if (rank > 0) DPT_TRY(reach(j, &to, &j->sockets[rank].control, error));
    to.kind = TCP_DATA;
    return reach(j, &to, &j->sockets[rank].data, error);
}

static dpt_status join_as_other(join *j, dpt_error *error)
{
    target first = {.address = j->settings->address, .kind = TCP_CONTROL};
    DPT_TRY(listen_beside(j, &first.port, error));
    DPT_TRY(reach(j, &first, &j->sockets[0].control, error));
    const int code = dpt_tcp_receive_bytes(j->deadline, j->sockets[0].control, j->places,
                                           j->settings->n * sizeof *j->places);
    if (code == ETIMEDOUT)
        return DPT_FAIL(error, DPT_E_IO,
                        "not all of the %zu processes have joined within %g s "
                        "(DPTRAIN_JOIN_TIMEOUT)",
                        j->settings->n, j->settings->join_timeout);
    if (code != 0)
        return DPT_FAIL_NATIVE(error, DPT_E_IO, code,
                               "process 0 has ended before all had joined: see its message");
    j->seated = true;
    for (size_t r = 0; r < j->settings->rank; r++)
        DPT_TRY(reach_lower(j, r, error));
    DPT_TRY(await_members(j, TCP_CONTROL, error));
    return await_members(j, TCP_DATA, error);
}

/* ---- Parts for processes that come later ----------------------------------------------------- */

void dpt_tcp_join_begin(const tcp_settings *settings, join *j)
{
    const double now = dpt_tcp_seconds();
    *j = (join){.settings = settings,
                .listener = -1,
                .deadline = now + settings->join_timeout,
                .told_waiting = now + tell_waiting_seconds};
    for (size_t i = 0; i < MOST_GUESTS; i++)
        j->guests[i].socket = -1;
}

void dpt_tcp_join_end(join *j)
{
    for (size_t i = 0; i < MOST_GUESTS; i++)
        drop(&j->guests[i].socket);
    drop(&j->listener);
}

void dpt_tcp_look_at_guests(join *j)
{
    look_at_guests(j);
}

dpt_status dpt_tcp_listen_at(join *j, const tcp_address *address, dpt_error *error)
{
    return listen_at(address, &j->listener, error);
}

dpt_status dpt_tcp_listen_beside(join *j, uint32_t *port, dpt_error *error)
{
    return listen_beside(j, port, error);
}

dpt_status dpt_tcp_reach_once(const join *j, target *to, int *out, dpt_error *error)
{
    dpt_tcp_address_text(&to->address, to->text);
    *out = connect_once(&to->address, dpt_tcp_seconds() + GUEST_SECONDS);
    to->connected = *out >= 0;
    if (*out < 0)
        return DPT_FAIL_NATIVE(error, DPT_E_IO, errno, "nobody listens at %s: %s", to->text,
                               strerror(errno));
    tune(*out);
    const double soon = dpt_tcp_seconds() + GUEST_SECONDS;
    to->deadline = soon < j->deadline ? soon : j->deadline;
    const dpt_status status = introduce(j, *out, to, error);
    if (status != DPT_OK) drop(out);
    return status;
}

bool dpt_tcp_place_read(const join *j, const tcp_place *from, tcp_address *out)
{
    return place_read(j, from, out);
}

void dpt_tcp_place_write(tcp_place *out, const tcp_address *address, uint32_t port)
{
    place_write(out, address, port);
}

/* ---- Joining --------------------------------------------------------------------------------- */

/* Keeps the listener and the addresses for processes that come later. */
static void keep_door(join *j, tcp_door_parts *out)
{
    *out = (tcp_door_parts){.listener = j->listener, .places = j->places};
    j->listener = -1;
    j->places = NULL;
}

dpt_status dpt_tcp_join(const tcp_settings *settings, tcp_sockets *sockets, tcp_door_parts *parts,
                        dpt_error *error)
{
    *parts = (tcp_door_parts){.listener = -1};
    join *j = malloc(sizeof *j);
    place *places = calloc(settings->n + settings->n_joiners, sizeof *places);
    dpt_status status = DPT_E_NO_MEMORY;
    for (size_t r = 0; r < settings->n; r++)
        sockets[r] = (tcp_sockets){.control = -1, .data = -1};
    if (!j || !places) {
        free(j);
        free(places);
        return DPT_FAIL(error, status, "no memory to join other processes");
    }
    dpt_tcp_join_begin(settings, j);
    j->sockets = sockets;
    j->places = places;
    status = settings->rank == 0 ? join_as_first(j, error) : join_as_other(j, error);
    if (status == DPT_OK && settings->n_joiners > 0) keep_door(j, parts);
    dpt_tcp_join_end(j);
    for (size_t r = 0; status != DPT_OK && r < settings->n; r++) {
        drop(&sockets[r].control);
        drop(&sockets[r].data);
    }
    free(j->places);
    free(j);
    return status;
}
