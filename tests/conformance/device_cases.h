/* Cases that are not about one operator. */
#ifndef DPT_TEST_DEVICE_CASES_H
#define DPT_TEST_DEVICE_CASES_H

#include "conformance.h"

/* Recorded work does what the same calls do directly (capture.c). */
void conformance_capture(test *t);

#endif
