/* Attention: products, masks and a softmax. */
#include "graph/softmax.h"
#include "graph/tensor.h"
#include "import/state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The inputs and outputs of the operator. */
enum { QUERY, KEY, VALUE, MASK, PAST_KEY, PAST_VALUE, N_VALID };
enum { RESULT, PRESENT_KEY, PRESENT_VALUE, SCORES };
/* What the output of scores shows (qk_matmul_output_mode). */
enum { SHOWS_PRODUCT, SHOWS_CAPPED, SHOWS_MASKED, SHOWS_WEIGHTS };

enum { MOST_MASKS = 4, TEXT_BYTES = 160 };

#define LOWEST "(0 - 2e38)"

/* Values with the axes (1, heads, places, width). */
typedef struct heads {
    dpt_value q, k, v;
    size_t n_q, n_kv, groups; /* heads of queries, of keys, and queries for each key */
    size_t queries, keys, past;
} heads;

/* Masks of scores (1, heads, queries, keys), broadcast. */
typedef struct masks {
    size_t n;
    dpt_value value[MOST_MASKS];
    bool real[MOST_MASKS]; /* added, and -infinity masks; otherwise 0 masks */
    bool may_mask_all;     /* a query may have no key */
} masks;

/* ---- Heads ----------------------------------------------------------------------------------- */

/* (1, places, n * width) as (1, n, places, width). */
static dpt_value part_heads(dpti_importer *im, dpt_value x, size_t n)
{
    if (!x.id) return x;
    const dpti_extents e = dpti_extents_of(im->model, x);
    if (e.rank == 4) return x;
    const dpti_extents apart = {.rank = 4,
                                .extent = {e.extent[0], e.extent[1], n, e.extent[2] / n}};
    return dpti_transpose(im->model, dpti_reshape(im->model, x, &apart),
                          (const size_t[DPT_MAX_RANK]){0, 2, 1, 3});
}

/* x behind the past, which becomes an output. */
static dpt_status append_past(dpti_importer *im, size_t input, dpt_value *x)
{
    dpt_value past;
    if (dpti_import_has(im, input)) {
        DPT_TRY(dpti_import_input(im, input, &past));
        *x = dpti_concatenate(im->model, (dpt_value[]){past, *x}, 2, 2);
    }
    dpti_import_give(im, input == PAST_KEY ? PRESENT_KEY : PRESENT_VALUE, *x);
    return dpti_import_check(im);
}

static dpt_status read_heads(dpti_importer *im, heads *h)
{
    DPT_TRY(dpti_import_input(im, QUERY, &h->q));
    DPT_TRY(dpti_import_input(im, KEY, &h->k));
    DPT_TRY(dpti_import_input(im, VALUE, &h->v));
    const dpti_extents q = dpti_extents_of(im->model, h->q), k = dpti_extents_of(im->model, h->k);
    const bool flat = q.rank == 3;
    h->n_q = flat ? (size_t)dpti_onnx_int(im->node, "q_num_heads", 1) : q.extent[1];
    h->n_kv = flat ? (size_t)dpti_onnx_int(im->node, "kv_num_heads", 1) : k.extent[1];
    if (h->n_kv == 0 || h->n_q % h->n_kv != 0 || q.extent[0] != 1 ||
        (flat && (q.extent[2] % h->n_q != 0 || k.extent[2] % h->n_kv != 0)))
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "%zu heads of queries do not fit %zu heads of keys, or the "
                                  "widths of its inputs",
                                  h->n_q, h->n_kv);
    h->groups = h->n_q / h->n_kv;
    h->q = part_heads(im, h->q, h->n_q);
    h->k = part_heads(im, h->k, h->n_kv);
    h->v = part_heads(im, h->v, h->n_kv);
    DPT_TRY(dpti_import_check(im));
    h->queries = dpti_extents_of(im->model, h->q).extent[2];
    const size_t new_keys = dpti_extents_of(im->model, h->k).extent[2];
    DPT_TRY(append_past(im, PAST_KEY, &h->k));
    DPT_TRY(append_past(im, PAST_VALUE, &h->v));
    h->keys = dpti_extents_of(im->model, h->k).extent[2];
    h->past = h->keys - new_keys;
    DPT_TRY(dpti_import_check(im));
    if (h->keys > 0 && h->queries <= DPTI_MAX_EXTENT / h->keys) return DPT_OK;
    return dpti_import_refuse(im, DPT_E_UNSUPPORTED, "%zu queries times %zu keys are too many",
                              h->queries, h->keys);
}

/* x (1, heads of keys * n, a, b) as (1, heads of keys, n, a, b). */
static dpt_value group(dpti_importer *im, dpt_value x, const heads *h, size_t n)
{
    if (h->groups == 1 || !x.id) return x;
    const dpti_extents e = dpti_extents_of(im->model, x);
    const dpti_extents to = {.rank = 5, .extent = {1, h->n_kv, n, e.extent[2], e.extent[3]}};
    return dpti_reshape(im->model, x, &to);
}

