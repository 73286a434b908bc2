/* A NaN sent through cuBLASLt's products with a ReLU behind them (relu.h). */
#include "relu.h"
#include "blas.h"

#include <math.h>
#include <string.h>

enum { MOST_COLUMNS = 256 };

/* m, n, k of what kernels differ for: few rows, few columns, many terms, and much of all. */
static const size_t sizes[][3] = {
    {1, 64, 64}, {64, 10, 84}, {32, 32, 4096}, {128, 128, 128}, {256, MOST_COLUMNS, 512}};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

/* What is asked about, in products of their own each (blas.h). */
typedef struct form {
    dpt_dtype type;
    bool has_bias;
} form;

/* Tensors of a product, in one buffer. */
typedef struct layout {
    size_t b, bias, c, workspace, end; /* bytes; A is at 0 */
} layout;

static layout lay_out(const dpt_device *device, dpt_dtype type, const size_t mnk[3])
{
    const size_t element = dpt_dtype_bytes(type);
    layout at = {.b = dpt_size_align(mnk[0] * mnk[2] * element)};
    at.bias = at.b + dpt_size_align(mnk[1] * mnk[2] * element);
    at.c = at.bias + dpt_size_align(mnk[1] * element);
    at.workspace = at.c + dpt_size_align(mnk[0] * mnk[1] * element);
    at.end = at.workspace + dpt_size_align(dpt_cuda_products_workspace(device));
    return at;
}

/* C (m,n) = relu(A (m,k) * B (n,k)^T [+ bias]), as a linear layer's. */
static dpt_product product_of(form f, const size_t mnk[3], dpt_location memory, const layout *at)
{
    return (dpt_product){
        .m = mnk[0],
        .n = mnk[1],
        .k = mnk[2],
        .b_transposed = true,
        .a = memory,
        .a_type = f.type,
        .lda = mnk[2],
        .b = dpt_at(memory, at->b),
        .b_type = f.type,
        .ldb = mnk[2],
        .c = dpt_at(memory, at->c),
        .c_type = f.type,
        .ldc = mnk[1],
        .has_bias = f.has_bias,
        .bias = f.has_bias ? dpt_at(memory, at->bias) : (dpt_location){NULL, 0},
        .activation = DPT_ACT_RELU,
    };
}

static bool is_nan(const unsigned char *row, dpt_dtype type, size_t i)
{
    uint16_t half;
    float value;
    if (type == DPT_BF16) {
        memcpy(&half, row + i * sizeof half, sizeof half);
        return (half & 0x7fffu) > 0x7f80u;
    }
    memcpy(&value, row + i * sizeof value, sizeof value);
    return isnan(value);
}

/* Of zeros and a NaN in A's first row, which all of C's first row is then. */
static dpt_status try_product(const dpt_tuner *tuner, dpt_cuda_products *products,
                              const dpt_product *product, dpt_location workspace, bool *keeps)
{
    static const uint32_t nan_in_both_types = 0x7fc07fc0;
    const dpt_memory_ops *memory = &dpt_cuda_memory_ops;
    const size_t row_bytes = product->n * dpt_dtype_bytes(product->c_type);
    unsigned char row[MOST_COLUMNS * sizeof(float)];
    DPT_TRY(memory->fill(tuner->stream, product->a, 0, workspace.offset_bytes));
    DPT_TRY(memory->fill(tuner->stream, product->a, nan_in_both_types, sizeof nan_in_both_types));
    DPT_TRY(dpt_cuda_product_run(products, tuner->stream, product, workspace));
    DPT_TRY(memory->download(tuner->stream, row, product->c, row_bytes));
    DPT_TRY(tuner->finish(tuner->stream));
    for (size_t i = 0; i < product->n; i++)
        *keeps = *keeps && is_nan(row, product->c_type, i);
    return DPT_OK;
}

static dpt_status try_size(dpt_device *device, dpt_cuda_products *products, form f,
                           const size_t mnk[3], bool *keeps)
{
    const dpt_tuner *tuner = dpt_tuner_of(device);
    const layout at = lay_out(device, f.type, mnk);
    dpt_location memory = {NULL, 0};
    DPT_TRY(dpt_cuda_memory_ops.alloc(device, at.end, &memory.buffer));
    const dpt_product product = product_of(f, mnk, memory, &at);
    const dpt_status status =
        try_product(tuner, products, &product, dpt_at(memory, at.workspace), keeps);
    /* Nothing is freed that the device may still work on. */
    if (status != DPT_OK && status != DPT_E_DEVICE_LOST) (void)!tuner->finish(tuner->stream);
    dpt_cuda_memory_ops.free(device, memory.buffer);
    return status;
}

static dpt_status try_form(dpt_device *device, form f, bool *keeps)
{
    dpt_cuda_products *products = NULL;
    DPT_TRY(dpt_cuda_products_create(device, &products));
    dpt_status status = DPT_OK;
    for (size_t i = 0; i < N_SIZES && status == DPT_OK && *keeps; i++)
        status = try_size(device, products, f, sizes[i], keeps);
    dpt_cuda_products_destroy(products);
    return status;
}

static dpt_status try_both(dpt_device *device, dpt_dtype type, bool *keeps)
{
    *keeps = true;
    DPT_TRY(try_form(device, (form){.type = type, .has_bias = true}, keeps));
    return try_form(device, (form){.type = type}, keeps);
}

dpt_status dpt_cuda_relu_keeps_nan(dpt_device *device, dpt_dtype type, bool *keeps)
{
    dpt_cuda_answer *answer = &dpt_cuda_device_of(device)->relu_keeps_nan[type == DPT_BF16];
    if (*answer == DPT_CUDA_NOT_ASKED) {
        const dpt_error before = device->error;
        bool all = false;
        const dpt_status status = try_both(device, type, &all);
        if (status == DPT_E_DEVICE_LOST) return status;
        device->error = before;
        *answer = status == DPT_OK && all ? DPT_CUDA_YES : DPT_CUDA_NO;
    }
    *keeps = *answer == DPT_CUDA_YES;
    return DPT_OK;
}
