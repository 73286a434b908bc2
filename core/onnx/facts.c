/* Extents and elements that may contain N. */
#include "onnx/facts.h"

size_t dpti_onnx_batch_axis(const dpti_onnx_shape *shape)
{
    size_t d = 0;
    while (d < shape->rank && !shape->dims[d].batch)
        d++;
    return d;
}

void dpti_onnx_print_shape(const dpti_onnx_shape *shape, char *out, size_t n_bytes)
{
    size_t used = 0;
    for (size_t d = 0; d <= shape->rank && used < n_bytes; d++) {
        const dpti_onnx_dim dim = d < shape->rank ? shape->dims[d] : (dpti_onnx_dim){0};
        const char *before = d == 0 ? "[" : ", ";
        const long long size = dim.size;
        int n;
        if (d == shape->rank)
            n = snprintf(out + used, n_bytes - used, d == 0 ? "[]" : "]");
        else if (dim.batch && size == 1)
            n = snprintf(out + used, n_bytes - used, "%sN", before);
        else
            n = snprintf(out + used, n_bytes - used, "%s%lld%s", before, size,
                         dim.batch ? "*N" : "");
        used += n > 0 ? (size_t)n : 0;
    }
}

bool dpti_onnx_same_dim(dpti_onnx_dim a, dpti_onnx_dim b)
{
    return a.size == b.size && a.batch == b.batch;
}

bool dpti_onnx_broadcast(const dpti_onnx_shape *with, dpti_onnx_shape *to)
{
    const dpti_onnx_shape other = *to;
    const dpti_onnx_dim one = {1, false};
    to->rank = with->rank > other.rank ? with->rank : other.rank;
    for (size_t k = 1; k <= to->rank; k++) {
        const dpti_onnx_dim a = k <= with->rank ? with->dims[with->rank - k] : one;
        const dpti_onnx_dim b = k <= other.rank ? other.dims[other.rank - k] : one;
        if (!dpti_onnx_same_dim(a, b) && !dpti_onnx_same_dim(a, one) && !dpti_onnx_same_dim(b, one))
            return false;
        to->dims[to->rank - k] = dpti_onnx_same_dim(a, one) ? b : a;
    }
    return true;
}

bool dpti_onnx_elements(const dpti_onnx_shape *shape, dpti_onnx_product *out)
{
    *out = (dpti_onnx_product){1, 0};
    for (size_t d = 0; d < shape->rank; d++) {
        if (__builtin_mul_overflow(out->size, shape->dims[d].size, &out->size)) return false;
        out->power += shape->dims[d].batch;
    }
    return true;
}

size_t dpti_onnx_trained_output(const dpti_onnx_graph *graph)
{
    const dpti_onnx_model *m = graph->model;
    for (size_t i = 0; i < m->n_outputs; i++)
        if (dpti_onnx_type_is_real(graph->facts[m->outputs[i].value].type)) return i;
    return 0;
}

dpti_onnx_cell dpti_onnx_cell_of(dpti_onnx_dim dim)
{
    return (dpti_onnx_cell){.fixed = dim.batch ? 0 : dim.size, .times = dim.batch ? dim.size : 0};
}

bool dpti_onnx_dim_of(dpti_onnx_cell cell, dpti_onnx_dim *out)
{
    *out = (dpti_onnx_dim){cell.times ? cell.times : cell.fixed, cell.times != 0};
    return out->size >= 0 && !(cell.times && cell.fixed);
}

int dpti_onnx_compare(dpti_onnx_cell a, dpti_onnx_cell b)
{
    int64_t fixed, times, least;
    if (__builtin_sub_overflow(a.fixed, b.fixed, &fixed) ||
        __builtin_sub_overflow(a.times, b.times, &times) ||
        __builtin_add_overflow(fixed, times, &least))
        return 2;
    if (times == 0) return (fixed > 0) - (fixed < 0);
    if (times > 0) return least > 0 ? 1 : 2; /* least is the value for N = 1 */
    return least < 0 ? -1 : 2;
}
