/* The least memory with which a training fits on its devices, found by rehearsals. */
#ifndef DPTI_LEAST_MEMORY_H
#define DPTI_LEAST_MEMORY_H

#include "balance/split.h"
#include "train/create.h"

/* Limits of devices, in the order of the device set. */
typedef struct dpti_limits {
    size_t n;
    size_t now[DPTI_SPLIT_MAX_DEVICES];   /* what each device may take now */
    size_t least[DPTI_SPLIT_MAX_DEVICES]; /* with which the training fits */
    size_t more;                          /* the sum of what is missing */
} dpti_limits;

/* Finds limits with which a training fits that does not fit now.  Devices that have enough keep
   what they have.  No limit that was raised can be lowered by a byte.  False if that is not found:
   there is no such limit, or more than `most` bytes are missing, or memory that this process does
   not count is missing.  No trainer of this process is being created or makes steps on the devices.
   The message of the context is lost. */
bool dpti_find_least_memory(const dpti_creation *of, size_t most, dpti_limits *out);

#endif
