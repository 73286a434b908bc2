/* The interpreter of a MAP's program, for device code.

   A work item computes a tile: up to MAP_TILE indices that differ in the last axis.  On a GPU a
   tile has one index.  On a CPU every instruction is a loop over the tile. */
#ifndef DPT_KERNELS_MAP_PROGRAM_H
#define DPT_KERNELS_MAP_PROGRAM_H

#include "functions.h"
#include "map_params.h"

#if DEVICE_IS_CPU
#define MAP_TILE        64
#define FOR_LANES(i, n) for (u32 i = 0; i < (n); i++)
#else
#define MAP_TILE        1
#define FOR_LANES(i, n) for (u32 i = 0; i < 1u; i++)
#endif

/* The memory of the inputs. */
typedef struct map_memory {
    GLOBAL const u8 *in[MAP_INPUTS];
} map_memory;

/* An index of the space, and the element of every operand there. */
typedef struct map_cursor {
    u32 at[MAP_AXES];
    i64 element[MAP_OPERANDS];
} map_cursor;

typedef struct map_values {
    float place[MAP_STEPS][MAP_TILE];
} map_values;

DEVICE u32 map_extent(const map_params *p, u32 axis)
{
    return axis == 0 ? p->n_rows : p->extent[axis];
}

DEVICE void map_origin(const map_params *p, map_cursor *c)
{
    for (u32 axis = 0; axis < p->rank; axis++)
        c->at[axis] = 0;
    for (u32 k = 0; k < MAP_OPERANDS; k++)
        c->element[k] = p->offset[k];
}

DEVICE void map_move(const map_params *p, map_cursor *c, u32 axis, u32 to)
{
    const i64 by = (i64)to - (i64)c->at[axis];
    for (u32 k = 0; k < MAP_OPERANDS; k++)
        c->element[k] += by * p->stride[k][axis];
    c->at[axis] = to;
}

/* Moves the axes of `mask` to the linear index `i` over them. */
DEVICE void map_seek(const map_params *p, map_cursor *c, u32 mask, u64 i)
{
    for (u32 axis = p->rank; axis-- > 0;) {
        const u32 extent = map_extent(p, axis);
        u64 above;
        if (!(mask >> axis & 1u)) continue;
        above = i >> 32 ? i / extent : (u64)((u32)i / extent);
        map_move(p, c, axis, (u32)(i - above * extent));
        i = above;
    }
}

DEVICE float map_load(GLOBAL const u8 *base, u32 type, i64 element)
{
    if (type == MAP_F32) return ((GLOBAL const float *)base)[element];
    if (type == MAP_BF16) return widen(((GLOBAL const u16 *)base)[element]);
    if (type == MAP_U8) return (float)base[element];
    return (float)((GLOBAL const i32 *)base)[element];
}

DEVICE void map_store(GLOBAL u8 *base, u32 type, i64 element, float value, u32 accumulate)
{
    if (accumulate && (type == MAP_F32 || type == MAP_BF16)) value += map_load(base, type, element);
    if (type == MAP_F32)
        ((GLOBAL float *)base)[element] = value;
    else if (type == MAP_BF16)
        ((GLOBAL u16 *)base)[element] = narrow(value);
    else if (type == MAP_U8)
        base[element] = (u8)(i32)value;
    else
        ((GLOBAL i32 *)base)[element] = (i32)value;
}

#if DETERMINISTIC
#define map_sigmoid(a)  exact_sigmoid(a)
#define map_softplus(a) exact_softplus(a)
#else
DEVICE float map_sigmoid(float a)
{
    return 1.0f / (1.0f + EXP(-a));
}

DEVICE float map_softplus(float a)
{
    return (a > 0.0f ? a : 0.0f) + LOG1P(EXP(-FABS(a)));
}
#endif

DEVICE float map_sign(float a)
{
    return a > 0.0f ? 1.0f : a < 0.0f ? -1.0f : a == 0.0f ? 0.0f : a;
}

#define MAP_CASE(code, expression)                                                                 \
    case MAP_##code: FOR_LANES(i, n) y[i] = (expression); break;

