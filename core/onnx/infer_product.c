/* Matrix products, recurrent layers and attention. */
#include "onnx/equation.h"
#include "onnx/infer_state.h"

#include <string.h>

static dpt_status fail_shapes(const dpti_onnx_inference *in, dpt_error *error)
{
    char a[96], b[96];
    dpti_onnx_print_shape(&dpti_onnx_input(in, 0)->shape, a, sizeof a);
    dpti_onnx_print_shape(&dpti_onnx_input(in, 1)->shape, b, sizeof b);
    return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "the shapes %s and %s do not fit together", a,
                            b);
}

/* ---- Products -------------------------------------------------------------------------------- */

static dpt_status mat_mul(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 2, error));
    const dpti_onnx_fact *fa = dpti_onnx_input(in, 0);
    dpti_onnx_shape a = fa->shape, b = dpti_onnx_input(in, 1)->shape;
    const bool vector_a = a.rank == 1, vector_b = b.rank == 1;
    const dpti_onnx_dim one = {1, false};
    if (a.rank == 0 || b.rank == 0) return fail_shapes(in, error);
    if (vector_a) a = (dpti_onnx_shape){2, {one, a.dims[0]}};
    if (vector_b) b = (dpti_onnx_shape){2, {b.dims[0], one}};
    const dpti_onnx_dim rows = a.dims[a.rank - 2], columns = b.dims[b.rank - 1];
    if (!dpti_onnx_same_dim(a.dims[a.rank - 1], b.dims[b.rank - 2])) return fail_shapes(in, error);
    a.rank -= 2;
    b.rank -= 2;
    dpti_onnx_fact y = {.type = fa->type, .shape = b};
    if (!dpti_onnx_broadcast(&a, &y.shape)) return fail_shapes(in, error);
    if (!vector_a) y.shape.dims[y.shape.rank++] = rows;
    if (!vector_b) y.shape.dims[y.shape.rank++] = columns;
    return dpti_onnx_give(in, 0, &y, error);
}

static dpt_status gemm(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 2, error));
    const dpti_onnx_shape *a = &dpti_onnx_input(in, 0)->shape, *b = &dpti_onnx_input(in, 1)->shape;
    const bool ta = dpti_onnx_int(in->node, "transA", 0) != 0;
    const bool tb = dpti_onnx_int(in->node, "transB", 0) != 0;
    if (a->rank != 2 || b->rank != 2 || !dpti_onnx_same_dim(a->dims[!ta], b->dims[tb]))
        return fail_shapes(in, error);
    const dpti_onnx_fact y = {.type = dpti_onnx_input(in, 0)->type,
                              .shape = {2, {a->dims[ta], b->dims[!tb]}}};
    const dpti_onnx_fact *c = dpti_onnx_input(in, 2);
    dpti_onnx_shape sum = y.shape;
    if (c && (!dpti_onnx_broadcast(&c->shape, &sum) || sum.rank != 2 ||
              !dpti_onnx_same_dim(sum.dims[0], y.shape.dims[0]) ||
              !dpti_onnx_same_dim(sum.dims[1], y.shape.dims[1])))
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "its third input does not fit its result");
    return dpti_onnx_give(in, 0, &y, error);
}

/* ---- Einsum ---------------------------------------------------------------------------------- */

/* The extents that letters have in all operands; one of 1 is broadcast to another. */
typedef struct letters {
    bool known[128];
    dpti_onnx_dim dims[128];
} letters;

/* Adds the axes of one operand.  Returns false if a letter has two extents. */
static bool add_term(const char *term, const dpti_onnx_shape *shape, letters *l)
{
    const dpti_onnx_dim one = {1, false};
    for (size_t d = 0; d < shape->rank; d++) {
        const unsigned char c = (unsigned char)term[d];
        const dpti_onnx_dim dim = shape->dims[d];
        if (l->known[c] && !dpti_onnx_same_dim(l->dims[c], dim) &&
            !dpti_onnx_same_dim(l->dims[c], one) && !dpti_onnx_same_dim(dim, one))
            return false;
        if (!l->known[c] || dpti_onnx_same_dim(l->dims[c], one)) l->dims[c] = dim;
        l->known[c] = true;
    }
    return true;
}

