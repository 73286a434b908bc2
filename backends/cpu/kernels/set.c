/* The kernel set of one instruction set. */
#include "kinds.h"

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

static dpt_cpu_prepare *const conv2d_forward_ways[] = {KERNEL(prepare_winograd4_forward),
                                                       KERNEL(prepare_winograd3_forward),
                                                       KERNEL(prepare_winograd2_forward), NULL};
static dpt_cpu_prepare *const conv2d_backward_data_ways[] = {
    KERNEL(prepare_winograd4_backward_data), KERNEL(prepare_winograd3_backward_data),
    KERNEL(prepare_winograd2_backward_data), NULL};
static dpt_cpu_prepare *const conv2d_backward_weights_ways[] = {
    KERNEL(prepare_columns_backward_weights), KERNEL(prepare_winograd4_backward_weights),
    KERNEL(prepare_winograd3_backward_weights), KERNEL(prepare_winograd2_backward_weights), NULL};

static dpt_cpu_prepare *const linear_ways[] = {KERNEL(prepare_linear_packed), NULL};

extern const dpt_cpu_kernel_set KERNEL(kernel_set);

const dpt_cpu_kernel_set KERNEL(kernel_set) = {
    .name = EXPANDED_NAME(DPT_CPU_ISA),
    .usable = usable,
    .prepare =
        {
            [DPT_OP_GATHER] = KERNEL(prepare_gather),
            [DPT_OP_GATHER_LABELS] = KERNEL(prepare_gather_labels),
            [DPT_OP_CONV2D_FORWARD] = KERNEL(prepare_conv2d_forward),
            [DPT_OP_CONV2D_BACKWARD_DATA] = KERNEL(prepare_conv2d_backward_data),
            [DPT_OP_CONV2D_BACKWARD_WEIGHTS] = KERNEL(prepare_conv2d_backward_weights),
            [DPT_OP_LINEAR_FORWARD] = KERNEL(prepare_linear_blas),
            [DPT_OP_LINEAR_BACKWARD_DATA] = KERNEL(prepare_linear_blas),
            [DPT_OP_LINEAR_BACKWARD_WEIGHTS] = KERNEL(prepare_linear_blas),
            [DPT_OP_POOL2D_FORWARD] = KERNEL(prepare_pool2d_forward),
            [DPT_OP_POOL2D_BACKWARD] = KERNEL(prepare_pool2d_backward),
            [DPT_OP_ACTIVATION_FORWARD] = KERNEL(prepare_activation_forward),
            [DPT_OP_ACTIVATION_BACKWARD] = KERNEL(prepare_activation_backward),
            [DPT_OP_BATCH_NORM_PARTIAL] = KERNEL(prepare_batch_norm_partial),
            [DPT_OP_BATCH_NORM_MERGE] = KERNEL(prepare_batch_norm_merge),
            [DPT_OP_BATCH_NORM_FREEZE] = KERNEL(prepare_batch_norm_freeze),
            [DPT_OP_BATCH_NORM_FORWARD] = KERNEL(prepare_batch_norm_forward),
            [DPT_OP_BATCH_NORM_BACKWARD_PARTIAL] = KERNEL(prepare_batch_norm_backward_partial),
            [DPT_OP_BATCH_NORM_BACKWARD_DATA] = KERNEL(prepare_batch_norm_backward_data),
            [DPT_OP_LAYER_NORM_FORWARD] = KERNEL(prepare_layer_norm_forward),
            [DPT_OP_LAYER_NORM_BACKWARD_DATA] = KERNEL(prepare_layer_norm_backward_data),
            [DPT_OP_LAYER_NORM_BACKWARD_WEIGHTS] = KERNEL(prepare_layer_norm_backward_weights),
            [DPT_OP_DROPOUT] = KERNEL(prepare_dropout),
            [DPT_OP_SOFTMAX_XENT] = KERNEL(prepare_softmax_xent),
            [DPT_OP_SOFTMAX_XENT_GRADIENT] = KERNEL(prepare_softmax_xent_gradient),
            [DPT_OP_SQUARED_ERROR] = KERNEL(prepare_squared_error),
            [DPT_OP_SQUARED_ERROR_GRADIENT] = KERNEL(prepare_squared_error_gradient),
            [DPT_OP_MULTIPLY] = KERNEL(prepare_multiply),
            [DPT_OP_ADD] = KERNEL(prepare_add),
            [DPT_OP_AFFINE] = KERNEL(prepare_affine),
            [DPT_OP_SGD] = KERNEL(prepare_sgd),
            [DPT_OP_ADAMW] = KERNEL(prepare_adamw),
            [DPT_OP_CLIP_NORM] = KERNEL(prepare_clip_norm),
            [DPT_OP_CHECK_FINITE] = KERNEL(prepare_check_finite),
        },
    .ways =
        {
            [DPT_OP_CONV2D_FORWARD] = conv2d_forward_ways,
            [DPT_OP_CONV2D_BACKWARD_DATA] = conv2d_backward_data_ways,
            [DPT_OP_CONV2D_BACKWARD_WEIGHTS] = conv2d_backward_weights_ways,
            [DPT_OP_LINEAR_FORWARD] = linear_ways,
            [DPT_OP_LINEAR_BACKWARD_DATA] = linear_ways,
            [DPT_OP_LINEAR_BACKWARD_WEIGHTS] = linear_ways,
        },
};
