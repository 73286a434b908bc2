/* Exchanges messages with a helper process, and ends it. */
#include "child.h"
#include "printed.h"
#include "start.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ENDING_BYTES = 400 };

static const double start_seconds = 60.0, longest_wait = 0.2, end_seconds = 2.0;

struct dpt_cl_child {
    pid_t pid;
    int socket;
    dpt_cl_printed printed;
    char ending[ENDING_BYTES]; /* empty while the process runs */
};

/* ---- Starting -------------------------------------------------------------------------------- */

/* Waits for the first message of the helper.  DPT_E_ABSENT with the reason. */
static dpt_status greet(dpt_cl_child *child, const char *path, dpt_error *error)
{
    dpt_cl_answer hello;
    double seconds = start_seconds;
    if (!dpt_cl_child_receive(child, &hello, &seconds))
        return DPT_FAIL(error, DPT_E_ABSENT, "%.200s does not start: it was ended %.250s", path,
                        child->ending);
    free(hello.bytes);
    if (hello.head.kind != DPT_CL_HELLO)
        return DPT_FAIL(error, DPT_E_ABSENT, "%.300s is not of this version", path);
    return DPT_OK;
}

dpt_status dpt_cl_child_start(dpt_cl_child **out, dpt_error *error)
{
    dpt_cl_child *child = calloc(1, sizeof *child);
    char *path = dpt_cl_helper_path();
    dpt_status status = DPT_E_NO_MEMORY;
    if (child) child->socket = child->printed.fd = -1;
    if (child && path) {
        dpt_cl_spawned spawned = {.pid = 0, .socket = -1, .printed = -1};
        status = dpt_cl_spawn(path, &spawned, error);
        child->pid = spawned.pid;
        child->socket = spawned.socket;
        child->printed.fd = spawned.printed;
        if (status == DPT_OK) status = greet(child, path, error);
    } else {
        (void)DPT_FAIL(error, status, "no memory for a helper process");
    }
    free(path);
    if (status == DPT_OK)
        *out = child;
    else
        dpt_cl_child_end(child);
    return status;
}

/* ---- Its end --------------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static const char *signal_words(int number)
{
    switch (number) {
    case SIGABRT: return " (aborted)";
    case SIGSEGV: return " (segmentation fault)";
    case SIGBUS: return " (bus error)";
    case SIGILL: return " (illegal instruction)";
    case SIGFPE: return " (arithmetic error)";
    case SIGKILL: return " (killed)";
    case SIGTERM: return " (terminated)";
    default: return "";
    }
}

/* Waits until the process has ended.  Returns false if the process does not end in time, or if
   other code has waited for it. */
static bool await_end(const dpt_cl_child *c, int *state)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    const double until = now() + 5 * end_seconds;
    do {
        const pid_t pid = waitpid(c->pid, state, WNOHANG);
        if (pid == c->pid) return true;
        if (pid < 0 && errno != EINTR) return false;
        (void)nanosleep(&pause, NULL);
    } while (now() < until);
    return false;
}

/* Ends the process and the processes of its group, and waits for it.  *known says whether *state is
   its status. */
static void reap(dpt_cl_child *c, int *state, bool *known)
{
    (void)kill(-c->pid, SIGKILL); /* no effect on a process that is ending */
    *known = await_end(c, state);
    c->pid = 0;
    (void)close(c->socket);
    c->socket = -1;
}

/* Ends the process and writes c->ending.  `why` is NULL if the process has ended by itself. */
static void end_with(dpt_cl_child *c, const char *why)
{
    enum { MOST_QUOTED = 260 };
    char how[80];
    int state = 0;
    bool known;
    if (c->ending[0]) return;
    reap(c, &state, &known);
    dpt_cl_printed_read(&c->printed);
    if (why)
        snprintf(how, sizeof how, "%s", why);
    else if (known && WIFSIGNALED(state))
        snprintf(how, sizeof how, "by signal %d%s", WTERMSIG(state), signal_words(WTERMSIG(state)));
    else if (known && WIFEXITED(state))
        snprintf(how, sizeof how, "with exit status %d", WEXITSTATUS(state));
    else
        snprintf(how, sizeof how, "in an unknown way");
    const char *part = dpt_cl_printed_part(&c->printed, MOST_QUOTED);
    if (*part)
        snprintf(c->ending, sizeof c->ending, "%s: \"%.*s\"", how, MOST_QUOTED, part);
    else
        snprintf(c->ending, sizeof c->ending, "%s; it printed nothing", how);
    dpt_one_line(c->ending);
}

