/* Programs and spaces for MAP and MAP_REDUCE. */
#include "map_cases.h"

#include <math.h>
#include <stdio.h>

/* ---- Programs -------------------------------------------------------------------------------- */

static uint8_t add_code(dpt_map_desc *d, dpt_map_instruction instruction)
{
    d->code[d->n_code] = instruction;
    return d->n_code++;
}

static uint8_t add_unary(dpt_map_desc *d, dpt_map_code code, uint8_t a)
{
    return add_code(d, (dpt_map_instruction){.code = (uint8_t)code, .a = a});
}

static uint8_t add_binary(dpt_map_desc *d, dpt_map_code code, uint8_t a, uint8_t b)
{
    return add_code(d, (dpt_map_instruction){.code = (uint8_t)code, .a = a, .b = b});
}

static uint8_t add_constant(dpt_map_desc *d, float value)
{
    return add_code(d, (dpt_map_instruction){.code = DPT_MAP_CONSTANT, .constant = value});
}

/* |a| + 1/2, for functions that have no value at 0 or below. */
static uint8_t add_positive(dpt_map_desc *d, uint8_t a)
{
    const uint8_t absolute = add_unary(d, DPT_MAP_ABSOLUTE, a);
    return add_binary(d, DPT_MAP_ADD, absolute, add_constant(d, 0.5f));
}

static bool wants_positive(dpt_map_code code)
{
    return code == DPT_MAP_LOG || code == DPT_MAP_SQRT || code == DPT_MAP_POWER ||
           code == DPT_MAP_RECIPROCAL;
}

/* An instruction over values a, b and c, within the domain of the code. */
static uint8_t add_any(dpt_map_desc *d, dpt_map_code code, const uint8_t values[3])
{
    dpt_map_instruction next = {
        .code = (uint8_t)code, .a = values[0], .b = values[1], .c = values[2]};
    if (wants_positive(code)) next.a = add_positive(d, values[0]);
    if (code == DPT_MAP_DIVIDE) next.b = add_positive(d, values[1]);
    return add_code(d, next);
}

static void load_inputs(dpt_map_desc *d)
{
    for (uint8_t i = 0; i < d->n_in; i++)
        add_code(d, (dpt_map_instruction){.code = DPT_MAP_LOAD, .index = i});
}

/* A program with every input and the code, and with the values of instructions as outputs. */
static void program_of(dpt_map_desc *d, dpt_map_code code)
{
    load_inputs(d);
    const uint8_t last = d->n_in > 0 ? (uint8_t)(d->n_in - 1) : add_constant(d, 1.5f);
    const uint8_t values[3] = {0, (uint8_t)(last > 0 ? 1 : 0), last};
    d->value[0] = code <= DPT_MAP_CONSTANT ? last : add_any(d, code, values);
    for (uint8_t i = 1; i < d->n_out; i++)
        d->value[i] = add_binary(d, DPT_MAP_SUBTRACT, values[2], values[1]);
}

/* Long programs whose values stay small: what multiplies is between -1 and 1.  Constants are
   between other instructions, so that a value before a constant can have had its place. */
static void random_program(dpt_map_desc *d, test_random *random)
{
    static const dpt_map_code codes[] = {DPT_MAP_ADD,     DPT_MAP_SUBTRACT, DPT_MAP_MINIMUM,
                                         DPT_MAP_MAXIMUM, DPT_MAP_NEGATE,   DPT_MAP_ABSOLUTE,
                                         DPT_MAP_TANH,    DPT_MAP_SIGMOID};
    load_inputs(d);
    if (d->n_code == 0) add_constant(d, -0.75f);
    const size_t length = d->n_code + 1 + test_random_below(random, 20);
    while (d->n_code < length) {
        const uint8_t a = (uint8_t)test_random_below(random, d->n_code);
        const uint8_t b = (uint8_t)test_random_below(random, d->n_code);
        const size_t drawn = test_random_below(random, sizeof codes / sizeof *codes + 4);
        if (drawn < sizeof codes / sizeof *codes)
            add_binary(d, codes[drawn], a, b);
        else if (drawn < sizeof codes / sizeof *codes + 2)
            add_constant(d, 0.25f * (float)test_random_below(random, 5) - 0.5f);
        else
            add_binary(d, DPT_MAP_MULTIPLY, add_unary(d, DPT_MAP_TANH, a), b);
    }
    for (uint8_t i = 0; i < d->n_out; i++)
        d->value[i] = (uint8_t)(d->n_code - 1 - test_random_below(random, 3) % d->n_code);
}

