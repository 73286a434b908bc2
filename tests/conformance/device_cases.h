/* The cases that do not test a single operator. */
#ifndef DPT_TEST_DEVICE_CASES_H
#define DPT_TEST_DEVICE_CASES_H

#include "conformance.h"

/* Recorded work does what the same calls do directly (capture.c). */
void conformance_capture(test *t);
/* A communicator of this device alone (communicator.c). */
void conformance_communicator(test *t);
/* A sample's product does not depend on the other samples of the call (matmul_samples.c). */
void conformance_matmul_samples(test *t);

#endif
