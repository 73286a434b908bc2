/* Evaluates nodes whose inputs are known, element by element, with N as a symbol. */
#include "base/elementary.h"
#include "onnx/infer_state.h"

#include <math.h>
#include <string.h>

/* ---- Content of tensors ---------------------------------------------------------------------- */

/* Reads element i; false for a type that is not evaluated. */
static bool read_cell(const dpti_onnx_tensor *tensor, size_t i, dpti_onnx_cell *out)
{
    const size_t n_bytes = dpti_onnx_type_bytes(tensor->type);
    const uint8_t *at = (const uint8_t *)tensor->data + i * n_bytes;
    uint64_t bits = 0;
    for (size_t k = 0; k < n_bytes; k++)
        bits |= (uint64_t)at[k] << (8 * k);
    *out = (dpti_onnx_cell){0};
    switch (tensor->type) {
    case DPTI_ONNX_FLOAT: {
        float value;
        const uint32_t low = (uint32_t)bits;
        memcpy(&value, &low, sizeof value);
        out->real = value;
        return true;
    }
    case DPTI_ONNX_DOUBLE: memcpy(&out->real, &bits, sizeof out->real); return true;
    case DPTI_ONNX_INT8: out->fixed = (int8_t)bits; return true;
    case DPTI_ONNX_INT16: out->fixed = (int16_t)bits; return true;
    case DPTI_ONNX_INT32: out->fixed = (int32_t)bits; return true;
    case DPTI_ONNX_FLOAT16:
    case DPTI_ONNX_BFLOAT16: return false;
    default: memcpy(&out->fixed, &bits, sizeof bits); return out->fixed >= 0 || n_bytes == 8;
    }
}

dpt_status dpti_onnx_tensor_cells(dpti_onnx_arena *arena, const dpti_onnx_tensor *tensor,
                                  const dpti_onnx_cell **out, dpt_error *error)
{
    *out = NULL;
    if (tensor->n > DPTI_ONNX_MAX_CELLS || tensor->type == DPTI_ONNX_FLOAT16 ||
        tensor->type == DPTI_ONNX_BFLOAT16)
        return DPT_OK;
    dpti_onnx_cell *cells = dpti_onnx_take(arena, tensor->n, sizeof *cells);
    if (!cells) return dpti_onnx_no_memory(error);
    for (size_t i = 0; i < tensor->n; i++)
        if (!read_cell(tensor, i, &cells[i])) return DPT_OK;
    *out = cells;
    return DPT_OK;
}

/* ---- Places ---------------------------------------------------------------------------------- */

typedef struct folding {
    dpti_onnx_inference *in;
    const dpti_onnx_fact *y; /* the first output */
    dpti_onnx_cell *cells;   /* of the output that is made */
    size_t n;
} folding;

typedef struct coordinates {
    int64_t at[DPTI_ONNX_MAX_RANK];
} coordinates;

static coordinates coordinates_of(const dpti_onnx_shape *shape, size_t i)
{
    coordinates out = {{0}};
    for (size_t d = shape->rank; d-- > 0;) {
        const size_t extent = (size_t)shape->dims[d].size;
        out.at[d] = (int64_t)(i % extent);
        i /= extent;
    }
    return out;
}

static size_t place_of(const dpti_onnx_shape *shape, const coordinates *from)
{
    size_t place = 0;
    for (size_t d = 0; d < shape->rank; d++)
        place = place * (size_t)shape->dims[d].size + (size_t)from->at[d];
    return place;
}

/* The element of a broadcast input for an index of the result. */
static const dpti_onnx_cell *broadcast_cell(const dpti_onnx_fact *x, const dpti_onnx_fact *y,
                                            const coordinates *at)
{
    coordinates from = {{0}};
    const size_t skip = y->shape.rank - x->shape.rank;
    for (size_t d = 0; d < x->shape.rank; d++)
        from.at[d] = x->shape.dims[d].size == 1 ? 0 : at->at[skip + d];
    return &x->cells[place_of(&x->shape, &from)];
}

