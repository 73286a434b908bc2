/* A checksum for comparing what processes have.  It detects accidents, not attacks. */
#ifndef DPTI_CHECKSUM_H
#define DPTI_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Of 8 bytes at a time, from `sum` on, as fast as memory. */
uint64_t dpti_checksum(uint64_t sum, const void *data, size_t n_bytes);

#endif
