/* Formulas over elements: a recursive descent parser.

     sum     = product { ("+" | "-") product }
     product = factor { ("*" | "/") factor }
     factor  = "-" factor | number | input | function "(" sum { "," sum } ")" | "(" sum ")" */
#include "graph/map_program.h"

#include "base/parse.h"

#include <string.h>

enum { MOST_DEPTH = 32, MOST_NAME = 24 };

typedef struct parser {
    const char *formula, *at;
    size_t n_inputs;
    unsigned depth;
    dpti_map_program *out;
    dpt_error *error;
} parser;

/* In the order of their names' first letters. */
static const struct function {
    const char *name;
    dpt_map_code code;
} functions[] = {
    {"abs", DPT_MAP_ABSOLUTE},    {"and", DPT_MAP_AND},
    {"ceil", DPT_MAP_CEILING},    {"cos", DPT_MAP_COSINE},
    {"equal", DPT_MAP_EQUAL},     {"erf", DPT_MAP_ERF},
    {"exp", DPT_MAP_EXP},         {"floor", DPT_MAP_FLOOR},
    {"less", DPT_MAP_LESS},       {"less_equal", DPT_MAP_LESS_EQUAL},
    {"log", DPT_MAP_LOG},         {"max", DPT_MAP_MAXIMUM},
    {"min", DPT_MAP_MINIMUM},     {"not", DPT_MAP_NOT},
    {"or", DPT_MAP_OR},           {"pow", DPT_MAP_POWER},
    {"round", DPT_MAP_ROUND},     {"select", DPT_MAP_SELECT},
    {"sigmoid", DPT_MAP_SIGMOID}, {"sign", DPT_MAP_SIGN},
    {"sin", DPT_MAP_SINE},        {"softplus", DPT_MAP_SOFTPLUS},
    {"sqrt", DPT_MAP_SQRT},       {"tanh", DPT_MAP_TANH},
};

static dpt_status parse_sum(parser *p, uint8_t *out);

#define REFUSE(p, ...) DPT_FAIL((p)->error, DPT_E_INVALID, __VA_ARGS__)

static char next(parser *p)
{
    while (*p->at == ' ')
        p->at++;
    return *p->at;
}

static size_t place(const parser *p)
{
    return (size_t)(p->at - p->formula) + 1;
}

static bool takes(parser *p, char wanted)
{
    if (next(p) != wanted) return false;
    p->at++;
    return true;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || c == '_';
}

static bool is_part_of_number(char c)
{
    return (c >= '0' && c <= '9') || c == '.';
}

/* Digits with at most one point, and an exponent. */
static dpt_status parse_number(parser *p, uint8_t *out)
{
    char text[48] = "";
    size_t n = 0;
    double value;
    while (n + 1 < sizeof text &&
           (is_part_of_number(p->at[n]) || p->at[n] == 'e' ||
            (n > 0 && p->at[n - 1] == 'e' && (p->at[n] == '-' || p->at[n] == '+'))))
        n++;
    memcpy(text, p->at, n);
    if (!dpti_parse_real(text, 0.0, 3e38, &value))
        return REFUSE(p, "\"%s\" at character %zu is no number", text, place(p));
    p->at += n;
    *out = dpti_map_constant(p->out, (float)value);
    return DPT_OK;
}

static dpt_status parse_arguments(parser *p, const struct function *f, uint8_t arguments[3])
{
    const unsigned n = dpt_map_operands(f->code);
    if (!takes(p, '(')) return REFUSE(p, "%s at character %zu needs \"(\"", f->name, place(p));
    for (unsigned i = 0; i < n; i++) {
        if (i > 0 && !takes(p, ','))
            return REFUSE(p, "%s takes %u arguments, not %u, at character %zu", f->name, n, i,
                          place(p));
        DPT_TRY(parse_sum(p, &arguments[i]));
    }
    if (!takes(p, ')'))
        return REFUSE(p, "%s takes %u argument%s; \")\" is missing at character %zu", f->name, n,
                      n > 1 ? "s" : "", place(p));
    return DPT_OK;
}

