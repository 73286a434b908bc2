/* Einsum: one operand after the other.  Axes are put in order and merged, and two matrices are
   multiplied. */
#include "import/state.h"
#include "onnx/equation.h"

#include <string.h>

enum { RESULT = 2 };

/* The letters of two operands and of their product. */
typedef struct equation {
    char term[3][DPT_MAX_RANK + 1];
} equation;

/* The equation of the file, and that of the operands as they are multiplied: an axis of extent 1
   that others have in full is dropped, and no operand has a letter twice. */
typedef struct terms {
    dpti_onnx_equation given, taken;
    size_t n;           /* operands */
    size_t extent[128]; /* of each letter */
} terms;

/* Whether axis d of operand i is dropped. */
static bool drops(const terms *t, size_t i, size_t d, size_t extent)
{
    return extent == 1 && t->extent[(unsigned char)t->given.term[i][d]] != 1;
}

/* t->taken = the terms of t->given without axes that are dropped and letters that are there. */
static void shorten_terms(const dpti_importer *im, terms *t)
{
    t->taken = t->given;
    for (size_t i = 0; i < t->n; i++) {
        const dpti_extents e = dpti_import_extents(dpti_import_fact(im, i));
        char *term = t->taken.term[i];
        size_t n = 0;
        memset(term, 0, sizeof t->taken.term[i]);
        for (size_t d = 0; d < e.rank; d++)
            if (!drops(t, i, d, e.extent[d]) && !strchr(term, t->given.term[i][d]))
                term[n++] = t->given.term[i][d];
    }
}

static dpt_status read_terms(const dpti_importer *im, terms *t)
{
    size_t ranks[DPTI_ONNX_MAX_OPERANDS];
    memset(t, 0, sizeof *t);
    t->n = im->node->n_inputs;
    for (size_t i = 0; i < t->n; i++)
        ranks[i] = dpti_import_fact(im, i)->shape.rank;
    if (!dpti_onnx_read_equation(dpti_onnx_string(im->node, "equation", ""), t->n, ranks,
                                 &t->given))
        return dpti_import_refuse(im, DPT_E_INVALID, "its equation does not fit its inputs");
    for (size_t i = 0; i < t->n; i++) {
        const dpti_extents e = dpti_import_extents(dpti_import_fact(im, i));
        for (size_t d = 0; d < e.rank; d++) {
            size_t *extent = &t->extent[(unsigned char)t->given.term[i][d]];
            if (*extent <= 1) *extent = e.extent[d];
        }
    }
    shorten_terms(im, t);
    return DPT_OK;
}

static bool has(const equation *e, size_t term, char letter)
{
    return strchr(e->term[term], letter) != NULL;
}

/* Letters that belong together, and their extents. */
typedef struct letters {
    size_t n, extent[DPT_MAX_RANK], count;
    char at[DPT_MAX_RANK];
} letters;

/* The letters of an operand that are in the other operand, or not, and in the result, or not. */
static letters choose(const equation *e, size_t operand, const dpti_extents *x, const bool in[2])
{
    letters out = {.count = 1};
    for (size_t i = 0; i < x->rank; i++) {
        const char letter = e->term[operand][i];
        if (has(e, 1 - operand, letter) != in[0] || has(e, RESULT, letter) != in[1]) continue;
        out.extent[out.n] = x->extent[i];
        out.at[out.n++] = letter;
        out.count *= x->extent[i];
    }
    return out;
}

/* An operand as matrices: the axes of three groups of letters, each merged to one. */
static dpt_value as_matrices(dpti_importer *im, dpt_value x, const char *term,
                             const letters *const groups[3])
{
    size_t order[DPT_MAX_RANK] = {0}, n = 0;
    dpti_extents to = {.rank = 3};
    for (size_t g = 0; g < 3; g++) {
        to.extent[g] = groups[g]->count;
        for (size_t i = 0; i < groups[g]->n; i++)
            order[n++] = (size_t)(strchr(term, groups[g]->at[i]) - term);
    }
    return dpti_reshape(im->model, dpti_transpose(im->model, x, order), &to);
}

