/* Compares a device with the loops of exact/loops.h. */
#ifndef DPT_TEST_EXACT_COMPARE_H
#define DPT_TEST_EXACT_COMPARE_H

#include "harness.h"
#include "loops.h"

/* Bits of arguments of a function (n each), those of the device's results, and those of the CPU's.
 */
typedef struct exact_call {
    int function;
    uint32_t n;
    const uint32_t *a, *b; /* (n) */
    uint32_t *y;           /* (n), filled with a poison value */
} exact_call;

/* Lets the device evaluate, and returns whether it could. */
typedef bool exact_device(test *t, void *device, const exact_call *call);

/* Lets the device evaluate every function at arguments of all sizes, and compares bits. */
void exact_compare(test *t, exact_device *evaluate, void *device);

#endif
