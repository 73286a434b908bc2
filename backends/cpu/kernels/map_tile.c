/* Interprets the program of a MAP.  Every instruction is a loop over the tile, so that what the
   interpreter costs is divided by MAP_TILE. */
#include "map_tile.h"
#include "functions.h"

#include <math.h>

/* ---- The space ------------------------------------------------------------------------------- */

size_t KERNEL(map_extent)(const map_tile *tile, size_t axis)
{
    return axis == 0 ? tile->n_rows : tile->plan->extent[axis];
}

map_cursor KERNEL(map_cursor_at)(const map_tile *tile, size_t i)
{
    const dpt_map_plan *p = tile->plan;
    map_cursor c = {{0}, {0}};
    for (unsigned k = 0; k < p->n_operands; k++)
        c.element[k] = (int64_t)p->offset[k];
    for (size_t axis = p->rank; axis-- > 0;) {
        c.at[axis] = axis > 0 ? i % p->extent[axis] : i;
        if (axis > 0) i /= p->extent[axis];
        for (unsigned k = 0; k < p->n_operands; k++)
            c.element[k] += (int64_t)c.at[axis] * p->stride[k][axis];
    }
    return c;
}

void KERNEL(map_advance)(const map_tile *tile, map_cursor *c, size_t n)
{
    const dpt_map_plan *p = tile->plan;
    size_t axis = p->rank - 1;
    c->at[axis] += n;
    for (unsigned k = 0; k < p->n_operands; k++)
        c->element[k] += (int64_t)n * p->stride[k][axis];
    for (; axis > 0 && c->at[axis] == p->extent[axis]; axis--) {
        c->at[axis] = 0;
        c->at[axis - 1]++;
        for (unsigned k = 0; k < p->n_operands; k++)
            c->element[k] += p->stride[k][axis - 1] - (int64_t)p->extent[axis] * p->stride[k][axis];
    }
}

/* ---- Loading --------------------------------------------------------------------------------- */

#define LOAD_RUN(type)                                                                             \
    {                                                                                              \
        const type *const from = (const type *)base + element;                                     \
        if (stride == 1)                                                                           \
            for (size_t i = 0; i < n; i++)                                                         \
                to[i] = (float)from[i];                                                            \
        else                                                                                       \
            for (size_t i = 0; i < n; i++)                                                         \
                to[i] = (float)from[(int64_t)i * stride];                                          \
    }

/* One run along the last axis. */
static void load_run(const void *base, dpt_dtype type, int64_t element, int64_t stride,
                     float *restrict to, size_t n)
{
    switch (type) {
    case DPT_U8: LOAD_RUN(uint8_t) break;
    case DPT_I32: LOAD_RUN(int32_t) break;
    case DPT_U32: LOAD_RUN(uint32_t) break;
    case DPT_F32:
    case DPT_BF16: LOAD_RUN(float) break; /* a CPU stores no BF16 */
    }
}

/* Loads n elements of an input, over several runs. */
static void load(const map_tile *tile, const map_cursor *from, unsigned input, float *to, size_t n)
{
    const dpt_map_plan *p = tile->plan;
    const size_t last = p->rank - 1, extent = KERNEL(map_extent)(tile, last);
    map_cursor c = *from;
    for (size_t done = 0; done < n;) {
        const size_t left = extent - c.at[last], run = left < n - done ? left : n - done;
        load_run(tile->call->in[input], p->type[input], c.element[input], p->stride[input][last],
                 to + done, run);
        done += run;
        if (done < n) KERNEL(map_advance)(tile, &c, run);
    }
}

/* The input's own memory, if it has the tile as it must be; else NULL. */
static const float *in_place(const map_tile *tile, const map_cursor *c, unsigned input, size_t n)
{
    const dpt_map_plan *p = tile->plan;
    const size_t last = p->rank - 1;
    if (p->type[input] != DPT_F32 || p->stride[input][last] != 1) return NULL;
    if (n > KERNEL(map_extent)(tile, last) - c->at[last]) return NULL;
    return (const float *)tile->call->in[input] + c->element[input];
}

/* ---- Instructions ---------------------------------------------------------------------------- */

static float sign_of(float a)
{
    return isnan(a) ? a : (float)((a > 0.0f) - (a < 0.0f));
}

static float softplus(float a)
{
    return (a > 0.0f ? a : 0.0f) + log1pf(function_exp(-fabsf(a)));
}

