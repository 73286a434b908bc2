/* Signals: those that ask a training to end, and those that ask it for a checkpoint. */
#include "cli.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A second SIGINT or SIGTERM that arrives within this time counts as the first one: `timeout`,
   Slurm and systemd signal a process and then its group. */
enum { SAME_SIGNAL_SECONDS = 3 };

static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
static const int saving[] = {SIGUSR1, SIGUSR2};

/* Global variables, because a signal handler has no other way to pass information. */
static volatile sig_atomic_t caught, wanted, telling, saves, ends_by_request;
static volatile sig_atomic_t until; /* what a training completes before a checkpoint: */

enum { UNTIL_STEP, UNTIL_ROUND, UNTIL_EPOCH };

static const char *const ending_after[] = {[UNTIL_STEP] = ": ending after this step\n",
                                           [UNTIL_ROUND] =
                                               ": ending after this round of local steps\n",
                                           [UNTIL_EPOCH] = (": ending after this step, which ends "
                                                            "its round of local steps early\n")};
static const char *const keeping_after[] = {[UNTIL_STEP] = ": a checkpoint after this step\n",
                                            [UNTIL_ROUND] =
                                                ": a checkpoint after this round of local steps\n",
                                            [UNTIL_EPOCH] = ": a checkpoint after this epoch\n"};

static volatile sig_atomic_t caught_at; /* seconds of the monotonic clock */
static char
    before_number[64]; /* the start of the handler's line; not changed while `telling` is set */

/* Runs in a signal handler, in which only functions such as write are allowed. */
static void tell_signal(int number, const char *what)
{
    char line[sizeof before_number + 96];
    size_t n = strlen(before_number);
    const size_t length = strlen(what);
    const int code = errno;
    memcpy(line, before_number, n);
    if (number >= 10) line[n++] = (char)('0' + number / 10 % 10);
    line[n++] = (char)('0' + number % 10);
    memcpy(line + n, what, length);
    if (write(STDERR_FILENO, line, n + length) < 0) {
    } /* stderr is closed: there is no one to tell */
    errno = code;
}

/* The monotonic clock may be read in a handler. */
static sig_atomic_t now(void)
{
    struct timespec time = {.tv_sec = 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (sig_atomic_t)time.tv_sec;
}

/* Ends the process by the signal. */
static void die_of(int number)
{
    sigset_t one;
    (void)signal(number, SIG_DFL);
    sigemptyset(&one);
    sigaddset(&one, number);
    (void)raise(number);
    (void)sigprocmask(SIG_UNBLOCK, &one, NULL);
}

static void ask_for_end(int number)
{
    if (caught) return;
    caught = number;
    caught_at = now();
    if (telling) tell_signal(number, ending_after[until]);
}

/* The first signal asks for the end.  A SIGINT or SIGTERM that comes later than
   SAME_SIGNAL_SECONDS kills.  SIGHUP does not: a terminal that closes may send several, and a
   system that shuts down sends SIGHUP beside SIGTERM. */
static void note_end(int number)
{
    if (caught && number != SIGHUP && now() - caught_at > SAME_SIGNAL_SECONDS) die_of(number);
    ask_for_end(number);
}

static void note_wish(int number)
{
    if (ends_by_request) {
        ask_for_end(number);
        return;
    }
    wanted = 1;
    if (!telling || caught) return;
    tell_signal(number,
                saves ? keeping_after[until] : ": no checkpoint is written without --checkpoint\n");
}

/* Catches signals.  One that was ignored when the program began stays ignored: a shell does so for
   background jobs of a script. */
static void catch_all(const int *numbers, size_t n, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        sigaddset(&action.sa_mask, ending[i]);
    for (size_t i = 0; i < sizeof saving / sizeof *saving; i++)
        sigaddset(&action.sa_mask, saving[i]);
    for (size_t i = 0; i < n; i++) {
        struct sigaction before;
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN) continue;
        sigaction(numbers[i], &action, NULL);
    }
}

void cli_signals_catch(void)
{
    catch_all(ending, sizeof ending / sizeof *ending, note_end);
}

void cli_signals_catch_wishes(const cli_options *options)
{
    saves = options->checkpoint != NULL;
    until = options->local_steps == 0   ? UNTIL_STEP
            : options->outer_delay == 0 ? UNTIL_ROUND
                                        : UNTIL_EPOCH;
    ends_by_request = options->requeue_exit > 0;
    catch_all(saving, sizeof saving / sizeof *saving, note_wish);
}

int cli_signals_caught(void)
{
    return caught;
}

bool cli_signals_want_checkpoint(void *user)
{
    (void)user;
    const bool wants = wanted != 0;
    wanted = 0;
    return wants;
}

int cli_signals_status(int number, const cli_options *options)
{
    if (options->requeue_exit > 0 && (number == SIGUSR1 || number == SIGUSR2))
        return (int)options->requeue_exit;
    return 128 + number;
}

void cli_signals_tell(const dpt_context *context, bool bar)
{
    char process[32] = "";
    if (dpt_process_count(context) > 1)
        snprintf(process, sizeof process, "process %zu: ", dpt_process_rank(context));
    snprintf(before_number, sizeof before_number, "%sdptrain: %ssignal ", bar ? "\r\033[K" : "",
             process);
    telling = 1;
}

void cli_signals_tell_no_more(void)
{
    telling = 0;
}
