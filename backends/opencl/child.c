/* Starts a helper process, exchanges messages with it, keeps what it prints, and ends it. */
#include "child.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORDS_BYTES = 16384, FIRST_OWN_FD = 10, ENDING_BYTES = 400 };

static const double start_seconds = 60.0, longest_wait = 0.2, end_seconds = 2.0;

extern char **environ;

struct dpt_cl_child {
    pid_t pid;
    int socket;
    int printed; /* the read end of a pipe; -1: nobody writes to it any more */
    size_t n_words;
    char words[WORDS_BYTES + 1]; /* the last that it has printed */
    char ending[ENDING_BYTES];   /* empty while the process runs */
};

/* ---- Starting -------------------------------------------------------------------------------- */

/* The helper lies beside the library that has this code. */
static char *helper_path(void)
{
    static const char here = 0;
    Dl_info info;
    if (!dladdr(&here, &info) || !info.dli_fname) return NULL;
    char *library = realpath(info.dli_fname, NULL);
    char *slash = library ? strrchr(library, '/') : NULL;
    char *path = NULL;
    if (slash) {
        const size_t n_bytes = (size_t)(slash - library) + sizeof "/" DPT_CL_HELPER_NAME;
        path = malloc(n_bytes);
        if (path)
            snprintf(path, n_bytes, "%.*s/%s", (int)(slash - library), library, DPT_CL_HELPER_NAME);
    }
    free(library);
    return path;
}

static void close_both(int fds[2])
{
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0) (void)close(fds[i]);
    fds[0] = fds[1] = -1;
}

/* Away from the numbers that the helper's descriptors get. */
static bool move_up(int fds[2])
{
    for (int i = 0; i < 2; i++) {
        const int moved = fcntl(fds[i], F_DUPFD_CLOEXEC, FIRST_OWN_FD);
        if (moved < 0) return false;
        (void)close(fds[i]);
        fds[i] = moved;
    }
    return true;
}

typedef struct pipes {
    int talk[2];    /* ours, the helper's */
    int printed[2]; /* to read, to write */
} pipes;

static bool make_pipes(pipes *p)
{
    *p = (pipes){{-1, -1}, {-1, -1}};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p->talk) == 0 &&
        pipe2(p->printed, O_CLOEXEC) == 0 && move_up(p->talk) && move_up(p->printed) &&
        fcntl(p->printed[0], F_SETFL, O_NONBLOCK) == 0)
        return true;
    close_both(p->talk);
    close_both(p->printed);
    return false;
}

/* No signal is blocked or ignored in the helper, whatever this thread has blocked. */
static int set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    sigdelset(&all, SIGKILL);
    sigdelset(&all, SIGSTOP);
    int code = posix_spawnattr_setsigmask(attributes, &none);
    if (code == 0) code = posix_spawnattr_setsigdefault(attributes, &all);
    if (code == 0) code = posix_spawnattr_setpgroup(attributes, 0);
    if (code == 0)
        code = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                        POSIX_SPAWN_SETPGROUP);
    return code;
}

static int set_files(posix_spawn_file_actions_t *actions, const pipes *p)
{
    int code = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    for (int fd = 1; fd <= 2 && code == 0; fd++)
        code = posix_spawn_file_actions_adddup2(actions, p->printed[1], fd);
    if (code == 0)
        code = posix_spawn_file_actions_adddup2(actions, p->talk[1], DPT_CL_HELPER_SOCKET);
    return code;
}

