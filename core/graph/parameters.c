/* Layouts and initial values of parameters. */
#include "base/parse.h"
#include "base/random.h"
#include "graph/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Layouts --------------------------------------------------------------------------------- */

/* Both layouts that differ are (rows, h*w, c) in the flat buffer and (rows, c, h*w) in a
   checkpoint: the filters of a convolution, and the columns of a linear layer after a flatten. */
static void transpose_rows(const dpti_parameter *p, const float *from, float *to, bool export)
{
    const size_t area = p->h * p->w, row = area * p->c, n_rows = p->size / row;
    for (size_t r = 0; r < n_rows; r++)
        for (size_t a = 0; a < area; a++)
            for (size_t c = 0; c < p->c; c++) {
                const size_t inside = r * row + a * p->c + c, outside = r * row + c * area + a;
                if (export)
                    to[outside] = from[inside];
                else
                    to[inside] = from[outside];
            }
}

void dpti_parameter_export(const dpti_parameter *parameter, const float *inside, float *outside)
{
    if (parameter->layout == DPTI_LAYOUT_PLAIN)
        memcpy(outside, inside, parameter->size * sizeof *outside);
    else
        transpose_rows(parameter, inside, outside, true);
}

void dpti_parameter_import(const dpti_parameter *parameter, const float *outside, float *inside)
{
    if (parameter->layout == DPTI_LAYOUT_PLAIN)
        memcpy(inside, outside, parameter->size * sizeof *inside);
    else
        transpose_rows(parameter, outside, inside, false);
}

/* ---- Initial values -------------------------------------------------------------------------- */

typedef enum distribution { ZERO, ONE, UNIFORM, NORMAL } distribution;

/* A distribution and its scale: the half width of UNIFORM, the deviation of NORMAL. */
typedef struct law {
    distribution kind;
    double scale;
} law;

static void draw(law from, dpti_random *random, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (from.kind == UNIFORM)
            out[i] = (float)(from.scale * (2.0 * (double)dpti_random_uniform(random) - 1.0));
        else if (from.kind == NORMAL)
            out[i] = (float)(from.scale * (double)dpti_random_normal(random));
        else
            out[i] = from.kind == ONE ? 1.0f : 0.0f;
    }
}

typedef struct recipe {
    dpt_init_kind kind;
    distribution weights, biases;
} recipe;

/* Limits of the deviation of DPT_INIT_NORMAL. */
static const double least_deviation = 1e-10, most_deviation = 1e3;

static const recipe recipes[] = {
    [DPT_INIT_DEFAULT] = {DPT_INIT_DEFAULT, UNIFORM, UNIFORM},
    [DPT_INIT_NORMAL] = {DPT_INIT_NORMAL, NORMAL, ZERO},
    [DPT_INIT_XAVIER] = {DPT_INIT_XAVIER, UNIFORM, ZERO},
    [DPT_INIT_HE] = {DPT_INIT_HE, NORMAL, ZERO},
};

/* The default of tables is PyTorch's: normal, with deviation 1. */
static bool is_normal_table(const recipe *r, const dpti_parameter *p)
{
    return p->is_table && r->kind == DPT_INIT_DEFAULT;
}

static double scale_of(const recipe *r, double deviation, const dpti_parameter *p)
{
    const double fan_in = (double)p->fan_in;
    if (is_normal_table(r, p)) return 1.0;
    if (r->kind == DPT_INIT_DEFAULT) return 1.0 / sqrt(fan_in);
    if (r->kind == DPT_INIT_NORMAL) return deviation;
    if (r->kind == DPT_INIT_XAVIER) return sqrt(6.0 / (fan_in + (double)p->fan_out));
    return sqrt(2.0 / fan_in);
}

static distribution distribution_of(const recipe *r, const dpti_parameter *p)
{
    if (is_normal_table(r, p)) return NORMAL;
    switch (p->role) {
    case DPTI_ROLE_TENSOR:
    case DPTI_ROLE_WEIGHT: return r->weights;
    case DPTI_ROLE_BIAS: return r->biases;
    case DPTI_ROLE_NORM_WEIGHT:
    case DPTI_ROLE_RUNNING_VARIANCE: return ONE;
    case DPTI_ROLE_NORM_BIAS:
    case DPTI_ROLE_RUNNING_MEAN: break;
    }
    return ZERO;
}

static dpt_status find_recipe(dpt_init init, const recipe **out, dpt_error *error)
{
    const bool normal = init.kind == DPT_INIT_NORMAL;
    if ((size_t)init.kind >= sizeof recipes / sizeof *recipes)
        return DPT_FAIL(error, DPT_E_INVALID, "unknown kind of initial weights %d", (int)init.kind);
    if (normal && !(init.deviation >= least_deviation && init.deviation <= most_deviation))
        return DPT_FAIL(error, DPT_E_INVALID,
                        "initial weights with a deviation of %g: it is from %g to %g, such as 0.01",
                        init.deviation, least_deviation, most_deviation);
    if (!normal && init.deviation != 0)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "initial weights have a deviation with DPT_INIT_NORMAL alone");
    *out = &recipes[init.kind];
    return DPT_OK;
}

dpt_status dpti_initialize(const dpt_model *model, const dpti_initial *initial, float *flat,
                           dpt_error *error)
{
    const recipe *r = NULL;
    const double deviation = initial->init.deviation;
    DPT_TRY(find_recipe(initial->init, &r, error));
    size_t largest = 0;
    for (size_t i = 0; i < model->n_parameters; i++)
        if (model->parameters[i].size > largest) largest = model->parameters[i].size;
    float *outside = calloc(largest, sizeof *outside);
    if (!outside) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the initial weights");
    for (size_t i = 0; i < model->n_parameters; i++) {
        const dpti_parameter *p = &model->parameters[i];
        dpti_random random;
        dpti_random_init(&random, initial->seed, DPTI_RANDOM_INIT, i);
        if (p->initial) {
            dpti_parameter_import(p, p->initial, flat + p->offset);
            continue;
        }
        draw((law){distribution_of(r, p), scale_of(r, deviation, p)}, &random, outside, p->size);
        dpti_parameter_import(p, outside, flat + p->offset);
    }
    free(outside);
    return DPT_OK;
}
