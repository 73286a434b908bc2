/* Scatter and all-reduce, the two data movements of data-parallel training, with few enough numbers
   to check by eye.

       scatter_allreduce [DEVICES]        default: cpu,cpu */
#include <dptrain.h>

#include <stdio.h>

enum { MAX_DEVICES = 16, ROWS = 4, COLUMNS = 5 };

static dpt_status print_array(const char *label, dpt_array *array)
{
    float values[ROWS * COLUMNS];
    DPT_TRY(dpt_array_get(array, values));
    const size_t *shape = dpt_array_shape(array);
    dpt_device_info device = {.size = sizeof device};
    dpt_device_describe(dpt_array_device(array), &device);
    printf("%s on %s:", label, device.id);
    for (size_t row = 0; row < shape[0]; row++) {
        printf(" [");
        for (size_t column = 0; column < shape[1]; column++)
            printf("%s%g", column ? " " : "", (double)values[row * shape[1] + column]);
        printf("]");
    }
    printf("\n");
    return DPT_OK;
}

/* The numbers 0 to 19 as 4 rows of 5.  Of two devices the first gets rows 0-1, the second rows 2-3.
 */
static dpt_status scatter(dpt_context *context, dpt_device_set *devices)
{
    const size_t n = dpt_device_set_count(devices);
    float matrix[ROWS * COLUMNS];
    size_t rows[MAX_DEVICES];
    dpt_array *parts[MAX_DEVICES] = {NULL};
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        matrix[i] = (float)i;
    DPT_TRY(dpt_shard_rows(context, (dpt_split){.kind = DPT_SPLIT_EQUAL}, ROWS, n, rows));
    DPT_TRY(dpt_scatter(devices, matrix, ROWS, COLUMNS, rows, parts));
    dpt_status status = DPT_OK;
    for (size_t i = 0; i < n && status == DPT_OK; i++)
        if (parts[i]) status = print_array("scattered", parts[i]);
    for (size_t i = 0; i < n; i++)
        dpt_array_destroy(parts[i]);
    return status;
}

/* The first device has ones, the second twos, and so on.  Afterwards each has the sum: 3 for two.
 */
static dpt_status all_reduce(dpt_device_set *devices)
{
    const size_t n = dpt_device_set_count(devices);
    const size_t shape[] = {1, 2};
    dpt_array *arrays[MAX_DEVICES] = {NULL};
    dpt_status status = DPT_OK;
    for (size_t i = 0; i < n && status == DPT_OK; i++) {
        const float values[] = {(float)(i + 1), (float)(i + 1)};
        status = dpt_array_create(dpt_device_set_get(devices, i), shape, 2, &arrays[i]);
        if (status == DPT_OK) status = dpt_array_set(arrays[i], values);
    }
    if (status == DPT_OK) status = dpt_all_reduce(arrays, n);
    for (size_t i = 0; i < n && status == DPT_OK; i++)
        status = print_array("all-reduced", arrays[i]);
    for (size_t i = 0; i < n; i++)
        dpt_array_destroy(arrays[i]);
    return status;
}

int main(int argc, char **argv)
{
    dpt_context *context;
    dpt_device_set *devices = NULL;
    if (dpt_context_create(&context) != DPT_OK) return 1;
    dpt_status status = dpt_device_set_open(context, argc > 1 ? argv[1] : "cpu,cpu", &devices);
    if (status == DPT_OK && dpt_device_set_count(devices) > MAX_DEVICES)
        status = dpt_fail(context, DPT_E_INVALID, "at most %d devices, please", MAX_DEVICES);
    if (status == DPT_OK) status = scatter(context, devices);
    if (status == DPT_OK) status = all_reduce(devices);
    if (status != DPT_OK) fprintf(stderr, "scatter_allreduce: %s\n", dpt_error_message(context));
    dpt_device_set_close(devices);
    dpt_context_destroy(context);
    return status == DPT_OK ? 0 : 1;
}
