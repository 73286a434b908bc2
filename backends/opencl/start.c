/* Starts the helper process. */
#include "start.h"
#include "protocol.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FIRST_OWN_FD = 10 };

extern char **environ;

char *dpt_cl_helper_path(void)
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

/* Moves descriptors above the numbers that the descriptors of the helper get. */
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
    int talk[2];    /* the end of this process, the end of the helper */
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

/* The helper blocks and ignores no signal, whatever this thread blocks. */
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

/* Returns 0 or the number of an error. */
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

dpt_status dpt_cl_spawn(const char *path, dpt_cl_spawned *out, dpt_error *error)
{
    pipes p;
    pid_t pid = 0;
    if (!make_pipes(&p))
        return DPT_FAIL(error, DPT_E_ABSENT, "no pipes for %.200s: %s", path, strerror(errno));
    const int code = spawn(path, &p, &pid);
    if (code != 0) {
        close_both(p.talk);
        close_both(p.printed);
        return DPT_FAIL(error, DPT_E_ABSENT, "%.300s does not start: %s", path, strerror(code));
    }
    *out = (dpt_cl_spawned){.pid = pid, .socket = p.talk[0], .printed = p.printed[0]};
    (void)close(p.talk[1]);
    (void)close(p.printed[1]);
    return DPT_OK;
}