static dpt_status einsum(dpti_onnx_inference *in, dpt_error *error)
{
    const char *text = dpti_onnx_string(in->node, "equation", "");
    const size_t n = in->node->n_inputs;
    size_t ranks[DPTI_ONNX_MAX_OPERANDS];
    letters l = {.known = {false}};
    dpti_onnx_equation e;
    DPT_TRY(dpti_onnx_need(in, n ? n : 1, error));
    dpti_onnx_fact y = {.type = dpti_onnx_input(in, 0)->type};
    for (size_t i = 0; i < n && i < DPTI_ONNX_MAX_OPERANDS; i++)
        ranks[i] = dpti_onnx_input(in, i)->shape.rank;
    bool fits = dpti_onnx_read_equation(text, n, ranks, &e);
    for (size_t i = 0; fits && i < n; i++)
        fits = add_term(e.term[i], &dpti_onnx_input(in, i)->shape, &l);
    if (!fits)
        return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error,
                                "the equation \"%.60s\" does not fit its inputs; at most %d of "
                                "them, with at most %d axes, can be taken",
                                text, DPTI_ONNX_MAX_OPERANDS, DPTI_ONNX_MAX_RANK);
    for (const char *at = e.term[n]; *at; at++)
        y.shape.dims[y.shape.rank++] = l.dims[(unsigned char)*at];
    return dpti_onnx_give(in, 0, &y, error);
}

/* ---- Recurrent layers ------------------------------------------------------------------------ */

/* X (T, N, C), or (N, T, C) with layout 1; the weights say how many directions and cells. */
static dpt_status recurrent(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 3, error));
    const dpti_onnx_shape *x = &dpti_onnx_input(in, 0)->shape, *w = &dpti_onnx_input(in, 1)->shape;
    const dpti_onnx_shape *r = &dpti_onnx_input(in, 2)->shape;
    const bool batch_first = dpti_onnx_int(in->node, "layout", 0) != 0;
    const int64_t gates = in->node->op[0] == 'L' ? 4 : in->node->op[0] == 'G' ? 3 : 1;
    bool fits = x->rank == 3 && w->rank == 3 && r->rank == 3 && dpti_onnx_batch_axis(w) == 3 &&
                dpti_onnx_batch_axis(r) == 3 && dpti_onnx_same_dim(x->dims[2], w->dims[2]) &&
                dpti_onnx_same_dim(w->dims[0], r->dims[0]) && r->dims[2].size <= INT32_MAX &&
                w->dims[1].size == gates * r->dims[2].size && w->dims[0].size >= 1 &&
                w->dims[0].size <= 2;
    if (!fits) return fail_shapes(in, error);
    const dpti_onnx_dim steps = x->dims[batch_first], samples = x->dims[!batch_first];
    const dpti_onnx_dim directions = w->dims[0], hidden = r->dims[2];
    dpti_onnx_fact y = {.type = dpti_onnx_input(in, 0)->type};
    y.shape = batch_first ? (dpti_onnx_shape){4, {samples, steps, directions, hidden}}
                          : (dpti_onnx_shape){4, {steps, directions, samples, hidden}};
    DPT_TRY(dpti_onnx_give(in, 0, &y, error));
    y.shape = batch_first ? (dpti_onnx_shape){3, {samples, directions, hidden}}
                          : (dpti_onnx_shape){3, {directions, samples, hidden}};
    DPT_TRY(dpti_onnx_give(in, 1, &y, error));
    return dpti_onnx_give(in, 2, &y, error);
}

/* ---- Attention ------------------------------------------------------------------------------- */

/* x (N, places, heads * width) as (N, heads, places, width); false if its axes do not fit. */
static bool part_heads(dpti_onnx_shape *x, int64_t heads)
{
    if (x->rank == 4) return true;
    if (x->rank != 3 || heads < 1 || x->dims[2].batch || x->dims[2].size % heads != 0) return false;
    *x = (dpti_onnx_shape){
        4, {x->dims[0], {heads, false}, x->dims[1], {x->dims[2].size / heads, false}}};
    return true;
}

