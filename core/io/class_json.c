/* A classification as JSON (class_json.h). */
#include "io/class_json.h"

#include <math.h>

/* An object under construction.  `failed` is set if memory was missing once. */
typedef struct draft {
    json_t *object;
    bool failed;
} draft;

static void set(draft *d, const char *key, json_t *value)
{
    if (json_object_set_new(d->object, key, value) != 0) d->failed = true;
}

static json_t *real_value(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *size_value(size_t value)
{
    return json_integer((json_int_t)value);
}

static void set_means(draft *d, const char *key, dpti_class_figures means)
{
    set(d, key,
        json_pack("{s:f,s:f,s:f}", "precision", means.precision, "recall", means.recall, "f1",
                  means.f1));
}

/* The figures of all classes, an array for each figure. */
static void set_classes(draft *d, const dpt_classification *c)
{
    enum { SAMPLES, PREDICTED, PRECISION, RECALL, F1, AUC, N };
    static const char *const keys[N] = {"support", "predicted", "precision", "recall", "f1", "auc"};
    json_t *arrays[N];
    draft each = {.object = json_object()};
    for (size_t k = 0; k < N; k++)
        arrays[k] = json_array();
    for (size_t i = 0; i < c->counts.n_classes; i++) {
        const dpti_class_figures f = dpti_class_figures_of(&c->counts, i);
        json_t *const values[N] = {size_value(c->counts.samples[i]),
                                   size_value(c->counts.predicted[i]),
                                   real_value(f.precision),
                                   real_value(f.recall),
                                   real_value(f.f1),
                                   real_value(c->auc[i])};
        for (size_t k = 0; k < N; k++)
            if (json_array_append_new(arrays[k], values[k]) != 0) d->failed = true;
    }
    for (size_t k = 0; k < N; k++)
        set(&each, keys[k], arrays[k]);
    d->failed = d->failed || each.failed;
    set(d, "classes", each.object);
}

static void set_confusion(draft *d, const dpti_class_counts *counts)
{
    const size_t n = counts->n_classes;
    json_t *rows = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *row = json_array();
        for (size_t k = 0; k < n; k++)
            if (json_array_append_new(row, size_value(counts->confusion[i * n + k])) != 0)
                d->failed = true;
        if (json_array_append_new(rows, row) != 0) d->failed = true;
    }
    set(d, "confusion", rows);
}

json_t *dpti_class_json(const dpt_classification *classification, bool short_form)
{
    const dpt_classification *c = classification;
    const dpti_class_counts *n = &c->counts;
    const double samples = n->n_samples > 0 ? (double)n->n_samples : 1;
    draft d = {.object = json_object()};
    set(&d, "samples", size_value(n->n_samples));
    set(&d, "hits", size_value(n->hits));
    set(&d, "accuracy", json_real((double)n->hits / samples));
    if (n->n_classes > DPTI_TOP) set(&d, "top5_accuracy", json_real((double)n->top_hits / samples));
    set_means(&d, "macro", dpti_class_means(n, false));
    set_means(&d, "weighted", dpti_class_means(n, true));
    set(&d, "auc", real_value(c->mean_auc));
    if (c->no_auc[0]) set(&d, "no_auc", json_string(c->no_auc));
    set_classes(&d, c);
    if (n->confusion && !(short_form && n->n_classes > DPTI_LOGGED_CLASSES)) set_confusion(&d, n);
    if (!d.failed) return d.object;
    json_decref(d.object);
    return NULL;
}