/* ---- Arithmetic ------------------------------------------------------------------------------ */

static dpti_onnx_cell truth(bool value)
{
    return (dpti_onnx_cell){.fixed = value};
}

static bool is(const char *op, const char *name)
{
    return strcmp(op, name) == 0;
}

static bool multiply(dpti_onnx_cell a, dpti_onnx_cell b, dpti_onnx_cell *out)
{
    if (a.times && b.times) return false;
    if (a.times) {
        const dpti_onnx_cell swap = a;
        a = b;
        b = swap;
    }
    return !__builtin_mul_overflow(a.fixed, b.fixed, &out->fixed) &&
           !__builtin_mul_overflow(a.fixed, b.times, &out->times);
}

/* a / b where the result is known for every N, or both are fixed.  A remainder that does not depend
   on N is cut off, as of (2 * N + 1) / 2. */
static bool divide(dpti_onnx_cell a, dpti_onnx_cell b, dpti_onnx_cell *out)
{
    if (b.times == 0) {
        if (b.fixed == 0 || b.fixed == -1) return b.fixed && multiply(a, b, out);
        const bool cuts = a.fixed > 0 && a.times > 0 && b.fixed > 0;
        if (a.times && ((a.fixed % b.fixed && !cuts) || a.times % b.fixed)) return false;
        *out = (dpti_onnx_cell){.fixed = a.fixed / b.fixed, .times = a.times / b.fixed};
        return true;
    }
    if (a.fixed || b.fixed || b.times == -1 || a.times % b.times) return false;
    *out = (dpti_onnx_cell){.fixed = a.times / b.times};
    return true;
}

static bool remainder_of(const dpti_onnx_node *node, dpti_onnx_cell a, dpti_onnx_cell b,
                         dpti_onnx_cell *out)
{
    if (a.times || b.times || b.fixed == 0 || b.fixed == -1) return false;
    out->fixed = a.fixed % b.fixed;
    const bool c_rule = dpti_onnx_int(node, "fmod", 0) != 0;
    if (!c_rule && out->fixed && (out->fixed < 0) != (b.fixed < 0)) out->fixed += b.fixed;
    return true;
}

/* Comparisons and logic; *held is set unless the answer depends on N. */
static bool compare(const char *op, dpti_onnx_cell a, dpti_onnx_cell b, dpti_onnx_cell *out)
{
    if (is(op, "And") || is(op, "Or") || is(op, "Xor")) {
        if (a.times || b.times) return false;
        *out = truth(is(op, "And")  ? a.fixed && b.fixed
                     : is(op, "Or") ? a.fixed || b.fixed
                                    : a.fixed != b.fixed);
        return true;
    }
    const int order = dpti_onnx_compare(a, b);
    if (order == 2) return false;
    *out = truth(is(op, "Equal")         ? order == 0
                 : is(op, "Less")        ? order < 0
                 : is(op, "Greater")     ? order > 0
                 : is(op, "LessOrEqual") ? order <= 0
                                         : order >= 0);
    return true;
}

static bool compute_integers(const dpti_onnx_node *node, dpti_onnx_cell a, dpti_onnx_cell b,
                             dpti_onnx_cell *out)
{
    const char *op = node->op;
    *out = (dpti_onnx_cell){0};
    if (is(op, "Add") || is(op, "Sum"))
        return !__builtin_add_overflow(a.fixed, b.fixed, &out->fixed) &&
               !__builtin_add_overflow(a.times, b.times, &out->times);
    if (is(op, "Sub"))
        return !__builtin_sub_overflow(a.fixed, b.fixed, &out->fixed) &&
               !__builtin_sub_overflow(a.times, b.times, &out->times);
    if (is(op, "Mul")) return multiply(a, b, out);
    if (is(op, "Div")) return divide(a, b, out);
    if (is(op, "Mod")) return remainder_of(node, a, b, out);
    if (is(op, "Max") || is(op, "Min")) {
        const int order = dpti_onnx_compare(a, b);
        *out = (order > 0) == is(op, "Max") ? a : b;
        return order != 2;
    }
    return compare(op, a, b, out);
}

