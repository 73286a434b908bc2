/* Programs that ONNX has an operator for: the formulas that the import makes of these operators
   (import/elementwise.c). */
#include "export/state.h"

#include "graph/map_program.h"

#include <string.h>

/* Numbers of a formula that stand for the operator's own. */
enum { FIRST = 1001, SECOND = 1002, N_NUMBERS = 2 };

static const struct pattern {
    const char *op;
    int64_t opset; /* the first that has the operator in this form */
    const char *formula;
    const char *numbers[N_NUMBERS]; /* attributes; NULL: none */
    bool as_inputs;                 /* the numbers are inputs, and no attributes */
} patterns[] = {
    {"Celu", 13, "max(a, 0) + min(0, 1001 * (exp(min(a, 0) / 1001) - 1))", {"alpha"}, false},
    {"Clip", 13, "min(max(a, 1001), 1002)", {"min", "max"}, true},
    {"Elu", 13, "max(a, 0) + 1001 * (exp(min(a, 0)) - 1)", {"alpha"}, false},
    {"Elu", 13, "max(a, 0) + 1 * (exp(min(a, 0)) - 1)", {NULL}, false},
    {"HardSigmoid", 13, "max(0, min(1, 1001 * a + 1002))", {"alpha", "beta"}, false},
    {"HardSwish", 14, "a * max(0, min(1, a / 6 + 0.5))", {NULL}, false},
    {"LeakyRelu", 13, "max(a, 0) + 1001 * min(a, 0)", {"alpha"}, false},
    {"Mish", 18, "a * tanh(softplus(a))", {NULL}, false},
    {"Selu", 13, "1002 * (max(a, 0) + 1001 * (exp(min(a, 0)) - 1))", {"alpha", "gamma"}, false},
    {"Softsign", 13, "a / (1 + abs(a))", {NULL}, false},
    {"ThresholdedRelu", 13, "select(less(1001, a), a, 0)", {"alpha"}, false},
};

/* Whether two instructions do the same.  A number of the pattern that stands for another one takes
   it. */
static bool is_like(const dpt_map_instruction *pattern, const dpt_map_instruction *at,
                    float numbers[N_NUMBERS])
{
    if (pattern->code != at->code || pattern->a != at->a || pattern->b != at->b ||
        pattern->c != at->c)
        return false;
    if (pattern->code != DPT_MAP_CONSTANT || pattern->constant == at->constant) return true;
    const int which = (int)pattern->constant - FIRST;
    if (which < 0 || which >= N_NUMBERS) return false;
    numbers[which] = at->constant;
    return true;
}

static bool matches(const struct pattern *p, const dpt_map_desc *d, float numbers[N_NUMBERS])
{
    dpti_map_code code;
    dpt_error error = {.status = DPT_OK};
    if (dpti_map_parse(p->formula, 1, &code, &error) != DPT_OK || code.n_code != d->n_code ||
        code.value != d->value[0])
        return false;
    for (size_t i = 0; i < code.n_code; i++)
        if (!is_like(&code.code[i], &d->code[i], numbers)) return false;
    return true;
}

static dpti_draft_value *call(dpti_exporter *e, const struct pattern *p, dpti_draft_value *x,
                              const float numbers[N_NUMBERS])
{
    dpti_draft_value *inputs[1 + N_NUMBERS] = {x};
    size_t n = 1;
    for (size_t i = 0; p->as_inputs && i < N_NUMBERS; i++)
        inputs[n++] = dpti_draft_number(e->draft, numbers[i]);
    dpti_draft_node *node = dpti_draft_call(e->draft, p->op, inputs, n);
    for (size_t i = 0; !p->as_inputs && i < N_NUMBERS && p->numbers[i]; i++)
        dpti_draft_float(node, p->numbers[i], numbers[i]);
    return node->output;
}

dpti_draft_value *dpti_export_named(dpti_exporter *e, const dpti_export_program *program)
{
    const dpt_map_desc *d = program->map;
    float numbers[N_NUMBERS] = {0, 0};
    if (d->n_in != 1) return NULL;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (e->draft->opset >= patterns[i].opset && matches(&patterns[i], d, numbers))
            return call(e, &patterns[i], dpti_export_cast(e, program->inputs[0], DPTI_ONNX_FLOAT),
                        numbers);
    return NULL;
}
