/* Tiles and launches of kernels/matmul.cl. */
#include "matmul_kernel.h"

#include <stdio.h>

enum {
    TILE = 64,
    SMALL_TILE = 32, /* for matrices that are no larger, and for devices with small groups */
    ITEM_SIZE = 32,  /* elements of a tile that a work item of a GPU computes */
    LEAST_LANES = 4,
    MOST_LANES = 16, /* of a CPU's vector */
};

dpt_status dpt_matmul_kernel_get(const dpt_op *op, size_t rows, size_t columns,
                                 dpt_matmul_kernel *out)
{
    const dpt_traits *traits = dpt_traits_of(op->device);
    dpt_program_key key = {.file = "matmul.cl"};
    const bool is_small = rows <= SMALL_TILE || columns <= SMALL_TILE ||
                          traits->most_group_size < TILE * TILE / ITEM_SIZE;
    out->tile = is_small && !traits->is_cpu ? SMALL_TILE : TILE;
    out->n_items = traits->is_cpu ? 1 : out->tile * out->tile / ITEM_SIZE;
    if (traits->is_cpu) {
        unsigned lanes = LEAST_LANES;
        while (2 * lanes <= traits->vector_width && lanes < MOST_LANES)
            lanes *= 2;
        snprintf(key.options, sizeof key.options, "-DTILE=%zu -DLANES=%u", out->tile, lanes);
    } else {
        snprintf(key.options, sizeof key.options, "-DTILE=%zu", out->tile);
    }
    dpt_program_key_store(&key, op->desc.type);
    if (op->deterministic) dpt_program_key_deterministic(&key);
    return dpt_kernel_get(op->device, &key, "dpt_matmul", &out->kernel);
}

dpt_status dpt_matmul_launch(const dpt_matmul_kernel *kernel, dpt_launch *launch, matmul_params p)
{
    const size_t row_tiles = dpt_ceil_div(p.rows, kernel->tile);
    p.column_tiles = (u32)dpt_ceil_div(p.columns, kernel->tile);
    dpt_launch_value(launch, &p, sizeof p);
    return dpt_launch_groups(launch, (const size_t[3]){row_tiles * p.column_tiles, p.n_pairs, 1},
                             (const size_t[3]){kernel->n_items, 1, 1});
}
