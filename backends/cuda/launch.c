/* The functions that backends/common needs: kernels by name, launches, families of convolutions. */
#include "launch.h"
#include "conv2d.h"
#include "conv2d_winograd.h"
#include "dnn.h"
#include "fill.h"
#include "kernels/table.h"
#include "size.h"
#include "state.h"

#include <string.h>

/* ---- Kernels --------------------------------------------------------------------------------- */

#define TABLE(name) dpt_cuda_table_##name,
static const dpt_kernel *const tables[] = {DPT_CUDA_TABLES(TABLE)};
#undef TABLE

static const dpt_kernel *find(const char *file, const char *options, const char *name)
{
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        for (const dpt_kernel *row = tables[i]; row->file; row++) {
            if (strcmp(row->file, file) == 0 && strcmp(row->options, options) == 0 &&
                strcmp(row->name, name) == 0)
                return row;
        }
    }
    return NULL;
}

dpt_status dpt_kernel_get(dpt_device *device, const dpt_program_key *key, const char *name,
                          dpt_kernel **out)
{
    const dpt_kernel *found = find(key->file, key->options, name);
    struct cudaFuncAttributes attributes;
    if (!found)
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED, "%s of %s is not compiled with %.200s",
                        name, key->file, key->options);
    /* This call loads the kernel, so a card for which this build has no code fails here. */
    DPT_CUDA_TRY(device, cudaFuncGetAttributes(&attributes, found->function));
    *out = (dpt_kernel *)found; /* callers never write to a kernel */
    return DPT_OK;
}

/* ---- Launches -------------------------------------------------------------------------------- */

const void *dpt_buffer_argument(const dpt_buffer *buffer)
{
    return buffer->memory;
}

/* CUDA's second dimension has at most 65535 groups.  More groups are folded into the third
   dimension (dialect.h).  false: there are too many groups. */
static bool fold(const size_t n_groups[3], dim3 *out)
{
    enum { MOST_FIRST = 0x7fffffff, MOST_OTHERS = 65535 };
    const size_t folds = dpt_ceil_div(n_groups[1], MOST_OTHERS);
    if (n_groups[0] > MOST_FIRST || folds > MOST_OTHERS || n_groups[2] != 1) return false;
    out->x = (unsigned)n_groups[0];
    out->y = (unsigned)dpt_ceil_div(n_groups[1], folds);
    out->z = (unsigned)folds;
    return true;
}

dpt_status dpt_launch_enqueue(const dpt_launch *launch, const size_t n_groups[3],
                              const size_t group[3])
{
    dpt_device *device = launch->stream->device;
    void *arguments[DPT_MAX_ARGUMENTS];
    const dim3 items = {(unsigned)group[0], (unsigned)group[1], (unsigned)group[2]};
    dim3 groups = {1, 1, 1};
    if (!fold(n_groups, &groups))
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED,
                        "%s needs %zu x %zu groups, more than CUDA counts", launch->kernel->name,
                        n_groups[0], n_groups[1]);
    for (unsigned i = 0; i < launch->n_arguments; i++)
        arguments[i] = (void *)(launch->bytes + launch->at[i]); /* CUDA reads and copies it */
    DPT_CUDA_TRY(device, cudaLaunchKernel(launch->kernel->function, groups, items, arguments, 0,
                                          launch->stream->queue));
    return DPT_OK;
}

dpt_status dpt_cuda_fill(dpt_stream *stream, dpt_location to, uint32_t pattern, size_t n_bytes)
{
    const uint64_t count = n_bytes / sizeof pattern;
    dpt_launch l = dpt_launch_begin(stream, dpt_cuda_device_of(stream->device)->fill);
    dpt_launch_tensor(&l, to, DPT_U32);
    dpt_launch_value(&l, &count, sizeof count);
    dpt_launch_value(&l, &pattern, sizeof pattern);
    return dpt_launch_items(&l, count);
}

dpt_status dpt_cuda_move(dpt_stream *stream, void *to, const void *from, size_t n_words)
{
    const uint64_t place = 0, count = n_words;
    dpt_launch l = dpt_launch_begin(stream, dpt_cuda_device_of(stream->device)->move);
    dpt_launch_value(&l, &to, sizeof to);
    dpt_launch_value(&l, &place, sizeof place);
    dpt_launch_value(&l, &from, sizeof from);
    dpt_launch_value(&l, &place, sizeof place);
    dpt_launch_value(&l, &count, sizeof count);
    return dpt_launch_items(&l, count);
}

const dpt_alternative *const *dpt_conv2d_families(const dpt_device *device)
{
    static const dpt_alternative *const all[] = {dpt_cuda_conv2d_dnn, dpt_conv2d_few,
                                                 dpt_conv2d_winograd, dpt_conv2d_local,
                                                 dpt_conv2d_tensor,   NULL};
    static const dpt_alternative *const own[] = {dpt_conv2d_few, dpt_conv2d_winograd,
                                                 dpt_conv2d_local, dpt_conv2d_tensor, NULL};
    return dpt_cuda_device_of(device)->dnn ? all : own;
}

dpt_status dpt_conv2d_chains(dpt_op *op, const dpt_conv2d_linear *layer)
{
    return dpt_conv2d_local_chains(op, layer);
}

dpt_status dpt_winograd_chains(dpt_op *op, size_t tile)
{
    return dpt_winograd_local_chains(op, tile);
}
