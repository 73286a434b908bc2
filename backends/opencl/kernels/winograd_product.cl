/* The products of Winograd's points on CPUs.  A group has one work item. */
#include "winograd_multiply.h"
#include "winograd_sum.h"

/* The work items are (blocks of rows, point). */
KERNEL __attribute__((reqd_work_group_size(1, 1, 1))) void
winograd_multiply(OUT(float, c), IN(float, a), IN(float, b), const winograd_product p)
{
    TENSOR_OUT(float, c);
    TENSOR_IN(float, a);
    TENSOR_IN(float, b);
    const u32 point = (u32)get_group_id(1);
    const u32 first = (u32)get_group_id(0) * p.item_blocks;
    const u32 end = first + p.item_blocks < p.blocks ? first + p.item_blocks : p.blocks;
    const u32 depth = p.depth_chunks * WIDTH;
    for (u32 panel = 0; panel < p.panels; panel++) {
        GLOBAL const float *right =
            b + point * p.b_stride + (u64)panel * depth * (PANEL * WIDTH);
        for (u32 block = first; block < end; block++)
            multiply_block(c + point * p.c_stride +
                               ((u64)block * p.panels + panel) * (PANEL * ROWS * WIDTH),
                           a + point * p.a_stride + (u64)block * ROWS * depth, right,
                           p.depth_chunks);
    }
}

/* The work items are (chunk of A, point).  An item treats all chunks of B, PANEL at a time. */
KERNEL __attribute__((reqd_work_group_size(1, 1, 1))) void
winograd_add(OUT(float, c), IN(float, a), IN(float, b), const winograd_sum p)
{
    TENSOR_OUT(float, c);
    TENSOR_IN(float, a);
    TENSOR_IN(float, b);
    const u32 chunk = (u32)get_group_id(0), point = (u32)get_group_id(1);
    sum_products(c + point * p.c_stride + (u64)chunk * WIDTH * p.b_chunks * WIDTH, p.b_chunks,
                 a + point * p.a_stride + (u64)chunk * p.n_rows * WIDTH, b + point * p.b_stride,
                 (u64)p.n_rows * WIDTH, p.b_chunks, p.n_rows, p.accumulate);
}
