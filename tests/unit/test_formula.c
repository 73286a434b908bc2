/* Tests formulas over elements: what they compute, their derivatives, and bad formulas. */
#include "graph/map_program.h"
#include "harness.h"
#include "reference/reference.h"

#include <math.h>
#include <string.h>

enum { N = DPTI_FORMULA_INPUTS + 1 };

/* The value of a program for one element of every input. */
static double evaluate(const dpti_map_code *code, const double *inputs)
{
    dpt_op_desc desc = {.kind = DPT_OP_MAP,
                        .u.map = {.n_in = code->n_in,
                                  .n_out = 1,
                                  .n_code = code->n_code,
                                  .value = {code->value},
                                  .out = {{.sampled = true, .size = 1}}}};
    double out = NAN;
    reference_args args = {.out = {&out}};
    memcpy(desc.u.map.code, code->code, sizeof desc.u.map.code);
    for (size_t i = 0; i < code->n_in; i++) {
        desc.u.map.in[i] = (dpt_map_operand){.sampled = true, .size = 1};
        args.in[i] = &inputs[code->in[i]];
    }
    reference_run(&desc, 1, &args);
    return out;
}

static bool parses(test *t, const char *formula, size_t n_inputs, dpti_map_code *out)
{
    dpt_error error = {.status = DPT_OK};
    if (CHECK_OK(dpti_map_parse(formula, n_inputs, out, &error))) return true;
    FAIL("%s: %s", formula, error.message);
    return false;
}

static void values(test *t)
{
    static const double inputs[N] = {0.75, -2.5, 3.0, 0.25};
    const struct {
        const char *formula;
        double value;
    } cases[] = {
        {"a", 0.75},
        {"1.5e1", 15.0},
        {"-a * b + c / d", 0.75 * 2.5 + 12.0},
        {"a - b - c", 0.25},
        {"c / d / c", 4.0},
        {"-(a + -b) * 2", -6.5},
        {"a * sigmoid(a)", 0.75 / (1.0 + exp(-0.75))},
        {"softplus(b)", log1p(exp(-2.5))},
        {"max(a, b) - min(a, b)", 3.25},
        {"pow(c, 3)", 27.0},
        {"select(less(a, b), 10, 20)", 20.0},
        {"select(and(less_equal(b, a), not(equal(a, b))), 10, 20)", 10.0},
        {"or(0, a) + floor(b) + ceil(b) + round(b) + sign(b)", 1 - 3 - 2 - 2 - 1},
        {"exp(log(c)) + sqrt(d) + abs(b) + tanh(0) + erf(0) + sin(0) + cos(0)", 7.0},
        {"  ( ( a ) )  ", 0.75},
        {"a*1 + 0*b + 0", 0.75},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpti_map_code code;
        if (!parses(t, cases[i].formula, 4, &code)) continue;
        if (!CHECK_NEAR(evaluate(&code, inputs), cases[i].value, 1e-6))
            FAIL("%s", cases[i].formula);
    }
}

/* Against central differences, at points where nothing jumps. */
static void derivatives(test *t)
{
    static const char *const formulas[] = {
        "a * a * a - 2 * a * b + b / c",
        "a * sigmoid(b) + tanh(a * b) - softplus(c)",
        "exp(a) * log(c) + sqrt(c) + sin(a) * cos(b)",
        "erf(a) + abs(b) + max(a, b) * min(b, c) + sign(a) + floor(b)",
        "pow(c, a) + pow(c, 3)",
        "select(less(a, b), exp(a), a * b) + less(a, c) * b",
        "1 / (1 + exp(-a)) - a",
    };
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++) {
        dpti_map_code code, derivative;
        if (!parses(t, formulas[i], 3, &code)) continue;
        for (uint8_t input = 0; input < 3; input++) {
            double x[N] = {0.3, -0.8, 1.7, 0.6}; /* the last one used is dy */
            const double h = 1e-5;
            if (!CHECK(dpti_map_differentiate(&code, input, 3, &derivative))) continue;
            const double analytic = evaluate(&derivative, x);
            x[input] += h;
            const double above = evaluate(&code, x);
            x[input] -= 2.0 * h;
            const double numeric = 0.6 * (above - evaluate(&code, x)) / (2.0 * h);
            if (!CHECK_NEAR(analytic, numeric, 1e-6)) FAIL("%s by %c", formulas[i], 'a' + input);
        }
    }
}

