/* Interprets the program of a MAP.  Every instruction is a loop over the tile, so that what the
   interpreter costs is divided by the indices of a tile. */
#include "map_tile.h"
#include "exact_loops.h"
#include "functions.h"
#include "map_pairs.h"

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
        else if (stride == 0)                                                                      \
            for (size_t i = 0; i < n; i++)                                                         \
                to[i] = (float)from[0];                                                            \
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

/* Whether neighbours along the axes of the whole space are neighbours in the operand's memory. */
static bool is_dense(const dpt_map_plan *p, unsigned operand)
{
    const int64_t *stride = p->stride[operand];
    bool dense = stride[p->rank - 1] == 1;
    for (size_t axis = p->rank - 1; dense && axis > 0; axis--)
        dense = stride[axis - 1] == (int64_t)p->extent[axis] * stride[axis];
    return dense;
}

float *KERNEL(map_in_place)(const map_tile *tile, const map_cursor *cursor, unsigned operand,
                            size_t n)
{
    const dpt_map_plan *p = tile->plan;
    const size_t last = p->rank - 1;
    const bool is_input = operand < p->n_in;
    void *const base =
        is_input ? (void *)(uintptr_t)tile->call->in[operand] : tile->call->out[operand - p->n_in];
    if (p->type[operand] != DPT_F32 || p->stride[operand][last] != 1) return NULL;
    if (n > KERNEL(map_extent)(tile, last) - cursor->at[last] && !is_dense(p, operand)) return NULL;
    return (float *)base + cursor->element[operand];
}

/* ---- Instructions ---------------------------------------------------------------------------- */

/* The first of two numbers that are equal is the second one, as in the instructions of x86. */
static inline float minimum_of(float a, float b)
{
    const float least = a < b ? a : b;
    return isnan(a) ? a : least;
}

static inline float maximum_of(float a, float b)
{
    const float most = a > b ? a : b;
    return isnan(a) ? a : most;
}

static float sign_of(float a)
{
    return isnan(a) ? a : (float)((a > 0.0f) - (a < 0.0f));
}

static float softplus(float a)
{
    return (a > 0.0f ? a : 0.0f) + log1pf(function_exp(-fabsf(a)));
}

/* One instruction over a tile: y has n numbers, which overlap none of the operands. */
typedef struct step_call {
    float *y;
    const float *a, *b, *c;
    float constant;
    size_t n;
} step_call;

typedef void step_function(const step_call *s);

#define STEP(code, expression)                                                                     \
    static void run_##code(const step_call *s)                                                     \
    {                                                                                              \
        float *restrict const y = s->y;                                                            \
        const float *restrict const a = s->a, *restrict const b = s->b, *restrict const c = s->c;  \
        const size_t n = s->n;                                                                     \
        (void)a, (void)b, (void)c;                                                                 \
        for (size_t i = 0; i < n; i++)                                                             \
            y[i] = (expression);                                                                   \
    }

/* Instructions that become vector instructions. */
STEP(CONSTANT, s->constant)
STEP(ADD, a[i] + b[i])
STEP(SUBTRACT, a[i] - b[i])
STEP(MULTIPLY, a[i] * b[i])
STEP(DIVIDE, a[i] / b[i])
STEP(MINIMUM, minimum_of(a[i], b[i]))
STEP(MAXIMUM, maximum_of(a[i], b[i]))
STEP(NEGATE, -a[i])
STEP(ABSOLUTE, fabsf(a[i]))
STEP(SIGN, sign_of(a[i]))
STEP(RECIPROCAL, 1.0f / a[i])
STEP(SQRT, sqrtf(a[i]))
STEP(LESS, a[i] < b[i] ? 1.0f : 0.0f)
STEP(LESS_EQUAL, a[i] <= b[i] ? 1.0f : 0.0f)
STEP(EQUAL, a[i] == b[i] ? 1.0f : 0.0f)
STEP(AND, a[i] != 0.0f && b[i] != 0.0f ? 1.0f : 0.0f)
STEP(OR, a[i] != 0.0f || b[i] != 0.0f ? 1.0f : 0.0f)
STEP(NOT, a[i] == 0.0f ? 1.0f : 0.0f)
STEP(SELECT, a[i] != 0.0f ? b[i] : c[i])
STEP(EXP, function_exp(a[i]))
STEP(TANH, function_tanh(a[i]))
STEP(ERF, function_erf(a[i]))
STEP(SIGMOID, function_sigmoid(a[i]))

/* Instructions that call the mathematical library. */
STEP(POWER, powf(a[i], b[i]))
STEP(FLOOR, floorf(a[i]))
STEP(CEILING, ceilf(a[i]))
STEP(ROUND, rintf(a[i]))
STEP(LOG, logf(a[i]))
STEP(SINE, sinf(a[i]))
STEP(COSINE, cosf(a[i]))
STEP(SOFTPLUS, softplus(a[i]))

