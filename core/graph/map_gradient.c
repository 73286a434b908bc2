/* The derivative of a program over elements, by reverse-mode differentiation. */
#include "graph/map_program.h"

/* A program whose first instructions are those of the value, and which goes on with the derivative.
   gradient[i] is the instruction with the gradient of the value i. */
typedef struct reverse {
    dpti_map_program p;
    uint8_t number[DPT_MAP_LENGTH]; /* of each instruction of the value */
    uint8_t gradient[DPT_MAP_LENGTH];
    bool has_gradient[DPT_MAP_LENGTH];
} reverse;

static void contribute(reverse *r, uint8_t to, uint8_t gradient)
{
    r->gradient[to] = r->has_gradient[to]
                          ? dpti_map_add(&r->p, DPT_MAP_ADD, r->gradient[to], gradient)
                          : gradient;
    r->has_gradient[to] = true;
}

static uint8_t times(reverse *r, uint8_t a, uint8_t b)
{
    return dpti_map_add(&r->p, DPT_MAP_MULTIPLY, a, b);
}

static uint8_t number(reverse *r, float value)
{
    return dpti_map_constant(&r->p, value);
}

static uint8_t negative(reverse *r, uint8_t a)
{
    return dpti_map_unary(&r->p, DPT_MAP_NEGATE, a);
}

/* 1 where a < b, 1/2 where they are equal, 0 where a > b: what each side of a maximum gets. */
static uint8_t share_of_larger(reverse *r, uint8_t a, uint8_t b)
{
    const uint8_t less = dpti_map_add(&r->p, DPT_MAP_LESS, a, b);
    const uint8_t equal = dpti_map_add(&r->p, DPT_MAP_LESS_EQUAL, a, b);
    return times(r, number(r, 0.5f), dpti_map_add(&r->p, DPT_MAP_ADD, less, equal));
}

static bool is_constant(const reverse *r, uint8_t i)
{
    return r->p.code[i].code == DPT_MAP_CONSTANT;
}

/* The gradient of the larger or the smaller of a and b, y, where g is that of y.  A number is no
   value that gets a gradient: where the other side equals it, max has the slope 0 and min the slope
   1, so that max(x, 0) + s * min(x, 0) has the slope s at 0, as PyTorch's leaky ReLU and ELU have
   it.  Two values that are equal share the gradient. */
static void differentiate_extreme(reverse *r, const dpt_map_instruction *at, uint8_t g)
{
    const uint8_t a = r->number[at->a], b = r->number[at->b], zero = number(r, 0.0f);
    const bool is_maximum = at->code == DPT_MAP_MAXIMUM;
    if (is_constant(r, a) || is_constant(r, b)) {
        const uint8_t x = is_constant(r, a) ? b : a, limit = is_constant(r, a) ? a : b;
        const uint8_t passes = is_maximum ? dpti_map_add(&r->p, DPT_MAP_LESS, limit, x)
                                          : dpti_map_add(&r->p, DPT_MAP_LESS_EQUAL, x, limit);
        contribute(r, x == b ? at->b : at->a, dpti_map_select(&r->p, passes, g, zero));
        return;
    }
    contribute(r, at->a,
               times(r, g, is_maximum ? share_of_larger(r, b, a) : share_of_larger(r, a, b)));
    contribute(r, at->b,
               times(r, g, is_maximum ? share_of_larger(r, a, b) : share_of_larger(r, b, a)));
}

/* f'(a) of an instruction with one operand, where y = f(a). */
static uint8_t slope(reverse *r, dpt_map_code code, uint8_t a, uint8_t y)
{
    dpti_map_program *p = &r->p;
    switch (code) {
    case DPT_MAP_NEGATE: return number(r, -1.0f);
    case DPT_MAP_ABSOLUTE: return dpti_map_unary(p, DPT_MAP_SIGN, a);
    case DPT_MAP_RECIPROCAL: return negative(r, times(r, y, y));
    case DPT_MAP_SQRT: return dpti_map_add(p, DPT_MAP_DIVIDE, number(r, 0.5f), y);
    case DPT_MAP_EXP: return y;
    case DPT_MAP_LOG: return dpti_map_unary(p, DPT_MAP_RECIPROCAL, a);
    case DPT_MAP_SINE: return dpti_map_unary(p, DPT_MAP_COSINE, a);
    case DPT_MAP_COSINE: return negative(r, dpti_map_unary(p, DPT_MAP_SINE, a));
    case DPT_MAP_TANH: return dpti_map_add(p, DPT_MAP_SUBTRACT, number(r, 1.0f), times(r, y, y));
    case DPT_MAP_ERF: /* 2 / sqrt(pi) * exp(-a * a) */
        return times(r, number(r, 1.12837917f),
                     dpti_map_unary(p, DPT_MAP_EXP, negative(r, times(r, a, a))));
    case DPT_MAP_SIGMOID: return times(r, y, dpti_map_add(p, DPT_MAP_SUBTRACT, number(r, 1.0f), y));
    case DPT_MAP_SOFTPLUS: return dpti_map_unary(p, DPT_MAP_SIGMOID, a);
    default: return number(r, 0.0f); /* steps */
    }
}

