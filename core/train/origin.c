/* Where weights come from: written into files, and read from them. */
#include "train/origin.h"

#include "base/base.h"

#include <float.h>
#include <string.h>

/* In files: whoever looks for them finds them under these names. */
static const char model_key[] = "model", dataset_key[] = "dataset", classes_key[] = "classes",
                  mean_key[] = "mean", deviation_key[] = "deviation";

/* ---- Writing --------------------------------------------------------------------------------- */

/* Nine digits tell any two floats apart. */
static void print_values(const float *values, size_t n, char *text, size_t n_bytes)
{
    size_t at = 0;
    for (size_t i = 0; i < n && at < n_bytes; i++)
        at +=
            (size_t)dpti_print(text + at, n_bytes - at, "%s%.9g", i ? " " : "", (double)values[i]);
}

void dpti_origin_of(const dpt_trainer *trainer, dpti_origin *out)
{
    const dpt_dataset *d = trainer->data;
    float deviation[DPTI_MAX_STAT_CHANNELS];
    dpti_origin o = {.model = trainer->model->name};
    for (size_t c = 0; c < DPTI_MAX_STAT_CHANNELS; c++)
        deviation[c] = d->channel_deviation[c] != 0 ? d->channel_deviation[c] : 1;
    snprintf(o.steps, sizeof o.steps, "%zu", trainer->done.step);
    snprintf(o.dataset, sizeof o.dataset, "%s", d->name);
    snprintf(o.classes, sizeof o.classes, "%zu", d->classes);
    print_values(d->channel_mean, d->stat_channels, o.mean, sizeof o.mean);
    print_values(deviation, d->stat_channels, o.deviation, sizeof o.deviation);
    *out = o;
}

void dpti_origin_list(const dpti_origin *origin, const char *key, const char *value,
                      const char *list[DPTI_ORIGIN_LIST])
{
    const dpti_origin *o = origin;
    const char *const entries[DPTI_ORIGIN_LIST] = {
        "format",      "pt",         model_key,   o->model,   "steps",  o->steps,
        dataset_key,   o->dataset,   classes_key, o->classes, mean_key, o->mean,
        deviation_key, o->deviation, key,         value,      NULL};
    memcpy(list, entries, sizeof entries);
}

/* ---- Reading --------------------------------------------------------------------------------- */

void dpti_origin_guess(const dpti_safetensors *file, const dpt_model *model, char *text,
                       size_t n_bytes)
{
    const char *name = dpti_safetensors_metadata(file, model_key);
    const char *data = dpti_safetensors_metadata(file, dataset_key);
    const char *classes = dpti_safetensors_metadata(file, classes_key);
    if (!name)
        snprintf(text, n_bytes, "is it the checkpoint of another model?");
    else if (strcmp(name, model->name) != 0)
        snprintf(text, n_bytes, "it is of another model, %.60s (--model)", name);
    else if (data && classes)
        snprintf(text, n_bytes,
                 "it is of that model, trained on %.60s with %.20s classes: are these data others "
                 "(--dataset)?",
                 data, classes);
    else
        snprintf(text, n_bytes, "is it of images of another size, or of other classes?");
}

/* Numbers as print_values writes them; false if they are not. */
static bool parse_values(const char *text, float out[DPTI_MAX_STAT_CHANNELS], size_t *n)
{
    size_t found = 0;
    for (;;) {
        char number[24];
        double value = 0;
        const bool minus = *text == '-';
        text += minus;
        const size_t length = strcspn(text, " ");
        if (length >= sizeof number || found == DPTI_MAX_STAT_CHANNELS) return false;
        memcpy(number, text, length);
        number[length] = '\0';
        if (!dpti_parse_real(number, 0, FLT_MAX, &value)) return false;
        out[found++] = (float)(minus ? -value : value);
        text += length;
        if (*text++ == '\0') break;
    }
    *n = found;
    return true;
}

/* How the data were normalised, if the file says it. */
static dpt_status read_normalization(const dpti_safetensors *file, const char *path,
                                     dpt_weights_info *out, dpt_error *error)
{
    const char *mean = dpti_safetensors_metadata(file, mean_key);
    const char *deviation = dpti_safetensors_metadata(file, deviation_key);
    size_t n = 0, n_deviations = 0;
    if (!mean || !deviation) return DPT_OK;
    if (!parse_values(mean, out->mean, &n) ||
        !parse_values(deviation, out->deviation, &n_deviations) || n != n_deviations)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: its mean and deviation are not as many numbers each, at most %d: "
                        "damaged, or written by another program, which should leave them out",
                        path, DPTI_MAX_STAT_CHANNELS);
    out->channels = n;
    return DPT_OK;
}

static dpt_status read_info(const dpti_safetensors *file, const char *path, dpt_weights_info *out,
                            dpt_error *error)
{
    const char *model = dpti_safetensors_metadata(file, model_key);
    const char *dataset = dpti_safetensors_metadata(file, dataset_key);
    const char *classes = dpti_safetensors_metadata(file, classes_key);
    snprintf(out->model, sizeof out->model, "%s", model ? model : "");
    snprintf(out->dataset, sizeof out->dataset, "%s", dataset ? dataset : "");
    if (classes && !dpti_parse_size(classes, 1, SIZE_MAX, &out->classes)) out->classes = 0;
    return read_normalization(file, path, out, error);
}

dpt_status dpt_weights_describe(dpt_context *context, const char *path, dpt_weights_info *out)
{
    dpt_error error = {.status = DPT_OK};
    dpti_safetensors *file = NULL;
    dpt_weights_info info = {.channels = 0};
    dpt_status status = dpti_safetensors_read_metadata(path, &file, &error);
    if (status == DPT_OK) status = read_info(file, path, &info, &error);
    dpti_safetensors_close(file);
    if (status != DPT_OK) return dpti_context_fail(context, NULL, &error);
    *out = info;
    return DPT_OK;
}
