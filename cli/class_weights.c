/* --class-weights balanced and --class-weights FILE: weights that depend on the training data. */
#include "lists.h"
#include "session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 4096 };

/* The weights, while they are found. */
typedef struct finding {
    dpt_context *context;
    const dpt_dataset_info *data;
    const char *path; /* of the file */
    float *weights;   /* (outputs of the data) */
    bool *given;      /* (likewise) */
    size_t n_alone;   /* lines with a weight and no name */
    size_t line;
} finding;

static dpt_status no_memory(dpt_context *context)
{
    return dpt_fail(context, DPT_E_NO_MEMORY, "no memory for the weights of classes");
}

/* ---- Balanced -------------------------------------------------------------------------------- */

/* As scikit-learn's: the labels, divided by the classes that occur and by the labels of the class.
   A class without labels keeps 1, which nothing reads. */
static dpt_status balance(finding *f, const dpt_dataset *data)
{
    const size_t classes = f->data->outputs;
    size_t *counts = calloc(classes, sizeof *counts), total = 0, present = 0;
    dpt_status status = counts ? dpt_dataset_count_classes(data, counts) : no_memory(f->context);
    for (size_t c = 0; status == DPT_OK && c < classes; c++) {
        total += counts[c];
        present += counts[c] > 0;
    }
    for (size_t c = 0; status == DPT_OK && c < classes; c++)
        if (counts[c] > 0)
            f->weights[c] = (float)((double)total / ((double)present * (double)counts[c]));
    free(counts);
    return status;
}

/* ---- A file ---------------------------------------------------------------------------------- */

/* Returns the class of a name, or of a number if the classes have no names; SIZE_MAX: none. */
static size_t class_of(const finding *f, const char *name)
{
    size_t class = SIZE_MAX;
    for (size_t c = 0; f->data->class_names && c < f->data->outputs; c++)
        if (strcmp(f->data->class_names[c], name) == 0) return c;
    if (!f->data->class_names && !cli_parse_count(name, 0, f->data->outputs - 1, &class))
        return SIZE_MAX;
    return class;
}

static dpt_status fail_line(const finding *f, const char *what)
{
    return dpt_fail(f->context, DPT_E_INVALID, "%s: line %zu %s", f->path, f->line, what);
}

/* A weight, or the name of a class, white space and a weight. */
static dpt_status take_line(finding *f, char *line)
{
    double weight;
    size_t n = strlen(line);
    while (n > 0 && strchr(" \t\r\n", line[n - 1]))
        line[--n] = '\0';
    if (n == 0) return DPT_OK;
    char *number = line + n;
    while (number > line && !strchr(" \t", number[-1]))
        number--;
    if (!cli_parse_real(number, 0, 1e20, &weight))
        return fail_line(f, "does not end with a weight, a number of at least 0");
    size_t class = f->n_alone;
    if (number > line) {
        size_t name = (size_t)(number - line);
        while (name > 0 && strchr(" \t", line[name - 1]))
            line[--name] = '\0';
        class = class_of(f, line);
    } else {
        f->n_alone++;
    }
    if (class >= f->data->outputs)
        return fail_line(f, number > line ? "names no class of the data"
                                          : "is a weight more than there are classes");
    if (f->given[class]) return fail_line(f, "is the second weight of its class");
    f->given[class] = true;
    f->weights[class] = (float)weight;
    return DPT_OK;
}

/* Either all lines have a weight alone, or all have names. */
static dpt_status check_lines(const finding *f)
{
    size_t given = 0;
    for (size_t c = 0; c < f->data->outputs; c++)
        given += f->given[c];
    if (given == 0) return dpt_fail(f->context, DPT_E_INVALID, "%s has no weights", f->path);
    if (f->n_alone > 0 && (f->n_alone != given || given != f->data->outputs))
        return dpt_fail(f->context, DPT_E_INVALID,
                        "%s has %zu weight%s without a name, and the data have %zu classes: write "
                        "a weight a line for every class, or the name and the weight of some",
                        f->path, f->n_alone, f->n_alone == 1 ? "" : "s", f->data->outputs);
    return DPT_OK;
}

static dpt_status read_file(finding *f)
{
    char line[LINE_BYTES];
    FILE *file = fopen(f->path, "r");
    dpt_status status = DPT_OK;
    if (!file)
        return dpt_fail(f->context, DPT_E_IO, "--class-weights: cannot read %s: %s", f->path,
                        strerror(errno));
    for (f->line = 1; status == DPT_OK && fgets(line, sizeof line, file); f->line++)
        status = strlen(line) + 1 < sizeof line ? take_line(f, line)
                                                : fail_line(f, "is longer than any name");
    if (status == DPT_OK && ferror(file))
        status = dpt_fail(f->context, DPT_E_IO, "--class-weights: cannot read %s", f->path);
    fclose(file);
    return status == DPT_OK ? check_lines(f) : status;
}

/* ---- Both ------------------------------------------------------------------------------------ */

dpt_status cli_class_weights(cli_session *session, const cli_options *options)
{
    dpt_dataset_info info = {.size = sizeof info};
    const char *text = options->class_weights;
    if (!text || !options->lists || options->lists->n_class_weights > 0) return DPT_OK;
    dpt_dataset_describe(session->train, &info);
    finding f = {.context = session->context,
                 .data = &info,
                 .path = text,
                 .weights = options->lists->class_weights,
                 .given = calloc(info.outputs, sizeof *f.given)};
    if (!f.given) return no_memory(session->context);
    /* A network may have more outputs than the data have classes. */
    const size_t n = dpt_model_outputs(session->model);
    dpt_status status = DPT_OK;
    if (n > CLI_MOST_CLASS_WEIGHTS || info.outputs > n)
        status = dpt_fail(session->context, DPT_E_INVALID,
                          "--class-weights: the network has %zu outputs and the data %zu classes, "
                          "and at most %d have weights",
                          n, info.outputs, CLI_MOST_CLASS_WEIGHTS);
    for (size_t c = 0; status == DPT_OK && c < n; c++)
        f.weights[c] = 1;
    if (status == DPT_OK)
        status = strcmp(text, "balanced") == 0 ? balance(&f, session->train) : read_file(&f);
    free(f.given);
    if (status == DPT_OK) options->lists->n_class_weights = n;
    return status;
}
