/* Operators that compute each element from the elements at the same place, with broadcasting. */
#include "onnx/infer_state.h"

#include <string.h>

/* The result has the shape and type of the first input. */
static dpt_status unary(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 1, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    const dpti_onnx_fact y = {.type = x->type, .shape = x->shape};
    return dpti_onnx_give(in, 0, &y, error);
}

static dpt_status unary_to_bool(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 1, error));
    const dpti_onnx_fact y = {.type = DPTI_ONNX_BOOL, .shape = dpti_onnx_input(in, 0)->shape};
    return dpti_onnx_give(in, 0, &y, error);
}

/* The second result of Dropout says which elements were kept. */
static dpt_status dropout(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(unary(in, error));
    const dpti_onnx_fact mask = {.type = DPTI_ONNX_BOOL, .shape = dpti_onnx_input(in, 0)->shape};
    return dpti_onnx_give(in, 1, &mask, error);
}

static dpt_status cast(dpti_onnx_inference *in, dpt_error *error)
{
    const bool like = strcmp(in->node->op, "CastLike") == 0;
    DPT_TRY(dpti_onnx_need(in, like ? 2 : 1, error));
    const int64_t type = like ? (int64_t)dpti_onnx_input(in, 1)->type
                              : dpti_onnx_int(in->node, "to", DPTI_ONNX_UNKNOWN);
    if (dpti_onnx_type_bytes(type) == 0)
        return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error, "the element type %lld is not taken",
                                (long long)type);
    const dpti_onnx_fact y = {.type = (dpti_onnx_type)type, .shape = dpti_onnx_input(in, 0)->shape};
    return dpti_onnx_give(in, 0, &y, error);
}

/* Random numbers, drawn for each element of the input alone. */
static dpt_status random_like(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 1, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    const int64_t type = dpti_onnx_int(in->node, "dtype", (int64_t)x->type);
    if (dpti_onnx_type_bytes(type) == 0)
        return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error, "the element type %lld is not taken",
                                (long long)type);
    const dpti_onnx_fact y = {.type = (dpti_onnx_type)type, .shape = x->shape};
    return dpti_onnx_give(in, 0, &y, error);
}

/* The shape that all inputs from the first on are broadcast to.  `same_type`: they must have the
   type of the last. */
static dpt_status broadcast_all(const dpti_onnx_inference *in, bool same_type, dpti_onnx_fact *y,
                                dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, in->node->n_inputs ? in->node->n_inputs : 1, error));
    const dpti_onnx_fact *last = dpti_onnx_input(in, in->node->n_inputs - 1);
    char left[64], right[64];
    *y = (dpti_onnx_fact){.type = last->type, .shape = dpti_onnx_input(in, 0)->shape};
    for (size_t i = 1; i < in->node->n_inputs; i++) {
        const dpti_onnx_fact *x = dpti_onnx_input(in, i);
        dpti_onnx_print_shape(&y->shape, left, sizeof left);
        dpti_onnx_print_shape(&x->shape, right, sizeof right);
        if (!dpti_onnx_broadcast(&x->shape, &y->shape))
            return dpti_onnx_refuse(in, DPT_E_FORMAT, error,
                                    "the shapes %s and %s do not fit together; if one of them has "
                                    "a fixed batch extent, export with it free",
                                    left, right);
        const dpti_onnx_fact *before = dpti_onnx_input(in, i - 1);
        if (same_type && before->type != x->type)
            return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "its inputs are of types %s and %s",
                                    dpti_onnx_type_name(before->type),
                                    dpti_onnx_type_name(x->type));
    }
    return DPT_OK;
}

static dpt_status broadcasting(dpti_onnx_inference *in, dpt_error *error)
{
    dpti_onnx_fact y;
    DPT_TRY(broadcast_all(in, true, &y, error));
    return dpti_onnx_give(in, 0, &y, error);
}

static dpt_status comparison(dpti_onnx_inference *in, dpt_error *error)
{
    dpti_onnx_fact y;
    DPT_TRY(dpti_onnx_need(in, 2, error));
    DPT_TRY(broadcast_all(in, true, &y, error));
    y.type = DPTI_ONNX_BOOL;
    return dpti_onnx_give(in, 0, &y, error);
}

