/* Threads of the library. */
#include "base/thread.h"

#include <signal.h>
#include <stdio.h>

int dpti_thread_start(pthread_t *thread, void *(*body)(void *), void *argument, const char *name)
{
    sigset_t all, before;
    char shown[16]; /* the system's limit */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int code = pthread_create(thread, NULL, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    snprintf(shown, sizeof shown, "%.15s", name);
    if (code == 0) pthread_setname_np(*thread, shown);
    return code;
}
