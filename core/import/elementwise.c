/* Operators over elements: each is a formula over its inputs. */
#include "import/state.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FORMULA_BYTES = 256 };

static dpt_status apply(dpti_importer *im, const char *formula, size_t n)
{
    dpt_value in[DPTI_FORMULA_INPUTS];
    for (size_t i = 0; i < n; i++)
        DPT_TRY(dpti_import_input(im, i, &in[i]));
    dpti_import_give(im, 0, dpti_formula(im->model, formula, in, n));
    return DPT_OK;
}

/* ---- Operators without attributes ------------------------------------------------------------ */

static const struct {
    const char *name, *formula;
    size_t n_inputs;
} plain[] = {
    {"Abs", "abs(a)", 1},
    {"Acosh", "log(a + sqrt(a * a - 1))", 1},
    {"Add", "a + b", 2},
    {"And", "and(a, b)", 2},
    {"Asinh", "select(less(a, 0), -1, 1) * log(select(less(a, 0), -a, a) + sqrt(a * a + 1))", 1},
    {"Atanh", "0.5 * log((1 + a) / (1 - a))", 1},
    {"Ceil", "ceil(a)", 1},
    {"Cos", "cos(a)", 1},
    {"Cosh", "0.5 * (exp(a) + exp(0 - a))", 1},
    {"Div", "a / b", 2},
    {"Equal", "equal(a, b)", 2},
    {"Erf", "erf(a)", 1},
    {"Exp", "exp(a)", 1},
    {"Floor", "floor(a)", 1},
    {"Greater", "less(b, a)", 2},
    {"GreaterOrEqual", "less_equal(b, a)", 2},
    {"HardSwish", "a * max(0, min(1, a / 6 + 0.5))", 1},
    {"IsNaN", "not(equal(a, a))", 1},
    {"Less", "less(a, b)", 2},
    {"LessOrEqual", "less_equal(a, b)", 2},
    {"Log", "log(a)", 1},
    {"Mish", "a * tanh(softplus(a))", 1},
    {"Mul", "a * b", 2},
    {"Neg", "0 - a", 1},
    {"Not", "not(a)", 1},
    {"Or", "or(a, b)", 2},
    {"PRelu", "max(a, 0) + b * min(a, 0)", 2},
    {"Reciprocal", "1 / a", 1},
    {"Round", "round(a)", 1},
    {"Sign", "sign(a)", 1},
    {"Sin", "sin(a)", 1},
    {"Sinh", "0.5 * tanh(a) * (exp(a) + exp(0 - a))", 1},
    {"Softplus", "softplus(a)", 1},
    {"Softsign", "a / (1 + abs(a))", 1},
    {"Sqrt", "sqrt(a)", 1},
    {"Sub", "a - b", 2},
    {"Tan", "sin(a) / cos(a)", 1},
    {"Where", "select(a, b, c)", 3},
    {"Xor", "not(equal(not(a), not(b)))", 2},
};

static dpt_status import_plain(dpti_importer *im)
{
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(plain[i].name, im->node->op) == 0)
            return apply(im, plain[i].formula, plain[i].n_inputs);
    return dpti_import_refuse(im, DPT_E_UNSUPPORTED, "unknown");
}

static dpt_status import_sum(dpti_importer *im)
{
    bool done;
    DPT_TRY(dpti_import_raised(im, &done));
    if (!done) DPT_TRY(dpti_import_take_bias(im, &done));
    return done ? DPT_OK : import_plain(im);
}

static dpt_status import_multiple(dpti_importer *im)
{
    bool done;
    DPT_TRY(dpti_import_scale(im, &done));
    return done ? DPT_OK : import_plain(im);
}

/* The quotient of integers is rounded towards zero.  Half a unit keeps the quotient away from the
   next integer, so that the rounding of a device's division does not matter. */
static dpt_status import_quotient(dpti_importer *im)
{
    if (dpti_onnx_type_is_real(dpti_import_result(im, 0)->type)) return import_multiple(im);
    return apply(im, "sign(a) * sign(b) * floor((abs(a) + 0.5) / abs(b))", 2);
}

/* The remainder of a division whose quotient t is rounded towards zero (fmod), or downwards: then a
   remainder of the other sign than b gets b.  Where t is 0 the remainder is a, also if b is
   infinite. */