#define LOOP(code, expression)                                                                     \
    case DPT_MAP_##code:                                                                           \
        for (size_t i = 0; i < n; i++)                                                             \
            y[i] = (expression);                                                                   \
        break;

/* Instructions that become vector instructions. */
static void run_arithmetic(const dpt_map_step *s, map_values *v, size_t n)
{
    float *restrict const y = v->own[s->to];
    const float *restrict const a = v->value[s->a], *restrict const b = v->value[s->b],
                                *restrict const c = v->value[s->c];
    switch ((dpt_map_code)s->code) {
        LOOP(CONSTANT, s->constant)
        LOOP(ADD, a[i] + b[i])
        LOOP(SUBTRACT, a[i] - b[i])
        LOOP(MULTIPLY, a[i] * b[i])
        LOOP(DIVIDE, a[i] / b[i])
        LOOP(MINIMUM, isnan(a[i]) || a[i] < b[i] ? a[i] : b[i])
        LOOP(MAXIMUM, isnan(a[i]) || a[i] > b[i] ? a[i] : b[i])
        LOOP(NEGATE, -a[i])
        LOOP(ABSOLUTE, fabsf(a[i]))
        LOOP(SIGN, sign_of(a[i]))
        LOOP(RECIPROCAL, 1.0f / a[i])
        LOOP(SQRT, sqrtf(a[i]))
        LOOP(LESS, a[i] < b[i] ? 1.0f : 0.0f)
        LOOP(LESS_EQUAL, a[i] <= b[i] ? 1.0f : 0.0f)
        LOOP(EQUAL, a[i] == b[i] ? 1.0f : 0.0f)
        LOOP(AND, a[i] != 0.0f && b[i] != 0.0f ? 1.0f : 0.0f)
        LOOP(OR, a[i] != 0.0f || b[i] != 0.0f ? 1.0f : 0.0f)
        LOOP(NOT, a[i] == 0.0f ? 1.0f : 0.0f)
        LOOP(SELECT, a[i] != 0.0f ? b[i] : c[i])
        LOOP(EXP, function_exp(a[i]))
        LOOP(TANH, function_tanh(a[i]))
        LOOP(ERF, function_erf(a[i]))
        LOOP(SIGMOID, function_sigmoid(a[i]))
    default: break;
    }
}

/* Instructions that call the mathematical library.  Returns false for another instruction. */
static bool run_function(const dpt_map_step *s, map_values *v, size_t n)
{
    float *restrict const y = v->own[s->to];
    const float *restrict const a = v->value[s->a], *restrict const b = v->value[s->b];
    switch ((dpt_map_code)s->code) {
        LOOP(POWER, powf(a[i], b[i]))
        LOOP(FLOOR, floorf(a[i]))
        LOOP(CEILING, ceilf(a[i]))
        LOOP(ROUND, rintf(a[i]))
        LOOP(LOG, logf(a[i]))
        LOOP(SINE, sinf(a[i]))
        LOOP(COSINE, cosf(a[i]))
        LOOP(SOFTPLUS, softplus(a[i]))
    default: return false;
    }
    return true;
}

void KERNEL(map_compute)(const map_tile *tile, const map_cursor *cursor, size_t n, map_values *v)
{
    const dpt_map_plan *p = tile->plan;
    for (unsigned i = 0; i < p->n_places; i++)
        v->value[i] = v->own[i];
    for (unsigned i = 0; i < p->n_steps; i++) {
        const dpt_map_step *s = &p->steps[i];
        v->value[s->to] = v->own[s->to];
        if (s->code == DPT_MAP_LOAD) {
            const float *memory = in_place(tile, cursor, s->a, n);
            if (memory)
                v->value[s->to] = memory;
            else
                load(tile, cursor, s->a, v->own[s->to], n);
        } else if (!run_function(s, v, n)) {
            run_arithmetic(s, v, n);
        }
    }
}

void KERNEL(map_put)(void *base, dpt_dtype type, int64_t element, double value)
{
    switch (type) {
    case DPT_U8: ((uint8_t *)base)[element] = (uint8_t)(int32_t)value; break;
    case DPT_I32: ((int32_t *)base)[element] = (int32_t)value; break;
    case DPT_U32: ((uint32_t *)base)[element] = (uint32_t)value; break;
    case DPT_F32:
    case DPT_BF16: ((float *)base)[element] = (float)value; break;
    }
}
