/* A process that stood still changes no file (fence.h). */
#include "base/fence.h"

#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

static atomic_llong limit_ns, last_ns; /* limit_ns 0: none */

static long long now(void)
{
    struct timespec time = {.tv_sec = 0};
    (void)clock_gettime(CLOCK_BOOTTIME, &time); /* cannot fail: the clock exists */
    return (long long)time.tv_sec * 1000000000 + time.tv_nsec;
}

void dpti_fence_begin(double limit)
{
    atomic_store(&last_ns, now());
    atomic_store(&limit_ns, (long long)(limit * 1e9));
}

static bool is_overdue(long long time)
{
    const long long limit = atomic_load(&limit_ns), last = atomic_load(&last_ns);
    return limit > 0 && time - last > limit;
}

bool dpti_fence_overdue(void)
{
    return is_overdue(now());
}

/* Reads the clock once: a process that stands still in here ticks in the past, and the next tick
   notices. */
bool dpti_fence_tick(void)
{
    const long long time = now();
    if (is_overdue(time)) return false;
    atomic_store(&last_ns, time);
    return true;
}

void dpti_fence_pass(void)
{
    while (dpti_fence_overdue())
        (void)pause();
}