/* a^b: b * a^(b-1) * g to a, and y * log(a) * g to b. */
static void differentiate_power(reverse *r, const dpt_map_instruction *at, uint8_t y, uint8_t g)
{
    dpti_map_program *p = &r->p;
    const uint8_t a = r->number[at->a], b = r->number[at->b];
    const uint8_t lower = dpti_map_add(p, DPT_MAP_SUBTRACT, b, number(r, 1.0f));
    const uint8_t power = dpti_map_add(p, DPT_MAP_POWER, a, lower);
    contribute(r, at->a, times(r, g, times(r, b, power)));
    contribute(r, at->b, times(r, g, times(r, y, dpti_map_unary(p, DPT_MAP_LOG, a))));
}

static void differentiate_binary(reverse *r, const dpt_map_instruction *at, uint8_t y, uint8_t g)
{
    dpti_map_program *p = &r->p;
    const uint8_t a = r->number[at->a], b = r->number[at->b];
    switch ((dpt_map_code)at->code) {
    case DPT_MAP_ADD:
        contribute(r, at->a, g);
        contribute(r, at->b, g);
        break;
    case DPT_MAP_SUBTRACT:
        contribute(r, at->a, g);
        contribute(r, at->b, negative(r, g));
        break;
    case DPT_MAP_MULTIPLY:
        contribute(r, at->a, times(r, g, b));
        contribute(r, at->b, times(r, g, a));
        break;
    case DPT_MAP_DIVIDE: {
        const uint8_t of_a = dpti_map_add(p, DPT_MAP_DIVIDE, g, b);
        contribute(r, at->a, of_a);
        contribute(r, at->b, negative(r, times(r, of_a, y)));
        break;
    }
    case DPT_MAP_POWER: differentiate_power(r, at, y, g); break;
    case DPT_MAP_MINIMUM:
    case DPT_MAP_MAXIMUM: differentiate_extreme(r, at, g); break;
    default: break; /* comparisons */
    }
}

static void differentiate_instruction(reverse *r, const dpt_map_instruction *at, uint8_t y,
                                      uint8_t g)
{
    const uint8_t zero = number(r, 0.0f);
    switch ((dpt_map_code)at->code) {
    case DPT_MAP_LOAD:
    case DPT_MAP_CONSTANT: break;
    case DPT_MAP_ADD:
    case DPT_MAP_SUBTRACT:
    case DPT_MAP_MULTIPLY:
    case DPT_MAP_DIVIDE:
    case DPT_MAP_POWER:
    case DPT_MAP_MINIMUM:
    case DPT_MAP_MAXIMUM:
    case DPT_MAP_LESS:
    case DPT_MAP_LESS_EQUAL:
    case DPT_MAP_EQUAL:
    case DPT_MAP_AND:
    case DPT_MAP_OR: differentiate_binary(r, at, y, g); break;
    case DPT_MAP_SELECT:
        contribute(r, at->b, dpti_map_select(&r->p, r->number[at->a], g, zero));
        contribute(r, at->c, dpti_map_select(&r->p, r->number[at->a], zero, g));
        break;
    default:
        contribute(r, at->a, times(r, g, slope(r, (dpt_map_code)at->code, r->number[at->a], y)));
        break;
    }
}

/* Adds the instructions of the value to the program. */
static void repeat_value(reverse *r, const dpti_map_code *of)
{
    for (uint8_t i = 0; i < of->n_code; i++) {
        const dpt_map_instruction *at = &of->code[i];
        const uint8_t a = r->number[at->a], b = r->number[at->b], c = r->number[at->c];
        uint8_t *to = &r->number[i];
        if (at->code == DPT_MAP_LOAD)
            *to = dpti_map_load(&r->p, of->in[at->index]);
        else if (at->code == DPT_MAP_CONSTANT)
            *to = dpti_map_constant(&r->p, at->constant);
        else if (at->code == DPT_MAP_SELECT)
            *to = dpti_map_select(&r->p, a, b, c);
        else if (dpt_map_operands(at->code) == 2)
            *to = dpti_map_add(&r->p, (dpt_map_code)at->code, a, b);
        else
            *to = dpti_map_unary(&r->p, (dpt_map_code)at->code, a);
    }
}

bool dpti_map_differentiate(const dpti_map_code *of, uint8_t input, uint8_t n_inputs,
                            dpti_map_code *out)
{
    reverse r = {.p = {.n = 0}};
    repeat_value(&r, of);
    r.gradient[of->value] = dpti_map_load(&r.p, n_inputs);
    r.has_gradient[of->value] = true;
    for (uint8_t i = of->n_code; i-- > 0;)
        if (r.has_gradient[i])
            differentiate_instruction(&r, &of->code[i], r.number[i], r.gradient[i]);
    uint8_t sum = dpti_map_constant(&r.p, 0.0f);
    for (uint8_t i = 0; i < of->n_code; i++) {
        const dpt_map_instruction *at = &of->code[i];
        if (at->code == DPT_MAP_LOAD && of->in[at->index] == input && r.has_gradient[i])
            sum = dpti_map_add(&r.p, DPT_MAP_ADD, sum, r.gradient[i]);
    }
    return dpti_map_take(&r.p, sum, out);
}
