/* Winograd convolutions on CPUs, forward and backward-data, in one kernel.  A work item transforms a
   few blocks of tiles, multiplies them by the filters, one panel of channels at a time, and transforms
   the products back.  All of this stays in its core's second-level cache.  A group has one item, and
   the groups divide the tiles. */
#include "winograd_tile.h"
#include "winograd_multiply.h"

/* Transforms a panel of products m back to results of their tiles. */
DEVICE void transform_back_panel(GLOBAL float *y, GLOBAL const float *m, GLOBAL const float *bias,
                                 GLOBAL const float *x, const winograd_images *p, u32 first,
                                 u32 n_rows, u32 panel)
{
    for (u32 row = 0; row < n_rows && first + row < p->n_tiles; row++) {
        for (u32 n = 0; n < PANEL; n++) {
            const u32 channel = (panel * PANEL + n) * WIDTH;
            if (channel >= p->channels) break;
            transform_back_tile(y, m + chunk_place(&p->layout, row, n), bias, x, p, first + row,
                                channel);
        }
    }
}

KERNEL __attribute__((reqd_work_group_size(1, 1, 1))) void
winograd_fused(OUT(float, y), OUT(float, scratch), IN(float, source), IN(float, u),
               IN(float, bias), IN(float, x), const winograd_fusion p)
{
    TENSOR_OUT(float, y);
    TENSOR_OUT(float, scratch);
    TENSOR_IN(float, source);
    TENSOR_IN(float, u);
    TENSOR_IN(float, bias);
    TENSOR_IN(float, x);
    const winograd_product *product = &p.product;
    const u32 n_rows = product->blocks * ROWS, depth = product->depth_chunks * WIDTH;
    GLOBAL float *v = scratch + get_group_id(0) * p.group_stride;
    GLOBAL float *m = v + POINTS * POINTS * product->a_stride;
    for (u32 first = (u32)get_group_id(0) * n_rows; first < p.source.n_tiles;
         first += (u32)get_num_groups(0) * n_rows) {
        for (u32 row = 0; row < n_rows; row++) {
            for (u32 chunk = 0; chunk < p.source.layout.chunks; chunk++)
                transform_data_tile(v, source, &p.source, first + row, row, chunk);
        }
        for (u32 panel = 0; panel < product->panels; panel++) {
            for (u32 point = 0; point < POINTS * POINTS; point++) {
                GLOBAL const float *right =
                    u + point * product->b_stride + (u64)panel * depth * (PANEL * WIDTH);
                for (u32 block = 0; block < product->blocks; block++)
                    multiply_block(m + point * product->c_stride + block * (PANEL * ROWS * WIDTH),
                                   v + point * product->a_stride + block * ROWS * depth, right,
                                   product->depth_chunks);
            }
            transform_back_panel(y, m, bias, x, &p.results, first, n_rows, panel);
        }
    }
}
