/* A tensor inside the model's file: its element type, extents and content. */
#include "base/size.h"
#include "onnx/read_state.h"

#include <string.h>

enum { IN_ANOTHER_FILE = 1 };

static dpt_status read_shape(dpti_onnx_reading *r, const Dpti__Onnx__Tensor *proto,
                             dpti_onnx_tensor *out, dpt_error *error)
{
    const char *path = r->model->path;
    const size_t per_element = dpti_onnx_type_bytes(proto->data_type);
    if (per_element == 0)
        return dpti_onnx_fail(error, DPT_E_UNSUPPORTED,
                              "%s: tensor \"%.80s\" has element type %d, which is not taken; "
                              "convert it to float32 or int64",
                              path, out->name, (int)proto->data_type);
    if (proto->n_dims > DPTI_ONNX_MAX_RANK)
        return dpti_onnx_fail(error, DPT_E_UNSUPPORTED,
                              "%s: tensor \"%.80s\" has %zu dimensions; at most %d are taken", path,
                              out->name, proto->n_dims, DPTI_ONNX_MAX_RANK);
    out->type = (dpti_onnx_type)proto->data_type;
    out->rank = proto->n_dims;
    out->n = 1;
    bool fits = true;
    for (size_t d = 0; d < out->rank; d++) {
        out->extents[d] = proto->dims[d];
        fits =
            fits && proto->dims[d] >= 0 && dpti_multiply(out->n, (size_t)proto->dims[d], &out->n);
    }
    if (!fits || !dpti_multiply(out->n, per_element, &out->n_bytes) || out->n_bytes > INT64_MAX / 8)
        return dpti_onnx_fail(error, DPT_E_FORMAT,
                              "%s: tensor \"%.80s\" has extents that are negative or too large; "
                              "the file is damaged, export it again",
                              path, out->name);
    return DPT_OK;
}

/* The field that holds the elements of a type, other than raw_data. */
typedef struct elements {
    size_t n;
    const void *data; /* in place if wide, int32_t otherwise */
    bool wide;        /* each element has its own bytes */
} elements;

static elements typed_elements(const Dpti__Onnx__Tensor *proto, dpti_onnx_type type)
{
    switch (type) {
    case DPTI_ONNX_FLOAT: return (elements){proto->n_float_data, proto->float_data, true};
    case DPTI_ONNX_DOUBLE: return (elements){proto->n_double_data, proto->double_data, true};
    case DPTI_ONNX_INT64: return (elements){proto->n_int64_data, proto->int64_data, true};
    case DPTI_ONNX_UINT64: return (elements){proto->n_uint64_data, proto->uint64_data, true};
    case DPTI_ONNX_INT32: return (elements){proto->n_int32_data, proto->int32_data, true};
    case DPTI_ONNX_UINT32: return (elements){proto->n_uint64_data, proto->uint64_data, false};
    default: return (elements){proto->n_int32_data, proto->int32_data, false};
    }
}

/* Narrows elements that the format stores in wider integers. */
static bool narrow(const elements *from, const dpti_onnx_tensor *tensor, uint8_t *to)
{
    const size_t n_bytes = dpti_onnx_type_bytes(tensor->type);
    const bool is_signed = tensor->type == DPTI_ONNX_INT8 || tensor->type == DPTI_ONNX_INT16;
    const int64_t span = (int64_t)1 << (8 * n_bytes);
    const int64_t least = is_signed ? -span / 2 : 0;
    const int64_t most = tensor->type == DPTI_ONNX_BOOL ? 1 : least + span - 1;
    for (size_t i = 0; i < tensor->n; i++) {
        int64_t value;
        if (tensor->type == DPTI_ONNX_UINT32) {
            const uint64_t wide = ((const uint64_t *)from->data)[i];
            if (wide > UINT32_MAX) return false;
            value = (int64_t)wide;
        } else {
            value = ((const int32_t *)from->data)[i];
        }
        if (value < least || value > most) return false;
        for (size_t k = 0; k < n_bytes; k++)
            to[i * n_bytes + k] = (uint8_t)((uint64_t)value >> (8 * k));
    }
    return true;
}

static dpt_status read_typed(dpti_onnx_reading *r, const Dpti__Onnx__Tensor *proto,
                             dpti_onnx_tensor *out, dpt_error *error)
{
    const elements found = typed_elements(proto, out->type);
    if (found.n != out->n)
        return dpti_onnx_fail(error, DPT_E_FORMAT,
                              "%s: tensor \"%.80s\" has %zu elements of %s, and its extents say "
                              "%zu; the file is damaged, export it again",
                              r->model->path, out->name, found.n, dpti_onnx_type_name(out->type),
                              out->n);
    if (found.wide) {
        out->data = found.data;
        return DPT_OK;
    }
    uint8_t *data = dpti_onnx_take(r->arena, out->n, dpti_onnx_type_bytes(out->type));
    if (!data) return dpti_onnx_no_memory(error);
    if (!narrow(&found, out, data))
        return dpti_onnx_fail(error, DPT_E_FORMAT,
                              "%s: tensor \"%.80s\" has an element that is no %s; the file is "
                              "damaged, export it again",
                              r->model->path, out->name, dpti_onnx_type_name(out->type));
    out->data = data;
    return DPT_OK;
}

static dpt_status read_raw(dpti_onnx_reading *r, const Dpti__Onnx__Tensor *proto,
                           dpti_onnx_tensor *out, dpt_error *error)
{
    if (proto->raw_data.len != out->n_bytes)
        return dpti_onnx_fail(error, DPT_E_FORMAT,
                              "%s: tensor \"%.80s\" has %zu bytes, and its type and extents say "
                              "%zu; the file is damaged, export it again",
                              r->model->path, out->name, proto->raw_data.len, out->n_bytes);
    out->data = proto->raw_data.data;
    return DPT_OK;
}

/* A bool of the file may be any byte. */
static dpt_status make_bools(dpti_onnx_reading *r, dpti_onnx_tensor *out, dpt_error *error)
{
    uint8_t *data = dpti_onnx_take(r->arena, out->n, 1);
    if (!data) return dpti_onnx_no_memory(error);
    for (size_t i = 0; i < out->n; i++)
        data[i] = ((const uint8_t *)out->data)[i] != 0;
    out->data = data;
    return DPT_OK;
}

dpt_status dpti_onnx_read_tensor(dpti_onnx_reading *reading, const Dpti__Onnx__Tensor *proto,
                                 dpti_onnx_tensor *out, dpt_error *error)
{
    DPT_TRY(read_shape(reading, proto, out, error));
    if (proto->has_segment)
        return dpti_onnx_fail(error, DPT_E_UNSUPPORTED,
                              "%s: tensor \"%.80s\" is stored in segments; save the model again",
                              reading->model->path, out->name);
    if (proto->has_data_location && proto->data_location == IN_ANOTHER_FILE)
        DPT_TRY(dpti_onnx_read_external(reading, proto, out, error));
    else if (proto->has_raw_data)
        DPT_TRY(read_raw(reading, proto, out, error));
    else
        DPT_TRY(read_typed(reading, proto, out, error));
    if (out->type == DPTI_ONNX_BOOL && out->n) DPT_TRY(make_bools(reading, out, error));
    return DPT_OK;
}
