/* The backend that a training test compares with one CPU device, and the device lists that the
   test trains on. $DPTRAIN_TEST_BACKEND names one backend or two, such as "cuda+opencl".  Without
   it, the backend is the CPU backend. */
#ifndef DPT_TEST_MIXES_H
#define DPT_TEST_MIXES_H

#include "dpt_types.h"

typedef struct mix {
    const char *devices, *split;
} mix;

typedef struct mix_list {
    size_t n;
    const mix *items;
} mix_list;

/* Whether the tested backend is the CPU backend. */
bool testing_cpu(void);
/* 0 if each tested backend has a device here; else the exit status of the test: skipped, or failed
   if $DPTRAIN_TEST_REQUIRE, names separated by commas, has the one that has none. */
int tested_backend_missing(void);

/* `devices` with "@0" and "@1" replaced by the tested backend's first and second device, the first
   one twice if it is the only one; of two backends, by the first device of each.  Kept until the
   process ends; NULL without memory. */
const char *tested_devices(const char *devices);

/* What a training with a batch of 29 or more is tried on: the given lists for the CPU backend, or
   for another one a list of its devices alone, beside each other, and beside the CPU, with even and
   uneven shares and without samples. */
mix_list tested_mixes(const mix *of_cpu, size_t n);

#endif