static dpt_status parse_call(parser *p, const char *name, uint8_t *out)
{
    uint8_t arguments[3] = {0};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        const struct function *f = &functions[i];
        if (strcmp(f->name, name) != 0) continue;
        DPT_TRY(parse_arguments(p, f, arguments));
        const unsigned n = dpt_map_operands(f->code);
        if (n == 3)
            *out = dpti_map_select(p->out, arguments[0], arguments[1], arguments[2]);
        else
            *out = n == 2 ? dpti_map_add(p->out, f->code, arguments[0], arguments[1])
                          : dpti_map_unary(p->out, f->code, arguments[0]);
        return DPT_OK;
    }
    return REFUSE(p,
                  "there is no function %s; known are abs, and, ceil, cos, equal, erf, exp, floor, "
                  "less, less_equal, log, max, min, not, or, pow, round, select, sigmoid, sign, "
                  "sin, softplus, sqrt and tanh",
                  name);
}

static dpt_status parse_word(parser *p, uint8_t *out)
{
    char name[MOST_NAME] = "";
    size_t n = 0;
    while (n + 1 < sizeof name && is_letter(p->at[n]))
        n++;
    memcpy(name, p->at, n);
    if (n > 1 || p->at[n] == '(') {
        p->at += n;
        return parse_call(p, name, out);
    }
    const size_t input = (size_t)(name[0] - 'a');
    if (name[0] < 'a' || input >= p->n_inputs)
        return REFUSE(p, "there is no input \"%s\" at character %zu; the last one is %c", name,
                      place(p), (char)('a' + (int)p->n_inputs - 1));
    p->at += n;
    *out = dpti_map_load(p->out, (uint8_t)input);
    return DPT_OK;
}

static dpt_status parse_factor(parser *p, uint8_t *out)
{
    const char c = next(p);
    if (is_part_of_number(c)) return parse_number(p, out);
    if (is_letter(c)) return parse_word(p, out);
    if (takes(p, '-')) {
        if (++p->depth > MOST_DEPTH) return REFUSE(p, "it is nested too deeply");
        DPT_TRY(parse_factor(p, out));
        p->depth--;
        *out = dpti_map_unary(p->out, DPT_MAP_NEGATE, *out);
        return DPT_OK;
    }
    if (!takes(p, '('))
        return REFUSE(p, "a number, an input or a function is missing at character %zu", place(p));
    DPT_TRY(parse_sum(p, out));
    return takes(p, ')') ? DPT_OK : REFUSE(p, "\")\" is missing at character %zu", place(p));
}

static dpt_status parse_product(parser *p, uint8_t *out)
{
    DPT_TRY(parse_factor(p, out));
    while (next(p) == '*' || *p->at == '/') {
        const dpt_map_code code = *p->at++ == '*' ? DPT_MAP_MULTIPLY : DPT_MAP_DIVIDE;
        uint8_t right;
        DPT_TRY(parse_factor(p, &right));
        *out = dpti_map_add(p->out, code, *out, right);
    }
    return DPT_OK;
}

static dpt_status parse_sum(parser *p, uint8_t *out)
{
    if (++p->depth > MOST_DEPTH) return REFUSE(p, "it is nested too deeply");
    DPT_TRY(parse_product(p, out));
    while (next(p) == '+' || *p->at == '-') {
        const dpt_map_code code = *p->at++ == '+' ? DPT_MAP_ADD : DPT_MAP_SUBTRACT;
        uint8_t right;
        DPT_TRY(parse_product(p, &right));
        *out = dpti_map_add(p->out, code, *out, right);
    }
    p->depth--;
    return DPT_OK;
}

dpt_status dpti_map_parse(const char *formula, size_t n_inputs, dpti_map_code *out,
                          dpt_error *error)
{
    dpti_map_program program = {.n = 0};
    uint8_t value;
    parser p = {
        .formula = formula, .at = formula, .n_inputs = n_inputs, .out = &program, .error = error};
    DPT_TRY(parse_sum(&p, &value));
    if (next(&p) != '\0')
        return REFUSE(&p, "\"%.12s\" at character %zu is not expected", p.at, place(&p));
    if (!dpti_map_take(&program, value, out))
        return REFUSE(&p, "it is too long; divide it into several layers");
    return DPT_OK;
}