static dpt_status import_remainder(dpti_importer *im)
{
    enum { REMAINDER_BYTES = 512 };
    const bool real = dpti_onnx_type_is_real(dpti_import_result(im, 0)->type);
    const char *t = real ? "(sign(a) * sign(b) * floor(abs(a) / abs(b)))"
                         : "(sign(a) * sign(b) * floor((abs(a) + 0.5) / abs(b)))";
    char of_c[REMAINDER_BYTES], formula[4 * REMAINDER_BYTES];
    snprintf(of_c, sizeof of_c, "select(equal(%s, 0), a, a - b * %s)", t, t);
    if (dpti_onnx_int(im->node, "fmod", 0) != 0) return apply(im, of_c, 2);
    snprintf(formula, sizeof formula, "select(less(%s * b, 0), %s + b, %s)", of_c, of_c, of_c);
    return apply(im, formula, 2);
}

/* Both infinities, or one of them.  An infinity less itself is no number. */
static dpt_status import_infinity(dpti_importer *im)
{
    const bool below = dpti_onnx_int(im->node, "detect_negative", 1) != 0;
    const bool above = dpti_onnx_int(im->node, "detect_positive", 1) != 0;
    if (below && above) return apply(im, "and(equal(a, a), not(equal(a - a, 0)))", 1);
    if (above) return apply(im, "and(less(0, a), not(equal(a - a, 0)))", 1);
    if (below) return apply(im, "and(less(a, 0), not(equal(a - a, 0)))", 1);
    return apply(im, "a * 0", 1);
}

/* The elements on one side of a diagonal; the others are 0. */
static dpt_status import_triangle(dpti_importer *im)
{
    char formula[FORMULA_BYTES];
    double diagonal;
    dpt_value x;
    DPT_TRY(dpti_import_input(im, 0, &x));
    DPT_TRY(dpti_import_number(im, 1, 0, &diagonal));
    const dpti_extents e = dpti_extents_of(im->model, x);
    if (e.rank < 2) return dpti_import_refuse(im, DPT_E_INVALID, "its input is no matrix");
    const bool upper = dpti_onnx_int(im->node, "upper", 1) != 0;
    snprintf(formula, sizeof formula, "select(less_equal(%s), a, 0)",
             upper ? "b, c - d" : "c - d, b");
    const float at = (float)diagonal;
    const dpt_value in[] = {x, dpti_add_constant(im->model, &(dpti_extents){.rank = 0}, &at),
                            dpti_import_count(im, e.rank, e.rank - 1, e.extent[e.rank - 1]),
                            dpti_import_count(im, e.rank, e.rank - 2, e.extent[e.rank - 2])};
    dpti_import_give(im, 0, dpti_formula(im->model, formula, in, 4));
    return DPT_OK;
}

/* Random numbers that are compared with a probability are not made. */
static dpt_status import_order(dpti_importer *im)
{
    bool done;
    DPT_TRY(dpti_import_choice(im, &done));
    return done ? DPT_OK : import_plain(im);
}

static dpt_status import_floor(dpti_importer *im)
{
    bool done;
    DPT_TRY(dpti_import_floor(im, &done));
    return done ? DPT_OK : import_plain(im);
}

/* A power with a constant exponent has no logarithm in its derivative. */
static dpt_status import_power(dpti_importer *im)
{
    const dpti_onnx_fact *exponent = dpti_import_fact(im, 1);
    char formula[FORMULA_BYTES];
    double e;
    if (!exponent->cells || exponent->n_cells != 1 || dpti_import_trains(im, 1))
        return apply(im, "pow(a, b)", 2);
    DPT_TRY(dpti_import_number(im, 1, 1, &e));
    if (e == 2)
        snprintf(formula, sizeof formula, "a * a");
    else if (e == 3)
        snprintf(formula, sizeof formula, "a * a * a");
    else if (e == 0.5)
        snprintf(formula, sizeof formula, "sqrt(a)");
    else
        snprintf(formula, sizeof formula, "pow(a, %.9g)", e);
    return apply(im, formula, 1);
}

