/* The cases that do not test a single operator. */
#ifndef DPT_TEST_DEVICE_CASES_H
#define DPT_TEST_DEVICE_CASES_H

#include "conformance.h"

/* Recorded work does what the same calls do directly (capture.c). */
void conformance_capture(test *t);
/* A communicator of this device alone (communicator.c). */
void conformance_communicator(test *t);

#endif