/* The result of a power has the type of the base. */
static dpt_status power(dpti_onnx_inference *in, dpt_error *error)
{
    dpti_onnx_fact y;
    DPT_TRY(dpti_onnx_need(in, 2, error));
    DPT_TRY(broadcast_all(in, false, &y, error));
    y.type = dpti_onnx_input(in, 0)->type;
    return dpti_onnx_give(in, 0, &y, error);
}

static dpt_status where(dpti_onnx_inference *in, dpt_error *error)
{
    dpti_onnx_fact y;
    DPT_TRY(dpti_onnx_need(in, 3, error));
    DPT_TRY(broadcast_all(in, false, &y, error));
    if (dpti_onnx_input(in, 0)->type != DPTI_ONNX_BOOL ||
        dpti_onnx_input(in, 1)->type != dpti_onnx_input(in, 2)->type)
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error,
                                "it takes a bool and two inputs of one type");
    return dpti_onnx_give(in, 0, &y, error);
}

/* Two inputs of one type. */
static dpt_status binary(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 2, error));
    return broadcasting(in, error);
}

const dpti_onnx_operator dpti_onnx_elementwise[] = {
    {"Abs", unary, 1},
    {"Acos", unary, 1},
    {"Acosh", unary, 1},
    {"Add", binary, 2},
    {"And", comparison, 2},
    {"Asin", unary, 1},
    {"Asinh", unary, 1},
    {"Atan", unary, 1},
    {"Atanh", unary, 1},
    {"Bernoulli", random_like, 1},
    {"Cast", cast, 1},
    {"CastLike", cast, 1},
    {"Ceil", unary, 1},
    {"Celu", unary, 1},
    {"Clip", unary, 3},
    {"Cos", unary, 1},
    {"Cosh", unary, 1},
    {"Div", binary, 2},
    {"Dropout", dropout, 1},
    {"Elu", unary, 1},
    {"Equal", comparison, 2},
    {"Erf", unary, 1},
    {"Exp", unary, 1},
    {"Floor", unary, 1},
    {"Gelu", unary, 1},
    {"Greater", comparison, 2},
    {"GreaterOrEqual", comparison, 2},
    {"HardSigmoid", unary, 1},
    {"HardSwish", unary, 1},
    {"Identity", unary, 1},
    {"IsInf", unary_to_bool, 1},
    {"IsNaN", unary_to_bool, 1},
    {"LeakyRelu", unary, 1},
    {"Less", comparison, 2},
    {"LessOrEqual", comparison, 2},
    {"Log", unary, 1},
    {"Max", broadcasting, SIZE_MAX},
    {"Mean", broadcasting, SIZE_MAX},
    {"Min", broadcasting, SIZE_MAX},
    {"Mish", unary, 1},
    {"Mod", binary, 2},
    {"Mul", binary, 2},
    {"Neg", unary, 1},
    {"Not", unary, 1},
    {"Or", comparison, 2},
    {"PRelu", binary, 2},
    {"Pow", power, 2},
    {"RandomNormalLike", random_like, 1},
    {"RandomUniformLike", random_like, 1},
    {"Reciprocal", unary, 1},
    {"Relu", unary, 1},
    {"Round", unary, 1},
    {"Selu", unary, 1},
    {"Sigmoid", unary, 1},
    {"Sign", unary, 1},
    {"Sin", unary, 1},
    {"Sinh", unary, 1},
    {"Softplus", unary, 1},
    {"Softsign", unary, 1},
    {"Sqrt", unary, 1},
    {"Sub", binary, 2},
    {"Sum", broadcasting, SIZE_MAX},
    {"Swish", unary, 1},
    {"Tan", unary, 1},
    {"Tanh", unary, 1},
    {"ThresholdedRelu", unary, 1},
    {"Where", where, 3},
    {"Xor", comparison, 2},
    {NULL, NULL, 0},
};