/* Pairs (map_pairs.h): SECOND(FIRST(a, b), c), and SECOND(c, FIRST(a, b)). */
#define APPLY_ADD(x, y)      ((x) + (y))
#define APPLY_SUBTRACT(x, y) ((x) - (y))
#define APPLY_MULTIPLY(x, y) ((x) * (y))
#define APPLY_MINIMUM(x, y)  minimum_of(x, y)
#define APPLY_MAXIMUM(x, y)  maximum_of(x, y)
#define PAIR(first, second)                                                                        \
    STEP(first##_##second, APPLY_##second(APPLY_##first(a[i], b[i]), c[i]))                        \
    STEP(first##_##second##_RIGHT, APPLY_##second(c[i], APPLY_##first(a[i], b[i])))
#define PAIRS_OF(first)                                                                            \
    PAIR(first, ADD)                                                                               \
    PAIR(first, SUBTRACT) PAIR(first, MULTIPLY) PAIR(first, MINIMUM) PAIR(first, MAXIMUM)
MAP_PAIR_LIST(PAIRS_OF)

/* The first instruction, LOAD, has no function. */
#define run_LOAD NULL
static step_function *const functions[MAP_PAIR_END] = {
#define ENTRY(name, ...) [DPT_MAP_##name] = run_##name,
    DPT_MAP_LIST(ENTRY)
#undef ENTRY
/* The order of map_pairs.h: the left halves of all first ones, then the right ones. */
#define LEFT(first)                                                                                \
    run_##first##_ADD, run_##first##_SUBTRACT, run_##first##_MULTIPLY, run_##first##_MINIMUM,      \
        run_##first##_MAXIMUM,
#define RIGHT(first)                                                                               \
    run_##first##_ADD_RIGHT, run_##first##_SUBTRACT_RIGHT, run_##first##_MULTIPLY_RIGHT,           \
        run_##first##_MINIMUM_RIGHT, run_##first##_MAXIMUM_RIGHT,
        [MAP_PAIR_BEGIN] = MAP_PAIR_LIST(LEFT) MAP_PAIR_LIST(RIGHT)
#undef LEFT
#undef RIGHT
};
#undef run_LOAD

/* ---- Programs -------------------------------------------------------------------------------- */

void KERNEL(map_adapt)(dpt_map_plan *plan)
{
    uint8_t moved[DPT_MAP_LENGTH] = {0}; /* the new place of a place that instructions write */
    uint8_t now[DPT_MAP_LENGTH] = {0};   /* the new place of a place's present value */
    uint32_t written = 0;
    plan->n_places = 0;
    for (unsigned i = 0; i < plan->n_steps; i++) {
        const dpt_map_step *s = &plan->steps[i];
        if (s->code == DPT_MAP_CONSTANT || (written >> s->to & 1u)) continue;
        written |= UINT32_C(1) << s->to;
        moved[s->to] = (uint8_t)plan->n_places++;
    }
    for (unsigned i = 0; i < plan->n_steps; i++) {
        dpt_map_step *s = &plan->steps[i];
        const uint8_t to = s->to;
        if (s->code != DPT_MAP_LOAD) s->a = now[s->a];
        s->b = now[s->b];
        s->c = now[s->c];
        s->to = s->code == DPT_MAP_CONSTANT ? (uint8_t)plan->n_places++ : moved[to];
        now[to] = s->to;
    }
    for (unsigned i = 0; i < plan->n_operands - plan->n_in; i++)
        plan->result[i] = now[plan->result[i]];
    KERNEL(map_pair_steps)(plan);
}

void KERNEL(map_begin)(const dpt_map_plan *plan, size_t size, map_values *out)
{
    out->size = size;
    out->n_calls = out->n_ahead = 0;
    for (unsigned i = 0; i < plan->n_places; i++)
        out->value[i] = out->target[i] = out->own + i * size;
    for (unsigned i = 0; i < plan->n_steps; i++) {
        const dpt_map_step *s = &plan->steps[i];
        out->n_calls += s->code != DPT_MAP_LOAD && s->code != DPT_MAP_CONSTANT;
        if (s->code == DPT_MAP_CONSTANT)
            run_CONSTANT(&(step_call){.y = out->target[s->to], .constant = s->constant, .n = size});
    }
}

/* Asks for the part of the next tile's memory that belongs to a call.  Memory then works while the
   instructions compute: it does not by itself, because they read most of their operands from the
   first-level cache.  The last tile asks for what lies behind the tensor, which changes nothing. */
static void ask_ahead(const map_values *v, size_t n, unsigned call)
{
    enum { LINE = 16 /* floats */ };
    const size_t lines = n / LINE, part = (lines + v->n_calls - 1) / v->n_calls;
    const size_t begin = call * part, end = begin + part < lines ? begin + part : lines;
    for (unsigned k = 0; k < v->n_ahead; k++)
        for (size_t line = begin; line < end; line++)
            __builtin_prefetch(v->ahead[k] + line * LINE);
}

/* Runs an instruction that is a function of kernels/exact.h; false for the others. */
static bool run_exact(uint8_t code, const step_call *s)
{
    if (code >= MAP_PAIR_BEGIN) return false;
    return KERNEL(exact_apply)((dpt_map_code)code, s->y, s->a, s->b, s->n);
}

void KERNEL(map_compute)(const map_tile *tile, const map_cursor *cursor, size_t n, map_values *v)
{
    const dpt_map_plan *p = tile->plan;
    const bool exact = tile->call->op->deterministic;
    unsigned call = 0;
    for (unsigned i = 0; i < p->n_steps; i++) {
        const dpt_map_step *s = &p->steps[i];
        if (s->code == DPT_MAP_CONSTANT) continue; /* map_begin wrote it */
        if (s->code == DPT_MAP_LOAD) {
            const float *memory = KERNEL(map_in_place)(tile, cursor, s->a, n);
            float *const own = v->own + s->to * v->size;
            if (!memory) load(tile, cursor, s->a, own, n);
            v->value[s->to] = memory ? memory : own;
            continue;
        }
        const step_call step = {.y = v->target[s->to],
                                .a = v->value[s->a],
                                .b = v->value[s->b],
                                .c = v->value[s->c],
                                .n = n};
        if (!exact || !run_exact(s->code, &step)) functions[s->code](&step);
        v->value[s->to] = v->target[s->to];
        ask_ahead(v, n, call++);
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