/* PyTorch's exporter writes logsigmoid, and the loss BCEWithLogits, as the logarithm of a sigmoid.
 */
static dpt_status import_log(dpti_importer *im)
{
    const dpti_onnx_node *log = im->node, *sigmoid = dpti_import_sigmoid_of(im);
    if (!sigmoid) return import_plain(im);
    const dpti_onnx_node renamed = dpti_import_rename(im, sigmoid);
    dpti_onnx_node both = *log;
    both.inputs = renamed.inputs;
    im->node = &both;
    const dpt_status status = apply(im, "-softplus(-a)", 1);
    im->node = log;
    return status;
}

static dpt_status import_activation(dpti_importer *im)
{
    static const struct {
        const char *name;
        dpt_activation kind;
    } kinds[] = {{"Relu", DPT_ACT_RELU}, {"Tanh", DPT_ACT_TANH}, {"Sigmoid", DPT_ACT_SIGMOID}};
    dpt_value x;
    if (dpti_import_skips_sigmoid(im)) return DPT_OK;
    DPT_TRY(dpti_import_input(im, 0, &x));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, im->node->op) == 0)
            dpti_import_give(im, 0, dpt_activate(im->model, x, kinds[i].kind));
    return DPT_OK;
}

static dpt_status import_same(dpti_importer *im)
{
    dpt_value x;
    DPT_TRY(dpti_import_input(im, 0, &x));
    dpti_import_give(im, 0, x);
    return DPT_OK;
}

static dpt_status import_cast(dpti_importer *im)
{
    const dpti_onnx_type to = dpti_import_result(im, 0)->type, from = dpti_import_fact(im, 0)->type;
    if (dpti_onnx_type_is_real(to) && !dpti_onnx_type_is_real(from) && from != DPTI_ONNX_BOOL)
        return apply(im, "a", 1); /* ids become numbers */
    if (to == DPTI_ONNX_BOOL && from != DPTI_ONNX_BOOL) return apply(im, "not(equal(a, 0))", 1);
    if (dpti_onnx_type_is_real(to) || from == to || !dpti_onnx_type_is_real(from))
        return import_same(im);
    return apply(im, "sign(a) * floor(abs(a))", 1);
}

static dpt_status import_dropout(dpti_importer *im)
{
    dpt_value x;
    double ratio, trains;
    DPT_TRY(dpti_import_number(im, 2, 0, &trains));
    DPT_TRY(dpti_import_input(im, 0, &x));
    if (trains == 0) {
        const float kept = 1;
        const dpti_extents e = dpti_extents_of(im->model, x), one = {.rank = 0};
        if (dpti_import_wants(im, 1)) /* the mask keeps everything */
            dpti_import_give(im, 1,
                             dpti_expand(im->model, dpti_add_constant(im->model, &one, &kept), &e));
        return import_same(im);
    }
    DPT_TRY(dpti_import_number(im, 1, 0.5, &ratio));
    if (!(ratio >= 0 && ratio < 1))
        return dpti_import_refuse(im, DPT_E_INVALID, "a ratio of %g is not in [0, 1)", ratio);
    dpti_import_give(im, 0, dpt_dropout(im->model, x, (float)ratio));
    return DPT_OK;
}

/* ---- Inverses of sine, cosine and tangent ---------------------------------------------------- */

/* The arc tangent.  Two reductions, |x| above 1 to its reciprocal and what is above tan(pi / 8) by
   pi / 4, leave |u| below 0.415, where a polynomial has an error below 1e-7 (that of Cephes). No
   branch divides by 0, and the derivative at 0 is 1. */
static dpt_value arc_tangent(dpt_model *model, dpt_value x)
{
    const dpt_value w = dpti_formula(model, "select(less(a, 0), -a, a)", &x, 1);
    const dpt_value t = dpti_formula(model, "select(less(1, a), 1 / max(a, 1), a)", &w, 1);
    const dpt_value u =
        dpti_formula(model, "select(less(0.414213562, a), (a - 1) / (a + 1), a)", &t, 1);
    const dpt_value z = dpti_formula(model, "a * a", &u, 1);
    const dpt_value p = dpti_formula(
        model,
        "a + a * b * (((0.0805374450 * b - 0.138776856) * b + 0.199777106) * b - 0.333329492)",
        (dpt_value[]){u, z}, 2);
    const dpt_value v = dpti_formula(model, "select(less(0.414213562, b), a + 0.785398163, a)",
                                     (dpt_value[]){p, t}, 2);
    return dpti_formula(model, "select(less(b, 0), -1, 1) * select(less(1, c), 1.57079633 - a, a)",
                        (dpt_value[]){v, x, w}, 3);
}

