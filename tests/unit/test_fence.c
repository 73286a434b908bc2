/* Tests the fence of a process that stood still: time that passes without a tick. */
#include "base/fence.h"
#include "harness.h"

#include <time.h>

static void stand_still(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

static void overdue(test *t)
{
    dpti_fence_begin(0.001);
    stand_still();
    CHECK(dpti_fence_overdue());
    CHECK(!dpti_fence_tick());
    CHECK(dpti_fence_overdue()); /* it stays so */
    dpti_fence_begin(0);
}

static void in_time(test *t)
{
    dpti_fence_begin(3600);
    stand_still();
    CHECK(!dpti_fence_overdue());
    CHECK(dpti_fence_tick());
    dpti_fence_pass();
    dpti_fence_begin(0);
}

static void no_limit(test *t)
{
    stand_still();
    CHECK(!dpti_fence_overdue());
    CHECK(dpti_fence_tick());
    dpti_fence_pass();
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"after too long a time", overdue},
        {"in time", in_time},
        {"without a limit", no_limit},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
