/* Building a program over elements. */
#include "graph/map_program.h"

#include <string.h>

/* Compares constants by their bits, so that -0 and NaN are values like others. */
static bool is_equal(const dpt_map_instruction *x, const dpt_map_instruction *y)
{
    return x->code == y->code && x->a == y->a && x->b == y->b && x->c == y->c &&
           x->index == y->index && memcmp(&x->constant, &y->constant, sizeof x->constant) == 0;
}

static uint8_t append(dpti_map_program *p, dpt_map_instruction instruction)
{
    for (size_t i = 0; i < p->n; i++)
        if (is_equal(&p->code[i], &instruction)) return (uint8_t)i;
    if (p->n == DPTI_MAP_CAPACITY) p->is_full = true;
    if (p->is_full) return 0;
    p->code[p->n] = instruction;
    return (uint8_t)p->n++;
}

static bool is_constant(const dpti_map_program *p, uint8_t i, float value)
{
    return p->code[i].code == DPT_MAP_CONSTANT && p->code[i].constant == value;
}

uint8_t dpti_map_load(dpti_map_program *p, uint8_t input)
{
    return append(p, (dpt_map_instruction){.code = DPT_MAP_LOAD, .index = input});
}

uint8_t dpti_map_constant(dpti_map_program *p, float value)
{
    return append(p, (dpt_map_instruction){.code = DPT_MAP_CONSTANT, .constant = value});
}

uint8_t dpti_map_unary(dpti_map_program *p, dpt_map_code code, uint8_t a)
{
    if (code == DPT_MAP_NEGATE && p->code[a].code == DPT_MAP_CONSTANT)
        return dpti_map_constant(p, -p->code[a].constant);
    return append(p, (dpt_map_instruction){.code = (uint8_t)code, .a = a});
}

uint8_t dpti_map_add(dpti_map_program *p, dpt_map_code code, uint8_t a, uint8_t b)
{
    if (code == DPT_MAP_MULTIPLY) {
        if (is_constant(p, a, 1.0f) || is_constant(p, b, 0.0f)) return b;
        if (is_constant(p, b, 1.0f) || is_constant(p, a, 0.0f)) return a;
    }
    if (code == DPT_MAP_ADD && is_constant(p, a, 0.0f)) return b;
    if ((code == DPT_MAP_ADD || code == DPT_MAP_SUBTRACT) && is_constant(p, b, 0.0f)) return a;
    return append(p, (dpt_map_instruction){.code = (uint8_t)code, .a = a, .b = b});
}

uint8_t dpti_map_select(dpti_map_program *p, uint8_t condition, uint8_t yes, uint8_t no)
{
    if (yes == no) return yes;
    return append(p,
                  (dpt_map_instruction){.code = DPT_MAP_SELECT, .a = condition, .b = yes, .c = no});
}

/* The place of an input among those that are read. */
static uint8_t place_of(dpti_map_code *out, uint8_t input)
{
    uint8_t i = 0;
    while (i < out->n_in && out->in[i] != input)
        i++;
    if (i == out->n_in && i < DPT_MAX_INPUTS) out->in[out->n_in++] = input;
    return i;
}

bool dpti_map_take(const dpti_map_program *p, uint8_t value, dpti_map_code *out)
{
    bool is_needed[DPTI_MAP_CAPACITY] = {false};
    uint8_t number[DPTI_MAP_CAPACITY] = {0};
    *out = (dpti_map_code){.n_code = 0};
    if (p->is_full || p->n == 0) return false;
    is_needed[value] = true;
    for (size_t i = (size_t)value + 1; i-- > 0;) {
        const dpt_map_instruction *at = &p->code[i];
        const uint8_t reads[] = {at->a, at->b, at->c};
        for (unsigned k = 0; is_needed[i] && k < dpt_map_operands(at->code); k++)
            is_needed[reads[k]] = true;
    }
    for (size_t i = 0; i <= value; i++) {
        dpt_map_instruction at = p->code[i];
        if (!is_needed[i]) continue;
        if (out->n_code == DPT_MAP_LENGTH) return false;
        at.a = number[at.a];
        at.b = number[at.b];
        at.c = number[at.c];
        if (at.code == DPT_MAP_LOAD) at.index = place_of(out, at.index);
        number[i] = out->n_code;
        out->code[out->n_code++] = at;
    }
    out->value = number[value];
    return true;
}
