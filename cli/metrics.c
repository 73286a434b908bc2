/* What eval says of classes (metrics.h). */
#include "metrics.h"

#include "new_file.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_PRINTED = 20 }; /* classes of a matrix that is printed */

/* ---- Text ------------------------------------------------------------------------------------ */

static void print_means(const dpt_classification_info *all)
{
    if (!isnan(all->top5_accuracy))
        printf("top-5 accuracy %.4f  %zu of %zu among the five most likely\n", all->top5_accuracy,
               all->top5_hits, all->samples);
    printf("macro    precision %.4f recall %.4f F1 %.4f\n", all->macro_precision, all->macro_recall,
           all->macro_f1);
    printf("weighted precision %.4f recall %.4f F1 %.4f\n", all->weighted_precision,
           all->weighted_recall, all->weighted_f1);
    if (isnan(all->auc))
        printf("AUC: none, because %s\n", all->no_auc);
    else if (all->classes == 2)
        printf("AUC %.4f of class 1\n", all->auc);
    else
        printf("AUC %.4f, the mean of each class against the rest\n", all->auc);
}

/* Prints a name in so many columns. */
static void print_name(const char *name, int width)
{
    printf("%s%*s", name, width - cli_columns(name), "");
}

static void print_auc(double auc)
{
    if (isnan(auc))
        printf("%8s\n", "-");
    else
        printf("%8.4f\n", auc);
}

static void print_classes(const cli_evaluated *of, size_t n, int width)
{
    char number[24];
    print_name("class", width);
    printf("%10s%11s%8s%8s%8s\n", "support", "precision", "recall", "F1", "AUC");
    for (size_t i = 0; i < n; i++) {
        dpt_class_info c = {.size = sizeof c};
        dpt_classification_class(of->classes, i, &c);
        print_name(cli_class_name(of->data, i, number), width);
        printf("%10zu%11.4f%8.4f%8.4f", c.samples, c.precision, c.recall, c.f1);
        print_auc(c.auc);
    }
}

static void print_confusion(const cli_evaluated *of, size_t n, int width)
{
    const size_t *cells = dpt_classification_confusion(of->classes);
    char number[24];
    if (!cells || n > MOST_PRINTED) {
        printf("confusion matrix: %zu classes are too many to print%s\n", n,
               cells ? "; --json FILE writes it" : "");
        return;
    }
    printf("confusion matrix (rows: class, columns: taken for)\n");
    print_name("", width);
    for (size_t k = 0; k < n; k++)
        printf("%8zu", k);
    printf("\n");
    for (size_t i = 0; i < n; i++) {
        print_name(cli_class_name(of->data, i, number), width);
        for (size_t k = 0; k < n; k++)
            printf("%8zu", cells[i * n + k]);
        printf("\n");
    }
}

void cli_metrics_print(const cli_evaluated *of)
{
    dpt_classification_info all = {.size = sizeof all};
    char number[24];
    int width = 8;
    dpt_classification_describe(of->classes, &all);
    for (size_t i = 0; i < all.classes; i++) {
        const int columns = cli_columns(cli_class_name(of->data, i, number));
        if (columns + 2 > width) width = columns + 2;
    }
    print_means(&all);
    print_classes(of, all.classes, width);
    print_confusion(of, all.classes, width);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Names from files may be invalid UTF-8, which JSON does not allow. */
static json_t *text_value(const char *text)
{
    json_t *value = json_string(text);
    return value ? value : json_string("?");
}

static json_t *names_of(const dpt_dataset_info *data)
{
    json_t *names = json_array();
    for (size_t i = 0; data->class_names && i < data->outputs; i++)
        (void)json_array_append_new(names, text_value(data->class_names[i]));
    return names;
}

static json_t *describe(const cli_evaluated *of)
{
    const dpt_evaluation *e = of->evaluation;
    json_t *root = json_pack("{s:o,s:f,s:I,s:I,s:f}", "dataset", text_value(of->data->name), "loss",
                             e->loss, "samples", (json_int_t)e->samples, "labels",
                             (json_int_t)e->labels, "seconds", e->seconds);
    if (!root) return NULL;
    int code = 0;
    if (of->classifies) {
        code |= json_object_set_new(root, "accuracy", json_real(e->accuracy));
        code |= json_object_set_new(root, "hits", json_integer((json_int_t)e->hits));
    }
    if (of->perplexity > 0)
        code |= json_object_set_new(root, "perplexity", json_real(of->perplexity));
    if (of->bits_per_byte > 0)
        code |= json_object_set_new(root, "bits_per_byte", json_real(of->bits_per_byte));
    if (of->data->class_names) code |= json_object_set_new(root, "class_names", names_of(of->data));
    if (of->classes)
        code |= json_object_set_new(root, "metrics",
                                    json_loads(dpt_classification_json(of->classes), 0, NULL));
    if (code == 0) return root;
    json_decref(root);
    return NULL;
}

int cli_metrics_write(const cli_evaluated *of, const char *path)
{
    json_t *root = describe(of);
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (!text) return cli_error(CLI_FAILURE, "cannot make %s: no memory", path);
    const int code = cli_new_file_write(path, text);
    free(text);
    return code;
}