static dpt_value ungroup(dpti_importer *im, dpt_value x, const heads *h)
{
    if (h->groups == 1 || !x.id) return x;
    const dpti_extents e = dpti_extents_of(im->model, x);
    const dpti_extents to = {.rank = 4, .extent = {1, h->n_q, e.extent[3], e.extent[4]}};
    return dpti_reshape(im->model, x, &to);
}

/* ---- Masks ----------------------------------------------------------------------------------- */

static void add_mask(masks *m, dpt_value value, bool real)
{
    m->real[m->n] = real;
    m->value[m->n++] = value;
}

/* Which keys a query sees by their places alone: with is_causal, none behind the query's; with
   windows, none that are farther away.  A query's place is its index + `past`. */
static dpt_status add_places(dpti_importer *im, const heads *h, bool causal, masks *m)
{
    const int64_t left = dpti_onnx_int(im->node, "left_window_size", -1),
                  right = dpti_onnx_int(im->node, "right_window_size", -1);
    if (!causal && left < 0 && right < 0) return DPT_OK;
    const dpti_extents e = {.rank = 2, .extent = {h->queries, h->keys}};
    float *sees = malloc((h->queries * h->keys + 1) * sizeof *sees);
    if (!sees) return dpti_import_refuse(im, DPT_E_NO_MEMORY, "no memory");
    for (size_t i = 0; i < h->queries; i++) {
        bool any = false;
        for (size_t j = 0; j < h->keys; j++) {
            const int64_t ahead = (int64_t)j - (int64_t)(i + h->past);
            const bool seen = !(causal && ahead > 0) && !(left >= 0 && -ahead > left) &&
                              !(right >= 0 && ahead > right);
            sees[i * h->keys + j] = seen ? 1.0f : 0.0f;
            any = any || seen;
        }
        m->may_mask_all = m->may_mask_all || !any;
    }
    add_mask(m, dpti_add_constant(im->model, &e, sees), false);
    free(sees);
    return dpti_import_check(im);
}

/* The mask of input 3.  Keys behind its last column are masked. */
static dpt_status add_given(dpti_importer *im, const heads *h, masks *m)
{
    dpt_value mask;
    if (!dpti_import_has(im, MASK)) return DPT_OK;
    DPT_TRY(dpti_import_input(im, MASK, &mask));
    const bool real = dpti_onnx_type_is_real(dpti_import_fact(im, MASK)->type);
    const dpti_extents e = dpti_extents_of(im->model, mask);
    if (e.rank > 0 && e.extent[e.rank - 1] > 1 && e.extent[e.rank - 1] < h->keys) {
        dpti_padding padding = {.fill = real ? -INFINITY : 0.0f};
        padding.after[e.rank - 1] = h->keys - e.extent[e.rank - 1];
        mask = dpti_pad(im->model, mask, &padding);
    }
    add_mask(m, mask, real);
    m->may_mask_all = true;
    return dpti_import_check(im);
}

/* A number for each query and key. */
static dpt_status add_numbers(dpti_importer *im, const heads *h, const float *numbers,
                              dpt_value *out)
{
    const dpti_extents e = {.rank = 2, .extent = {h->queries, h->keys}};
    *out = dpti_add_constant(im->model, &e, numbers);
    return dpti_import_check(im);
}

/* The number n of a sample's keys that are no padding.  The place of query i is then i + n -
   queries, so that n decides which keys a query sees: those where least <= n <= most. */
static dpt_status add_valid(dpti_importer *im, const heads *h, bool causal, masks *m)
{
    const int64_t left = dpti_onnx_int(im->node, "left_window_size", -1),
                  right = causal ? 0 : dpti_onnx_int(im->node, "right_window_size", -1);
    const dpti_extents one = {.rank = 2, .extent = {1, 1}};
    const size_t count = h->queries * h->keys;
    dpt_value seen[3];
    DPT_TRY(dpti_import_input(im, N_VALID, &seen[0]));
    seen[0] = dpti_reshape(im->model, seen[0], &one);
    float *least = malloc((2 * count + 1) * sizeof *least), *most = least + count;
    if (!least) return dpti_import_refuse(im, DPT_E_NO_MEMORY, "no memory");
    for (size_t i = 0; i < h->queries; i++)
        for (size_t j = 0; j < h->keys; j++) {
            const int64_t ahead = (int64_t)j - (int64_t)i + (int64_t)h->queries;
            const int64_t by_right =
                right >= 0 && ahead - right > (int64_t)j ? ahead - right : (int64_t)j + 1;
            least[i * h->keys + j] = (float)by_right;
            most[i * h->keys + j] = left >= 0 ? (float)(ahead + left) : (float)DPTI_MAX_EXTENT;
        }
    dpt_status status = add_numbers(im, h, least, &seen[1]);
    if (status == DPT_OK) status = add_numbers(im, h, most, &seen[2]);
    free(least);
    DPT_TRY(status);
    add_mask(m, dpti_formula(im->model, "and(less_equal(b, a), less_equal(a, c))", seen, 3), false);
    m->may_mask_all = true;
    return dpti_import_check(im);
}

