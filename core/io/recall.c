/* Reads the steps and epochs of a resumed run back from its log, so that the run's picture shows
   all of them. */
#include "io/file.h"
#include "io/log.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const dpti_log_listener *listener;
    size_t *shards;    /* (n_devices) */
    size_t rebalanced; /* the step whose shards are new */
} reader;

static size_t size_of(const json_t *value)
{
    const json_int_t number = json_integer_value(value);
    return number > 0 ? (size_t)number : 0;
}

static size_t number_of(const json_t *event, const char *name)
{
    return size_of(json_object_get(event, name));
}

/* Returns NaN if there is no value or it was not measured. */
static double real_of(const json_t *event, const char *name)
{
    const json_t *value = json_object_get(event, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static bool hear_step(const reader *r, const json_t *event)
{
    const json_t *shards = json_object_get(event, "shards");
    const size_t step = number_of(event, "step");
    if (json_array_size(shards) != r->listener->n_devices || step == 0) return true;
    for (size_t i = 0; i < r->listener->n_devices; i++)
        r->shards[i] = size_of(json_array_get(shards, i));
    const dpt_step_metrics metrics = {.size = sizeof metrics,
                                      .step = step,
                                      .epoch = number_of(event, "epoch"),
                                      .loss = real_of(event, "loss"),
                                      .lr = real_of(event, "lr"),
                                      .n_devices = r->listener->n_devices,
                                      .shards = r->shards,
                                      .rebalance = r->rebalanced == step ? "" : NULL};
    return r->listener->step(r->listener->user, &metrics);
}

static bool hear_epoch(const reader *r, const json_t *event)
{
    const dpt_epoch_metrics metrics = {
        .size = sizeof metrics,
        .epoch = number_of(event, "epoch"),
        .train_loss = real_of(event, "train_loss"),
        .validation_loss = real_of(event, "validation_loss"),
        .test_loss = real_of(event, "test_loss"),
        .train_accuracy = real_of(event, "train_accuracy"),
        .validation_accuracy = real_of(event, "validation_accuracy"),
        .test_accuracy = real_of(event, "test_accuracy"),
        .validated = json_is_number(json_object_get(event, "validation_accuracy")),
        .tested = json_is_number(json_object_get(event, "test_accuracy"))};
    return metrics.epoch == 0 || r->listener->epoch(r->listener->user, &metrics);
}

static bool hear(reader *r, const json_t *event)
{
    const char *kind = json_string_value(json_object_get(event, "event"));
    if (!kind) return true;
    if (strcmp(kind, "rebalance") == 0) r->rebalanced = number_of(event, "step");
    if (strcmp(kind, "step") == 0) return hear_step(r, event);
    return strcmp(kind, "epoch") != 0 || hear_epoch(r, event);
}

bool dpti_log_recall_in(const char *text, size_t length, const dpti_log_listener *listener)
{
    reader r = {.listener = listener, .shards = calloc(listener->n_devices, sizeof *r.shards)};
    bool well = r.shards != NULL;
    for (const char *end = text + length; well && text < end;) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *stop = newline ? newline : end;
        json_error_t why;
        json_t *event = json_loadb(text, (size_t)(stop - text), JSON_REJECT_DUPLICATES, &why);
        well = event ? hear(&r, event) : json_error_code(&why) != json_error_out_of_memory;
        json_decref(event);
        text = newline ? newline + 1 : end;
    }
    free(r.shards);
    return well;
}

dpt_status dpti_log_recall(const char *path, const dpti_log_listener *listener, dpt_error *error)
{
    dpti_content content = {0};
    DPT_TRY(dpti_file_read(path, &content, error));
    const bool well = dpti_log_recall_in((const char *)content.bytes, content.n_bytes, listener);
    free(content.bytes);
    return well ? DPT_OK
                : DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the steps that %s records", path);
}