static dpt_status import_arc(dpti_importer *im)
{
    dpt_value x;
    DPT_TRY(dpti_import_input(im, 0, &x));
    if (strcmp(im->node->op, "Atan") != 0) {
        x = dpti_formula(im->model, "a / (1 + sqrt(1 - a * a))", &x, 1); /* tan(asin(x) / 2) */
        x = arc_tangent(im->model, x);
        x = dpti_formula(im->model,
                         strcmp(im->node->op, "Asin") == 0 ? "2 * a" : "1.57079633 - 2 * a", &x, 1);
    } else {
        x = arc_tangent(im->model, x);
    }
    dpti_import_give(im, 0, x);
    return DPT_OK;
}

/* ---- Operators with numbers ------------------------------------------------------------------ */

static dpt_status import_with_alpha(dpti_importer *im)
{
    static const struct {
        const char *name, *format;
        float alpha, beta;
        const char *second;
    } kinds[] = {
        {"Celu", "max(a, 0) + min(0, %1$.9g * (exp(min(a, 0) / %1$.9g) - 1))", 1, 0, NULL},
        {"Elu", "max(a, 0) + %1$.9g * (exp(min(a, 0)) - 1)", 1, 0, NULL},
        {"HardSigmoid", "max(0, min(1, %1$.9g * a + %2$.9g))", 0.2f, 0.5f, "beta"},
        {"LeakyRelu", "max(a, 0) + %1$.9g * min(a, 0)", 0.01f, 0, NULL},
        {"Selu", "%2$.9g * (max(a, 0) + %1$.9g * (exp(min(a, 0)) - 1))", 1.67326319217681884765625f,
         1.05070102214813232421875f, "gamma"},
        {"Swish", "a * sigmoid(%1$.9g * a)", 1, 0, NULL},
        {"ThresholdedRelu", "select(less(%1$.9g, a), a, 0)", 1, 0, NULL},
    };
    char formula[FORMULA_BYTES];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, im->node->op) != 0) continue;
        const double alpha = (double)dpti_onnx_float(im->node, "alpha", kinds[i].alpha);
        const double beta =
            kinds[i].second ? (double)dpti_onnx_float(im->node, kinds[i].second, kinds[i].beta) : 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(formula, sizeof formula, kinds[i].format, alpha, beta);
#pragma GCC diagnostic pop
        return apply(im, formula, 1);
    }
    return dpti_import_refuse(im, DPT_E_UNSUPPORTED, "unknown");
}

static bool trains_limit(const dpti_importer *im)
{
    return (dpti_import_has(im, 1) && dpti_import_trains(im, 1)) ||
           (dpti_import_has(im, 2) && dpti_import_trains(im, 2));
}

/* Limits that are parameters. */
static dpt_status clip_by_values(dpti_importer *im)
{
    dpt_value in[2];
    DPT_TRY(dpti_import_input(im, 0, &in[0]));
    for (size_t i = 1; i <= 2; i++) {
        if (!dpti_import_has(im, i)) continue;
        DPT_TRY(dpti_import_input(im, i, &in[1]));
        in[0] = dpti_formula(im->model, i == 1 ? "max(a, b)" : "min(a, b)", in, 2);
        DPT_TRY(dpti_import_check(im));
    }
    dpti_import_give(im, 0, in[0]);
    return DPT_OK;
}

static dpt_status import_clip(dpti_importer *im)
{
    char formula[FORMULA_BYTES];
    double least, most;
    if (trains_limit(im)) return clip_by_values(im);
    DPT_TRY(dpti_import_number(im, 1, -INFINITY, &least));
    DPT_TRY(dpti_import_number(im, 2, INFINITY, &most));
    if (isinf(least) && isinf(most)) return import_same(im);
    if (isinf(most))
        snprintf(formula, sizeof formula, "max(a, %.9g)", least);
    else if (isinf(least))
        snprintf(formula, sizeof formula, "min(a, %.9g)", most);
    else
        snprintf(formula, sizeof formula, "min(max(a, %.9g), %.9g)", least, most);
    return apply(im, formula, 1);
}