/* Adds the places of the past (N, heads, places, width) to x. */
static bool add_past(const dpti_onnx_fact *past, dpti_onnx_shape *x)
{
    if (!past) return true;
    return past->shape.rank == 4 && dpti_onnx_same_dim(past->shape.dims[0], x->dims[0]) &&
           dpti_onnx_same_dim(past->shape.dims[1], x->dims[1]) &&
           dpti_onnx_same_dim(past->shape.dims[3], x->dims[3]) && !past->shape.dims[2].batch &&
           !__builtin_add_overflow(x->dims[2].size, past->shape.dims[2].size, &x->dims[2].size);
}

/* Whether a mask can be broadcast to scores; its last axis may be shorter. */
static bool fits_scores(const dpti_onnx_fact *mask, const dpti_onnx_shape *scores)
{
    if (!mask) return true;
    dpti_onnx_shape m = mask->shape, to = *scores;
    if (m.rank > 0 && !m.dims[m.rank - 1].batch && m.dims[m.rank - 1].size > 1 &&
        m.dims[m.rank - 1].size < to.dims[3].size)
        m.dims[m.rank - 1] = to.dims[3];
    if (!dpti_onnx_broadcast(&m, &to) || to.rank != 4) return false;
    for (size_t d = 0; d < 4; d++)
        if (!dpti_onnx_same_dim(to.dims[d], scores->dims[d])) return false;
    return true;
}

/* Q, K, V (N, heads, length, width), or (N, length, heads * width); earlier keys and values. */
static dpt_status attention(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 3, error));
    const dpti_onnx_fact *fact = dpti_onnx_input(in, 0);
    dpti_onnx_shape q = fact->shape, k = dpti_onnx_input(in, 1)->shape,
                    v = dpti_onnx_input(in, 2)->shape;
    const bool flat = q.rank == 3;
    const int64_t heads = dpti_onnx_int(in->node, "q_num_heads", 0),
                  groups = dpti_onnx_int(in->node, "kv_num_heads", 0);
    bool fits =
        k.rank == q.rank && v.rank == q.rank && part_heads(&q, heads) && part_heads(&k, groups) &&
        part_heads(&v, groups) && dpti_onnx_same_dim(q.dims[0], k.dims[0]) &&
        dpti_onnx_same_dim(q.dims[0], v.dims[0]) && dpti_onnx_same_dim(k.dims[1], v.dims[1]) &&
        dpti_onnx_same_dim(k.dims[2], v.dims[2]) && dpti_onnx_same_dim(q.dims[3], k.dims[3]) &&
        q.dims[2].size <= INT32_MAX && k.dims[2].size <= INT32_MAX;
    fits = fits && add_past(dpti_onnx_input(in, 4), &k) && add_past(dpti_onnx_input(in, 5), &v) &&
           dpti_onnx_same_dim(k.dims[2], v.dims[2]);
    if (!fits) return fail_shapes(in, error);
    dpti_onnx_fact y = {.type = fact->type,
                        .shape = {4, {q.dims[0], q.dims[1], q.dims[2], k.dims[2]}}};
    if (!fits_scores(dpti_onnx_input(in, 3), &y.shape))
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "its mask does not fit its scores");
    DPT_TRY(dpti_onnx_give(in, 3, &y, error));
    y.shape.dims[3] = v.dims[3];
    if (flat) {
        y.shape.rank = 3;
        y.shape.dims[1] = q.dims[2];
        if (__builtin_mul_overflow(q.dims[1].size, v.dims[3].size, &y.shape.dims[2].size))
            return fail_shapes(in, error);
        y.shape.dims[2].batch = false;
    }
    DPT_TRY(dpti_onnx_give(in, 0, &y, error));
    y.shape = k;
    DPT_TRY(dpti_onnx_give(in, 1, &y, error));
    y.shape = v;
    return dpti_onnx_give(in, 2, &y, error);
}

const dpti_onnx_operator dpti_onnx_products[] = {
    {"Attention", attention, 7}, {"Einsum", einsum, SIZE_MAX},
    {"GRU", recurrent, 6},       {"Gemm", gemm, 3},
    {"LSTM", recurrent, 8},      {"MatMul", mat_mul, 2},
    {"RNN", recurrent, 6},       {NULL, NULL, 0},
};
