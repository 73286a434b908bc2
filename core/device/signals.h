/* Saves and restores signal handlers.  What signals do in a process is the choice of the program,
   but vendors' libraries install handlers of their own.  A compiler inside a driver handles SIGINT
   to remove its files, even if the program ignores SIGINT, and so ends a program that was started
   with nohup. */
#ifndef DPTI_SIGNALS_H
#define DPTI_SIGNALS_H

#include <signal.h>

enum { DPTI_N_SIGNALS = 7 };

/* The actions of the signals by which other programs and users control a process. */
typedef struct dpti_signals {
    struct sigaction actions[DPTI_N_SIGNALS];
} dpti_signals;

void dpti_signals_save(dpti_signals *out);
void dpti_signals_restore(const dpti_signals *saved);

/* Save and restore the alternate signal stack of the calling thread.  That compiler gives the
   thread that loads it another stack, whose memory the thread must not free. */
void dpti_signal_stack_save(stack_t *out);
void dpti_signal_stack_restore(const stack_t *saved);

#endif
