/* The checksum CRC-32C (Castagnoli), which records of TensorBoard's event files have. */
#ifndef DPTI_CRC32C_H
#define DPTI_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Returns the CRC-32C of n bytes (polynomial 0x1edc6f41, reflected, inverted at both ends). */
uint32_t dpti_crc32c(const void *bytes, size_t n);

#endif