const char *dpt_cl_child_ending(const dpt_cl_child *child)
{
    return child->ending;
}

void dpt_cl_child_end(dpt_cl_child *child)
{
    if (!child) return;
    if (child->pid > 0) {
        int state;
        const struct timespec pause = {.tv_nsec = 2000000};
        const double until = now() + end_seconds;
        (void)shutdown(child->socket, SHUT_RDWR);
        siginfo_t info = {.si_pid = 0};
        while (now() < until && info.si_pid == 0 &&
               waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0)
            (void)nanosleep(&pause, NULL);
        bool known;
        reap(child, &state, &known);
    }
    if (child->printed.fd >= 0) (void)close(child->printed.fd);
    free(child);
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* Waits until the socket can be read or written.  Returns false when the time is over. */
static bool wait_for(dpt_cl_child *c, short events, double *seconds)
{
    while (*seconds > 0.0) {
        struct pollfd fds[2] = {{.fd = c->socket, .events = events},
                                {.fd = c->printed.fd, .events = POLLIN}};
        const double before = now();
        (void)poll(fds, 2, 100);
        const double waited = now() - before;
        *seconds -= waited < longest_wait ? waited : longest_wait;
        if (fds[1].revents) dpt_cl_printed_read(&c->printed);
        if (fds[0].revents) return true;
    }
    return false;
}

typedef ssize_t transfer(int fd, void *bytes, size_t n_bytes);

static ssize_t put(int fd, void *bytes, size_t n_bytes)
{
    return send(fd, bytes, n_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static ssize_t take(int fd, void *bytes, size_t n_bytes)
{
    const ssize_t n = recv(fd, bytes, n_bytes, MSG_DONTWAIT);
    if (n == 0) errno = EPIPE;
    return n == 0 ? -1 : n;
}

/* Transfers all bytes of a part.  Returns false if the process has ended or was ended; c->ending
   has the reason. */
static bool move(dpt_cl_child *c, transfer *call, dpt_cl_part part, double *seconds)
{
    char *at = (char *)(uintptr_t)part.bytes; /* send does not write to it */
    const short events = call == put ? POLLOUT : POLLIN;
    while (part.n_bytes > 0) {
        if (!wait_for(c, events, seconds)) {
            end_with(c, "since it gave no answer in time");
            return false;
        }
        const ssize_t n = call(c->socket, at, part.n_bytes);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) continue;
        if (n < 0) {
            end_with(c, NULL);
            return false;
        }
        at += n;
        part.n_bytes -= (size_t)n;
    }
    return true;
}

bool dpt_cl_child_send(dpt_cl_child *child, const dpt_cl_request *request, double *seconds)
{
    const dpt_cl_part *parts = request->parts;
    const size_t n_parts = request->n_parts;
    dpt_cl_message head = {.magic = DPT_CL_MAGIC, .kind = request->kind};
    if (child->ending[0]) return false;
    child->printed.n = 0; /* what was printed before belongs to other requests */
    child->printed.text[0] = '\0';
    for (size_t i = 0; i < n_parts; i++)
        head.n_bytes += parts[i].n_bytes;
    if (!move(child, put, (dpt_cl_part){&head, sizeof head}, seconds)) return false;
    for (size_t i = 0; i < n_parts; i++)
        if (!move(child, put, parts[i], seconds)) return false;
    return true;
}

bool dpt_cl_child_receive(dpt_cl_child *child, dpt_cl_answer *out, double *seconds)
{
    *out = (dpt_cl_answer){.bytes = NULL};
    if (child->ending[0]) return false;
    if (!move(child, take, (dpt_cl_part){&out->head, sizeof out->head}, seconds)) return false;
    if (out->head.magic != DPT_CL_MAGIC || out->head.n_bytes > DPT_CL_MOST_MESSAGE_BYTES) {
        end_with(child, "since its answer is none");
        return false;
    }
    const size_t n = (size_t)out->head.n_bytes;
    out->bytes = malloc(n + 1);
    if (!out->bytes) {
        end_with(child, "since there was no memory for its answer");
        return false;
    }
    out->bytes[n] = '\0';
    if (move(child, take, (dpt_cl_part){out->bytes, n}, seconds)) return true;
    free(out->bytes);
    out->bytes = NULL;
    return false;
}
