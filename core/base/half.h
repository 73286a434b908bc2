/* IEEE's binary16, "half precision". */
#ifndef DPTI_HALF_H
#define DPTI_HALF_H

#include <stdint.h>

/* The float32 of the same value.  A NaN stays a NaN. */
float dpti_half_to_float(uint16_t half);

#endif
