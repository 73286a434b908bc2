/* Einsum over two operands: axes are put in order and merged, and two matrices are multiplied. */
#include "import/state.h"

#include <string.h>

/* The letters of the two operands and of the result, without spaces. */
typedef struct equation {
    char term[3][DPT_MAX_RANK + 1];
} equation;

enum { RESULT = 2 };

/* Reads the equation.  Returns false if it does not have two operands and a written result, or
   has a letter twice in one of them. */
static bool read_equation(const char *text, equation *e)
{
    size_t term = 0, n = 0;
    memset(e, 0, sizeof *e);
    for (; *text; text++) {
        if (*text == ' ') continue;
        if (*text == ',' && term == 0) {
            term = 1;
            n = 0;
        } else if (text[0] == '-' && text[1] == '>' && term == 1) {
            term = RESULT;
            n = 0;
            text++;
        } else {
            if (n == DPT_MAX_RANK || strchr(e->term[term], *text)) return false;
            e->term[term][n++] = *text;
        }
    }
    return term == RESULT;
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

/* Whether every letter is in two of the terms at least, and has one extent. */
static bool is_product(const equation *e, const dpti_extents x[2])
{
    for (size_t operand = 0; operand < 2; operand++)
        for (size_t i = 0; i < x[operand].rank; i++) {
            const char letter = e->term[operand][i];
            const char *other = strchr(e->term[1 - operand], letter);
            if (!other && !has(e, RESULT, letter)) return false;
            if (other &&
                x[1 - operand].extent[other - e->term[1 - operand]] != x[operand].extent[i])
                return false;
        }
    return true;
}

static dpt_status import_einsum(dpti_importer *im)
{
    const char *text = dpti_onnx_string(im->node, "equation", "");
    equation e;
    dpti_extents x[2];
    dpt_value values[2];
    const bool two = im->node->n_inputs == 2 && read_equation(text, &e);
    for (size_t i = 0; two && i < 2; i++)
        x[i] = dpti_import_extents(dpti_import_fact(im, i));
    if (!two || !is_product(&e, x))
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "\"%.60s\" is not a product of two operands; write it as "
                                  "products of two, with each letter at most once in an operand "
                                  "and in two of the terms, and sum over other axes before",
                                  text);
    for (size_t i = 0; i < 2; i++)
        DPT_TRY(dpti_import_input(im, i, &values[i]));
    const letters shared = choose(&e, 0, &x[0], (const bool[]){true, true}),
                  summed = choose(&e, 0, &x[0], (const bool[]){true, false}),
                  left = choose(&e, 0, &x[0], (const bool[]){false, true}),
                  right = choose(&e, 1, &x[1], (const bool[]){false, true});
    const dpt_value a = as_matrices(im, values[0], e.term[0],
                                    (const letters *const[]){&shared, &left, &summed}),
                    b = as_matrices(im, values[1], e.term[1],
                                    (const letters *const[]){&shared, &summed, &right});
    DPT_TRY(dpti_import_check(im));
    const dpt_value y = dpti_import_multiply(im, a, b);
    DPT_TRY(dpti_import_check(im));
    dpti_import_give(im, 0, as_result(im, y, &e, (const letters *const[]){&shared, &left, &right}));
    return DPT_OK;
}

const dpti_import_operator dpti_import_einsums[] = {
    {"Einsum", import_einsum},
    {NULL, NULL},
};
