/* Axes and places of a MAP. */
#include "map_plan.h"

/* ---- Axes ------------------------------------------------------------------------------------ */

static const dpt_map_operand *operand_of(const dpt_map_desc *d, unsigned i)
{
    return i < d->n_in ? &d->in[i] : &d->out[i - d->n_in];
}

/* Appends an axis, of which `strides` has the stride of every operand. */
static void add_axis(dpt_map_plan *plan, size_t extent, const int64_t *strides)
{
    const size_t last = plan->rank - 1;
    bool merges = plan->rank > 0;
    for (unsigned i = 0; merges && i < plan->n_operands; i++)
        merges = plan->stride[i][last] == strides[i] * (int64_t)extent;
    const size_t at = merges ? last : plan->rank++;
    plan->extent[at] = merges ? plan->extent[last] * extent : extent;
    for (unsigned i = 0; i < plan->n_operands; i++)
        plan->stride[i][at] = strides[i];
}

/* The operand whose memory decides the order of the axes: of a MAP the first output, which has
   every index; of a MAP_REDUCE the input along most axes. */
static const dpt_map_operand *leading_operand(const dpt_op_desc *desc)
{
    const dpt_map_desc *d = &desc->u.map;
    const dpt_map_operand *found = &d->out[0];
    size_t most = 0;
    if (desc->kind == DPT_OP_MAP) return found;
    for (unsigned i = 0; i < d->n_in; i++) {
        size_t n_axes = 0;
        for (size_t axis = 0; axis < d->rank; axis++)
            n_axes += d->in[i].stride[axis] != 0;
        if (n_axes <= most) continue;
        most = n_axes;
        found = &d->in[i];
    }
    return found;
}

static int64_t distance_of(const dpt_map_operand *o, size_t axis)
{
    const int64_t stride = o->stride[axis];
    return stride < 0 ? -stride : stride;
}

/* The order of the axes: the farther apart the elements of an axis lie in memory, the earlier it
   comes.  The channels of an image, which are its first axis and the fastest one in memory, thus
   come last, and the axes of a dense tensor become one. */
