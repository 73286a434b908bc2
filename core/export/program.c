/* Programs over elements as operators of ONNX, one for each instruction. */
#include "export/state.h"

static const struct operation {
    const char *name;
    enum {
        NUMBERS,
        COMPARES,
        DECIDES
    } kind; /* of numbers; the result is true or false; of truths */
} operations[DPT_MAP_COUNT] = {
    [DPT_MAP_ADD] = {"Add", NUMBERS},
    [DPT_MAP_SUBTRACT] = {"Sub", NUMBERS},
    [DPT_MAP_MULTIPLY] = {"Mul", NUMBERS},
    [DPT_MAP_DIVIDE] = {"Div", NUMBERS},
    [DPT_MAP_MINIMUM] = {"Min", NUMBERS},
    [DPT_MAP_MAXIMUM] = {"Max", NUMBERS},
    [DPT_MAP_POWER] = {"Pow", NUMBERS},
    [DPT_MAP_NEGATE] = {"Neg", NUMBERS},
    [DPT_MAP_ABSOLUTE] = {"Abs", NUMBERS},
    [DPT_MAP_SIGN] = {"Sign", NUMBERS},
    [DPT_MAP_FLOOR] = {"Floor", NUMBERS},
    [DPT_MAP_CEILING] = {"Ceil", NUMBERS},
    [DPT_MAP_ROUND] = {"Round", NUMBERS},
    [DPT_MAP_RECIPROCAL] = {"Reciprocal", NUMBERS},
    [DPT_MAP_SQRT] = {"Sqrt", NUMBERS},
    [DPT_MAP_EXP] = {"Exp", NUMBERS},
    [DPT_MAP_LOG] = {"Log", NUMBERS},
    [DPT_MAP_SINE] = {"Sin", NUMBERS},
    [DPT_MAP_COSINE] = {"Cos", NUMBERS},
    [DPT_MAP_TANH] = {"Tanh", NUMBERS},
    [DPT_MAP_ERF] = {"Erf", NUMBERS},
    [DPT_MAP_SIGMOID] = {"Sigmoid", NUMBERS},
    [DPT_MAP_SOFTPLUS] = {"Softplus", NUMBERS},
    [DPT_MAP_LESS] = {"Less", COMPARES},
    [DPT_MAP_LESS_EQUAL] = {"LessOrEqual", COMPARES},
    [DPT_MAP_EQUAL] = {"Equal", COMPARES},
    [DPT_MAP_AND] = {"And", DECIDES},
    [DPT_MAP_OR] = {"Or", DECIDES},
    [DPT_MAP_NOT] = {"Not", DECIDES},
    [DPT_MAP_SELECT] = {"Where", NUMBERS},
};

/* The value of one instruction. */
static dpti_draft_value *operate(dpti_exporter *e, const dpt_map_instruction *at,
                                 dpti_draft_value *const *values)
{
    const struct operation *o = &operations[at->code];
    const uint8_t operands[] = {at->a, at->b, at->c};
    const unsigned n = dpt_map_operands((dpt_map_code)at->code);
    dpti_draft_value *inputs[3];
    for (unsigned i = 0; i < n; i++) {
        const bool truth = o->kind == DECIDES || (at->code == DPT_MAP_SELECT && i == 0);
        inputs[i] =
            dpti_export_cast(e, values[operands[i]], truth ? DPTI_ONNX_BOOL : DPTI_ONNX_FLOAT);
    }
    dpti_draft_value *y = dpti_draft_call(e->draft, o->name, inputs, n)->output;
    y->type = o->kind == NUMBERS ? DPTI_ONNX_FLOAT : DPTI_ONNX_BOOL;
    return y;
}

dpti_draft_value *dpti_export_run(dpti_exporter *e, const dpti_export_program *program)
{
    const dpt_map_desc *d = program->map;
    dpti_draft_value *values[DPT_MAP_LENGTH];
    dpti_draft_value *named = dpti_export_named(e, program);
    if (named) return named;
    for (size_t i = 0; i < d->n_code; i++) {
        const dpt_map_instruction *at = &d->code[i];
        if (at->code == DPT_MAP_LOAD)
            values[i] = program->inputs[at->index];
        else if (at->code == DPT_MAP_CONSTANT)
            values[i] = dpti_draft_number(e->draft, at->constant);
        else
            values[i] = operate(e, at, values);
    }
    return values[d->value[0]];
}
