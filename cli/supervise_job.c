/* dptrain supervise: starts a launcher such as mpirun, and starts it again with the processes and
   the hosts that are left when the job has lost some.  The training goes on from the copy that its
   processes keep in memory (job.h).  The supervisor opens no device and reads no data. */
#include "child.h"
#include "job.h"
#include "kept.h"
#include "launch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

/* A start that ran for so long counts as one that got further, where no copy tells. */
static const double long_seconds = 60;

/* What the end of a start means. */
typedef enum verdict {
    IS_OVER,        /* the training has ended, or fails in the same way each time */
    LOST_PROCESS,   /* a process was killed or crashed */
    LOST_DEVICES,   /* devices of a process were lost, or processes do not reach each other */
    LOST_LAUNCHER,  /* the launcher itself was killed or crashed */
    MAY_LOSE_HOSTS, /* it is over unless a host does not answer */
} verdict;

/* Some launchers give the number of the signal itself in place of 128 more. */
static verdict judge(const cli_job *job, int status)
{
    if (cli_child_passed() || cli_job_has_ended(job)) return IS_OVER;
    if (!WIFEXITED(status))
        return cli_child_is_crash(WTERMSIG(status)) ? LOST_LAUNCHER : MAY_LOSE_HOSTS;
    const int code = WEXITSTATUS(status);
    if (code == CLI_OK || code == CLI_USAGE || code == 126 || code == 127) return IS_OVER;
    if (code == CLI_DEVICES_LOST) return LOST_DEVICES;
    return cli_child_is_crash(code > 128 ? code - 128 : code) ? LOST_PROCESS : MAY_LOSE_HOSTS;
}

/* Takes out what was lost.  Returns whether the job is to be started again. */
static bool adapt(cli_launch *launch, verdict what)
{
    const size_t lost = what == IS_OVER ? 0 : cli_launch_leave_out(launch);
    if (lost > 0) return true;
    if (what == IS_OVER || what == MAY_LOSE_HOSTS) return false;
    if (what == LOST_PROCESS && launch->processes > 1) launch->processes--;
    return true;
}

static double seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* What the supervisor knows of the starts so far. */
typedef struct course {
    cli_job job;
    cli_launch launch;
    cli_last_kept last; /* the copy on this host */
    int in_vain;        /* starts in a row that got no further */
} course;

/* Starts the launcher, and waits for its end and that of its processes on this host.  CLI_OK, or an
   exit code after one line on stderr. */
static int start(course *c, int *status)
{
    pid_t id = 0;
    const double began = seconds();
    c->job.start++;
    char **words = cli_job_name(&c->job) ? cli_launch_words(&c->launch) : NULL;
    if (!words) return cli_error(CLI_FAILURE, "no memory to start the job");
    *status = cli_child_run(words[0], words, &id);
    const int code = errno;
    cli_launch_free_words(words);
    if (*status < 0) return cli_error(CLI_FAILURE, "cannot start the job: %s", strerror(code));
    const int ended = cli_job_await_end(&c->job);
    const cli_last_kept now = cli_find_last(c->job.folder);
    const bool further =
        now.name[0] ? cli_is_later_kept(&now, &c->last) : seconds() - began >= long_seconds;
    c->last = now;
    c->in_vain = further ? 0 : c->in_vain + 1;
    return ended;
}

/* Tells how a start has ended; `then` is what happens now. */
static void tell(int status, const char *then)
{
    const bool exited = WIFEXITED(status);
    (void)cli_error(CLI_OK, "the job ended by %s %d; %s", exited ? "exit status" : "signal",
                    exited ? WEXITSTATUS(status) : WTERMSIG(status), then);
}

static void tell_again(const course *c, int status)
{
    char then[128];
    const size_t n = c->launch.processes;
    snprintf(then, sizeof then, "starting it again with %zu process%s", n, n == 1 ? "" : "es");
    tell(status, then);
}

/* Returns whether the job is started again after this end. */
static bool goes_on(course *c, int status, size_t least)
{
    char then[128];
    const verdict what = judge(&c->job, status);
    if (!adapt(&c->launch, what) || cli_child_passed()) return false;
    if (c->in_vain == CLI_MOST_IN_VAIN) {
        snprintf(then, sizeof then, "it got no further in %d starts, and is not started again",
                 CLI_MOST_IN_VAIN);
        tell(status, then);
        return false;
    }
    const bool hostless = c->launch.hosts && c->launch.n_hosts == 0;
    if (hostless || c->launch.processes < least) {
        snprintf(then, sizeof then,
                 hostless ? "no host is left" : "%zu processes are left, and --least is %zu",
                 c->launch.processes, least);
        tell(status, then);
        return false;
    }
    tell_again(c, status);
    return true;
}

/* The last copy is of no use behind a training that has ended in good order.  Otherwise it may be
   all that is left of the steps since the last checkpoint. */
static void clean_up(course *c, int code)
{
    const bool of_use = code != CLI_OK && c->last.name[0] && !cli_job_has_ended(&c->job);
    if (of_use)
        (void)cli_error(
            code,
            "the last state is left in memory, in %s/%s: copy this file to the folder of "
            "the checkpoints to resume from it, and remove the folder then",
            c->job.folder, c->last.name);
    else
        cli_job_remove(&c->job);
}

static int supervise(course *c, const cli_options *options)
{
    const size_t least = options->least > 0 ? options->least : 1;
    int code = CLI_OK, status = 0;
    if (c->launch.processes < least)
        return cli_error(CLI_USAGE, "--least is %zu, and there are %zu processes", least,
                         c->launch.processes);
    code = cli_job_create(options->memory ? options->memory : "/dev/shm", &c->job);
    if (code != CLI_OK) return code;
    cli_child_catch_signals(c->job.lock);
    do {
        code = start(c, &status);
        if (code == CLI_OK)
            code = cli_child_code(status);
        else
            break;
    } while (goes_on(c, status, least));
    clean_up(c, code);
    return code;
}

int cli_supervise_job(const cli_options *options)
{
    course c = {.job = {.lock = -1}};
    int code = cli_launch_read(options, &c.launch);
    if (code == CLI_OK) code = supervise(&c, options);
    cli_launch_free(&c.launch);
    return code;
}
