/* MAP and MAP_REDUCE in double precision, with a bound of the rounding of a float32 computation. */
#include "reference.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* A value, and how far a float32 computation may be off, in units of FLT_EPSILON. */
typedef struct bounded {
    double value, bound;
} bounded;

static double value_of(uint8_t code, double a, double b, double c)
{
    (void)c;
    switch ((dpt_map_code)code) {
#define VALUE(name, n, rounds, value)                                                              \
    case DPT_MAP_##name: return value;
        DPT_MAP_LIST(VALUE)
#undef VALUE
    case DPT_MAP_COUNT: break;
    }
    return NAN;
}

/* The largest of |df/da| near a, which times the bound of a is what the operand adds. */
static double sensitivity(uint8_t code, double a)
{
    switch ((dpt_map_code)code) {
    case DPT_MAP_RECIPROCAL: return 1.0 / (a * a);
    case DPT_MAP_SQRT: return a > 0.0 ? 0.5 / sqrt(a) : 0.0;
    case DPT_MAP_EXP: return exp(a);
    case DPT_MAP_LOG: return 1.0 / fabs(a);
    case DPT_MAP_ERF: return 1.13 * exp(-a * a);
    case DPT_MAP_SIGMOID: return 0.25;
    default: return 1.0;
    }
}

/* What jumps is unknown within the rounding of its argument: any value passes. */
static double jump(double distance, double bound)
{
    return bound > 0.0 && fabs(distance) <= 8.0 * bound * (double)FLT_EPSILON ? INFINITY : 0.0;
}

static double to_half(double a)
{
    return a - floor(a) - 0.5;
}

static double to_whole(double a)
{
    return a - rint(a);
}

/* The bound of an instruction whose operands are exact or not. */
static double bound_of(uint8_t code, bounded a, bounded b, bounded c, double value)
{
    /* OpenCL's functions have errors of up to 16 units in the last place. */
    static const double function = 4.0;
    switch ((dpt_map_code)code) {
    case DPT_MAP_LOAD:
    case DPT_MAP_CONSTANT: return 0.0;
    case DPT_MAP_ADD:
    case DPT_MAP_SUBTRACT: return a.bound + b.bound + fabs(value);
    case DPT_MAP_MULTIPLY: return fabs(a.value) * b.bound + fabs(b.value) * a.bound + fabs(value);
    case DPT_MAP_DIVIDE:
        return a.bound / fabs(b.value) + b.bound * fabs(value / b.value) + fabs(value);
    case DPT_MAP_POWER:
        return function * fabs(value) + fabs(value) * (a.bound * fabs(b.value / a.value) +
                                                       b.bound * fabs(log(fabs(a.value))));
    case DPT_MAP_MINIMUM:
    case DPT_MAP_MAXIMUM: return fmax(a.bound, b.bound);
    case DPT_MAP_NEGATE:
    case DPT_MAP_ABSOLUTE: return a.bound;
    case DPT_MAP_SIGN:
    case DPT_MAP_NOT: return jump(a.value, a.bound);
    case DPT_MAP_FLOOR:
    case DPT_MAP_CEILING: return jump(to_whole(a.value), a.bound);
    case DPT_MAP_ROUND: return jump(to_half(a.value), a.bound);
    case DPT_MAP_LESS:
    case DPT_MAP_LESS_EQUAL:
    case DPT_MAP_EQUAL: return jump(a.value - b.value, a.bound + b.bound);
    case DPT_MAP_AND:
    case DPT_MAP_OR: return jump(a.value, a.bound) + jump(b.value, b.bound);
    case DPT_MAP_SELECT: return jump(a.value, a.bound) + (a.value != 0.0 ? b.bound : c.bound);
    default: return sensitivity(code, a.value) * a.bound + function * fabs(value);
    }
}

static size_t element_of(const dpt_map_desc *d, const dpt_map_operand *o, size_t sample,
                         size_t index)
{
    long long element = (long long)o->offset;
    for (size_t axis = d->rank; axis-- > 0;) {
        element += (long long)(index % d->extent[axis]) * o->stride[axis];
        index /= d->extent[axis];
    }
    return (o->sampled ? sample * o->size : 0) + (size_t)element;
}

/* The values of all instructions at an index. */
static void interpret(const dpt_map_desc *d, size_t sample, size_t index, const double *const *in,
                      bounded *values)
{
    for (size_t i = 0; i < d->n_code; i++) {
        const dpt_map_instruction *at = &d->code[i];
        const bounded a = values[at->a], b = values[at->b], c = values[at->c];
        bounded *to = &values[i];
        to->value = value_of(at->code, a.value, b.value, c.value);
        if (at->code == DPT_MAP_CONSTANT) to->value = (double)at->constant;
        if (at->code == DPT_MAP_LOAD)
            to->value = in[at->index][element_of(d, &d->in[at->index], sample, index)];
        to->bound = bound_of(at->code, a, b, c, to->value);
    }
}

static size_t count_indices(const dpt_map_desc *d)
{
    size_t count = 1;
    for (size_t axis = 0; axis < d->rank; axis++)
        count *= d->extent[axis];
    return count;
}

