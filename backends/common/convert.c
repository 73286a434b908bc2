/* Launches of kernels/convert.cl. */
#include "convert.h"
#include "convert_params.h"

dpt_status dpt_convert_prepare(dpt_device *device, dpt_convert *out)
{
    DPT_TRY(dpt_kernel_of(device, "convert.cl", "dpt_narrow", &out->narrow));
    return dpt_kernel_of(device, "convert.cl", "dpt_widen", &out->widen);
}

/* Converts from type[0] to type[1]. */
static dpt_status launch(dpt_kernel *kernel, dpt_stream *stream, const dpt_converted *tensors,
                         const dpt_dtype type[2])
{
    const size_t count = tensors->count;
    const bool by_quads = dpt_takes_quads(dpt_stream_device(stream), count) &&
                          dpt_begins_quad(tensors->from, type[0]) &&
                          dpt_begins_quad(tensors->to, type[1]);
    const convert_params p = {.count = count, .by_quads = by_quads};
    dpt_launch l = dpt_launch_begin(stream, kernel);
    dpt_launch_tensor(&l, tensors->to, type[1]);
    dpt_launch_tensor(&l, tensors->from, type[0]);
    dpt_launch_value(&l, &p, sizeof p);
    return by_quads ? dpt_launch_quads(&l, count / 4, 1) : dpt_launch_runs(&l, count);
}

dpt_status dpt_narrow_run(const dpt_convert *convert, dpt_stream *stream,
                          const dpt_converted *tensors)
{
    const dpt_dtype types[] = {DPT_F32, DPT_BF16};
    return launch(convert->narrow, stream, tensors, types);
}

dpt_status dpt_widen_run(const dpt_convert *convert, dpt_stream *stream,
                         const dpt_converted *tensors)
{
    const dpt_dtype types[] = {DPT_BF16, DPT_F32};
    return launch(convert->widen, stream, tensors, types);
}