/* ---- Spaces ---------------------------------------------------------------------------------- */

/* Gives an operand the strides of a dense tensor whose axes are in a random order, with a few
   elements around, and sometimes backwards. */
static void place_dense(const dpt_map_desc *d, dpt_map_operand *o, test_random *random)
{
    size_t order[DPT_MAX_RANK], left = d->rank, stride = 1;
    for (size_t i = 0; i < d->rank; i++)
        order[i] = d->rank - 1 - i;
    const bool shuffles = test_random_below(random, 3) == 0;
    const size_t step = test_random_below(random, 5) == 0 ? 2 : 1;
    for (stride = step; left > 0; left--) {
        const size_t drawn = shuffles ? test_random_below(random, left) : d->rank - left;
        const size_t axis = shuffles ? order[drawn] : order[d->rank - left];
        if (shuffles) order[drawn] = order[left - 1];
        o->stride[axis] = (int32_t)stride;
        stride *= d->extent[axis];
    }
    const size_t margin = test_random_below(random, 4) == 0 ? 3 : 0;
    o->offset = margin;
    o->size = stride + 2 * margin;
    if (d->rank == 0 || test_random_below(random, 6) != 0) return;
    const size_t axis = test_random_below(random, d->rank);
    o->offset += (d->extent[axis] - 1) * (size_t)o->stride[axis];
    o->stride[axis] = -o->stride[axis];
}

/* Some axes of an input are broadcast, of a reduction's output reduced.  The tensor keeps its
   size. */
static void drop_axes(const dpt_map_desc *d, dpt_map_operand *o, test_random *random)
{
    for (size_t axis = 0; axis < d->rank; axis++) {
        if (test_random_below(random, 2) == 0) continue;
        if (o->stride[axis] < 0) o->offset -= (d->extent[axis] - 1) * (size_t)-o->stride[axis];
        o->stride[axis] = 0;
    }
}

static void place_operands(dpt_op_desc *desc, test_random *random)
{
    dpt_map_desc *d = &desc->u.map;
    const bool reduces = desc->kind == DPT_OP_MAP_REDUCE;
    const bool is_parameter = test_random_below(random, 8) == 0;
    for (size_t i = 0; i < d->n_in; i++) {
        d->in[i].sampled = !is_parameter && test_random_below(random, 4) != 0;
        place_dense(d, &d->in[i], random);
        if (i > 0 && test_random_below(random, 2) == 0) drop_axes(d, &d->in[i], random);
    }
    for (size_t i = 0; i < d->n_out; i++) {
        place_dense(d, &d->out[i], random);
        if (reduces) drop_axes(d, &d->out[i], random);
        d->out[i].sampled = !is_parameter;
    }
    if (reduces && d->reduction == DPT_REDUCE_SUM && test_random_below(random, 2) == 0)
        d->out[0].sampled = false;
}

static void choose_space(dpt_map_desc *d, test_random *random)
{
    static const size_t extents[] = {1, 2, 3, 5, 8, 17, 31, 64, 100, 257, 300};
    size_t count = 1;
    d->rank = test_random_below(random, 6);
    for (size_t axis = 0; axis < d->rank; axis++) {
        size_t extent = extents[test_random_below(random, 11)];
        if (count * extent > 3000) extent = 1 + test_random_below(random, 2);
        d->extent[axis] = extent;
        count *= extent;
    }
}

static void choose_types(dpt_map_desc *d, test_random *random)
{
    static const dpt_dtype types[] = {DPT_U8, DPT_I32};
    for (size_t i = 0; i < d->n_in; i++)
        if (test_random_below(random, 6) == 0) d->in[i].type = types[test_random_below(random, 2)];
}

/* ---- Descriptions ---------------------------------------------------------------------------- */

