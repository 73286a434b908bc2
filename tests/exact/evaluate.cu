/* evaluate.cl as CUDA, for the card of this machine and for emulated cards. */
#include "evaluate.cl"

#ifndef KERNEL_FUNCTION /* an emulator of CUDA defines it otherwise */
#define KERNEL_FUNCTION(name) (const void *)name
#endif

extern "C" const void *exact_kernel(void);

extern "C" const void *exact_kernel(void)
{
    return KERNEL_FUNCTION(test_exact);
}
