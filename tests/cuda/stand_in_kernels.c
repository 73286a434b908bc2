/* The kernels that linear layers and convolutions by libraries launch, as loops, and the two calls
   of CUDA's runtime that are theirs (renamed when the backend's files are compiled for this). */
#include "stand_in.h"

#include "activation_params.h"
#include "column_sums_params.h"
#include "convert_params.h"
#include "finish_params.h"
#include "reference/reference.h"

#include <stdlib.h>
#include <string.h>

/* Tensor arguments are a base and a place in elements. */
typedef struct arguments {
    const dpt_launch *launch;
    dpt_dtype stored; /* activations */
} arguments;

static const void *value_at(const arguments *a, size_t i)
{
    return a->launch->bytes + a->launch->at[i];
}

static char *tensor_at(const arguments *a, size_t tensor, dpt_dtype type)
{
    char *base;
    uint64_t place;
    memcpy(&base, value_at(a, 2 * tensor), sizeof base);
    memcpy(&place, value_at(a, 2 * tensor + 1), sizeof place);
    return base ? base + place * dpt_dtype_bytes(type) : NULL;
}

static double get(const void *tensor, dpt_dtype type, size_t i)
{
    double *value = stand_in_read((const char *)tensor + i * dpt_dtype_bytes(type), type, 1, false);
    const double result = value ? *value : 0.0;
    free(value);
    return result;
}

static void put(void *tensor, dpt_dtype type, size_t i, double value)
{
    stand_in_write((char *)tensor + i * dpt_dtype_bytes(type), type, &value, 1);
}

static void convert(const arguments *a, dpt_dtype from, dpt_dtype to)
{
    convert_params p;
    memcpy(&p, value_at(a, 4), sizeof p);
    char *y = tensor_at(a, 0, to);
    const char *x = tensor_at(a, 1, from);
    for (size_t i = 0; i < p.count; i++)
        put(y, to, i, get(x, from, i));
}

static void narrow(const arguments *a)
{
    convert(a, DPT_F32, DPT_BF16);
}

static void widen(const arguments *a)
{
    convert(a, DPT_BF16, DPT_F32);
}

static void finish(const arguments *a)
{
    finish_params p;
    memcpy(&p, value_at(a, 8), sizeof p);
    char *y = tensor_at(a, 0, a->stored);
    const char *product = tensor_at(a, 1, DPT_F32), *bias = tensor_at(a, 2, DPT_F32);
    const char *mask = tensor_at(a, 3, a->stored);
    for (size_t i = 0; i < p.count; i++) {
        double value = get(product, DPT_F32, i);
        if (p.accumulate) value += get(y, a->stored, i);
        if (p.has_bias) value += get(bias, DPT_F32, i % p.columns.value);
        value = reference_activate((dpt_activation)p.activation, value);
        if (p.mask_activation != DPT_ACT_NONE)
            value *= reference_slope((dpt_activation)p.mask_activation, get(mask, a->stored, i));
        put(y, a->stored, i, value);
    }
}

static void column_sums(const arguments *a)
{
    column_sums_params p;
    memcpy(&p, value_at(a, 4), sizeof p);
    char *y = tensor_at(a, 0, DPT_F32);
    const char *x = tensor_at(a, 1, a->stored);
    for (size_t i = 0; i < (size_t)p.n_pieces * p.columns; i++) {
        const size_t piece = i / p.columns, begin = piece * p.piece_rows;
        double sum = p.accumulate ? get(y, DPT_F32, i) : 0.0;
        for (size_t row = begin; row < begin + p.piece_rows && row < p.rows; row++)
            sum += get(x, a->stored, row * p.row + i % p.columns);
        put(y, DPT_F32, i, sum);
    }
}

static void activation_backward(const arguments *a)
{
    activation_params p;
    memcpy(&p, value_at(a, 6), sizeof p);
    char *dx = tensor_at(a, 0, a->stored);
    const char *dy = tensor_at(a, 1, a->stored), *y = tensor_at(a, 2, a->stored);
    for (size_t i = 0; i < p.count; i++) {
        const double slope = reference_slope((dpt_activation)p.kind, get(y, a->stored, i));
        put(dx, a->stored, i,
            get(dy, a->stored, i) * slope + (p.accumulate ? get(dx, a->stored, i) : 0.0));
    }
}

/* ---- What backends/common asks for ----------------------------------------------------------- */

struct dpt_kernel {
    const char *name;
    bool stores_bf16;
    void (*run)(const arguments *a);
};

#define BOTH(name, run)                                                                            \
    {name, false, run},                                                                            \
    {                                                                                              \
        name, true, run                                                                            \
    }
static const dpt_kernel kernels[] = {
    {"dpt_narrow", false, narrow},
    {"dpt_widen", false, widen},
    BOTH("dpt_finish", finish),
    BOTH("column_sums", column_sums),
    BOTH("dpt_activation_backward", activation_backward),
};

dpt_status dpt_kernel_get(dpt_device *device, const dpt_program_key *key, const char *name,
                          dpt_kernel **out)
{
    const bool stores_bf16 = strstr(key->options, "-DBF16=1") != NULL;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        if (strcmp(kernels[i].name, name) != 0 || kernels[i].stores_bf16 != stores_bf16) continue;
        *out = (dpt_kernel *)&kernels[i];
        return DPT_OK;
    }
    return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED, "%s does not stand here", name);
}

const void *dpt_buffer_argument(const dpt_buffer *buffer)
{
    return buffer->memory;
}

dpt_status dpt_launch_enqueue(const dpt_launch *launch, const size_t n_groups[3],
                              const size_t group[3])
{
    const arguments a = {.launch = launch,
                         .stored = launch->kernel->stores_bf16 ? DPT_BF16 : DPT_F32};
    (void)n_groups;
    (void)group;
    launch->kernel->run(&a);
    return DPT_OK;
}

/* ---- CUDA's runtime -------------------------------------------------------------------------- */

cudaError_t stand_in_copy_2d(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                             size_t width, size_t height, enum cudaMemcpyKind kind,
                             cudaStream_t queue);
cudaError_t stand_in_is_capturing(cudaStream_t queue, enum cudaStreamCaptureStatus *out);

cudaError_t stand_in_copy_2d(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                             size_t width, size_t height, enum cudaMemcpyKind kind,
                             cudaStream_t queue)
{
    (void)kind;
    (void)queue;
    for (size_t row = 0; row < height; row++)
        memcpy((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width);
    return cudaSuccess;
}

cudaError_t stand_in_is_capturing(cudaStream_t queue, enum cudaStreamCaptureStatus *out)
{
    (void)queue;
    *out = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