/* The product, (shared, left, right), with the axes of the result. */
static dpt_value as_result(dpti_importer *im, dpt_value y, const equation *e,
                           const letters *const groups[3])
{
    dpti_extents apart = {.rank = 0};
    size_t order[DPT_MAX_RANK] = {0};
    for (size_t g = 0; g < 3; g++)
        for (size_t i = 0; i < groups[g]->n; i++) {
            order[strchr(e->term[RESULT], groups[g]->at[i]) - e->term[RESULT]] = apart.rank;
            apart.extent[apart.rank++] = groups[g]->extent[i];
        }
    return dpti_transpose(im->model, dpti_reshape(im->model, y, &apart), order);
}

/* An operand as it is read so far. */
typedef struct operand {
    dpt_value value;
    char letters[DPT_MAX_RANK + 1];
} operand;

/* Whether one of the terms from `first` on has a letter. */
static bool is_in_rest(const terms *t, size_t first, char letter)
{
    for (size_t i = first; i <= t->n; i++)
        if (strchr(t->taken.term[i], letter)) return true;
    return false;
}

/* Sums an operand over the letters that no other term has. */
static dpt_status sum_own_letters(dpti_importer *im, const terms *t, size_t i, operand *x)
{
    const dpti_extents from = dpti_extents_of(im->model, x->value);
    dpti_extents to = {.rank = 0};
    uint32_t axes = 0;
    char own[DPT_MAX_RANK + 1];
    memcpy(own, x->letters, sizeof own);
    memset(x->letters, 0, sizeof x->letters);
    for (size_t d = 0; d < from.rank; d++) {
        bool elsewhere = is_in_rest(t, i + 1, own[d]);
        for (size_t k = 0; k < i; k++)
            elsewhere = elsewhere || strchr(t->taken.term[k], own[d]) != NULL;
        if (!elsewhere) {
            axes |= UINT32_C(1) << d;
            continue;
        }
        x->letters[to.rank] = own[d];
        to.extent[to.rank++] = from.extent[d];
    }
    if (axes == 0) return DPT_OK;
    x->value = dpti_reshape(im->model, dpti_import_reduce(im, x->value, axes, DPT_REDUCE_SUM), &to);
    return dpti_import_check(im);
}

/* Makes the axes `first` and `second` of an operand, which have one letter, its last axis: their
   diagonal. */
static dpt_status take_diagonal(dpti_importer *im, size_t first, size_t second, operand *x)
{
    const dpti_extents from = dpti_extents_of(im->model, x->value);
    const size_t extent = from.extent[first];
    const char letter = x->letters[first];
    size_t order[DPT_MAX_RANK] = {0}, n = 0;
    dpti_extents to = {.rank = from.rank - 1};
    for (size_t d = 0; d < from.rank; d++) {
        if (d == first || d == second) continue;
        x->letters[n] = x->letters[d];
        to.extent[n] = from.extent[d];
        order[n++] = d;
    }
    x->letters[n] = letter;
    x->letters[n + 1] = 0;
    to.extent[n] = extent * extent;
    order[n] = first;
    order[n + 1] = second;
    if (from.extent[second] != extent || to.extent[n] > DPTI_MAX_EXTENT)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "the diagonal of %zu by %zu elements cannot be taken", extent,
                                  from.extent[second]);
    x->value = dpti_reshape(im->model, dpti_transpose(im->model, x->value, order), &to);
    dpti_run diagonal = {.step = (int64_t)extent + 1, .count = extent};
    return dpti_import_take_runs(im, &x->value, n, (dpti_runs){&diagonal, 1});
}

