/* Launches of kernels/convert.cl. */
#include "convert.h"
#include "convert_params.h"

dpt_status dpt_convert_prepare(dpt_device *device, dpt_convert *out)
{
    DPT_TRY(dpt_kernel_of(device, "convert.cl", "dpt_narrow", &out->narrow));
    return dpt_kernel_of(device, "convert.cl", "dpt_widen", &out->widen);
}

dpt_status dpt_narrow_run(const dpt_convert *convert, dpt_stream *stream, dpt_location from,
                          dpt_location to, size_t count)
{
    const convert_params p = {.count = count};
    dpt_launch l = dpt_launch_begin(stream, convert->narrow);
    dpt_launch_tensor(&l, to, DPT_BF16);
    dpt_launch_tensor(&l, from, DPT_F32);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_runs(&l, count);
}

dpt_status dpt_widen_run(const dpt_convert *convert, dpt_stream *stream, dpt_location from,
                         dpt_location to, size_t count)
{
    const convert_params p = {.count = count};
    dpt_launch l = dpt_launch_begin(stream, convert->widen);
    dpt_launch_tensor(&l, to, DPT_F32);
    dpt_launch_tensor(&l, from, DPT_BF16);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_runs(&l, count);
}
