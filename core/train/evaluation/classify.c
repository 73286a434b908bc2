/* Classifications of data sets (classify.h). */
#include "train/evaluation/classify.h"

#include "base/auc.h"
#include "base/classification.h"
#include "context/context.h"
#include "context/sized.h"
#include "data/data.h"
#include "io/class_json.h"
#include "train/peers/peers.h"
#include "train/progress/calls.h"
#include "train/rounds/rounds.h"
#include "train/state/trainer.h"

#include <math.h>
#include <stdlib.h>

enum {
    CHUNK_BYTES = 1 << 26, /* of probabilities that are computed at a time */
    KEPT_BYTES = 1 << 28,  /* if those of all samples need no more, they are computed once */
};

bool dpti_classifies(const dpt_trainer *trainer)
{
    return trainer->program.loss == DPT_LOSS_CROSS_ENTROPY && !trainer->model->gives_loss;
}

bool dpti_classifies_samples(const dpt_trainer *trainer, const dpt_dataset *data)
{
    return dpti_classifies(trainer) && data->labels && dpti_dataset_labels(data) == 1 &&
           dpt_model_labels(trainer->model) == 1 && dpt_model_outputs(trainer->model) > 1;
}

/* ---- Visiting -------------------------------------------------------------------------------- */

/* Memory for probabilities. */
typedef struct room {
    float *outputs;
    size_t most;  /* samples that are computed at a time */
    bool keeps;   /* there is room for all samples, */
    size_t known; /* of which the first so many are computed */
} room;

/* `keeps`: whether there is to be room for all samples. */
static dpt_status make_room(dpt_trainer *t, const dpt_dataset *data, bool keeps, room *out)
{
    const size_t n = dpt_model_outputs(t->model), fit = CHUNK_BYTES / (n * sizeof(float));
    *out = (room){.most = fit < 1 ? 1 : fit < data->count ? fit : data->count, .keeps = keeps};
    const size_t samples = keeps ? data->count : out->most;
    out->outputs = malloc((samples + 1) * n * sizeof *out->outputs);
    return dpti_peers_agree(t, out->outputs ? DPT_OK
                                            : dpt_fail(t->context, DPT_E_NO_MEMORY,
                                                       "no memory for the predictions of %zu "
                                                       "samples",
                                                       samples));
}

/* A visitor and the data that it visits. */
typedef struct visitor {
    const dpt_dataset *data;
    dpti_classify_visit *visit;
    void *user;
} visitor;

/* Probabilities that are kept are not computed again. */
static dpt_status visit_all(dpt_trainer *t, const visitor *v, room *r)
{
    const dpt_dataset *data = v->data;
    const size_t n = dpt_model_outputs(t->model);
    for (size_t first = 0; first < data->count; first += r->most) {
        const size_t left = data->count - first, count = left < r->most ? left : r->most;
        float *outputs = r->outputs + (r->keeps ? first * n : 0);
        if (first >= r->known) DPT_TRY(dpt_trainer_predict(t, data, first, count, outputs));
        if (r->keeps && first >= r->known) r->known = first + count;
        for (size_t i = 0; i < count; i++)
            v->visit(v->user, first + i, (size_t)data->labels[dpti_dataset_record(data, first + i)],
                     outputs + i * n);
    }
    return DPT_OK;
}

dpt_status dpti_trainer_visit(dpt_trainer *trainer, const dpt_dataset *data,
                              dpti_classify_visit *visit, void *user)
{
    room r;
    dpt_status status = make_room(trainer, data, false, &r);
    if (status == DPT_OK) status = visit_all(trainer, &(visitor){data, visit, user}, &r);
    free(r.outputs);
    return status;
}

/* ---- Classifying ----------------------------------------------------------------------------- */

/* A classification that is being made. */
typedef struct making {
    dpt_classification *of;
    dpti_auc auc;
    bool bad; /* a probability is not a number */
} making;

static void count(void *user, size_t sample, size_t label, const float *p)
{
    making *m = user;
    (void)sample;
    for (size_t i = 0; i < m->of->counts.n_classes; i++)
        m->bad = m->bad || isnan(p[i]);
    (void)dpti_class_counts_add(&m->of->counts, label, p);
    dpti_auc_keep(&m->auc, label, p[label]);
}

static void compare(void *user, size_t sample, size_t label, const float *p)
{
    making *m = user;
    (void)sample;
    dpti_auc_compare(&m->auc, label, p);
}

/* The mean of the areas, or why there is none. */
static void take_areas(making *m)
{
    dpt_classification *c = m->of;
    const size_t n = c->counts.n_classes;
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        c->auc[i] = dpti_auc_of(&m->auc, i);
        sum += c->auc[i];
        if (c->counts.samples[i] == 0 && !c->no_auc[0])
            snprintf(c->no_auc, sizeof c->no_auc, "class %zu has no sample", i);
    }
    c->mean_auc = n == 2 ? c->auc[1] : sum / (double)n;
}

/* Every process counts all samples. */
static dpt_status make(dpt_trainer *t, const dpt_dataset *data, room *r, making *m)
{
    const size_t n = m->of->counts.n_classes;
    DPT_TRY(visit_all(t, &(visitor){data, count, m}, r));
    if (m->bad)
        return dpti_peers_agree(
            t, dpt_fail(t->context, DPT_E_NOT_FINITE,
                        "a probability is not a number: check the weights and the data"));
    dpti_auc_sort(&m->auc);
    DPT_TRY(visit_all(t, &(visitor){data, compare, m}, r));
    take_areas(m);
    json_t *object = dpti_class_json(m->of, false);
    m->of->json = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    return dpti_peers_agree(t, m->of->json ? DPT_OK
                                           : dpt_fail(t->context, DPT_E_NO_MEMORY,
                                                      "no memory for figures of %zu classes", n));
}

