/* Layouts and initial values of parameters. */
#include "base/parse.h"
#include "base/random.h"
#include "graph/model.h"

#include <libdeflate.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Layouts --------------------------------------------------------------------------------- */

/* Both layouts that differ are (rows, h*w, c) in the flat buffer and (rows, c, h*w) in a
   checkpoint: the filters of a convolution, and the columns of a linear layer after a flatten.
   transpose_rows brings n elements, which are whole rows, from the latter to the former. */
static void transpose_rows(const dpti_parameter *p, const float *from, float *to, size_t n)
{
    const size_t area = p->h * p->w, row = area * p->c;
    for (size_t begin = 0; begin < n; begin += row)
        for (size_t k = 0; k < area; k++)
            for (size_t c = 0; c < p->c; c++)
                to[begin + k * p->c + c] = from[begin + c * area + k];
}

/* The other way round. */
static void transpose_back(const dpti_parameter *p, const float *from, float *to)
{
    const size_t area = p->h * p->w, row = area * p->c;
    for (size_t begin = 0; begin < p->size; begin += row)
        for (size_t k = 0; k < area; k++)
            for (size_t c = 0; c < p->c; c++)
                to[begin + c * area + k] = from[begin + k * p->c + c];
}

void dpti_parameter_export(const dpti_parameter *parameter, const float *inside, float *outside)
{
    if (parameter->layout == DPTI_LAYOUT_PLAIN)
        memcpy(outside, inside, parameter->size * sizeof *outside);
    else
        transpose_back(parameter, inside, outside);
}

/* Brings n elements, which are whole rows, into the order of the flat buffer. */
static void import_rows(const dpti_parameter *p, const float *outside, float *inside, size_t n)
{
    if (p->layout == DPTI_LAYOUT_PLAIN)
        memcpy(inside, outside, n * sizeof *inside);
    else
        transpose_rows(p, outside, inside, n);
}

