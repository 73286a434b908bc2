/* Threads of the library. */
#ifndef DPTI_THREAD_H
#define DPTI_THREAD_H

#include "dpt_types.h"

#include <pthread.h>

/* Starts a thread with a name of at most 15 characters; a longer name is cut.  The thread receives
   no signals, because signals are for the threads of the program.  Returns what pthread_create
   returns. */
DPT_CHECK_RESULT int dpti_thread_start(pthread_t *thread, void *(*body)(void *), void *argument,
                                       const char *name);

#endif