static bool compute_reals(const char *op, double a, double b, dpti_onnx_cell *out)
{
    *out = (dpti_onnx_cell){0};
    if (is(op, "Add") || is(op, "Sum"))
        out->real = a + b;
    else if (is(op, "Sub"))
        out->real = a - b;
    else if (is(op, "Mul"))
        out->real = a * b;
    else if (is(op, "Div"))
        out->real = a / b;
    else if (is(op, "Max"))
        out->real = a > b ? a : b;
    else if (is(op, "Min"))
        out->real = a < b ? a : b;
    else if (is(op, "Equal"))
        *out = truth(a == b);
    else if (is(op, "Less"))
        *out = truth(a < b);
    else if (is(op, "Greater"))
        *out = truth(a > b);
    else if (is(op, "LessOrEqual"))
        *out = truth(a <= b);
    else if (is(op, "GreaterOrEqual"))
        *out = truth(a >= b);
    else
        return false;
    return true;
}

/* Rounds a real result to its type. */
static void round_to(dpti_onnx_type type, dpti_onnx_cell *cell)
{
    if (type == DPTI_ONNX_FLOAT) cell->real = (double)(float)cell->real;
}

static bool fold_binary(folding *f)
{
    const dpti_onnx_node *node = f->in->node;
    const dpti_onnx_type type = dpti_onnx_input(f->in, 0)->type;
    for (size_t i = 0; i < f->n; i++) {
        const coordinates at = coordinates_of(&f->y->shape, i);
        f->cells[i] = *broadcast_cell(dpti_onnx_input(f->in, 0), f->y, &at);
        for (size_t k = 1; k < node->n_inputs; k++) {
            const dpti_onnx_cell a = f->cells[i];
            const dpti_onnx_cell b = *broadcast_cell(dpti_onnx_input(f->in, k), f->y, &at);
            if (dpti_onnx_type_is_real(type)
                    ? !compute_reals(node->op, a.real, b.real, &f->cells[i])
                    : !compute_integers(node, a, b, &f->cells[i]))
                return false;
            round_to(f->y->type, &f->cells[i]);
        }
    }
    return true;
}

/* Base and exponent may be of different types; the result has that of the base. */
static bool fold_power(folding *f)
{
    const dpti_onnx_fact *base = dpti_onnx_input(f->in, 0), *exponent = dpti_onnx_input(f->in, 1);
    const bool real_base = dpti_onnx_type_is_real(base->type);
    const bool real_exponent = dpti_onnx_type_is_real(exponent->type);
    for (size_t i = 0; i < f->n; i++) {
        const coordinates at = coordinates_of(&f->y->shape, i);
        const dpti_onnx_cell a = *broadcast_cell(base, f->y, &at);
        const dpti_onnx_cell b = *broadcast_cell(exponent, f->y, &at);
        if (a.times || b.times) return false;
        const double value = dpti_raise(real_base ? a.real : (double)a.fixed,
                                        real_exponent ? b.real : (double)b.fixed);
        if (!real_base && !(fabs(value) < 9e15)) return false; /* exact as a double */
        f->cells[i] = (dpti_onnx_cell){0};
        if (real_base)
            f->cells[i].real = value;
        else
            f->cells[i].fixed = (int64_t)value;
        round_to(f->y->type, &f->cells[i]);
    }
    return true;
}

