/* A line for the user where preparing takes long (patience.h). */
#include "patience.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

static void *wait_and_tell(void *user)
{
    cli_patience *p = user;
    struct timespec until;
    int code = 0;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += CLI_PATIENCE_SECONDS;
    (void)pthread_mutex_lock(&p->lock);
    while (!p->done && code != ETIMEDOUT)
        code = pthread_cond_timedwait(&p->ended, &p->lock, &until);
    if (!p->done) {
        printf("preparing takes long: kernels that a device has never run are compiled and timed, "
               "and kept for the next start\n");
        (void)fflush(stdout);
    }
    (void)pthread_mutex_unlock(&p->lock);
    return NULL;
}

void cli_patience_begin(cli_patience *patience)
{
    cli_patience *p = patience;
    pthread_condattr_t monotonic;
    p->done = false;
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&p->ended, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    p->runs = pthread_create(&p->thread, NULL, wait_and_tell, p) == 0;
}

void cli_patience_end(cli_patience *patience)
{
    cli_patience *p = patience;
    (void)pthread_mutex_lock(&p->lock);
    p->done = true;
    (void)pthread_cond_signal(&p->ended);
    (void)pthread_mutex_unlock(&p->lock);
    if (p->runs) (void)pthread_join(p->thread, NULL);
    (void)pthread_cond_destroy(&p->ended);
    (void)pthread_mutex_destroy(&p->lock);
}
