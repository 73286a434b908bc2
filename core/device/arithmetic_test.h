/* The self-test of deterministic training: whether a device computes the bits that all devices must
   compute (docs/reproducibility.md). */
#ifndef DPTI_ARITHMETIC_TEST_H
#define DPTI_ARITHMETIC_TEST_H

#include "device/device.h"

/* [driver] Computes some hundred operations whose results are known: additions, subtractions,
   products, quotients and square roots of numbers of all sizes, subnormal ones included; elementary
   functions; and a matrix product, of which each element is one chain of fused multiply-adds.
   DPT_E_UNSUPPORTED if a result has other bits: *error names the operation, its operands and both
   results.  Otherwise it fails as the device does. */
DPT_CHECK_RESULT dpt_status dpti_arithmetic_test(dpti_device *device, dpt_error *error);

#endif