/* Returns false if there is no memory. */
static bool allocate(const dpt_dataset *data, size_t n_classes, making *m)
{
    size_t *labels = calloc(n_classes, sizeof *labels);
    dpt_classification *c = m->of = calloc(1, sizeof *c);
    for (size_t i = 0; labels && i < data->count; i++)
        labels[data->labels[dpti_dataset_record(data, i)]]++;
    if (c) c->auc = calloc(n_classes, sizeof *c->auc);
    const bool well = labels && c && c->auc && dpti_class_counts_create(n_classes, &c->counts) &&
                      dpti_auc_create(n_classes, labels, &m->auc);
    free(labels);
    return well;
}

static dpt_status create(dpt_trainer *t, const dpt_dataset *data, making *m)
{
    const size_t n = dpt_model_outputs(t->model);
    const bool well = allocate(data, n, m);
    return dpti_peers_agree(
        t, well ? DPT_OK
                : dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for figures of %zu classes", n));
}

dpt_status dpti_trainer_check_classes(const dpt_trainer *trainer, const dpt_dataset *data)
{
    if (dpti_classifies_samples(trainer, data)) return DPT_OK;
    return dpt_fail(trainer->context, DPT_E_INVALID,
                    "metrics of classes need cross-entropy as the loss, and one label for each "
                    "sample of %s",
                    data->name);
}

dpt_status dpt_trainer_classify(dpt_trainer *trainer, const dpt_dataset *data,
                                dpt_classification **out)
{
    return dpti_trainer_classify_within(trainer, data, KEPT_BYTES, out);
}

dpt_status dpti_trainer_classify_within(dpt_trainer *trainer, const dpt_dataset *data,
                                        size_t n_bytes, dpt_classification **out)
{
    dpt_trainer *t = trainer;
    making m = {.of = NULL};
    room r = {.outputs = NULL};
    DPT_TRY(dpti_trainer_given(t, "dpt_trainer_classify", "data", data));
    DPT_TRY(dpti_trainer_given(t, "dpt_trainer_classify", "out", out));
    DPT_TRY(dpti_trainer_idle(t, "dpt_trainer_classify"));
    DPT_TRY(dpti_rounds_check_closed(t, "dpt_trainer_classify"));
    DPT_TRY(dpti_peers_agree(t, dpti_trainer_check_classes(t, data)));
    const size_t n = dpt_model_outputs(t->model);
    const bool fits = data->count <= n_bytes / sizeof(float) / n;
    dpt_status status = create(t, data, &m);
    if (status == DPT_OK) status = make_room(t, data, fits, &r);
    if (status == DPT_OK) status = make(t, data, &r, &m);
    free(r.outputs);
    dpti_auc_free(&m.auc);
    if (status == DPT_OK)
        *out = m.of;
    else
        dpt_classification_destroy(m.of);
    return status;
}

/* ---- What is known --------------------------------------------------------------------------- */

void dpt_classification_destroy(dpt_classification *classification)
{
    if (!classification) return;
    dpti_class_counts_free(&classification->counts);
    free(classification->auc);
    free(classification->json);
    free(classification);
}

void dpt_classification_describe(const dpt_classification *classification,
                                 dpt_classification_info *out)
{
    const dpt_classification *c = classification;
    const dpti_class_counts *n = &c->counts;
    const double samples = n->n_samples > 0 ? (double)n->n_samples : 1;
    const dpti_class_figures macro = dpti_class_means(n, false),
                             weighted = dpti_class_means(n, true);
    dpt_classification_info info = {
        .samples = n->n_samples,
        .classes = n->n_classes,
        .hits = n->hits,
        .top5_hits = n->top_hits,
        .accuracy = (double)n->hits / samples,
        .top5_accuracy = n->n_classes > DPTI_TOP ? (double)n->top_hits / samples : (double)NAN,
        .macro_precision = macro.precision,
        .macro_recall = macro.recall,
        .macro_f1 = macro.f1,
        .weighted_precision = weighted.precision,
        .weighted_recall = weighted.recall,
        .weighted_f1 = weighted.f1,
        .auc = c->mean_auc};
    snprintf(info.no_auc, sizeof info.no_auc, "%s", c->no_auc);
    (void)dpti_give_sized(&info, sizeof info, out);
}

void dpt_classification_class(const dpt_classification *classification, size_t number,
                              dpt_class_info *out)
{
    const dpti_class_counts *n = &classification->counts;
    if (number >= n->n_classes) return;
    const dpti_class_figures f = dpti_class_figures_of(n, number);
    const dpt_class_info info = {.samples = n->samples[number],
                                 .predicted = n->predicted[number],
                                 .hits = n->own[number],
                                 .precision = f.precision,
                                 .recall = f.recall,
                                 .f1 = f.f1,
                                 .auc = classification->auc[number]};
    (void)dpti_give_sized(&info, sizeof info, out);
}

const size_t *dpt_classification_confusion(const dpt_classification *classification)
{
    return classification->counts.confusion;
}

const char *dpt_classification_json(const dpt_classification *classification)
{
    return classification->json;
}
