/* The tree of grains (grains.h). */
#include "base/grains.h"

#include <assert.h>

dpti_grains dpti_grains_of(size_t n_samples)
{
    const size_t size = n_samples / DPTI_GRAINS + (n_samples % DPTI_GRAINS != 0);
    return (dpti_grains){.n_samples = n_samples,
                         .size = size,
                         .n = size > 0 ? n_samples / size + (n_samples % size != 0) : 0};
}

size_t dpti_grain_begin(const dpti_grains *grains, size_t grain)
{
    return grain < grains->n ? grain * grains->size : grains->n_samples;
}

void dpti_grains_round(const dpti_grains *grains, size_t n_shards, size_t *shards)
{
    size_t end = 0, before = 0;
    for (size_t i = 0; i < n_shards; i++) {
        end += shards[i];
        const size_t grain = grains->size > 0 ? (end + grains->size / 2) / grains->size : 0;
        const size_t border =
            end < grains->n_samples ? dpti_grain_begin(grains, grain) : grains->n_samples;
        shards[i] = border - before;
        before = border;
    }
}

bool dpti_grains_are_halves(const dpti_grain_node *left, const dpti_grain_node *right,
                            size_t n_grains)
{
    const size_t n = left->end - left->begin, end = left->begin + 2 * n;
    return (n & (n - 1)) == 0 && left->begin % (2 * n) == 0 && right->begin == left->end &&
           right->end == (end < n_grains ? end : n_grains);
}

/* ---- The work -------------------------------------------------------------------------------- */

typedef struct planner {
    dpti_grain_list *list;
    dpti_grain_node range;
    size_t n_grains;
    bool whole_nodes;      /* one step computes the sum of a node */
    size_t *most;          /* becomes the most nodes of the list at once */
    dpti_grain_work *work; /* may be NULL */
} planner;

static dpti_grain_place node_place(size_t index)
{
    return (dpti_grain_place){.index = index};
}

static dpti_grain_place scratch_place(size_t index)
{
    return (dpti_grain_place){.is_scratch = true, .index = index};
}

/* The place of the right half of a sum at `place`. */
static dpti_grain_place behind(dpti_grain_place place)
{
    return scratch_place(place.is_scratch ? place.index + 1 : 0);
}

static void add_step(const planner *p, dpti_grain_step step)
{
    if (!p->work) return;
    assert(p->work->n_steps < DPTI_GRAIN_STEPS);
    p->work->steps[p->work->n_steps++] = step;
}

static void add_node(const planner *p, dpti_grain_node node, dpti_grain_place to, bool adds)
{
    add_step(p, (dpti_grain_step){.grains = node, .to = to, .adds = adds});
}

static void add_sum(const planner *p, dpti_grain_place to, dpti_grain_place from)
{
    add_step(p, (dpti_grain_step){.is_sum = true, .to = to, .from = from});
}

/* The part of `size` grains from `begin` on that exists. */
static dpti_grain_node existing(const planner *p, size_t begin, size_t size)
{
    const size_t end = begin + size;
    return (dpti_grain_node){begin, end < p->n_grains ? end : p->n_grains};
}

/* Computes the sum of a node of `size` places, which begins at an existing grain. */
static void build(const planner *p, size_t begin, size_t size, dpti_grain_place to)
{
    while (size > 1 && begin + size / 2 >= p->n_grains)
        size /= 2; /* there is no right half */
    if (size == 1 || p->whole_nodes) {
        add_node(p, existing(p, begin, size), to, false);
        return;
    }
    const dpti_grain_node right = existing(p, begin + size / 2, size / 2);
    build(p, begin, size / 2, to);
    if (right.end - right.begin == 1) {
        add_node(p, right, to, true);
        return;
    }
    build(p, right.begin, size / 2, behind(to));
    add_sum(p, to, behind(to));
}

/* Joins the last two nodes of the list as long as they are halves of one. */
static void join(const planner *p)
{
    dpti_grain_list *l = p->list;
    while (l->n > 1 &&
           dpti_grains_are_halves(&l->nodes[l->n - 2], &l->nodes[l->n - 1], p->n_grains)) {
        add_sum(p, node_place(l->n - 2), node_place(l->n - 1));
        l->nodes[l->n - 2].end = l->nodes[l->n - 1].end;
        l->nodes[--l->n] = (dpti_grain_node){0, 0};
    }
}

/* Appends a node that lies within the range. */
static void append(const planner *p, dpti_grain_node node, size_t size)
{
    dpti_grain_list *l = p->list;
    if (l->n > 0 && dpti_grains_are_halves(&l->nodes[l->n - 1], &node, p->n_grains)) {
        const dpti_grain_place to = node_place(l->n - 1);
        if (p->whole_nodes || node.end - node.begin == 1) {
            add_node(p, node, to, true);
        } else {
            build(p, node.begin, size, scratch_place(0));
            add_sum(p, to, scratch_place(0));
        }
        l->nodes[l->n - 1].end = node.end;
    } else {
        assert(l->n < DPTI_GRAIN_HELD);
        build(p, node.begin, size, node_place(l->n));
        l->nodes[l->n++] = node;
        if (l->n > *p->most) *p->most = l->n;
    }
    join(p);
}

/* Goes down the tree to the largest nodes that lie within the range. */
static void descend(const planner *p, size_t begin, size_t size)
{
    const dpti_grain_node node = existing(p, begin, size);
    if (node.begin >= node.end || node.end <= p->range.begin || node.begin >= p->range.end) return;
    if (node.begin >= p->range.begin && node.end <= p->range.end) {
        append(p, node, size);
        return;
    }
    descend(p, begin, size / 2);
    descend(p, begin + size / 2, size / 2);
}

size_t dpti_grains_plan(dpti_grain_list *list, dpti_grain_node range, size_t n_grains,
                        dpti_grain_work *out)
{
    size_t most = list->n;
    const planner p = {
        .list = list, .range = range, .n_grains = n_grains, .most = &most, .work = out};
    if (out) out->n_steps = 0;
    descend(&p, 0, DPTI_GRAINS);
    return most;
}

void dpti_grains_plan_nodes(dpti_grain_list *list, dpti_grain_node range, size_t n_grains,
                            dpti_grain_work *out)
{
    size_t most = list->n;
    const planner p = {.list = list,
                       .range = range,
                       .n_grains = n_grains,
                       .whole_nodes = true,
                       .most = &most,
                       .work = out};
    out->n_steps = 0;
    descend(&p, 0, DPTI_GRAINS);
}
