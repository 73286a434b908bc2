/* Divides rows among devices, and copies each device its rows. */
#include "balance/split.h"
#include "base/size.h"
#include "context/context.h"
#include "device/set.h"

#include <stdlib.h>
#include <string.h>

dpt_status dpt_shard_rows(dpt_context *context, dpt_split split, size_t n_rows, size_t n_devices,
                          size_t *shards)
{
    dpt_error error = {.status = DPT_OK};
    dpti_split parsed;
    if (split.kind == DPT_SPLIT_MEASURED || split.kind == DPT_SPLIT_REPLAY)
        return dpt_fail(context, DPT_E_INVALID,
                        "the split is for a trainer, which knows its devices: use DPT_SPLIT_EQUAL, "
                        "or DPT_SPLIT_PROPORTIONS such as \"2:1\" with one number a device");
    if (dpti_split_fixed(split, n_devices, &parsed, &error) != DPT_OK)
        return dpti_context_fail(context, NULL, &error);
    dpti_split_rows(&parsed, n_rows, shards);
    return DPT_OK;
}

static dpt_status check(dpt_device_set *set, size_t n_rows, size_t n_columns, const size_t *shards)
{
    size_t n_elements, n_bytes, sum = 0;
    if (!dpti_multiply(n_rows, n_columns, &n_elements) ||
        !dpti_multiply(n_elements, sizeof(float), &n_bytes))
        return dpt_fail(set->context, DPT_E_INVALID, "a matrix is larger than any memory");
    if (n_columns == 0)
        return dpt_fail(set->context, DPT_E_INVALID,
                        "a matrix without columns cannot be scattered");
    for (size_t i = 0; i < set->n_devices; i++)
        if (!dpti_add(sum, shards[i], &sum) || sum > n_rows)
            return dpt_fail(set->context, DPT_E_INVALID,
                            "the devices are to get more than the %zu rows of the matrix", n_rows);
    if (sum != n_rows)
        return dpt_fail(set->context, DPT_E_INVALID,
                        "the devices are to get %zu of the %zu rows of the matrix", sum, n_rows);
    return DPT_OK;
}

static dpt_status send_rows(dpt_device *device, const float *host, const size_t shape[2],
                            dpt_array **out)
{
    dpt_array *array;
    DPT_TRY(dpt_array_create(device, shape, 2, &array));
    const dpt_status status = dpt_array_set(array, host);
    if (status != DPT_OK) {
        dpt_array_destroy(array);
        return status;
    }
    *out = array;
    return DPT_OK;
}

dpt_status dpt_scatter(dpt_device_set *set, const float *host, size_t n_rows, size_t n_columns,
                       const size_t *shards, dpt_array **out)
{
    DPT_TRY(check(set, n_rows, n_columns, shards));
    dpt_array **arrays = calloc(set->n_devices, sizeof(dpt_array *));
    if (!arrays) return dpt_fail(set->context, DPT_E_NO_MEMORY, "no memory to scatter");
    dpt_status status = DPT_OK;
    for (size_t i = 0; status == DPT_OK && i < set->n_devices; i++) {
        if (shards[i] == 0) continue;
        status = send_rows(dpt_device_set_get(set, i), host, (size_t[]){shards[i], n_columns},
                           &arrays[i]);
        host += shards[i] * n_columns;
    }
    if (status == DPT_OK)
        memcpy(out, arrays, set->n_devices * sizeof(dpt_array *));
    else
        for (size_t i = 0; i < set->n_devices; i++)
            dpt_array_destroy(arrays[i]);
    free(arrays);
    return status;
}
