/* Finds pairs of instructions. */
#include "map_pairs.h"

/* The place of a code in MAP_PAIR_LIST; MAP_PAIR_KINDS if it has none. */
static unsigned kind_of(uint8_t code)
{
#define CODE(name) DPT_MAP_##name,
    static const uint8_t codes[MAP_PAIR_KINDS] = {MAP_PAIR_LIST(CODE)};
#undef CODE
    unsigned kind = 0;
    while (kind < MAP_PAIR_KINDS && codes[kind] != code)
        kind++;
    return kind;
}

static unsigned operands_of(const dpt_map_step *s)
{
    return s->code >= MAP_PAIR_BEGIN ? 3 : dpt_map_operands(s->code);
}

static bool reads(const dpt_map_step *s, uint8_t place)
{
    const uint8_t operands[] = {s->a, s->b, s->c};
    for (unsigned k = 0; k < operands_of(s); k++)
        if (operands[k] == place) return true;
    return false;
}

static bool computes(const dpt_map_step *s)
{
    return s->code != DPT_MAP_LOAD && s->code != DPT_MAP_CONSTANT;
}

/* Two steps, between which there are only loads and constants. */
typedef struct couple {
    unsigned first, second;
} couple;

/* Whether a step behind the second one reads the first one's value, or the value is an output. */
static bool is_read_later(const dpt_map_plan *plan, couple of)
{
    const uint8_t place = plan->steps[of.first].to;
    for (unsigned k = of.second + 1; k < plan->n_steps; k++) {
        if (reads(&plan->steps[k], place)) return true;
        if (plan->steps[k].to == place) return false;
    }
    for (unsigned k = 0; k < plan->n_operands - plan->n_in; k++)
        if (plan->result[k] == place) return true;
    return false;
}

/* Whether the operands of the first step are still there at the second one. */
static bool keeps_operands(const dpt_map_plan *plan, couple of)
{
    for (unsigned k = of.first + 1; k < of.second; k++)
        if (reads(&plan->steps[of.first], plan->steps[k].to)) return false;
    return true;
}

static bool make_pair(const dpt_map_plan *plan, couple of, dpt_map_step *pair)
{
    const dpt_map_step *first = &plan->steps[of.first], *second = &plan->steps[of.second];
    const unsigned a = kind_of(first->code), b = kind_of(second->code);
    if (a == MAP_PAIR_KINDS || b == MAP_PAIR_KINDS) return false;
    const bool left = second->a == first->to, right = second->b == first->to;
    if (left == right || is_read_later(plan, of) || !keeps_operands(plan, of)) return false;
    *pair = *first;
    pair->c = left ? second->b : second->a;
    pair->code =
        (uint8_t)(MAP_PAIR_BEGIN + ((right ? MAP_PAIR_KINDS : 0) + a) * MAP_PAIR_KINDS + b);
    return true;
}

static void exchange(uint8_t *place, uint8_t p, uint8_t q)
{
    if (*place == p || *place == q) *place = *place == p ? q : p;
}

/* From here on what was in place p is in place q, and the other way round. */
static void exchange_places(dpt_map_plan *plan, unsigned from, uint8_t p, uint8_t q)
{
    for (unsigned i = from; i < plan->n_steps; i++) {
        dpt_map_step *s = &plan->steps[i];
        if (s->code != DPT_MAP_LOAD) exchange(&s->a, p, q);
        exchange(&s->b, p, q);
        exchange(&s->c, p, q);
        exchange(&s->to, p, q);
    }
    for (unsigned i = 0; i < plan->n_operands - plan->n_in; i++)
        exchange(&plan->result[i], p, q);
}

/* The pair takes the place of the second step.  Its value takes the place of the first one's, which
   overlaps none of the three operands; the place of the second one's may be that of an operand of
   the first. */
static void replace(dpt_map_plan *plan, couple of, dpt_map_step pair)
{
    const uint8_t second = plan->steps[of.second].to;
    plan->steps[of.second] = pair;
    exchange_places(plan, of.second + 1, pair.to, second);
    plan->n_steps--;
    for (unsigned k = of.first; k < plan->n_steps; k++)
        plan->steps[k] = plan->steps[k + 1];
}

void KERNEL(map_pair_steps)(dpt_map_plan *plan)
{
    unsigned before = DPT_MAP_LENGTH; /* the last step that computes; DPT_MAP_LENGTH: none */
    for (unsigned i = 0; i < plan->n_steps; i++) {
        dpt_map_step pair;
        const couple of = {before, i};
        if (!computes(&plan->steps[i])) continue;
        const bool pairs = before < DPT_MAP_LENGTH && make_pair(plan, of, &pair);
        if (pairs) replace(plan, of, pair);
        i -= pairs;
        before = i;
    }
}
