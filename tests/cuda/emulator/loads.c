/* Calls that load something.  CUDA may let such calls wait for the work of other streams, of other
   cards too.  Here they do so if a test asks for it.  So a program whose stream waits for work
   that is enqueued only after such a call deadlocks in the test, and is ended. */
#include "emulator.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static const double longest_seconds = 20;

void emulated_begin_wait(void)
{
    emu_lock();
    emu.n_waiting++;
    emu_unlock();
}

void emulated_end_wait(void)
{
    emu_lock();
    emu.n_waiting--;
    emu_unlock();
}

void emu_load(const char *what)
{
    static const struct timespec nap = {.tv_nsec = 100000};
    const double since = emu_now();
    for (;;) {
        emu_lock();
        const bool stands = emu.loads_wait && emu.n_waiting > 0;
        emu_unlock();
        if (!stands) return;
        if (emu_now() - since > longest_seconds) break;
        (void)nanosleep(&nap, NULL);
    }
    fprintf(stderr, "emulated CUDA: %s waits for streams that nobody lets go on\n", what);
    fflush(NULL);
    _exit(1);
}

/* Whether a function is there on a card; it is from now on. */
static bool know(int card, void (*function)(void *))
{
    enum { MOST = 256 };
    static void (*loaded[EMU_MOST_CARDS][MOST])(void *);
    size_t i = 0;
    emu_lock();
    while (i < MOST && loaded[card][i] && loaded[card][i] != function)
        i++;
    const bool known = i == MOST || loaded[card][i] == function;
    if (!known) loaded[card][i] = function;
    emu_unlock();
    return known;
}

void emu_load_function(int card, void (*function)(void *))
{
    if (card >= 0 && emu.loads_wait && !know(card, function)) emu_load("a kernel's first launch");
}

void emulated_load(void (*function)(void *))
{
    emu_load_function(emu_current(), function);
}
