/* The algorithms of all devices' operations, of other processes' devices too, for the log: whoever
   replays it takes the same.  They travel as texts, each with its NUL: of each device how many
   operations it has, and of each operation its layer, its kind and its algorithm. */
#include "base/base.h"
#include "train/fit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put(FILE *to, const char *text)
{
    fputs(text ? text : "", to);
    fputc('\0', to);
}

static dpt_status put_device(const dpti_fit *f, size_t device, FILE *to)
{
    const size_t n = dpt_trainer_operation_count(f->trainer, device);
    fprintf(to, "%zu", n);
    put(to, NULL);
    for (size_t i = 0; i < n; i++) {
        dpt_operation o;
        DPT_TRY(dpt_trainer_operation(f->trainer, device, i, &o));
        put(to, o.layer);
        put(to, o.kind);
        put(to, o.algorithm);
    }
    return DPT_OK;
}

/* Those of this process's devices; *texts is to be freed. */
static dpt_status describe(const dpti_fit *f, char **texts, size_t *n_bytes)
{
    const dpt_trainer *t = f->trainer;
    dpt_status status = DPT_OK;
    FILE *to = open_memstream(texts, n_bytes);
    if (!to) return dpti_fit_no_memory(f);
    for (size_t i = 0; status == DPT_OK && i < t->n_workers; i++)
        status = put_device(f, t->first_device + i, to);
    const bool failed = ferror(to) != 0;
    if (fclose(to) != 0 || failed) return dpti_fit_no_memory(f);
    return status;
}

dpt_status dpti_fit_gather_choices(dpti_fit *f)
{
    char *texts = NULL;
    size_t n_bytes = 0;
    /* Of several processes another one may have the log. */
    if (!f->trainer->processes && !f->options->log) return DPT_OK;
    dpt_status status = describe(f, &texts, &n_bytes);
    if (f->trainer->processes) {
        status = dpti_peers_bring(f->trainer, status, texts, n_bytes, &f->choices);
        free(texts);
        return status;
    }
    f->choices.data = (uint8_t *)texts;
    return status;
}

static const char *take(const char **at)
{
    const char *text = *at;
    *at += strlen(text) + 1;
    return text;
}

static dpt_status log_device(dpti_fit *f, size_t device, const char **at)
{
    dpt_error error = {0};
    const size_t n = strtoul(take(at), NULL, 10);
    dpt_operation *operations = calloc(n + 1, sizeof *operations);
    if (!operations) return dpti_fit_no_memory(f);
    for (size_t i = 0; i < n; i++) {
        operations[i].layer = take(at);
        operations[i].kind = take(at);
        operations[i].algorithm = take(at);
    }
    const dpt_status status = dpti_log_write_choices(f->log, device, operations, n, &error);
    free(operations);
    return status == DPT_OK ? DPT_OK : dpti_context_fail(f->context, NULL, &error);
}

dpt_status dpti_fit_log_choices(dpti_fit *f)
{
    const char *at = (const char *)f->choices.data;
    for (size_t i = 0; i < f->trainer->n_devices; i++)
        DPT_TRY(log_device(f, i, &at));
    return DPT_OK;
}