static bool compute_unary(const char *op, dpti_onnx_type type, dpti_onnx_cell a,
                          dpti_onnx_cell *out)
{
    *out = a;
    if (is(op, "Identity") || is(op, "Dropout")) return true;
    if (is(op, "Not")) {
        *out = truth(!a.fixed);
        return true;
    }
    if (!dpti_onnx_type_is_real(type)) {
        if (is(op, "Neg")) return multiply(a, (dpti_onnx_cell){.fixed = -1}, out);
        if (!is(op, "Abs")) return false;
        const int sign = dpti_onnx_compare(a, (dpti_onnx_cell){0});
        return sign != 2 && (sign >= 0 || multiply(a, (dpti_onnx_cell){.fixed = -1}, out));
    }
    if (is(op, "Neg"))
        out->real = -a.real;
    else if (is(op, "Abs"))
        out->real = fabs(a.real);
    else if (is(op, "Sign"))
        out->real = (a.real > 0) - (a.real < 0);
    else if (is(op, "Floor"))
        out->real = floor(a.real);
    else if (is(op, "Ceil"))
        out->real = ceil(a.real);
    else if (is(op, "Round"))
        out->real = nearbyint(a.real);
    else if (is(op, "Sqrt"))
        out->real = sqrt(a.real);
    else if (is(op, "Exp"))
        out->real = dpti_exp(a.real);
    else if (is(op, "Log"))
        out->real = dpti_log(a.real);
    else if (is(op, "Reciprocal"))
        out->real = 1 / a.real;
    else
        return false;
    return true;
}

static bool fold_unary(folding *f)
{
    const dpti_onnx_fact *x = dpti_onnx_input(f->in, 0);
    for (size_t i = 0; i < f->n; i++) {
        if (!compute_unary(f->in->node->op, x->type, x->cells[i], &f->cells[i])) return false;
        round_to(f->y->type, &f->cells[i]);
    }
    return true;
}

static bool fold_cast(folding *f)
{
    const dpti_onnx_fact *x = dpti_onnx_input(f->in, 0);
    const bool from_real = dpti_onnx_type_is_real(x->type);
    const bool to_real = dpti_onnx_type_is_real(f->y->type);
    if (f->y->type == DPTI_ONNX_FLOAT16 || f->y->type == DPTI_ONNX_BFLOAT16) return false;
    for (size_t i = 0; i < f->n; i++) {
        const dpti_onnx_cell a = x->cells[i];
        dpti_onnx_cell *out = &f->cells[i];
        *out = (dpti_onnx_cell){0};
        if (f->y->type == DPTI_ONNX_BOOL) {
            if (a.times) return false;
            *out = truth(from_real ? a.real != 0 : a.fixed != 0);
        } else if (to_real) {
            if (a.times) return false;
            out->real = from_real ? a.real : (double)a.fixed;
            round_to(f->y->type, out);
        } else if (from_real) {
            if (!(fabs(a.real) < 9e15)) return false;
            out->fixed = (int64_t)a.real;
        } else {
            *out = a; /* an extent or an index, which fits in any of the types that exporters use */
        }
    }
    return true;
}

static bool fold_where(folding *f)
{
    for (size_t i = 0; i < f->n; i++) {
        const coordinates at = coordinates_of(&f->y->shape, i);
        const bool chosen = broadcast_cell(dpti_onnx_input(f->in, 0), f->y, &at)->fixed != 0;
        f->cells[i] = *broadcast_cell(dpti_onnx_input(f->in, chosen ? 1 : 2), f->y, &at);
    }
    return true;
}

/* ---- Movement -------------------------------------------------------------------------------- */

/* Reshape and its like, Expand and Tile: the index, within the extents of the input. */
static bool fold_same_order(folding *f)
{
    memcpy(f->cells, dpti_onnx_input(f->in, 0)->cells, f->n * sizeof *f->cells);
    return true;
}

