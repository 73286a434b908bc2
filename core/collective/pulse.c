/* Ends a process that stood still (pulse.h). */
#include "collective/pulse.h"

#include "base/fence.h"
#include "base/thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TICKS = 20, MOST_PAUSE = 100000000 }; /* in a limit; nanoseconds */

struct dpti_pulse {
    pthread_t thread;
    atomic_bool stop;
    struct timespec pause;
    struct sigaction before;
};

/* A signal handler has no other way to it. */
static char line[256];

/* A function that a signal handler may call. */
static void end(void)
{
    if (write(STDERR_FILENO, line, strlen(line)) < 0) {
    } /* stderr is closed: there is no one to tell */
    _exit(1);
}

static void *beat(void *argument)
{
    dpti_pulse *p = argument;
    while (!atomic_load(&p->stop)) {
        if (!dpti_fence_tick()) end();
        (void)nanosleep(&p->pause, NULL);
    }
    return NULL;
}

/* MPI may learn first that the others have left this process behind, and aborts. */
static void note_abort(int number)
{
    if (dpti_fence_overdue()) end();
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

dpt_status dpti_pulse_start(double limit, size_t rank, dpti_pulse **out, dpt_error *error)
{
    const struct sigaction action = {.sa_handler = note_abort};
    dpti_pulse *p = calloc(1, sizeof *p);
    if (!p) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a thread");
    const double pause = limit * 1e9 / TICKS;
    p->pause.tv_nsec = pause < MOST_PAUSE ? (long)pause : MOST_PAUSE;
    snprintf(
        line, sizeof line,
        "dptrain: process %zu stood still for more than %g s, and the others go on without it: "
        "it ends, and writes nothing\n",
        rank, limit);
    dpti_fence_begin(limit);
    const int code = dpti_thread_start(&p->thread, beat, p, "pulse");
    if (code != 0) {
        dpti_fence_begin(0);
        free(p);
        return DPT_FAIL_NATIVE(error, DPT_E_INTERNAL, code, "cannot start a thread: %s",
                               strerror(code));
    }
    (void)sigaction(SIGABRT, &action, &p->before);
    *out = p;
    return DPT_OK;
}

void dpti_pulse_stop(dpti_pulse *pulse)
{
    if (!pulse) return;
    (void)sigaction(SIGABRT, &pulse->before, NULL);
    atomic_store(&pulse->stop, true);
    pthread_join(pulse->thread, NULL);
    dpti_fence_begin(0);
    free(pulse);
}