static void sort_axes(const dpt_op_desc *desc, size_t order[DPT_MAX_RANK])
{
    const dpt_map_operand *o = leading_operand(desc);
    for (size_t i = 0; i < desc->u.map.rank; i++) {
        size_t at = i;
        for (; at > 0 && distance_of(o, order[at - 1]) < distance_of(o, i); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

static void plan_axes(const dpt_op_desc *desc, dpt_map_plan *plan)
{
    const dpt_map_desc *d = &desc->u.map;
    int64_t strides[DPT_MAP_OPERANDS];
    size_t order[DPT_MAX_RANK];
    sort_axes(desc, order);
    for (unsigned i = 0; i < plan->n_operands; i++)
        strides[i] = operand_of(d, i)->sampled ? (int64_t)operand_of(d, i)->size : 0;
    add_axis(plan, 1, strides);
    for (size_t k = 0; k < d->rank; k++) {
        const size_t axis = order[k];
        if (d->extent[axis] == 1) continue;
        for (unsigned i = 0; i < plan->n_operands; i++)
            strides[i] = operand_of(d, i)->stride[axis];
        add_axis(plan, d->extent[axis], strides);
    }
}

/* Exchanges the last two axes if the last one is so short that going from one run along it to the
   next would take longer than the run. */
static void lengthen_runs(dpt_map_plan *plan)
{
    enum { SHORT = 16 };
    if (plan->rank < 3) return; /* axis 0 stays the first */
    const size_t last = plan->rank - 1, extent = plan->extent[last];
    if (extent >= SHORT || plan->extent[last - 1] < 2 * extent) return;
    plan->extent[last] = plan->extent[last - 1];
    plan->extent[last - 1] = extent;
    for (unsigned i = 0; i < plan->n_operands; i++) {
        const int64_t stride = plan->stride[i][last];
        plan->stride[i][last] = plan->stride[i][last - 1];
        plan->stride[i][last - 1] = stride;
    }
}

/* ---- Places ---------------------------------------------------------------------------------- */

enum { NEVER = DPT_MAP_LENGTH, AT_THE_END = DPT_MAP_LENGTH + 1 };

/* Finds the last reader of every value; NEVER for a value that no output needs. */
static void find_last_uses(const dpt_map_desc *d, unsigned last[DPT_MAP_LENGTH])
{
    for (unsigned i = 0; i < d->n_code; i++)
        last[i] = NEVER;
    for (unsigned i = 0; i < d->n_out; i++)
        last[d->value[i]] = AT_THE_END;
    for (unsigned i = d->n_code; i-- > 0;) {
        const uint8_t reads[] = {d->code[i].a, d->code[i].b, d->code[i].c};
        if (last[i] == NEVER) continue;
        for (unsigned k = 0; k < dpt_map_operands(d->code[i].code); k++)
            if (last[reads[k]] == NEVER) last[reads[k]] = i;
    }
}

static uint8_t take_place(uint32_t *taken, dpt_map_plan *plan)
{
    uint8_t place = 0;
    while (*taken >> place & 1u)
        place++;
    *taken |= UINT32_C(1) << place;
    if (place >= plan->n_places) plan->n_places = place + 1u;
    return place;
}

/* A value gets a place that no value holds which is still read, its own operands included: a kernel
   may therefore assume that an instruction's value and its operands do not overlap. */
static void plan_places(const dpt_map_desc *d, dpt_map_plan *plan)
{
    unsigned last[DPT_MAP_LENGTH];
    uint8_t place[DPT_MAP_LENGTH] = {0};
    uint32_t taken = 0;
    find_last_uses(d, last);
    for (unsigned i = 0; i < d->n_code; i++) {
        const dpt_map_instruction *from = &d->code[i];
        if (last[i] == NEVER) continue;
        place[i] = take_place(&taken, plan);
        plan->steps[plan->n_steps++] =
            (dpt_map_step){.code = from->code,
                           .to = place[i],
                           .a = from->code == DPT_MAP_LOAD ? from->index : place[from->a],
                           .b = place[from->b],
                           .c = place[from->c],
                           .constant = from->constant};
        for (unsigned k = 0; k < i; k++)
            if (last[k] == i) taken &= ~(UINT32_C(1) << place[k]);
    }
    for (unsigned i = 0; i < d->n_out; i++)
        plan->result[i] = place[d->value[i]];
}

/* ---- Properties ------------------------------------------------------------------------------ */

static bool is_rounded(uint8_t code)
{
    enum { EXACT, STEPS, ROUNDS };
    static const unsigned char kinds[DPT_MAP_COUNT] = {
#define KIND(name, n, rounds, value) [DPT_MAP_##name] = rounds,
        DPT_MAP_LIST(KIND)
#undef KIND
    };
    return kinds[code] == ROUNDS;
}

static bool is_small_integer(float x)
{
    return x > -4096.0f && x < 4096.0f && (float)(int)x == x;
}

static double cost_of(uint8_t code)
{
    switch (code) {
    case DPT_MAP_POWER: return 20.0;
    case DPT_MAP_EXP:
    case DPT_MAP_LOG:
    case DPT_MAP_SINE:
    case DPT_MAP_COSINE:
    case DPT_MAP_TANH:
    case DPT_MAP_ERF:
    case DPT_MAP_SIGMOID:
    case DPT_MAP_SOFTPLUS: return 5.0;
    default: return 0.1;
    }
}

static void plan_properties(dpt_map_plan *plan)
{
    plan->is_exact = true;
    plan->cost = 0.2;
    for (unsigned i = 0; i < plan->n_steps; i++) {
        const dpt_map_step *s = &plan->steps[i];
        plan->cost += cost_of(s->code);
        if (is_rounded(s->code)) plan->is_exact = false;
        if (s->code == DPT_MAP_CONSTANT && !is_small_integer(s->constant)) plan->is_exact = false;
    }
}

void dpt_map_plan_make(const dpt_op_desc *desc, dpt_map_plan *out)
{
    const dpt_map_desc *d = &desc->u.map;
    *out = (dpt_map_plan){.n_in = d->n_in, .n_operands = (unsigned)d->n_in + d->n_out};
    for (unsigned i = 0; i < out->n_operands; i++) {
        out->offset[i] = operand_of(d, i)->offset;
        out->type[i] = operand_of(d, i)->type;
    }
    plan_axes(desc, out);
    lengthen_runs(out);
    plan_places(d, out);
    plan_properties(out);
}