static bool fold_repeat(folding *f)
{
    const dpti_onnx_fact *x = dpti_onnx_input(f->in, 0);
    for (size_t i = 0; i < f->n; i++) {
        coordinates at = coordinates_of(&f->y->shape, i), from = {{0}};
        const size_t skip = f->y->shape.rank - x->shape.rank;
        for (size_t d = 0; d < x->shape.rank; d++)
            from.at[d] = at.at[skip + d] % x->shape.dims[d].size;
        f->cells[i] = x->cells[place_of(&x->shape, &from)];
    }
    return true;
}

static bool fold_transpose(folding *f)
{
    const dpti_onnx_fact *x = dpti_onnx_input(f->in, 0);
    size_t n = 0;
    const size_t rank = x->shape.rank;
    const int64_t *order = dpti_onnx_ints(f->in->node, "perm", &n);
    for (size_t i = 0; i < f->n; i++) {
        const coordinates at = coordinates_of(&f->y->shape, i);
        coordinates from = {{0}};
        for (size_t d = 0; d < rank; d++)
            from.at[order ? dpti_onnx_axis(order[d], rank) : rank - 1 - d] = at.at[d];
        f->cells[i] = x->cells[place_of(&x->shape, &from)];
    }
    return true;
}

static bool fold_slice(folding *f)
{
    const dpti_onnx_fact *x = dpti_onnx_input(f->in, 0);
    dpti_onnx_slice s;
    if (dpti_onnx_read_slice(f->in, &s, NULL) != DPT_OK) return false;
    for (size_t i = 0; i < f->n; i++) {
        coordinates at = coordinates_of(&f->y->shape, i);
        for (size_t d = 0; d < x->shape.rank; d++)
            at.at[d] = s.start[d] + at.at[d] * s.step[d];
        f->cells[i] = x->cells[place_of(&x->shape, &at)];
    }
    return true;
}

static bool fold_gather(folding *f)
{
    const dpti_onnx_fact *x = dpti_onnx_input(f->in, 0), *at = dpti_onnx_input(f->in, 1);
    const size_t axis = dpti_onnx_axis(dpti_onnx_int(f->in->node, "axis", 0), x->shape.rank);
    const int64_t extent = x->shape.dims[axis].size;
    for (size_t i = 0; i < f->n; i++) {
        const coordinates to = coordinates_of(&f->y->shape, i);
        coordinates from = {{0}}, which = {{0}};
        for (size_t d = 0; d < at->shape.rank; d++)
            which.at[d] = to.at[axis + d];
        const dpti_onnx_cell chosen = at->cells[place_of(&at->shape, &which)];
        const int64_t k = chosen.fixed < 0 ? chosen.fixed + extent : chosen.fixed;
        if (chosen.times || k < 0 || k >= extent) return false;
        for (size_t d = 0; d < x->shape.rank; d++)
            from.at[d] = d < axis ? to.at[d] : d == axis ? k : to.at[d - 1 + at->shape.rank];
        f->cells[i] = x->cells[place_of(&x->shape, &from)];
    }
    return true;
}

/* The first element of the part of x that a row of n indices names; false if it is not there. */
static bool find_part(const dpti_onnx_fact *x, const dpti_onnx_cell *row, size_t n, size_t *first)
{
    coordinates at = {{0}};
    for (size_t d = 0; d < n; d++) {
        const int64_t extent = x->shape.dims[d].size;
        at.at[d] = row[d].fixed < 0 ? row[d].fixed + extent : row[d].fixed;
        if (row[d].times || at.at[d] < 0 || at.at[d] >= extent) return false;
    }
    *first = place_of(&x->shape, &at);
    return true;
}

