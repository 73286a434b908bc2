/* Random choices, as stochastic depth makes them: uniform random numbers that are compared with a
   probability, or the floor of a probability + such numbers.  They are dropout of ones. */
#include "import/state.h"

#include <stdio.h>
#include <string.h>

/* A 1 for each element of `extents` that belongs to the sample: computed from the network's input,
   so that every sample has its own. */
static dpt_status add_ones(dpti_importer *im, const dpti_extents *extents, dpt_value *out)
{
    const float one = 1;
    dpti_extents single = {.rank = extents->rank};
    const dpti_onnx_model *m = im->graph->model;
    size_t input = 0;
    while (input + 1 < m->n_inputs && !im->values[m->inputs[input].value].value.id)
        input++; /* a network's first inputs may be left out */
    dpt_value x = im->values[m->inputs[input].value].value;
    DPT_TRY(dpti_import_check(im));
    const size_t rank = dpti_extents_of(im->model, x).rank;
    for (size_t axis = 0; axis < rank; axis++)
        x = dpti_slice(im->model, x, (dpti_cut){.axis = axis, .count = 1, .step = 1});
    for (size_t axis = 0; axis < single.rank; axis++)
        single.extent[axis] = 1;
    x = dpti_reshape(im->model, x, &single);
    const dpt_value ones = dpti_expand(
        im->model, dpti_add_constant(im->model, &(dpti_extents){.rank = 0}, &one), extents);
    *out = dpti_formula(im->model, "select(equal(a, a), b, b)", (dpt_value[]){x, ones}, 2);
    return dpti_import_check(im);
}

/* Gives output 0 ones with this probability, else zeros; outside training the probability. */
static dpt_status choose(dpti_importer *im, double probability)
{
    const dpti_extents extents = dpti_import_extents(dpti_import_result(im, 0));
    char scale[32];
    dpt_value y;
    if (!(probability > 0 && probability <= 1))
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "a probability of %g cannot be trained; it must be in (0, 1]",
                                  probability);
    DPT_TRY(add_ones(im, &extents, &y));
    y = dpt_dropout(im->model, y, (float)(1 - probability));
    snprintf(scale, sizeof scale, "a * %.9g", probability);
    dpti_import_give(im, 0, dpti_formula(im->model, scale, &y, 1));
    return dpti_import_check(im);
}

/* The node that draws input i; NULL if none does. */
static const dpti_onnx_node *drawn(const dpti_importer *im, size_t i)
{
    const dpti_onnx_model *m = im->graph->model;
    const size_t producer = m->values[im->node->inputs[i]].producer;
    if (producer == DPTI_ONNX_NONE) return NULL;
    const dpti_onnx_node *node = &m->nodes[producer];
    return strcmp(node->op, "RandomUniformLike") == 0 ? node : NULL;
}

dpt_status dpti_import_choice(dpti_importer *im, bool *done)
{
    const size_t random = im->node->n_inputs > 1 && drawn(im, 1) ? 1 : 0;
    const dpti_onnx_node *source = drawn(im, random);
    double limit;
    *done = source && im->node->n_inputs == 2;
    if (!*done) return DPT_OK;
    if (im->values[im->node->inputs[random]].n_uses > 1)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "its random numbers are used twice, which cannot be trained yet");
    DPT_TRY(dpti_import_number(im, 1 - random, 0, &limit));
    const double low = (double)dpti_onnx_float(source, "low", 0),
                 high = (double)dpti_onnx_float(source, "high", 1),
                 below = high > low ? (limit - low) / (high - low) : -1;
    const bool less = im->node->op[0] == 'L'; /* Less or LessOrEqual, else Greater ... */
    return choose(im, less == (random == 0) ? below : 1 - below);
}

/* Whether each node that takes output 0 is one of these operators: the ends of their names may be
   left out. */
static bool only_for(const dpti_importer *im, const char *const operators[], size_t n)
{
    const dpti_onnx_graph *g = im->graph;
    for (size_t k = 0; k < g->n_nodes; k++)
        for (size_t i = 0; i < g->nodes[k]->n_inputs; i++) {
            bool known = g->nodes[k]->inputs[i] != im->node->outputs[0];
            for (size_t o = 0; o < n && !known; o++)
                known = strncmp(g->nodes[k]->op, operators[o], strlen(operators[o])) == 0;
            if (!known) return false;
        }
    return true;
}

dpt_status dpti_import_raised(dpti_importer *im, bool *done)
{
    static const char *const floor_only[] = {"Floor"};
    const size_t random = drawn(im, 0) ? 0 : 1;
    const dpti_onnx_node *source = drawn(im, random);
    double chance;
    *done = source != NULL;
    if (!*done) return DPT_OK;
    DPT_TRY(dpti_import_number(im, 1 - random, 0, &chance));
    if (!only_for(im, floor_only, 1) || im->values[im->node->outputs[0]].n_uses > 1 ||
        im->values[im->node->inputs[random]].n_uses > 1)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "a sum with random numbers can be trained only if one Floor "
                                  "takes it and nothing else takes these numbers");
    if (dpti_onnx_float(source, "low", 0) != 0 || dpti_onnx_float(source, "high", 1) != 1 ||
        !(chance > 0 && chance <= 1))
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "a sum with random numbers can be trained only if the numbers "
                                  "are in [0, 1) and the other addend is in (0, 1]");
    im->values[im->node->outputs[0]].chance = chance;
    return DPT_OK;
}

dpt_status dpti_import_floor(dpti_importer *im, bool *done)
{
    const double chance = im->values[im->node->inputs[0]].chance;
    *done = chance > 0;
    return *done ? choose(im, chance) : DPT_OK;
}

/* The node that takes the numbers makes the choice. */
static dpt_status import_uniform(dpti_importer *im)
{
    static const char *const choices[] = {"Less", "Greater", "Add"};
    if (only_for(im, choices, sizeof choices / sizeof *choices)) return DPT_OK;
    return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                              "random numbers can be trained only where Less or Greater compares "
                              "them with a constant, or where Floor takes their sum with one");
}

static dpt_status import_bernoulli(dpti_importer *im)
{
    const dpti_onnx_fact *fact = dpti_import_fact(im, 0);
    for (size_t i = 0; fact->cells && i < fact->n_cells; i++)
        if (fact->cells[i].real != fact->cells[0].real) fact = dpti_import_result(im, 0);
    if (!fact->cells || fact->n_cells < 1)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "its probability must be one constant for all elements");
    return choose(im, fact->cells[0].real);
}

const dpti_import_operator dpti_import_randoms[] = {
    {"Bernoulli", import_bernoulli},
    {"RandomUniformLike", import_uniform},
    {NULL, NULL},
};
