/* A checksum for comparing what processes have.  It detects accidents, not attacks. */
#ifndef DPTI_CHECKSUM_H
#define DPTI_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Continues the checksum `sum` over n_bytes of data; the first call of a chain begins with 1. */
uint64_t dpti_checksum(uint64_t sum, const void *data, size_t n_bytes);

#endif
