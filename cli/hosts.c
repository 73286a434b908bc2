/* The hosts of a job that `dptrain supervise` starts, and which of them answer (launch.h). */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* How long hosts have to answer, all at the same time. */
static const double patience_seconds = 5;

static int read_host(const char *text, size_t length, cli_host *out)
{
    cli_host host = {.slots = 1};
    if (length >= sizeof host.text)
        return cli_error(CLI_USAGE, "--hosts: a name is longer than %d bytes", CLI_HOST_BYTES - 1);
    memcpy(host.text, text, length);
    const size_t n = strcspn(host.text, ":");
    memcpy(host.name, host.text, n);
    const bool plain = n > 0 && host.name[0] != '-' &&
                       strspn(host.name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                         "0123456789.-_") == n;
    if (!plain || (host.text[n] && !cli_parse_count(host.text + n + 1, 1, 65536, &host.slots)))
        return cli_error(CLI_USAGE, "--hosts: '%s' is not NAME or NAME:SLOTS", host.text);
    *out = host;
    return CLI_OK;
}

int cli_hosts_read(const char *text, cli_launch *launch)
{
    launch->hosts = calloc(CLI_MOST_HOSTS, sizeof *launch->hosts);
    if (!launch->hosts) return cli_error(CLI_FAILURE, "no memory for the hosts");
    for (const char *at = text;; at++) {
        const size_t length = strcspn(at, ",");
        if (launch->n_hosts == CLI_MOST_HOSTS)
            return cli_error(CLI_USAGE, "--hosts: there are more than %d hosts", CLI_MOST_HOSTS);
        const int code = read_host(at, length, &launch->hosts[launch->n_hosts]);
        if (code != CLI_OK) return code;
        launch->n_hosts++;
        at += length;
        if (!*at) return CLI_OK;
    }
}

/* ---- Asking ---------------------------------------------------------------------------------- */

/* Whether a name is that of this host, with or without its domain. */
static bool is_this_host(const char *name)
{
    char own[CLI_HOST_BYTES] = "";
    if (gethostname(own, sizeof own - 1) != 0) return false;
    const size_t n = strcspn(name, "."), n_own = strcspn(own, ".");
    const bool number = strspn(name, "0123456789.") == strlen(name);
    return strcmp(name, "localhost") == 0 || strcmp(name, "127.0.0.1") == 0 ||
           (!number && n == n_own && strncasecmp(name, own, n) == 0);
}

/* Starts the question to a host, in a process group of its own.  Returns its process; -1: it cannot
   be started. */
static pid_t ask(const char *probe, const char *name)
{
    const pid_t id = fork();
    if (id != 0) return id;
    (void)setpgid(0, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int number = 1; number < SIGRTMIN; number++)
        (void)signal(number, SIG_DFL);
    const int null = open("/dev/null", O_RDWR);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        (void)dup2(null, fd);
    execl("/bin/sh", "sh", "-c", probe, "sh", name, (char *)NULL);
    _exit(127);
}

static double seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Waits for the answers.  asked[i]: the process that asks host i; 0: none. */
static void await_answers(cli_launch *launch, pid_t *asked)
{
    static const struct timespec a_while = {.tv_nsec = 10 * 1000 * 1000};
    const double began = seconds();
    for (bool waits = true; waits; (void)nanosleep(&a_while, NULL)) {
        const bool late = seconds() - began > patience_seconds;
        waits = false;
        for (size_t i = 0; i < launch->n_hosts; i++) {
            int status = 0;
            if (asked[i] <= 0) continue;
            if (late) {
                kill(-asked[i], SIGKILL);
                kill(asked[i], SIGKILL); /* it may not have its group yet */
            }
            const pid_t ended = waitpid(asked[i], &status, late ? 0 : WNOHANG);
            waits = waits || ended == 0 || (ended < 0 && errno == EINTR);
            if (ended == 0 || (ended < 0 && errno == EINTR)) continue;
            launch->hosts[i].answers = ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
            asked[i] = 0;
        }
    }
}

/* Returns the part of the processes that hosts of so many slots of `all` have, at least one. */
static size_t part(size_t processes, size_t slots, size_t all)
{
    const size_t n = processes * slots / all;
    return n > 0 ? n : 1;
}

size_t cli_launch_leave_out(cli_launch *launch)
{
    size_t n = 0, slots = 0, all = 0;
    pid_t asked[CLI_MOST_HOSTS] = {0};
    for (size_t i = 0; i < launch->n_hosts; i++) {
        cli_host *host = &launch->hosts[i];
        host->answers = is_this_host(host->name);
        if (!host->answers) asked[i] = ask(launch->probe, host->name);
    }
    await_answers(launch, asked);
    for (size_t i = 0; i < launch->n_hosts; i++) {
        const cli_host host = launch->hosts[i];
        all += host.slots;
        if (!host.answers)
            (void)cli_error(CLI_OK, "host %s does not answer, and is left out", host.name);
        else
            launch->hosts[n++] = host;
        slots += host.answers ? host.slots : 0;
    }
    const size_t lost = launch->n_hosts - n;
    if (lost > 0 && n > 0) launch->processes = part(launch->processes, slots, all);
    launch->n_hosts = n;
    return lost;
}