/* One instruction, but LOAD and CONSTANT. */
DEVICE void map_step(u32 step, map_values *v, u32 n)
{
    float *y = v->place[MAP_TO(step)];
    const float *a = v->place[MAP_A(step)], *b = v->place[MAP_B(step)], *c = v->place[MAP_C(step)];
    switch (MAP_CODE(step)) {
        MAP_CASE(ADD, a[i] + b[i])
        MAP_CASE(SUBTRACT, a[i] - b[i])
        MAP_CASE(MULTIPLY, a[i] * b[i])
        MAP_CASE(DIVIDE, DIVIDE(a[i], b[i]))
        MAP_CASE(MINIMUM, a[i] != a[i] || a[i] < b[i] ? a[i] : b[i])
        MAP_CASE(MAXIMUM, a[i] != a[i] || a[i] > b[i] ? a[i] : b[i])
        MAP_CASE(POWER, POW(a[i], b[i]))
        MAP_CASE(NEGATE, -a[i])
        MAP_CASE(ABSOLUTE, FABS(a[i]))
        MAP_CASE(SIGN, map_sign(a[i]))
        MAP_CASE(FLOOR, FLOOR(a[i]))
        MAP_CASE(CEILING, CEIL(a[i]))
        MAP_CASE(ROUND, ROUND(a[i]))
        MAP_CASE(RECIPROCAL, DIVIDE(1.0f, a[i]))
        MAP_CASE(SQRT, SQRT(a[i]))
        MAP_CASE(EXP, EXP(a[i]))
        MAP_CASE(LOG, LOG(a[i]))
        MAP_CASE(SINE, SIN(a[i]))
        MAP_CASE(COSINE, COS(a[i]))
        MAP_CASE(TANH, TANH(a[i]))
        MAP_CASE(ERF, ERF(a[i]))
        MAP_CASE(SIGMOID, map_sigmoid(a[i]))
        MAP_CASE(SOFTPLUS, map_softplus(a[i]))
        MAP_CASE(LESS, a[i] < b[i] ? 1.0f : 0.0f)
        MAP_CASE(LESS_EQUAL, a[i] <= b[i] ? 1.0f : 0.0f)
        MAP_CASE(EQUAL, a[i] == b[i] ? 1.0f : 0.0f)
        MAP_CASE(AND, a[i] != 0.0f && b[i] != 0.0f ? 1.0f : 0.0f)
        MAP_CASE(OR, a[i] != 0.0f || b[i] != 0.0f ? 1.0f : 0.0f)
        MAP_CASE(NOT, a[i] == 0.0f ? 1.0f : 0.0f)
        MAP_CASE(SELECT, a[i] != 0.0f ? b[i] : c[i])
    }
}

/* The values of n indices along the last axis, from the cursor on. */
DEVICE void map_compute(const map_params *p, const map_memory *memory, const map_cursor *c, u32 n,
                        map_values *v)
{
    for (u32 s = 0; s < p->n_steps; s++) {
        const u32 step = p->step[s], code = MAP_CODE(step);
        float *y = v->place[MAP_TO(step)];
        if (code == MAP_LOAD) {
            const u32 k = MAP_A(step), type = p->type[k];
            const i64 stride = p->stride[k][p->rank - 1];
            GLOBAL const u8 *const base = memory->in[k];
            FOR_LANES(i, n) y[i] = map_load(base, type, c->element[k] + (i64)i * stride);
        } else if (code == MAP_CONSTANT) {
            FOR_LANES(i, n) y[i] = p->number[s];
        } else {
            map_step(step, v, n);
        }
    }
}

#define MAP_MEMORY_ARGUMENTS       IN(u8, a0), IN(u8, a1), IN(u8, a2), IN(u8, a3), IN(u8, a4), IN(u8, a5)
#define MAP_INPUT(memory, k, name) (memory).in[k] = name##_base + name##_place
#define MAP_MEMORY(memory)                                                                         \
    map_memory memory;                                                                             \
    MAP_INPUT(memory, 0, a0);                                                                      \
    MAP_INPUT(memory, 1, a1);                                                                      \
    MAP_INPUT(memory, 2, a2);                                                                      \
    MAP_INPUT(memory, 3, a3);                                                                      \
    MAP_INPUT(memory, 4, a4);                                                                      \
    MAP_INPUT(memory, 5, a5)

#endif
