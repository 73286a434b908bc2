/* Saves and restores signal handlers.  Handlers of signals that faults raise (SIGSEGV, SIGFPE) stay
   as a library sets them, because the library's code may rely on them. */
#include "device/signals.h"

static const int numbers[DPTI_N_SIGNALS] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,
                                            SIGPIPE, SIGUSR1, SIGUSR2};

void dpti_signals_save(dpti_signals *out)
{
    for (int i = 0; i < DPTI_N_SIGNALS; i++)
        (void)sigaction(numbers[i], NULL, &out->actions[i]);
}

void dpti_signal_stack_save(stack_t *out)
{
    *out = (stack_t){.ss_flags = SS_DISABLE};
    (void)sigaltstack(NULL, out);
}

void dpti_signal_stack_restore(const stack_t *saved)
{
    (void)sigaltstack(saved, NULL);
}

void dpti_signals_restore(const dpti_signals *saved)
{
    for (int i = 0; i < DPTI_N_SIGNALS; i++)
        (void)sigaction(numbers[i], &saved->actions[i], NULL);
}
