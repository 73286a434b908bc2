/* Collecting the arguments of a launch, and dividing its work into groups. */
#include "launch.h"
#include "quad.h"
#include "size.h"
#include "span.h"

#include <string.h>

dpt_launch dpt_launch_begin(dpt_stream *stream, dpt_kernel *kernel)
{
    dpt_launch launch;
    launch.stream = stream;
    launch.kernel = kernel;
    launch.n_arguments = launch.n_bytes = 0;
    launch.buffers = 0;
    launch.overflows = false;
    return launch;
}

void dpt_launch_value(dpt_launch *launch, const void *value, size_t n_bytes)
{
    enum { STEP = 16 };
    const unsigned i = launch->n_arguments;
    if (i == DPT_MAX_ARGUMENTS || n_bytes > sizeof launch->bytes - launch->n_bytes) {
        launch->overflows = true;
        return;
    }
    memcpy(launch->bytes + launch->n_bytes, value, n_bytes);
    launch->at[i] = (unsigned short)launch->n_bytes;
    launch->n_bytes_of[i] = (unsigned short)n_bytes;
    launch->n_bytes += (unsigned)((n_bytes + STEP - 1) / STEP * STEP);
    launch->n_arguments++;
}

void dpt_launch_tensor(dpt_launch *launch, dpt_location location, dpt_dtype dtype)
{
    const void *base = location.buffer ? dpt_buffer_argument(location.buffer) : NULL;
    const u64 place = location.offset_bytes / dpt_dtype_bytes(dtype);
    if (launch->n_arguments < DPT_MAX_ARGUMENTS)
        launch->buffers |= UINT32_C(1) << launch->n_arguments;
    dpt_launch_value(launch, &base, sizeof base);
    dpt_launch_value(launch, &place, sizeof place);
}

dpt_status dpt_launch_groups(dpt_launch *launch, const size_t n_groups[3], const size_t group[3])
{
    if (launch->overflows)
        return DPT_FAIL(&dpt_stream_device(launch->stream)->error, DPT_E_INTERNAL,
                        "a kernel has more arguments than a launch holds");
    if (n_groups[0] == 0 || n_groups[1] == 0 || n_groups[2] == 0) return DPT_OK;
    return dpt_launch_enqueue(launch, n_groups, group);
}

dpt_status dpt_launch_items(dpt_launch *launch, size_t n_items)
{
    const size_t group = dpt_traits_of(dpt_stream_device(launch->stream))->group_size;
    return dpt_launch_groups(launch, (const size_t[3]){dpt_ceil_div(n_items, group), 1, 1},
                             (const size_t[3]){group, 1, 1});
}

dpt_status dpt_launch_elements(dpt_launch *launch, size_t per_sample, size_t n_samples)
{
    const dpt_traits *traits = dpt_traits_of(dpt_stream_device(launch->stream));
    const size_t items = traits->is_cpu ? 1 : traits->group_size;
    const size_t elements = traits->is_cpu ? SPAN : items; /* elements of a group */
    const size_t n_groups[3] = {dpt_ceil_div(per_sample, elements), n_samples, 1};
    return dpt_launch_groups(launch, n_groups, (const size_t[3]){items, 1, 1});
}

dpt_status dpt_launch_runs(dpt_launch *launch, size_t count)
{
    const dpt_traits *traits = dpt_traits_of(dpt_stream_device(launch->stream));
    if (traits->is_cpu) return dpt_launch_elements(launch, count, 1);
    return dpt_launch_items(launch, dpt_ceil_div(count, RUN_OF_GPU * traits->group_size) *
                                        traits->group_size);
}

dpt_status dpt_launch_rows(dpt_launch *launch, size_t n_rows, unsigned lanes)
{
    enum { MANY = 64 }; /* groups of each unit: so many that units stay busy until the end */
    const dpt_traits *traits = dpt_traits_of(dpt_stream_device(launch->stream));
    const bool many = n_rows >= (size_t)MANY * traits->n_units * traits->group_size;
    if (!traits->is_cpu && traits->group_size >= lanes)
        return dpt_launch_items(launch, n_rows * lanes);
    if (!traits->is_cpu || many) return dpt_launch_items(launch, n_rows);
    return dpt_launch_groups(launch, (const size_t[3]){n_rows, 1, 1}, (const size_t[3]){1, 1, 1});
}

bool dpt_takes_quads(const dpt_device *device, size_t count)
{
    return count % 4 == 0 && !dpt_traits_of(device)->is_cpu;
}

dpt_status dpt_launch_quads(dpt_launch *launch, size_t per_sample, size_t n_samples)
{
    const size_t group = dpt_traits_of(dpt_stream_device(launch->stream))->group_size;
    const size_t n_groups[3] = {dpt_ceil_div(per_sample, QUADS * group), n_samples, 1};
    return dpt_launch_groups(launch, n_groups, (const size_t[3]){group, 1, 1});
}

dpt_status dpt_kernel_of(dpt_device *device, const char *file, const char *name, dpt_kernel **out)
{
    return dpt_kernel_storing(device, &(dpt_stored_kernel){file, DPT_F32, name}, out);
}

void dpt_program_key_store(dpt_program_key *key, dpt_dtype type)
{
    const size_t n = strlen(key->options);
    if (type != DPT_BF16) return;
    snprintf(key->options + n, sizeof key->options - n, "%s-DBF16=1", n > 0 ? " " : "");
}

void dpt_program_key_deterministic(dpt_program_key *key)
{
    const size_t n = strlen(key->options);
    key->deterministic = true;
    snprintf(key->options + n, sizeof key->options - n, "%s-DDETERMINISTIC=1", n > 0 ? " " : "");
}

dpt_status dpt_kernel_deterministic(dpt_device *device, const char *file, const char *name,
                                    dpt_kernel **out)
{
    dpt_program_key key = {.file = file};
    dpt_program_key_deterministic(&key);
    return dpt_kernel_get(device, &key, name, out);
}

dpt_status dpt_kernel_storing(dpt_device *device, const dpt_stored_kernel *wanted, dpt_kernel **out)
{
    dpt_program_key key = {.file = wanted->file};
    dpt_program_key_store(&key, wanted->type);
    return dpt_kernel_get(device, &key, wanted->name, out);
}