static dpt_status import_gelu(dpti_importer *im)
{
    if (strcmp(dpti_onnx_string(im->node, "approximate", "none"), "tanh") == 0)
        return apply(im, "0.5 * a * (1 + tanh(0.797884561 * (a + 0.044715 * a * a * a)))", 1);
    dpt_value x;
    DPT_TRY(dpti_import_input(im, 0, &x));
    dpti_import_give(im, 0, dpt_activate(im->model, x, DPT_ACT_GELU));
    return DPT_OK;
}

/* Any number of inputs, two at a time. */
static dpt_status import_several(dpti_importer *im)
{
    const char *op = im->node->op, *formula = "a + b";
    char scale[FORMULA_BYTES];
    dpt_value y;
    if (strcmp(op, "Max") == 0) formula = "max(a, b)";
    if (strcmp(op, "Min") == 0) formula = "min(a, b)";
    DPT_TRY(dpti_import_input(im, 0, &y));
    for (size_t i = 1; i < im->node->n_inputs; i++) {
        dpt_value x;
        DPT_TRY(dpti_import_input(im, i, &x));
        y = dpti_formula(im->model, formula, (dpt_value[]){y, x}, 2);
    }
    if (strcmp(op, "Mean") == 0) {
        snprintf(scale, sizeof scale, "a * %.9g", 1.0 / (double)im->node->n_inputs);
        y = dpti_formula(im->model, scale, &y, 1);
    }
    dpti_import_give(im, 0, y);
    return DPT_OK;
}

const dpti_import_operator dpti_import_elementwise[] = {
    {"Abs", import_plain},
    {"Acos", import_arc},
    {"Acosh", import_plain},
    {"Add", import_sum},
    {"And", import_plain},
    {"Asin", import_arc},
    {"Asinh", import_plain},
    {"Atan", import_arc},
    {"Atanh", import_plain},
    {"Cast", import_cast},
    {"CastLike", import_cast},
    {"Ceil", import_plain},
    {"Celu", import_with_alpha},
    {"Clip", import_clip},
    {"Cos", import_plain},
    {"Cosh", import_plain},
    {"Div", import_quotient},
    {"Dropout", import_dropout},
    {"Elu", import_with_alpha},
    {"Equal", import_plain},
    {"Erf", import_plain},
    {"Exp", import_plain},
    {"Floor", import_floor},
    {"Gelu", import_gelu},
    {"Greater", import_order},
    {"GreaterOrEqual", import_order},
    {"HardSigmoid", import_with_alpha},
    {"HardSwish", import_plain},
    {"Identity", import_same},
    {"IsInf", import_infinity},
    {"IsNaN", import_plain},
    {"LeakyRelu", import_with_alpha},
    {"Less", import_order},
    {"LessOrEqual", import_order},
    {"Log", import_log},
    {"Max", import_several},
    {"Mean", import_several},
    {"Min", import_several},
    {"Mish", import_plain},
    {"Mod", import_remainder},
    {"Mul", import_multiple},
    {"Neg", import_plain},
    {"Not", import_plain},
    {"Or", import_plain},
    {"PRelu", import_plain},
    {"Pow", import_power},
    {"Reciprocal", import_plain},
    {"Relu", import_activation},
    {"Round", import_plain},
    {"Selu", import_with_alpha},
    {"Sigmoid", import_activation},
    {"Sign", import_plain},
    {"Sin", import_plain},
    {"Sinh", import_plain},
    {"Softplus", import_plain},
    {"Softsign", import_plain},
    {"Sqrt", import_plain},
    {"Sub", import_plain},
    {"Sum", import_several},
    {"Swish", import_with_alpha},
    {"Tan", import_plain},
    {"Tanh", import_activation},
    {"ThresholdedRelu", import_with_alpha},
    {"Trilu", import_triangle},
    {"Where", import_plain},
    {"Xor", import_plain},
    {NULL, NULL},
};