/* 0, or the number of an error. */
static int spawn(const char *path, const pipes *p, pid_t *pid)
{
    char name[] = DPT_CL_HELPER_NAME;
    char *const arguments[] = {name, NULL};
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    int code = posix_spawnattr_init(&attributes);
    if (code != 0) return code;
    code = posix_spawn_file_actions_init(&actions);
    if (code == 0) {
        code = set_attributes(&attributes);
        if (code == 0) code = set_files(&actions, p);
        if (code == 0) code = posix_spawn(pid, path, &actions, &attributes, arguments, environ);
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    (void)posix_spawnattr_destroy(&attributes);
    return code;
}

static dpt_status start(const char *path, dpt_cl_child *child, dpt_error *error)
{
    pipes p;
    if (!make_pipes(&p))
        return DPT_FAIL(error, DPT_E_ABSENT, "no pipes for %.200s: %s", path, strerror(errno));
    const int code = spawn(path, &p, &child->pid);
    if (code != 0) {
        close_both(p.talk);
        close_both(p.printed);
        return DPT_FAIL(error, DPT_E_ABSENT, "%.300s does not start: %s", path, strerror(code));
    }
    child->socket = p.talk[0];
    child->printed = p.printed[0];
    (void)close(p.talk[1]);
    (void)close(p.printed[1]);
    return DPT_OK;
}

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
    char *path = helper_path();
    dpt_status status = DPT_E_NO_MEMORY;
    if (child && path) {
        *child = (dpt_cl_child){.socket = -1, .printed = -1};
        status = start(path, child, error);
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

/* ---- What it prints -------------------------------------------------------------------------- */

static void keep(dpt_cl_child *c, const char *bytes, size_t n)
{
    if (n > WORDS_BYTES) {
        bytes += n - WORDS_BYTES;
        n = WORDS_BYTES;
    }
    const size_t excess = c->n_words + n > WORDS_BYTES ? c->n_words + n - WORDS_BYTES : 0;
    memmove(c->words, c->words + excess, c->n_words - excess);
    c->n_words -= excess;
    memcpy(c->words + c->n_words, bytes, n);
    c->n_words += n;
    c->words[c->n_words] = '\0';
}

/* Takes what is there, without waiting. */
static void read_printed(dpt_cl_child *c)
{
    char bytes[4096];
    while (c->printed >= 0) {
        const ssize_t n = read(c->printed, bytes, sizeof bytes);
        if (n > 0) {
            keep(c, bytes, (size_t)n);
        } else if (n < 0 && errno == EINTR) {
            continue;
        } else {
            if (n < 0 && errno == EAGAIN) return;
            (void)close(c->printed);
            c->printed = -1;
        }
    }
}

/* Whether a line speaks of an error. */
static bool tells(const char *line, size_t n)
{
    static const char *const signs[] = {"error", "assert", "fatal", "abort", "terminate", "failed"};
    for (size_t at = 0; at < n; at++)
        for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
            if (n - at >= strlen(signs[i]) &&
                strncasecmp(line + at, signs[i], strlen(signs[i])) == 0)
                return true;
    return false;
}

/* The part of what was printed that a person wants to see: at most `most` characters of it. */
static const char *telling_part(dpt_cl_child *c, size_t most)
{
    for (size_t i = 0; i < c->n_words; i++) /* NULs would end it */
        if (c->words[i] == '\0') c->words[i] = ' ';
    while (c->n_words > 0 && isspace((unsigned char)c->words[c->n_words - 1]))
        c->words[--c->n_words] = '\0';
    for (const char *at = c->words; *at; at += strcspn(at, "\n"), at += *at == '\n')
        if (tells(at, strcspn(at, "\n"))) return at;
    const char *end = c->words + c->n_words;
    const char *begin = c->n_words > most ? end - most : c->words;
    return begin;
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

/* false: somebody else has waited for the process, or its end does not come. */
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

/* The process, and what it has started in its group, is ended and waited for. */
static void reap(dpt_cl_child *c, int *state, bool *known)
{
    (void)kill(-c->pid, SIGKILL); /* changes nothing in one that is ending already */
    *known = await_end(c, state);
    c->pid = 0;
    (void)close(c->socket);
    c->socket = -1;
}

/* `why`: NULL where the process has ended by itself. */
static void end_with(dpt_cl_child *c, const char *why)
{
    enum { MOST_QUOTED = 260 };
    char how[80];
    int state = 0;
    bool known;
    if (c->ending[0]) return;
    reap(c, &state, &known);
    read_printed(c);
    if (why)
        snprintf(how, sizeof how, "%s", why);
    else if (known && WIFSIGNALED(state))
        snprintf(how, sizeof how, "by signal %d%s", WTERMSIG(state), signal_words(WTERMSIG(state)));
    else if (known && WIFEXITED(state))
        snprintf(how, sizeof how, "with exit status %d", WEXITSTATUS(state));
    else
        snprintf(how, sizeof how, "in an unknown way");
    const char *part = telling_part(c, MOST_QUOTED);
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
    if (child->printed >= 0) (void)close(child->printed);
    free(child);
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* Waits until the socket can be read or written.  false: the time is over. */
static bool wait_for(dpt_cl_child *c, short events, double *seconds)
{
    while (*seconds > 0.0) {
        struct pollfd fds[2] = {{.fd = c->socket, .events = events},
                                {.fd = c->printed, .events = POLLIN}};
        const double before = now();
        (void)poll(fds, 2, 100);
        const double waited = now() - before;
        *seconds -= waited < longest_wait ? waited : longest_wait;
        if (fds[1].revents) read_printed(c);
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

/* Transfers all.  false: the process was ended, for a reason that its ending has. */
static bool move(dpt_cl_child *c, transfer *call, dpt_cl_part part, double *seconds)
{
    char *at = (char *)(uintptr_t)part.bytes; /* send leaves it as it is */
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

bool dpt_cl_child_send(dpt_cl_child *child, dpt_cl_message_kind kind, const dpt_cl_part *parts,
                       size_t n_parts, double *seconds)
{
    dpt_cl_message head = {.magic = DPT_CL_MAGIC, .kind = kind};
    if (child->ending[0]) return false;
    child->n_words = 0; /* what was printed before is of other requests */
    child->words[0] = '\0';
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
