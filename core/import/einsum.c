/* Einsum: one operand after the other.  Axes are put in order and merged, and two matrices are
   multiplied. */
#include "import/state.h"

#include <string.h>

enum { RESULT = 2, OPERANDS = 8 };

/* The letters of two operands and of their product. */
typedef struct equation {
    char term[3][DPT_MAX_RANK + 1];
} equation;

/* The letters of all operands, and of the result behind them, without spaces. */
typedef struct terms {
    size_t n; /* operands */
    char term[OPERANDS + 1][DPT_MAX_RANK + 1];
} terms;

/* Reads the equation.  Returns false if there are more operands than are taken, if the result is
   not written, or if one of them has a letter twice. */
static bool read_terms(const char *text, terms *t)
{
    size_t term = 0, n = 0;
    bool arrow = false;
    memset(t, 0, sizeof *t);
    for (; *text; text++) {
        if (*text == ' ') continue;
        if (*text == ',' || (text[0] == '-' && text[1] == '>')) {
            if (arrow || term == OPERANDS) return false;
            arrow = *text == '-';
            text += arrow;
            term++;
            n = 0;
        } else {
            if (n == DPT_MAX_RANK || strchr(t->term[term], *text)) return false;
            t->term[term][n++] = *text;
        }
    }
    t->n = term;
    return arrow;
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
        if (strchr(t->term[i], letter)) return true;
    return false;
}

/* Whether a letter has the same extent in both operands. */
static bool agree(const equation *e, const dpti_extents x[2])
{
    for (size_t i = 0; i < x[0].rank; i++) {
        const char *other = strchr(e->term[1], e->term[0][i]);
        if (other && x[1].extent[other - e->term[1]] != x[0].extent[i]) return false;
    }
    return true;
}

/* Sums an operand over the letters that no other term has. */
static dpt_status sum_own_letters(dpti_importer *im, const terms *t, size_t i, operand *x)
{
    const dpti_extents from = dpti_extents_of(im->model, x->value);
    dpti_extents to = {.rank = 0};
    uint32_t axes = 0;
    const char *own = t->term[i];
    for (size_t d = 0; d < from.rank; d++) {
        bool elsewhere = is_in_rest(t, i + 1, own[d]);
        for (size_t k = 0; k < i; k++)
            elsewhere = elsewhere || strchr(t->term[k], own[d]) != NULL;
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

static dpt_status read_operand(dpti_importer *im, const terms *t, size_t i, operand *out)
{
    memset(out, 0, sizeof *out);
    memcpy(out->letters, t->term[i], sizeof out->letters);
    DPT_TRY(dpti_import_input(im, i, &out->value));
    if (dpti_extents_of(im->model, out->value).rank != strlen(t->term[i]))
        return dpti_import_refuse(im, DPT_E_INVALID, "operand %zu has not %zu axes", i,
                                  strlen(t->term[i]));
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
    if (i + 1 == t->n) memcpy(e.term[RESULT], t->term[t->n], sizeof e.term[RESULT]);
    if (!agree(&e, extents))
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "a letter has two extents; expand the operand before");
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
    for (size_t d = 0; t->term[t->n][d]; d++)
        order[d] = (size_t)(strchr(x->letters, t->term[t->n][d]) - x->letters);
    x->value = dpti_transpose(im->model, x->value, order);
    return dpti_import_check(im);
}

/* Whether every letter of the result is one of an operand. */
static bool has_result(const terms *t)
{
    for (const char *at = t->term[t->n]; *at; at++) {
        bool found = false;
        for (size_t i = 0; i < t->n; i++)
            found = found || strchr(t->term[i], *at) != NULL;
        if (!found) return false;
    }
    return true;
}

static dpt_status import_einsum(dpti_importer *im)
{
    const char *text = dpti_onnx_string(im->node, "equation", "");
    terms t;
    operand x;
    if (!read_terms(text, &t) || t.n != im->node->n_inputs || !has_result(&t))
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "\"%.60s\" is not a product of at most %d operands with each "
                                  "letter at most once in an operand; write diagonals and dots in "
                                  "another way",
                                  text, OPERANDS);
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