static dpt_status read_operand(dpti_importer *im, const terms *t, size_t i, operand *out)
{
    const char *given = t->given.term[i];
    size_t n = 0;
    memset(out, 0, sizeof *out);
    DPT_TRY(dpti_import_input(im, i, &out->value));
    const dpti_extents from = dpti_extents_of(im->model, out->value);
    dpti_extents to = {.rank = 0};
    if (from.rank != strlen(given))
        return dpti_import_refuse(im, DPT_E_INVALID, "operand %zu has not %zu axes", i,
                                  strlen(given));
    for (size_t d = 0; d < from.rank; d++) {
        if (drops(t, i, d, from.extent[d])) continue;
        out->letters[n++] = given[d];
        to.extent[to.rank++] = from.extent[d];
    }
    if (n < from.rank) out->value = dpti_reshape(im->model, out->value, &to);
    for (size_t first = 0; out->letters[first];) {
        const char *second = strchr(out->letters + first + 1, out->letters[first]);
        if (second)
            DPT_TRY(take_diagonal(im, first, (size_t)(second - out->letters), out));
        else
            first++;
    }
    return sum_own_letters(im, t, i, out);
}

/* *x = the product of *x with operand i.  It keeps the letters that the result or a later operand
   has. */
static dpt_status multiply_by(dpti_importer *im, const terms *t, size_t i, operand *x)
{
    operand y;
    equation e = {{{0}}};
    DPT_TRY(read_operand(im, t, i, &y));
    const dpti_extents extents[] = {dpti_extents_of(im->model, x->value),
                                    dpti_extents_of(im->model, y.value)};
    memcpy(e.term[0], x->letters, sizeof x->letters);
    memcpy(e.term[1], y.letters, sizeof y.letters);
    size_t n = 0;
    for (size_t k = 0; k < 2; k++)
        for (const char *at = e.term[k]; *at && i + 1 < t->n; at++) {
            if (has(&e, RESULT, *at) || !is_in_rest(t, i + 1, *at)) continue;
            if (n == DPT_MAX_RANK)
                return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                          "a product of its first %zu operands would have more "
                                          "than %d axes",
                                          i + 1, DPT_MAX_RANK);
            e.term[RESULT][n++] = *at;
        }
    if (i + 1 == t->n) memcpy(e.term[RESULT], t->taken.term[t->n], sizeof e.term[RESULT]);
    const letters shared = choose(&e, 0, &extents[0], (const bool[]){true, true}),
                  summed = choose(&e, 0, &extents[0], (const bool[]){true, false}),
                  left = choose(&e, 0, &extents[0], (const bool[]){false, true}),
                  right = choose(&e, 1, &extents[1], (const bool[]){false, true});
    const dpt_value a = as_matrices(im, x->value, e.term[0],
                                    (const letters *const[]){&shared, &left, &summed}),
                    b = as_matrices(im, y.value, e.term[1],
                                    (const letters *const[]){&shared, &summed, &right});
    DPT_TRY(dpti_import_check(im));
    const dpt_value product = dpti_import_multiply(im, a, b);
    DPT_TRY(dpti_import_check(im));
    x->value = as_result(im, product, &e, (const letters *const[]){&shared, &left, &right});
    memcpy(x->letters, e.term[RESULT], sizeof x->letters);
    return dpti_import_check(im);
}

/* The axes of the only operand in the order of the result. */
static dpt_status reorder(dpti_importer *im, const terms *t, operand *x)
{
    size_t order[DPT_MAX_RANK] = {0};
    for (size_t d = 0; t->taken.term[t->n][d]; d++)
        order[d] = (size_t)(strchr(x->letters, t->taken.term[t->n][d]) - x->letters);
    x->value = dpti_transpose(im->model, x->value, order);
    return dpti_import_check(im);
}

static dpt_status import_einsum(dpti_importer *im)
{
    terms t;
    operand x;
    DPT_TRY(read_terms(im, &t));
    DPT_TRY(read_operand(im, &t, 0, &x));
    if (t.n == 1) DPT_TRY(reorder(im, &t, &x));
    for (size_t i = 1; i < t.n; i++)
        DPT_TRY(multiply_by(im, &t, i, &x));
    dpti_import_give(im, 0, x.value);
    return DPT_OK;
}

const dpti_import_operator dpti_import_einsums[] = {
    {"Einsum", import_einsum},
    {NULL, NULL},
};
