/* A child process that a supervisor waits for (child.h). */
#include "child.h"

#include "job.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A second signal within this time counts as the first one: `timeout` and Slurm signal a process
   and then its group. */
enum { SAME_SIGNAL_SECONDS = 3 };

/* Global variables for the signal handler: the child's process id, the lock of the job, the last
   signal that asks for the end, and when the first one came. */
static volatile sig_atomic_t child, lock = -1, passed, passed_at;

/* The signals that are passed on. */
static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

static sig_atomic_t now(void)
{
    struct timespec time = {.tv_sec = 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (sig_atomic_t)time.tv_sec;
}

/* Returns a training process of this host; 0: there is none, or a process was told before. */
static pid_t find_training(bool again)
{
    const pid_t found = lock >= 0 && !again ? cli_job_holder(lock, CLI_JOB_STARTS) : 0;
    return found > 0 ? found : 0;
}

static void pass_on(int number, siginfo_t *info, void *context)
{
    (void)context;
    const int code = errno;
    const bool wish = number == SIGUSR1 || number == SIGUSR2, again = !wish && passed;
    const bool same = again && now() - passed_at <= SAME_SIGNAL_SECONDS;
    const pid_t training = find_training(again);
    if (!again && !wish) passed_at = now();
    if (!wish) passed = number;
    if (training > 0) kill(training, number);
    /* A signal of the terminal has reached the child too, and a second one would kill it. */
    else if (child > 0 && info->si_code != SI_KERNEL && !(lock >= 0 && same))
        kill((pid_t)child, number);
    errno = code;
}

void cli_child_catch_signals(int job)
{
    struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO};
    lock = job;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction before;
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN) continue;
        sigaction(numbers[i], &action, NULL);
    }
}

int cli_child_passed(void)
{
    return passed;
}

/* In the child: restores the default actions, so that signals end it until it has its own handlers.
 */
static void drop_handlers(void)
{
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction action;
        if (sigaction(numbers[i], NULL, &action) == 0 && (action.sa_flags & SA_SIGINFO))
            (void)signal(numbers[i], SIG_DFL);
    }
}

static void start(const char *program, char **arguments)
{
    if (program) {
        execvp(program, arguments);
        _exit(cli_error(CLI_USAGE, "cannot start %s: %s", program, strerror(errno)));
    }
    execv("/proc/self/exe", arguments);
    _exit(cli_error(CLI_FAILURE, "cannot start dptrain again: %s", strerror(errno)));
}

int cli_child_run(const char *program, char **arguments, pid_t *was)
{
    const pid_t parent = getpid();
    sigset_t all, before;
    int status = 0;
    *was = 0;
    /* Signals are blocked until `child` is set, so that the handler can pass them on. */
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    if (passed) { /* it came when there was no child: nothing is started any more */
        status = passed;
        sigprocmask(SIG_SETMASK, &before, NULL);
        return status;
    }
    const pid_t id = fork();
    if (id == 0) {
        drop_handlers();
        sigprocmask(SIG_SETMASK, &before, NULL);
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent) _exit(CLI_FAILURE); /* the parent has ended already */
        start(program, arguments);
    }
    const int code = errno;
    child = id > 0 ? (sig_atomic_t)id : 0;
    *was = id;
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = code;
    if (id < 0) return -1;
    while (waitpid(id, &status, 0) < 0)
        if (errno != EINTR) return -1;
    child = 0;
    return status;
}

bool cli_child_is_crash(int number)
{
    switch (number) {
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
    case SIGABRT:
    case SIGSYS:
    case SIGKILL: return true; /* SIGKILL: memory was exhausted */
    default: return false;
    }
}

int cli_child_code(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
