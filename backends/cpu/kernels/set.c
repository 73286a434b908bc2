/* The kernel set of one instruction set. */
#include "depthwise.h"

static bool usable(void)
{
#if defined(__AVX512F__)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#elif defined(__AVX2__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return true;
#endif
}

#define NAME_OF(isa)       #isa
#define EXPANDED_NAME(isa) NAME_OF(isa)

static dpt_cpu_prepare *const conv2d_forward_ways[] = {
    KERNEL(prepare_depthwise_forward), KERNEL(prepare_winograd4_forward),
    KERNEL(prepare_winograd3_forward), KERNEL(prepare_winograd2_forward), NULL};
static dpt_cpu_prepare *const conv2d_backward_data_ways[] = {
    KERNEL(prepare_depthwise_backward_data), KERNEL(prepare_winograd4_backward_data),
    KERNEL(prepare_winograd3_backward_data), KERNEL(prepare_winograd2_backward_data), NULL};
static dpt_cpu_prepare *const conv2d_backward_weights_ways[] = {
    KERNEL(prepare_depthwise_backward_weights), KERNEL(prepare_columns_backward_weights),
    KERNEL(prepare_winograd4_backward_weights), KERNEL(prepare_winograd3_backward_weights),
    KERNEL(prepare_winograd2_backward_weights), NULL};

static dpt_cpu_prepare *const linear_ways[] = {KERNEL(prepare_linear_packed), NULL};
static dpt_cpu_prepare *const matmul_ways[] = {KERNEL(prepare_matmul_packed), NULL};

extern const dpt_cpu_kernel_set KERNEL(kernel_set);
#if defined(DPT_CPU_FUSED_SET) /* the set of this instruction set with fused multiply-adds */
extern const dpt_cpu_kernel_set DPT_CPU_JOIN(DPT_CPU_FUSED_SET, kernel_set);
#endif

const dpt_cpu_kernel_set KERNEL(kernel_set) = {
    .name = EXPANDED_NAME(DPT_CPU_ISA),
    .usable = usable,
    .prepare =
        {
#define PREPARE_ROW(KIND, name, ...) [DPT_OP_##KIND] = KERNEL(prepare_##name),
            DPT_OP_LIST(PREPARE_ROW)
#undef PREPARE_ROW
        },
    .ways =
        {
            [DPT_OP_CONV2D_FORWARD] = conv2d_forward_ways,
            [DPT_OP_CONV2D_BACKWARD_DATA] = conv2d_backward_data_ways,
            [DPT_OP_CONV2D_BACKWARD_WEIGHTS] = conv2d_backward_weights_ways,
            [DPT_OP_LINEAR_FORWARD] = linear_ways,
            [DPT_OP_LINEAR_BACKWARD_DATA] = linear_ways,
            [DPT_OP_LINEAR_BACKWARD_WEIGHTS] = linear_ways,
            [DPT_OP_MATMUL] = matmul_ways,
        },
    .fixed =
        {
            [DPT_OP_CONV2D_FORWARD] = KERNEL(prepare_fixed_forward),
            [DPT_OP_CONV2D_BACKWARD_DATA] = KERNEL(prepare_fixed_backward_data),
            [DPT_OP_CONV2D_BACKWARD_WEIGHTS] = KERNEL(prepare_fixed_backward_weights),
            [DPT_OP_LINEAR_FORWARD] = KERNEL(prepare_linear_packed),
            [DPT_OP_LINEAR_BACKWARD_DATA] = KERNEL(prepare_linear_packed),
            [DPT_OP_LINEAR_BACKWARD_WEIGHTS] = KERNEL(prepare_linear_packed),
            [DPT_OP_BATCH_NORM_PARTIAL] = KERNEL(prepare_fixed_batch_norm_partial),
            [DPT_OP_BATCH_NORM_BACKWARD_PARTIAL] =
                KERNEL(prepare_fixed_batch_norm_backward_partial),
            [DPT_OP_LAYER_NORM_BACKWARD_WEIGHTS] =
                KERNEL(prepare_fixed_layer_norm_backward_weights),
            [DPT_OP_MATMUL] = KERNEL(prepare_matmul_packed),
        },
#if defined(DPT_CPU_FUSED_SET)
    .fused = &DPT_CPU_JOIN(DPT_CPU_FUSED_SET, kernel_set),
#endif
};
