/* --supervise: the training runs in a child, which is started again from its last checkpoint when
   its devices end it (exit status 3) or a crash does.  The parent opens no device, so that nothing
   of a vendor's is left in it. */
#include "cli.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Starts in a row without a new checkpoint between them. */
enum { MOST_IN_VAIN = 3 };

/* For the handler, which has nowhere else to look: whom signals go to, and the last one. */
static volatile sig_atomic_t child, passed;

static void pass_on(int number, siginfo_t *info, void *context)
{
    (void)context;
    passed = number;
    /* A terminal's signals have gone to the child as well, and a second one would kill it. */
    if (info->si_code != SI_KERNEL && child > 0) kill((pid_t)child, number);
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO};
    const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction before;
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN) continue;
        sigaction(numbers[i], &action, NULL);
    }
}

/* The command line of the child: as it stands but --supervise, and with --resume if it is not the
   first.  NULL without memory. */
static char **child_arguments(int argc, char **argv, bool again)
{
    static char resume[] = "--resume";
    char **out = calloc((size_t)argc + 2, sizeof *out);
    int n = 0;
    if (!out) return NULL;
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--supervise") != 0) out[n++] = argv[i];
    if (again) out[n++] = resume;
    return out;
}

/* Starts the child and waits for its end; its status as waitpid tells, or -1. */
static int run_child(char **arguments)
{
    const pid_t parent = getpid();
    const pid_t id = fork();
    int status = 0;
    if (id < 0) return -1;
    if (id == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent) _exit(CLI_FAILURE); /* it has ended meanwhile */
        execv("/proc/self/exe", arguments);
        _exit(cli_error(CLI_FAILURE, "cannot start itself again: %s", strerror(errno)));
    }
    child = (sig_atomic_t)id;
    while (waitpid(id, &status, 0) < 0)
        if (errno != EINTR) return -1;
    child = 0;
    return status;
}

/* When the newest file was written there, in nanoseconds; 0 if there is none. */
static long long newest(const char *folder)
{
    DIR *directory = opendir(folder);
    long long latest = 0;
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        struct stat info;
        if (!strstr(entry->d_name, ".safetensors") ||
            fstatat(dirfd(directory), entry->d_name, &info, 0) != 0)
            continue;
        const long long at = (long long)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
        if (at > latest) latest = at;
    }
    if (directory) closedir(directory);
    return latest;
}

static bool crashed(int status)
{
    if (WIFEXITED(status)) return WEXITSTATUS(status) == CLI_DEVICES_LOST;
    switch (WTERMSIG(status)) {
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
    case SIGABRT:
    case SIGSYS:
    case SIGKILL: return true; /* the last one: out of memory */
    default: return false;
    }
}

static int code_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int cli_supervise(int argc, char **argv, const cli_options *options)
{
    char **first = child_arguments(argc, argv, false), **again = child_arguments(argc, argv, true);
    char **arguments = first;
    int code = CLI_FAILURE, in_vain = 0;
    catch_signals();
    while (first && again) {
        const long long before = newest(options->checkpoint);
        const int status = run_child(arguments);
        if (status < 0) {
            code = cli_error(CLI_FAILURE, "cannot start the training: %s", strerror(errno));
            break;
        }
        code = code_of(status);
        if (passed || !crashed(status)) break;
        in_vain = newest(options->checkpoint) > before ? 0 : in_vain + 1;
        if (in_vain == MOST_IN_VAIN) {
            (void)cli_error(code, "ended %d times without a new checkpoint: not started again",
                            MOST_IN_VAIN);
            break;
        }
        (void)cli_error(code, "training ended by %s %d; going on from the last checkpoint",
                        WIFEXITED(status) ? "exit status" : "signal",
                        WIFEXITED(status) ? code : WTERMSIG(status));
        arguments = again;
    }
    free(again);
    free(first);
    return code;
}
