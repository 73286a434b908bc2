/* The kernels of this build: each .cu file has a table of its own.  For C and CUDA. */
#ifndef DPT_CUDA_TABLE_H
#define DPT_CUDA_TABLE_H

struct dpt_kernel {
    const char *file;     /* of backends/kernels; NULL ends a table */
    const char *options;  /* dpt_program_key's; "" if the file has one variant */
    const char *name;     /* as in the file */
    const void *function; /* what the runtime knows it by */
};

/* All tables.  Files whose kernels read or write activations are compiled a second time, with BF16
   (kernels/dialect.h), and have a table for each. */
#define DPT_CUDA_PLAIN_TABLES(X)                                                                   \
    X(adamw)                                                                                       \
    X(check_finite)                                                                                \
    X(clip_norm)                                                                                   \
    X(conv2d_local_data_32_41)                                                                     \
    X(conv2d_local_data_32_44)                                                                     \
    X(conv2d_local_forward_32_14)                                                                  \
    X(conv2d_local_forward_64_14)                                                                  \
    X(conv2d_local_forward_64_41)                                                                  \
    X(conv2d_local_weights_16_14)                                                                  \
    X(conv2d_local_weights_64_41)                                                                  \
    X(convert)                                                                                     \
    X(fill)                                                                                        \
    X(peers)                                                                                       \
    X(sgd)
#define DPT_CUDA_STORING_TABLES(X, suffix)                                                         \
    X(activation##suffix)                                                                          \
    X(batch_norm##suffix)                                                                          \
    X(batch_norm_4##suffix)                                                                        \
    X(column_sums##suffix)                                                                         \
    X(conv2d_few_3_1##suffix)                                                                      \
    X(conv2d_few_3_3##suffix)                                                                      \
    X(conv2d_few_5_1##suffix)                                                                      \
    X(conv2d_local_data_64_11##suffix)                                                             \
    X(conv2d_local_data_64_44##suffix)                                                             \
    X(conv2d_local_forward_64_11##suffix)                                                          \
    X(conv2d_local_forward_64_44##suffix)                                                          \
    X(conv2d_local_weights_64_11##suffix)                                                          \
    X(conv2d_local_weights_64_44##suffix)                                                          \
    X(conv2d_tensor_data_32_11##suffix)                                                            \
    X(conv2d_tensor_data_32_41##suffix)                                                            \
    X(conv2d_tensor_data_32_44##suffix)                                                            \
    X(conv2d_tensor_data_64_11##suffix)                                                            \
    X(conv2d_tensor_data_64_44##suffix)                                                            \
    X(conv2d_tensor_forward_32_14##suffix)                                                         \
    X(conv2d_tensor_forward_32_44##suffix)                                                         \
    X(conv2d_tensor_forward_64_11##suffix)                                                         \
    X(conv2d_tensor_forward_64_14##suffix)                                                         \
    X(conv2d_tensor_forward_64_41##suffix)                                                         \
    X(conv2d_tensor_forward_64_44##suffix)                                                         \
    X(conv2d_tensor_weights_32_11##suffix)                                                         \
    X(conv2d_tensor_weights_32_14##suffix)                                                         \
    X(conv2d_tensor_weights_32_44##suffix)                                                         \
    X(conv2d_tensor_weights_64_11##suffix)                                                         \
    X(conv2d_tensor_weights_64_41##suffix)                                                         \
    X(conv2d_tensor_weights_64_44##suffix)                                                         \
    X(dropout##suffix)                                                                             \
    X(elementwise##suffix)                                                                         \
    X(finish##suffix)                                                                              \
    X(gather##suffix)                                                                              \
    X(layer_norm##suffix)                                                                          \
    X(pool2d##suffix)                                                                              \
    X(pool2d_2##suffix)                                                                            \
    X(pool2d_4##suffix)                                                                            \
    X(softmax##suffix)                                                                             \
    X(squared_error##suffix)
#define DPT_CUDA_TABLES(X)                                                                         \
    DPT_CUDA_PLAIN_TABLES(X)                                                                       \
    DPT_CUDA_STORING_TABLES(X, )                                                                   \
    DPT_CUDA_STORING_TABLES(X, _bf16)

#ifdef __cplusplus
#define DPT_CUDA_TABLE(name) extern "C" const struct dpt_kernel dpt_cuda_table_##name[]
#else
#define DPT_CUDA_TABLE(name) extern const struct dpt_kernel dpt_cuda_table_##name[]
#endif
#define DPT_CUDA_DECLARE(name) DPT_CUDA_TABLE(name);
DPT_CUDA_TABLES(DPT_CUDA_DECLARE)
#undef DPT_CUDA_DECLARE

#ifdef __CUDACC__
/* The table of a file that is compiled twice, and what its options, alone or behind others, say. */
#if defined(BF16) && BF16
#define STORING_TABLE_(name) dpt_cuda_table_##name##_bf16
#define STORING              "-DBF16=1"
#define AND_STORING          " -DBF16=1"
#else
#define STORING_TABLE_(name) dpt_cuda_table_##name
#define STORING              ""
#define AND_STORING          ""
#endif
#define STORING_TABLE(name) STORING_TABLE_(name)
#ifndef KERNEL_FUNCTION /* an emulator of CUDA has another name for it */
#define KERNEL_FUNCTION(name) (const void *)name
#endif
#define KERNEL_ROW(file, options, name)                                                            \
    {                                                                                              \
        file, options, #name, KERNEL_FUNCTION(name)                                                \
    }
#define END_OF_TABLE                                                                               \
    {                                                                                              \
        0, 0, 0, 0                                                                                 \
    }
#endif

#endif