/* A number as an output of its type has it. */
static double typed(dpt_dtype type, double value)
{
    if (type == DPT_U8) return (double)(uint8_t)(int32_t)value;
    return type == DPT_I32 ? (double)(int32_t)value : value;
}

static void map(const dpt_map_desc *d, size_t n, const reference_args *args, bool magnitude)
{
    const size_t count = count_indices(d);
    bounded values[DPT_MAP_LENGTH] = {{0.0, 0.0}};
    for (size_t i = 0; i < n * count; i++) {
        interpret(d, i / count, i % count, args->in, values);
        for (size_t k = 0; k < d->n_out; k++) {
            const dpt_map_operand *o = &d->out[k];
            double *to = &args->out[k][element_of(d, o, i / count, i % count)];
            const bool adds = args->accumulate && (o->type == DPT_F32 || o->type == DPT_BF16);
            const bounded v = values[d->value[k]];
            if (magnitude)
                *to = v.bound + (adds ? fabs(*to) + fabs(v.value) : 0.0);
            else
                *to = typed(o->type, v.value) + (adds ? *to : 0.0);
        }
    }
}

static double combine(uint8_t how, double all, double one)
{
    switch ((dpt_map_reduction)how) {
    case DPT_REDUCE_PRODUCT: return all * one;
    case DPT_REDUCE_MAXIMUM: return isnan(one) || one > all ? one : all;
    case DPT_REDUCE_MINIMUM: return isnan(one) || one < all ? one : all;
    case DPT_REDUCE_SUM: break;
    }
    return all + one;
}

static bool is_sampled(const dpt_map_desc *d)
{
    for (size_t i = 0; i < d->n_in; i++)
        if (d->in[i].sampled) return true;
    return d->out[0].sampled;
}

/* The relative bound of a product, the largest bound of others. */
static double combine_bounds(uint8_t how, double all, bounded v)
{
    if (how == DPT_REDUCE_PRODUCT)
        return all + (fabs(v.value) > 0.0 ? v.bound / fabs(v.value) : v.bound) + 1.0;
    return how == DPT_REDUCE_SUM ? all + v.bound + fabs(v.value) : fmax(all, v.bound);
}

/* The first index of an output writes it, the others combine. */
static void reduce(const dpt_map_desc *d, size_t n, const reference_args *args, bool magnitude)
{
    const size_t count = count_indices(d), samples = is_sampled(d) ? n : 1;
    const dpt_map_operand *o = &d->out[0];
    double *const out = args->out[0];
    const size_t n_out = o->sampled ? n * o->size : o->size;
    bool *written = calloc(n_out + 1, sizeof *written);
    double *bound = calloc(n_out + 1, sizeof *bound), *before = calloc(n_out + 1, sizeof *before);
    bounded values[DPT_MAP_LENGTH] = {{0.0, 0.0}};
    if (!written || !bound || !before) abort();
    for (size_t i = 0; i < count && samples == 0 && !o->sampled && !args->accumulate; i++)
        out[element_of(d, o, 0, i)] = 0.0;
    for (size_t i = 0; i < samples * count; i++) {
        const size_t at = element_of(d, o, i / count, i % count);
        interpret(d, i / count, i % count, args->in, values);
        const bounded v = values[d->value[0]];
        if (!written[at]) before[at] = out[at];
        out[at] = written[at] ? combine(d->reduction, out[at], v.value) : v.value;
        bound[at] = combine_bounds(d->reduction, bound[at], v);
        written[at] = true;
    }
    for (size_t i = 0; i < n_out; i++) {
        if (!written[i]) continue;
        if (magnitude && d->reduction == DPT_REDUCE_PRODUCT) bound[i] *= fabs(out[i]);
        if (magnitude) out[i] = bound[i];
        if (args->accumulate) out[i] += magnitude ? fabs(before[i]) : before[i];
    }
    free(written);
    free(bound);
    free(before);
}

void reference_map(const dpt_op_desc *desc, size_t n, const reference_args *args)
{
    if (desc->kind == DPT_OP_MAP)
        map(&desc->u.map, n, args, false);
    else
        reduce(&desc->u.map, n, args, false);
}

/* Elements that no index writes keep their values. */
static void absolute_outputs(const dpt_map_desc *d, size_t n, const reference_args *args)
{
    for (size_t k = 0; k < d->n_out; k++)
        for (size_t i = 0; i < (d->out[k].sampled ? n : 1) * d->out[k].size; i++)
            args->out[k][i] = fabs(args->out[k][i]);
}

void magnitude_map(const dpt_op_desc *desc, size_t n, const reference_args *args)
{
    absolute_outputs(&desc->u.map, n, args);
    if (desc->kind == DPT_OP_MAP)
        map(&desc->u.map, n, args, true);
    else
        reduce(&desc->u.map, n, args, true);
}

size_t reference_map_terms(const dpt_map_desc *d, size_t n)
{
    size_t terms = d->out[0].sampled ? 1 : n;
    for (size_t axis = 0; axis < d->rank; axis++)
        if (d->out[0].stride[axis] == 0) terms *= d->extent[axis];
    return terms + 2;
}
