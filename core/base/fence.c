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

bool dpti_fence_overdue(void)
{
    const long long limit = atomic_load(&limit_ns), last = atomic_load(&last_ns);
    return limit > 0 && now() - last > limit;
}

bool dpti_fence_tick(void)
{
    if (dpti_fence_overdue()) return false;
    atomic_store(&last_ns, now());
    return true;
}

void dpti_fence_pass(void)
{
    while (dpti_fence_overdue())
        (void)pause();
}
