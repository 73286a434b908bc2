/* What signals do in this process is the program's choice.  Vendors' libraries make it their own:
   a compiler inside a driver takes SIGINT to clean up after itself, ignored or not, and so ends a
   program that was started with nohup. */
#ifndef DPTI_SIGNALS_H
#define DPTI_SIGNALS_H

#include <signal.h>

enum { DPTI_N_SIGNALS = 7 };

/* What the signals by which others talk to a process do. */
typedef struct dpti_signals {
    struct sigaction actions[DPTI_N_SIGNALS];
} dpti_signals;

void dpti_signals_save(dpti_signals *out);
void dpti_signals_restore(const dpti_signals *saved);

/* On which stack the calling thread would handle one: that compiler gives the thread that loads it
   another, of memory that is not the thread's to give back. */
void dpti_signal_stack_save(stack_t *out);
void dpti_signal_stack_restore(const stack_t *saved);

#endif
