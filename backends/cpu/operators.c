/* The kernel sets that this build holds, one for each instruction set. */
#include "operators.h"

extern const dpt_cpu_kernel_set dpt_cpu_avx512_kernel_set;
extern const dpt_cpu_kernel_set dpt_cpu_avx2_kernel_set;
extern const dpt_cpu_kernel_set dpt_cpu_neon_kernel_set;
extern const dpt_cpu_kernel_set dpt_cpu_portable_kernel_set;

const dpt_cpu_kernel_set *const dpt_cpu_kernel_sets[] = {
#ifdef DPT_CPU_HAS_AVX512
    &dpt_cpu_avx512_kernel_set,
#endif
#ifdef DPT_CPU_HAS_AVX2
    &dpt_cpu_avx2_kernel_set,
#endif
#ifdef DPT_CPU_HAS_NEON
    &dpt_cpu_neon_kernel_set,
#endif
    &dpt_cpu_portable_kernel_set, NULL,
};