static bool fold_scatter(folding *f)
{
    const dpti_onnx_fact *x = dpti_onnx_input(f->in, 0), *at = dpti_onnx_input(f->in, 1),
                         *from = dpti_onnx_input(f->in, 2);
    const char *reduction = dpti_onnx_string(f->in->node, "reduction", "none");
    if (at->shape.rank < 1 || !is(reduction, "none")) return false;
    const size_t n = (size_t)at->shape.dims[at->shape.rank - 1].size;
    if (n < 1 || n > x->shape.rank) return false;
    size_t part = 1; /* elements that one row of indices names */
    for (size_t d = n; d < x->shape.rank; d++)
        part *= (size_t)x->shape.dims[d].size;
    const size_t rows = at->n_cells / n;
    if (x->n_cells != f->n || from->n_cells != rows * part) return false;
    memcpy(f->cells, x->cells, f->n * sizeof *f->cells);
    for (size_t i = 0; i < rows; i++) {
        size_t first;
        if (!find_part(x, at->cells + i * n, n, &first)) return false;
        memcpy(f->cells + first, from->cells + i * part, part * sizeof *f->cells);
    }
    return true;
}

static bool fold_concat(folding *f)
{
    const dpti_onnx_shape *y = &f->y->shape;
    const size_t axis = dpti_onnx_axis(dpti_onnx_int(f->in->node, "axis", 0), y->rank);
    for (size_t i = 0; i < f->n; i++) {
        coordinates at = coordinates_of(y, i);
        size_t k = 0;
        while (at.at[axis] >= dpti_onnx_input(f->in, k)->shape.dims[axis].size)
            at.at[axis] -= dpti_onnx_input(f->in, k++)->shape.dims[axis].size;
        const dpti_onnx_fact *x = dpti_onnx_input(f->in, k);
        f->cells[i] = x->cells[place_of(&x->shape, &at)];
    }
    return true;
}

/* ---- New values ------------------------------------------------------------------------------ */

static bool fold_shape(folding *f)
{
    const dpti_onnx_shape *x = &dpti_onnx_input(f->in, 0)->shape;
    int64_t start = dpti_onnx_int(f->in->node, "start", 0);
    if (start < 0) start = start < -(int64_t)x->rank ? 0 : start + (int64_t)x->rank;
    for (size_t i = 0; i < f->n; i++)
        f->cells[i] = dpti_onnx_cell_of(x->dims[(size_t)start + i]);
    return true;
}

static bool fold_size(folding *f)
{
    dpti_onnx_product n;
    if (!dpti_onnx_elements(&dpti_onnx_input(f->in, 0)->shape, &n)) return false;
    f->cells[0] = dpti_onnx_cell_of((dpti_onnx_dim){n.size, n.power > 0});
    return true;
}

static bool fold_fill(folding *f)
{
    const dpti_onnx_attribute *found = dpti_onnx_find(f->in->node, "value");
    dpti_onnx_cell cell = {0};
    if (found && found->tensor && (found->tensor->n != 1 || !read_cell(found->tensor, 0, &cell)))
        return false;
    for (size_t i = 0; i < f->n; i++)
        f->cells[i] = cell;
    return true;
}

static bool fold_range(folding *f)
{
    const dpti_onnx_cell start = dpti_onnx_input(f->in, 0)->cells[0];
    const dpti_onnx_cell step = dpti_onnx_input(f->in, 2)->cells[0];
    for (size_t i = 0; i < f->n; i++) {
        f->cells[i].fixed = start.fixed + (int64_t)i * step.fixed;
        f->cells[i].real = start.real + (double)i * step.real;
        round_to(f->y->type, &f->cells[i]);
    }
    return true;
}

static bool fold_constant(folding *f)
{
    const dpti_onnx_node *node = f->in->node;
    const dpti_onnx_attribute *value = dpti_onnx_find(node, "value");
    const dpti_onnx_attribute *floats = dpti_onnx_find(node, "value_floats");
    const dpti_onnx_attribute *ints = dpti_onnx_find(node, "value_ints");
    for (size_t i = 0; i < f->n; i++) {
        dpti_onnx_cell *cell = &f->cells[i];
        if (value && value->tensor) {
            if (!read_cell(value->tensor, i, cell)) return false;
        } else if (dpti_onnx_find(node, "value_float")) {
            cell->real = dpti_onnx_float(node, "value_float", 0);
        } else if (floats) {
            if (i >= floats->n || !floats->floats) return false;
            cell->real = floats->floats[i];
        } else if (dpti_onnx_find(node, "value_int")) {
            cell->fixed = dpti_onnx_int(node, "value_int", 0);
        } else {
            if (!ints || i >= ints->n || !ints->ints) return false;
            cell->fixed = ints->ints[i];
        }
    }
    return true;
}