/* One description a code, then random programs. */
static void make(dpt_op_desc *desc, size_t i, test_random *random)
{
    dpt_map_desc *d = &desc->u.map;
    const bool is_code = i < DPT_MAP_COUNT, reduces = desc->kind == DPT_OP_MAP_REDUCE;
    d->n_in = (uint8_t)(is_code ? 3 : test_random_below(random, DPT_MAX_INPUTS + 1));
    d->n_out = (uint8_t)(reduces ? 1 : 1 + test_random_below(random, is_code ? 2 : 3));
    d->reduction = (uint8_t)(reduces ? test_random_below(random, 8) : 0);
    if (d->reduction > DPT_REDUCE_MINIMUM) d->reduction = DPT_REDUCE_SUM;
    choose_space(d, random);
    place_operands(desc, random);
    choose_types(d, random);
    if (is_code)
        program_of(d, (dpt_map_code)i);
    else
        random_program(d, random);
    if (reduces && d->reduction == DPT_REDUCE_PRODUCT)
        d->value[0] = add_unary(d, DPT_MAP_TANH, d->value[0]);
}

void map_cases_check(test *t, dpt_op_kind kind)
{
    enum { N_RANDOM = 60 };
    test_random random = {kind};
    for (size_t i = 0; i < DPT_MAP_COUNT + N_RANDOM && !conformance_enough(t); i++) {
        dpt_op_desc desc = {.kind = kind};
        make(&desc, i, &random);
        conformance_vary(t, &desc, i);
    }
}

void map_cases_store(dpt_op_desc *desc, dpt_dtype type)
{
    dpt_map_desc *d = &desc->u.map;
    for (size_t i = 0; i < d->n_in; i += 2)
        if (d->in[i].type == DPT_F32) d->in[i].type = type;
    for (size_t i = 0; i < d->n_out; i += 2)
        if (d->out[i].type == DPT_F32) d->out[i].type = type;
}

size_t map_cases_work(const dpt_map_desc *d)
{
    size_t work = (size_t)d->n_code + 4;
    for (size_t axis = 0; axis < d->rank; axis++)
        work *= d->extent[axis];
    return work;
}

bool map_cases_exact(const dpt_op_desc *desc)
{
    enum { EXACT, STEPS, ROUNDS };
    static const unsigned char kinds[DPT_MAP_COUNT] = {
#define KIND(name, n, rounds, value) [DPT_MAP_##name] = rounds,
        DPT_MAP_LIST(KIND)
#undef KIND
    };
    const dpt_map_desc *d = &desc->u.map;
    size_t n_products = 0;
    for (size_t i = 0; i < d->n_code; i++) {
        const dpt_map_instruction *at = &d->code[i];
        if (kinds[at->code] == ROUNDS) return false;
        if (at->code == DPT_MAP_CONSTANT && at->constant != rintf(at->constant)) return false;
        if (at->code == DPT_MAP_MULTIPLY) n_products++;
    }
    return n_products <= 2 && d->reduction != DPT_REDUCE_PRODUCT;
}

/* ---- In words -------------------------------------------------------------------------------- */

static const char *const code_names[DPT_MAP_COUNT] = {
#define NAME(name, n, rounds, value) [DPT_MAP_##name] = #name,
    DPT_MAP_LIST(NAME)
#undef NAME
};

typedef struct text {
    char *at;
    size_t n;
} text;

#define SAY(out, ...)                                                                              \
    do {                                                                                           \
        const int said = snprintf((out)->at, (out)->n, __VA_ARGS__);                               \
        const size_t used = said < 0 ? 0 : (size_t)said < (out)->n ? (size_t)said : (out)->n - 1;  \
        (out)->at += used;                                                                         \
        (out)->n -= used;                                                                          \
    } while (0)

static void describe_operand(const dpt_map_desc *d, const dpt_map_operand *o, text *out)
{
    SAY(out, " %s%zu+%zu(", o->sampled ? "n*" : "", o->size, o->offset);
    for (size_t axis = 0; axis < d->rank; axis++)
        SAY(out, "%s%d", axis ? "," : "", (int)o->stride[axis]);
    SAY(out, ")%d", (int)o->type);
}

void map_cases_describe(const dpt_map_desc *d, char *out, size_t n_bytes)
{
    text to = {out, n_bytes};
    for (size_t axis = 0; axis < d->rank; axis++)
        SAY(&to, "%s%zu", axis ? "x" : "", d->extent[axis]);
    for (size_t i = 0; i < d->n_in; i++)
        describe_operand(d, &d->in[i], &to);
    SAY(&to, " ->");
    for (size_t i = 0; i < d->n_out; i++)
        describe_operand(d, &d->out[i], &to);
    SAY(&to, " reduction %u:", d->reduction);
    for (size_t i = 0; i < d->n_code; i++)
        SAY(&to, " %s", code_names[d->code[i].code]);
}