static dpt_status read_masks(dpti_importer *im, const heads *h, masks *m)
{
    const bool causal = dpti_onnx_int(im->node, "is_causal", 0) != 0,
               counts = dpti_import_has(im, N_VALID);
    if (!counts) DPT_TRY(add_places(im, h, causal, m));
    DPT_TRY(add_given(im, h, m));
    return counts ? add_valid(im, h, causal, m) : DPT_OK;
}

/* Scores with the masks: those of masked keys are so low that the softmax makes them 0. */
static dpt_value mask_scores(dpti_importer *im, dpt_value x, const masks *m)
{
    for (size_t i = 0; i < m->n; i++)
        x = dpti_formula(im->model,
                         m->real[i] ? "select(less(b, " LOWEST "), " LOWEST ", a + b)"
                                    : "select(b, a, " LOWEST ")",
                         (dpt_value[]){x, m->value[i]}, 2);
    return x;
}

/* Weights of a query without any key, which the softmax has made equal, become 0. */
static dpt_value mask_weights(dpti_importer *im, dpt_value x, const masks *m)
{
    for (size_t i = 0; m->may_mask_all && i < m->n; i++)
        x = dpti_formula(im->model,
                         m->real[i] ? "select(less(b, " LOWEST "), 0, a)" : "select(b, a, 0)",
                         (dpt_value[]){x, m->value[i]}, 2);
    return x;
}

/* ---- The operator ---------------------------------------------------------------------------- */

static dpt_value scaled(dpti_importer *im, dpt_value x, const char *format, double number)
{
    char text[TEXT_BYTES];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof text, format, number);
#pragma GCC diagnostic pop
    return dpti_formula(im->model, text, &x, 1);
}

/* queries times keys, (1, heads, queries, keys). */
static dpt_value score(dpti_importer *im, const heads *h)
{
    const size_t width = dpti_extents_of(im->model, h->q).extent[3];
    const double scale =
        (double)dpti_onnx_float(im->node, "scale", (float)(1 / sqrt((double)width)));
    const dpt_value turned =
        dpti_transpose(im->model, h->k, (const size_t[DPT_MAX_RANK]){0, 1, 3, 2});
    const dpt_value q = scaled(im, h->q, "a * %.9g", scale);
    if (!q.id || !turned.id) return (dpt_value){0};
    return ungroup(
        im, dpti_import_multiply(im, group(im, q, h, h->groups), group(im, turned, h, 1)), h);
}

/* Whether the output of scores is needed, and is the scores at this place. */
static bool shows(const dpti_importer *im, int64_t what)
{
    return dpti_import_wants(im, SCORES) &&
           dpti_onnx_int(im->node, "qk_matmul_output_mode", 0) == what;
}

static dpt_status show(dpti_importer *im, int64_t what, dpt_value x)
{
    if (shows(im, what)) dpti_import_give(im, SCORES, x);
    return dpti_import_check(im);
}

static dpt_status import_attention(dpti_importer *im)
{
    heads h;
    masks m = {.n = 0};
    const double cap = (double)dpti_onnx_float(im->node, "softcap", 0);
    DPT_TRY(read_heads(im, &h));
    DPT_TRY(read_masks(im, &h, &m));
    dpt_value x = score(im, &h);
    DPT_TRY(show(im, SHOWS_PRODUCT, x));
    if (cap > 0) {
        x = scaled(im, scaled(im, x, "tanh(a / %.9g)", cap), "a * %.9g", cap);
        DPT_TRY(dpti_import_check(im));
    }
    DPT_TRY(show(im, SHOWS_CAPPED, x));
    x = mask_scores(im, x, &m);
    if (shows(im, SHOWS_MASKED))
        DPT_TRY(
            show(im, SHOWS_MASKED,
                 dpti_formula(im->model, "select(less(a, 0 - 1e38), 0 - 2e38 * 2e38, a)", &x, 1)));
    if (!dpti_import_wants(im, RESULT) && !shows(im, SHOWS_WEIGHTS)) return DPT_OK;
    const dpti_softmax_options options = {.axis = 3};
    x = mask_weights(im, dpti_softmax(im->model, dpti_for_each_sample(im->model, x), &options), &m);
    DPT_TRY(show(im, SHOWS_WEIGHTS, x));
    if (!dpti_import_wants(im, RESULT)) return DPT_OK; /* the scores alone */
    const dpti_extents to = dpti_import_extents(dpti_import_result(im, RESULT));
    dpt_value y = dpti_import_multiply(im, group(im, x, &h, h.groups), group(im, h.v, &h, 1));
    y = ungroup(im, y, &h);
    if (to.rank == 3) y = dpti_transpose(im->model, y, (const size_t[DPT_MAX_RANK]){0, 2, 1, 3});
    DPT_TRY(dpti_import_check(im));
    dpti_import_give(im, RESULT, dpti_reshape(im->model, y, &to));
    return DPT_OK;
}

const dpti_import_operator dpti_import_attentions[] = {
    {"Attention", import_attention},
    {NULL, NULL},
};