static bool fold_trilu(folding *f)
{
    const dpti_onnx_fact *x = dpti_onnx_input(f->in, 0), *k = dpti_onnx_input(f->in, 1);
    const bool upper = dpti_onnx_int(f->in->node, "upper", 1) != 0;
    const size_t rank = x->shape.rank;
    if (rank < 2 || (k && (k->n_cells != 1 || k->cells[0].times))) return false;
    const int64_t diagonal = k ? k->cells[0].fixed : 0;
    for (size_t i = 0; i < f->n; i++) {
        const coordinates at = coordinates_of(&x->shape, i);
        const int64_t distance = at.at[rank - 1] - at.at[rank - 2];
        const bool kept = upper ? distance >= diagonal : distance <= diagonal;
        f->cells[i] = kept ? x->cells[i] : (dpti_onnx_cell){0};
    }
    return true;
}

static bool fold_eye(folding *f)
{
    const int64_t diagonal = dpti_onnx_int(f->in->node, "k", 0);
    for (size_t i = 0; i < f->n; i++) {
        const coordinates at = coordinates_of(&f->y->shape, i);
        const bool one = at.at[1] - at.at[0] == diagonal;
        f->cells[i] =
            dpti_onnx_type_is_real(f->y->type) ? (dpti_onnx_cell){.real = one} : truth(one);
    }
    return true;
}

/* The places of the elements that are not 0, one a column. */
static bool fold_non_zero(folding *f)
{
    const dpti_onnx_fact *x = dpti_onnx_input(f->in, 0);
    const bool real = dpti_onnx_type_is_real(x->type);
    const size_t columns = (size_t)f->y->shape.dims[1].size;
    for (size_t i = 0, column = 0; i < x->n_cells && column < columns; i++) {
        if (real ? x->cells[i].real == 0 : x->cells[i].fixed == 0) continue;
        const coordinates at = coordinates_of(&x->shape, i);
        for (size_t d = 0; d < x->shape.rank; d++)
            f->cells[d * columns + column] = (dpti_onnx_cell){.fixed = at.at[d]};
        column++;
    }
    return true;
}

/* The product or sum of all elements, as of a shape. */
static bool fold_reduce(folding *f)
{
    const dpti_onnx_fact *x = dpti_onnx_input(f->in, 0);
    const bool product = is(f->in->node->op, "ReduceProd");
    if (f->n != 1 || dpti_onnx_type_is_real(x->type)) return false;
    dpti_onnx_cell all = {.fixed = product};
    for (size_t i = 0; i < x->n_cells; i++) {
        const dpti_onnx_cell before = all, cell = x->cells[i];
        if (product ? !multiply(before, cell, &all)
                    : __builtin_add_overflow(before.fixed, cell.fixed, &all.fixed) ||
                          __builtin_add_overflow(before.times, cell.times, &all.times))
            return false;
    }
    f->cells[0] = all;
    return true;
}

/* ---- Which ----------------------------------------------------------------------------------- */

typedef struct evaluator {
    const char *name;
    bool (*fold)(folding *f);
    bool shape_only; /* the elements of its inputs are not needed */
} evaluator;

