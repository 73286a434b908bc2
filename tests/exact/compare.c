/* Compares a device with the CPU (compare.h). */
#include "compare.h"

#include <stdlib.h>
#include <string.h>

enum { STEP = 40009, N_BY_DAY = 120000, N_ALL = 1 << 22 };

static void compare_function(test *t, exact_device *evaluate, void *device, exact_call *call)
{
    uint32_t *expected = malloc(call->n * sizeof *expected);
    REQUIRE(expected != NULL);
    memset(call->y, 0x5a, call->n * sizeof *call->y);
    exact_fastest()->loops[call->function](call->a, call->b, expected, call->n);
    if (CHECK(evaluate(t, device, call))) {
        for (uint32_t i = 0; i < call->n; i++) {
            if (CHECK(call->y[i] == expected[i])) continue;
            FAIL("%s(0x%08x, 0x%08x) is 0x%08x, and the device gives 0x%08x",
                 exact_names[call->function], call->a[i], call->b[i], expected[i], call->y[i]);
            break;
        }
    }
    free(expected);
}

void exact_compare(test *t, exact_device *evaluate, void *device)
{
    const uint32_t n = EXACT_EVERY && getenv("DPTRAIN_TEST_EVERY") ? N_ALL : N_BY_DAY;
    uint32_t *a = malloc(3 * (size_t)n * sizeof *a), *b = a + n, *y = b + n;
    REQUIRE(a != NULL);
    for (int f = 0; f < N_FUNCTIONS; f++) {
        exact_call call = {.function = f, .n = n, .a = a, .b = b, .y = y};
        memset(b, 0, n * sizeof *b);
        for (uint32_t i = 0; i < n; i++)
            a[i] = i * STEP;
        if (f >= FIRST_BINARY) exact_pairs(f, 2, n, a, b);
        compare_function(t, evaluate, device, &call);
    }
    free(a);
}