void dpti_parameter_import(const dpti_parameter *parameter, const float *outside, float *inside)
{
    import_rows(parameter, outside, inside, parameter->size);
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

/* Whether a parameter begins in a way of its own. */
static bool starts(const recipe *r, const dpti_parameter *p, dpti_start start)
{
    return r->kind == DPT_INIT_DEFAULT && p->start == start;
}

static double scale_of(const recipe *r, double deviation, const dpti_parameter *p)
{
    const double fan_in = (double)p->fan_in;
    if (starts(r, p, DPTI_START_NORMAL)) return (double)p->deviation;
    if (r->kind == DPT_INIT_DEFAULT) return 1.0 / sqrt(fan_in);
    if (r->kind == DPT_INIT_NORMAL) return deviation;
    if (r->kind == DPT_INIT_XAVIER) return sqrt(6.0 / (fan_in + (double)p->fan_out));
    return sqrt(2.0 / fan_in);
}

static distribution distribution_of(const recipe *r, const dpti_parameter *p)
{
    if (starts(r, p, DPTI_START_NORMAL)) return NORMAL;
    if (starts(r, p, DPTI_START_ZERO)) return ZERO;
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

dpt_status dpti_check_initial(const dpti_initial *initial, dpt_error *error)
{
    const recipe *r = NULL;
    return find_recipe(initial->init, &r, error);
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

enum { PIECE = 1 << 20 }; /* elements that are made at once, or one row if it is longer */

/* Where the values of one parameter come from, in the checkpoint's layout. */
typedef struct origin {
    const dpti_parameter *p;
    law law;
    dpti_random random;
    size_t done;  /* elements that were taken */
    uint32_t crc; /* of those of a file */
} origin;

/* Takes the next n values. */
static dpt_status take_values(origin *from, float *out, size_t n, dpt_error *error)
{
    const dpti_parameter *p = from->p;
    const size_t n_bytes = n * sizeof *out, at = from->done * sizeof *out;
    from->done += n;
    if (p->stored.file) {
        const dpti_file_part part = {
            .file = p->stored.file, .offset = p->stored.offset + at, .n_bytes = n_bytes};
        DPT_TRY(dpti_file_part_read(&part, out, error));
        from->crc = libdeflate_crc32(from->crc, out, n_bytes);
        return from->done < p->size ? DPT_OK : dpti_file_part_check(&p->stored, from->crc, error);
    }
    if (p->initial)
        memcpy(out, (const char *)p->initial + at, n_bytes);
    else
        draw(from->law, &from->random, out, n);
    return DPT_OK;
}

/* The elements of a row of a parameter, which a piece does not divide. */
static size_t row_of(const dpti_parameter *p)
{
    return p->layout == DPTI_LAYOUT_PLAIN ? 1 : p->h * p->w * p->c;
}

/* The elements of a piece: whole rows. */
static size_t piece_of(const dpti_parameter *p)
{
    const size_t row = row_of(p), most = row < PIECE ? PIECE / row * row : row;
    return most < p->size ? most : p->size;
}

/* Who takes the values, in runs of the flat buffer. */
typedef struct receiver {
    const dpti_flat_sink *sink;
    dpt_error *error;
    float *outside;               /* a piece in the checkpoint's layout */
    float *run;                   /* (capacity) values that the sink takes next, */
    size_t begin, n;              /* elements [begin, begin + n) of the flat buffer */
    size_t capacity;              /* at least a piece */
    const dpti_parameter **order; /* (n_parameters) as they lie in the flat buffer */
} receiver;

static dpt_status flush(receiver *to)
{
    const size_t n = to->n;
    to->n = 0;
    return n > 0 ? to->sink->take(to->sink->user, to->begin, to->run, n) : DPT_OK;
}

/* *out: where the next n values are put, which begin at element `offset` of the flat buffer.
   Offsets increase.  The elements between two parameters are zeros. */
static dpt_status reserve(receiver *to, size_t offset, size_t n, float **out)
{
    if (to->n > 0 && offset - to->begin + n > to->capacity) DPT_TRY(flush(to));
    if (to->n == 0) to->begin = offset;
    const size_t at = offset - to->begin;
    memset(to->run + to->n, 0, (at - to->n) * sizeof *to->run);
    to->n = at + n;
    *out = to->run + at;
    return DPT_OK;
}

static dpt_status pass(origin *from, receiver *to)
{
    const dpti_parameter *p = from->p;
    const size_t most = piece_of(p);
    while (from->done < p->size) {
        const size_t begin = from->done, left = p->size - begin, n = left < most ? left : most;
        float *inside = NULL;
        DPT_TRY(take_values(from, to->outside, n, to->error));
        DPT_TRY(reserve(to, p->offset + begin, n, &inside));
        import_rows(p, to->outside, inside, n);
    }
    return DPT_OK;
}

int dpti_by_offset(const void *a, const void *b)
{
    const dpti_parameter *const *x = a, *const *y = b;
    return ((*x)->offset > (*y)->offset) - ((*x)->offset < (*y)->offset);
}

static dpt_status pass_all(const dpt_model *model, const dpti_initial *initial, receiver *to)
{
    const recipe *of_init = NULL;
    DPT_TRY(find_recipe(initial->init, &of_init, to->error));
    for (size_t i = 0; i < model->n_parameters; i++)
        to->order[i] = &model->parameters[i];
    qsort(to->order, model->n_parameters, sizeof *to->order, dpti_by_offset);
    for (size_t i = 0; i < model->n_parameters; i++) {
        const dpti_parameter *p = to->order[i];
        const recipe *r = p->is_adapter ? &recipes[DPT_INIT_DEFAULT] : of_init;
        origin from = {.p = p,
                       .law = {distribution_of(r, p), scale_of(r, initial->init.deviation, p)}};
        dpti_random_init(&from.random, initial->seed, DPTI_RANDOM_INIT,
                         (uint64_t)(p - model->parameters));
        DPT_TRY(pass(&from, to));
    }
    return flush(to);
}

dpt_status dpti_initialize_pieces(const dpt_model *model, const dpti_initial *initial,
                                  const dpti_flat_sink *sink, dpt_error *error)
{
    size_t most = PIECE < model->flat_size ? PIECE : model->flat_size + 1;
    for (size_t i = 0; i < model->n_parameters; i++) {
        const size_t n = piece_of(&model->parameters[i]);
        if (n > most) most = n;
    }
    receiver to = {.sink = sink,
                   .error = error,
                   .outside = malloc(most * sizeof *to.outside),
                   .run = malloc(most * sizeof *to.run),
                   .capacity = most,
                   .order = calloc(model->n_parameters + 1, sizeof *to.order)};
    const dpt_status status =
        to.outside && to.run && to.order
            ? pass_all(model, initial, &to)
            : DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the initial weights");
    free(to.outside);
    free(to.run);
    free(to.order);
    return status;
}

static dpt_status put_into_flat(void *user, size_t offset, const float *values, size_t n)
{
    memcpy((float *)user + offset, values, n * sizeof *values);
    return DPT_OK;
}

dpt_status dpti_initialize(const dpt_model *model, const dpti_initial *initial, float *flat,
                           dpt_error *error)
{
    const dpti_flat_sink sink = {put_into_flat, flat};
    return dpti_initialize_pieces(model, initial, &sink, error);
}
