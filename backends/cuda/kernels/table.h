/* The kernels of this build: each .cu file has a table of its own.  For C and CUDA. */
#ifndef DPT_CUDA_TABLE_H
#define DPT_CUDA_TABLE_H

struct dpt_kernel {
    const char *file;     /* of backends/kernels; NULL ends a table */
    const char *options;  /* dpt_program_key's; "" if the file has one variant */
    const char *name;     /* as in the file */
    const void *function; /* what the runtime knows it by */
};

/* All tables. */
#define DPT_CUDA_TABLES(X)                                                                         \
    X(activation)                                                                                  \
    X(adamw)                                                                                       \
    X(batch_norm)                                                                                  \
    X(clip_norm)                                                                                   \
    X(column_sums)                                                                                 \
    X(conv2d_local_data_1)                                                                         \
    X(conv2d_local_data_4)                                                                         \
    X(conv2d_local_forward_1)                                                                      \
    X(conv2d_local_forward_4)                                                                      \
    X(conv2d_local_sum)                                                                            \
    X(conv2d_local_weights_1)                                                                      \
    X(conv2d_local_weights_4)                                                                      \
    X(convert)                                                                                     \
    X(dropout)                                                                                     \
    X(elementwise)                                                                                 \
    X(fill)                                                                                        \
    X(finish)                                                                                      \
    X(gather)                                                                                      \
    X(layer_norm)                                                                                  \
    X(pool2d)                                                                                      \
    X(sgd)                                                                                         \
    X(softmax)                                                                                     \
    X(squared_error)

#ifdef __cplusplus
#define DPT_CUDA_TABLE(name) extern "C" const struct dpt_kernel dpt_cuda_table_##name[]
#else
#define DPT_CUDA_TABLE(name) extern const struct dpt_kernel dpt_cuda_table_##name[]
#endif
#define DPT_CUDA_DECLARE(name) DPT_CUDA_TABLE(name);
DPT_CUDA_TABLES(DPT_CUDA_DECLARE)
#undef DPT_CUDA_DECLARE

#ifdef __CUDACC__
#define KERNEL_ROW(file, options, name)                                                            \
    {                                                                                              \
        file, options, #name, (const void *)name                                                   \
    }
#define END_OF_TABLE                                                                               \
    {                                                                                              \
        0, 0, 0, 0                                                                                 \
    }
#endif

#endif