/* A maximum of equal values gives half of the gradient to each. */
static void ties(test *t)
{
    static const double x[N] = {2.0, 2.0, 5.0};
    dpti_map_code code, derivative;
    REQUIRE(parses(t, "max(a, b)", 2, &code));
    for (uint8_t input = 0; input < 2; input++) {
        REQUIRE(dpti_map_differentiate(&code, input, 2, &derivative));
        CHECK_NEAR(evaluate(&derivative, x), 2.5, 0.0);
    }
}

/* Where a value equals a number, max has the slope 0 and min the slope 1 (PyTorch's leaky ReLU and
   ELU), and the derivative takes few instructions. */
static void ties_with_numbers(test *t)
{
    static const struct {
        const char *formula;
        double x, slope;
        size_t most; /* instructions of the derivative */
    } cases[] = {
        {"max(a, 2)", 2.0, 0.0, 6},
        {"max(2, a)", 2.0, 0.0, 6},
        {"min(a, 2)", 2.0, 1.0, 6},
        {"min(2, a)", 2.0, 1.0, 6},
        {"max(a, 2)", 2.5, 1.0, 6},
        {"min(a, 2)", 2.5, 0.0, 6},
        {"max(a, 0) + 0.25 * min(a, 0)", 0.0, 0.25, 12},
        {"min(max(a, 0), 6)", 6.0, 1.0, 10},
        {"min(max(a, 0), 6)", 0.0, 0.0, 10},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpti_map_code code, derivative;
        const double x[N] = {cases[i].x, 3.0}; /* and the gradient of the value */
        REQUIRE(parses(t, cases[i].formula, 1, &code));
        REQUIRE(dpti_map_differentiate(&code, 0, 1, &derivative));
        CHECK_NEAR(evaluate(&derivative, x), 3.0 * cases[i].slope, 0.0);
        if (!CHECK(derivative.n_code <= cases[i].most))
            FAIL("%s: %u instructions", cases[i].formula, (unsigned)derivative.n_code);
    }
}

static void shared_terms(test *t)
{
    dpti_map_code code;
    REQUIRE(parses(t, "sigmoid(a) * sigmoid(a) + sigmoid(a)", 1, &code));
    CHECK_SIZE(code.n_code, 4); /* load, sigmoid, product, sum */
}

static void bad_formulas(test *t)
{
    char nested[200] = "", long_one[600] = "a";
    const struct {
        const char *formula, *message;
    } cases[] = {
        {"", "missing at character 1"},
        {"a +", "missing at character 4"},
        {"a + * b", "missing at character 5"},
        {"c", "no input \"c\" at character 1; the last one is b"},
        {"A", "missing at character 1"},
        {"a b", "\"b\" at character 3 is not expected"},
        {"a)", "\")\" at character 2 is not expected"},
        {"(a", "\")\" is missing at character 3"},
        {"swish(a)", "there is no function swish; known are abs"},
        {"exp a", "exp at character 5 needs \"(\""},
        {"exp(a, b)", "exp takes 1 argument; \")\" is missing at character 6"},
        {"max(a)", "max takes 2 arguments, not 1"},
        {"select(a, b)", "select takes 3 arguments, not 2"},
        {"1.2.3", "\"1.2.3\" at character 1 is no number"},
        {"1e99", "\"1e99\" at character 1 is no number"},
        {"0x10", "is not expected"},
        {nested, "it is nested too deeply"},
        {long_one, "it is too long"},
    };
    memset(nested, '(', sizeof nested - 1);
    for (size_t i = 1; i < 60; i++)
        snprintf(long_one + strlen(long_one), sizeof long_one - strlen(long_one), "+%zu", i);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpti_map_code code;
        dpt_error error = {.status = DPT_OK};
        CHECK_STATUS(dpti_map_parse(cases[i].formula, 2, &code, &error), DPT_E_INVALID);
        CHECK_CONTAINS(error.message, cases[i].message);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"values", values},
        {"derivatives", derivatives},
        {"ties", ties},
        {"ties_with_numbers", ties_with_numbers},
        {"shared terms", shared_terms},
        {"bad formulas", bad_formulas},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