static const evaluator evaluators[] = {
    {"Abs", fold_unary, false},
    {"Add", fold_binary, false},
    {"And", fold_binary, false},
    {"Cast", fold_cast, false},
    {"CastLike", fold_cast, false},
    {"Ceil", fold_unary, false},
    {"Concat", fold_concat, false},
    {"Constant", fold_constant, false},
    {"ConstantOfShape", fold_fill, false},
    {"Div", fold_binary, false},
    {"Equal", fold_binary, false},
    {"Exp", fold_unary, false},
    {"Expand", fold_repeat, false},
    {"EyeLike", fold_eye, true},
    {"Flatten", fold_same_order, false},
    {"Floor", fold_unary, false},
    {"Gather", fold_gather, false},
    {"Greater", fold_binary, false},
    {"GreaterOrEqual", fold_binary, false},
    {"Identity", fold_unary, false},
    {"Less", fold_binary, false},
    {"LessOrEqual", fold_binary, false},
    {"Log", fold_unary, false},
    {"Max", fold_binary, false},
    {"Min", fold_binary, false},
    {"Mod", fold_binary, false},
    {"Mul", fold_binary, false},
    {"Neg", fold_unary, false},
    {"NonZero", fold_non_zero, false},
    {"Not", fold_unary, false},
    {"Or", fold_binary, false},
    {"Pow", fold_power, false},
    {"Range", fold_range, false},
    {"Reciprocal", fold_unary, false},
    {"ReduceProd", fold_reduce, false},
    {"ReduceSum", fold_reduce, false},
    {"Reshape", fold_same_order, false},
    {"Round", fold_unary, false},
    {"ScatterND", fold_scatter, false},
    {"Shape", fold_shape, true},
    {"Sign", fold_unary, false},
    {"Size", fold_size, true},
    {"Slice", fold_slice, false},
    {"Sqrt", fold_unary, false},
    {"Squeeze", fold_same_order, false},
    {"Sub", fold_binary, false},
    {"Sum", fold_binary, false},
    {"Tile", fold_repeat, false},
    {"Transpose", fold_transpose, false},
    {"Trilu", fold_trilu, false},
    {"Unsqueeze", fold_same_order, false},
    {"Where", fold_where, false},
    {"Xor", fold_binary, false},
};

static const evaluator *find_evaluator(const char *name)
{
    for (size_t i = 0; i < sizeof evaluators / sizeof *evaluators; i++)
        if (is(evaluators[i].name, name)) return &evaluators[i];
    return NULL;
}

/* Whether all inputs are known; *parameter is set if one depends on a parameter. */
static bool inputs_known(const dpti_onnx_inference *in, bool *parameter)
{
    for (size_t i = 0; i < in->node->n_inputs; i++) {
        const dpti_onnx_fact *x = dpti_onnx_input(in, i);
        if (!x) continue;
        if (is(in->node->op, "CastLike") && i == 1) continue; /* its type alone counts */
        if (!x->cells) return false;
        *parameter = *parameter || x->parameter;
    }
    return true;
}

dpt_status dpti_onnx_fold(dpti_onnx_inference *in, dpt_error *error)
{
    const evaluator *e = find_evaluator(in->node->op);
    const size_t v = in->node->outputs[0];
    dpti_onnx_product n;
    bool parameter = false;
    if (!e || v == DPTI_ONNX_NONE) return DPT_OK;
    dpti_onnx_fact *y = &in->graph->facts[v];
    if (!e->shape_only && !inputs_known(in, &parameter)) return DPT_OK;
    if (!dpti_onnx_elements(&y->shape, &n) || n.power || n.size > DPTI_ONNX_MAX_CELLS)
        return DPT_OK;
    folding f = {.in = in, .y = y, .n = (size_t)n.size};
    f.cells = dpti_onnx_take(&in->graph->arena, f.n, sizeof *f.cells);
    if (!f.cells) return dpti_onnx_no_memory(error);
    if (!e->fold(&f)) {
        dpti_onnx_give_back(&in->graph->arena, f.cells);
        return DPT_OK;
    }
    y->n_cells = f.n;
    y->cells = f.cells;
    y->parameter = parameter;
    return DPT_OK;
}
