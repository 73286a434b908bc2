/* Launches of kernels/finish.cl, which counts elements in 31 bits. */
#include "finish.h"
#include "finish_params.h"

enum { MOST_ELEMENTS = 1 << 30 };

dpt_status dpt_finish_prepare(dpt_device *device, dpt_dtype type, dpt_dtype product_type,
                              dpt_kernel **out)
{
    const char *name = product_type == DPT_F32 ? "dpt_finish" : "dpt_finish_stored";
    return dpt_kernel_storing(device, &(dpt_stored_kernel){"finish.cl", type, name}, out);
}

static bool is_same(dpt_location a, dpt_location b)
{
    return a.buffer == b.buffer && a.offset_bytes == b.offset_bytes;
}

static bool has_work(const dpt_finish_args *a)
{
    return a->accumulate || a->bias.buffer || a->activation != DPT_ACT_NONE ||
           a->mask_activation != DPT_ACT_NONE || !is_same(a->product, a->y);
}

static bool begins_quads(const dpt_finish_args *a)
{
    return dpt_begins_quad(a->y, a->type) && dpt_begins_quad(a->product, a->product_type) &&
           dpt_begins_quad(a->bias, DPT_F32) && dpt_begins_quad(a->mask, a->type);
}

/* Rows [first, first + n) of the product. */
typedef struct row_range {
    size_t first, n;
} row_range;

static dpt_status launch(dpt_kernel *kernel, dpt_stream *stream, const dpt_finish_args *a,
                         row_range range)
{
    const size_t first = range.first, rows = range.n;
    const size_t skip = first * a->columns, bytes = dpt_dtype_bytes(a->type);
    const size_t product_bytes = dpt_dtype_bytes(a->product_type);
    const size_t along = a->bias.buffer ? a->columns : rows * a->columns;
    const bool by_quads =
        dpt_takes_quads(dpt_stream_device(stream), along) && begins_quads(a) && skip % 4 == 0;
    const finish_params p = {.columns = divisor_of((u32)a->columns),
                             .count = (u32)(rows * a->columns),
                             .accumulate = a->accumulate,
                             .has_bias = a->bias.buffer != NULL,
                             .activation = (u32)a->activation,
                             .mask_activation = (u32)a->mask_activation,
                             .by_quads = by_quads};
    const dpt_location none = {NULL, 0};
    dpt_launch l = dpt_launch_begin(stream, kernel);
    dpt_launch_tensor(&l, dpt_at(a->y, skip * bytes), a->type);
    dpt_launch_tensor(&l, dpt_at(a->product, skip * product_bytes), a->product_type);
    dpt_launch_tensor(&l, a->bias, DPT_F32);
    dpt_launch_tensor(&l, p.mask_activation == DPT_ACT_NONE ? none : dpt_at(a->mask, skip * bytes),
                      a->type);
    dpt_launch_value(&l, &p, sizeof p);
    return by_quads ? dpt_launch_quads(&l, p.count / 4, 1) : dpt_launch_runs(&l, p.count);
}

dpt_status dpt_finish_run(dpt_kernel *kernel, dpt_stream *stream, const dpt_finish_args *a)
{
    const size_t most = a->columns < MOST_ELEMENTS ? MOST_ELEMENTS / a->columns : 1;
    if (!has_work(a)) return DPT_OK;
    for (size_t first = 0; first < a->rows; first += most) {
        const size_t left = a->rows - first;
        DPT_TRY(launch(kernel, stream, a, (row_range){first, left < most ? left : most}));
    }
    return DPT_OK;
}
