/* The origin of weights: writes it into files and reads it from files. */
#include "checkpoint/origin.h"
#include "checkpoint/tensors.h"
#include "context/context.h"

#include "base/parse.h"
#include "base/print.h"
#include "base/text.h"
#include "context/sized.h"
#include "dpt_error.h"
#include "graph/builder.h" /* DPTI_MAX_RECORD */
#include "io/shards.h"

#include "train/replicas/base_hash.h"
#include <float.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* The names in the metadata of a file. */
static const char model_key[] = "model", dataset_key[] = "dataset", height_key[] = "height",
                  width_key[] = "width", channels_key[] = "channels", classes_key[] = "classes",
                  names_key[] = "class_names", mean_key[] = "mean", deviation_key[] = "deviation",
                  loss_key[] = "loss", huber_key[] = "huber_delta";

/* Losses that a program can name.  Cross-entropy is not written: it is what files without a loss
   have. */
static const char *const losses[] = {
    [DPT_LOSS_SQUARED_ERROR] = "squared-error",
    [DPT_LOSS_ABSOLUTE_ERROR] = "absolute-error",
    [DPT_LOSS_HUBER] = "huber",
    [DPT_LOSS_BINARY_CROSS_ENTROPY] = "binary-cross-entropy",
};

enum { N_LOSSES = sizeof losses / sizeof *losses };

/* ---- Writing --------------------------------------------------------------------------------- */

/* Nine digits distinguish any two floats. */
static void print_values(const float *values, size_t n, char *text, size_t n_bytes)
{
    size_t at = 0;
    for (size_t i = 0; i < n && at < n_bytes; i++)
        at +=
            (size_t)dpti_print(text + at, n_bytes - at, "%s%.9g", i ? " " : "", (double)values[i]);
}

/* Names that do not fit are left out, and all names if there is no memory, because names are not
   essential. */
static char *print_names(const dpt_dataset *data)
{
    json_t *list = json_array();
    for (size_t c = 0; data->class_names && c < data->classes; c++)
        json_array_append_new(list, json_string(data->class_names[c]));
    char *printed = json_array_size(list) == data->classes ? json_dumps(list, JSON_COMPACT) : NULL;
    json_decref(list);
    if (!printed || strlen(printed) < DPTI_CLASS_NAMES_BYTES) return printed;
    free(printed);
    return NULL;
}

void dpti_origin_of(const dpt_trainer *trainer, dpti_origin *out)
{
    const dpt_dataset *d = trainer->data;
    dpti_origin *o = out;
    float deviation[DPTI_MAX_STAT_CHANNELS];
    for (size_t c = 0; c < DPTI_MAX_STAT_CHANNELS; c++)
        deviation[c] = d->channel_deviation[c] != 0 ? d->channel_deviation[c] : 1;
    o->model = trainer->model->name;
    snprintf(o->steps, sizeof o->steps, "%zu", dpt_trainer_steps(trainer));
    snprintf(o->dataset, sizeof o->dataset, "%s", d->name);
    snprintf(o->height, sizeof o->height, "%zu", d->height);
    snprintf(o->width, sizeof o->width, "%zu", d->width);
    snprintf(o->channels, sizeof o->channels, "%zu", d->channels);
    snprintf(o->classes, sizeof o->classes, "%zu", d->classes);
    o->class_names = print_names(d);
    print_values(d->channel_mean, d->stat_channels, o->mean, sizeof o->mean);
    print_values(deviation, d->stat_channels, o->deviation, sizeof o->deviation);
    const dpt_loss loss = trainer->program.loss;
    o->loss = (size_t)loss < N_LOSSES ? losses[loss] : NULL;
    o->huber_delta[0] = '\0';
    if (loss == DPT_LOSS_HUBER)
        print_values(&trainer->program.huber_delta, 1, o->huber_delta, sizeof o->huber_delta);
    snprintf(o->base, sizeof o->base, "%s", dpti_base_hash_known(trainer));
}

void dpti_origin_free(dpti_origin *origin)
{
    free(origin->class_names);
    *origin = (dpti_origin){.model = NULL};
}

void dpti_origin_list(const dpti_origin *origin, const char *key, const char *value,
                      const char *list[DPTI_ORIGIN_LIST])
{
    const dpti_origin *o = origin;
    const struct {
        const char *key, *value;
    } entries[] = {
        {"format", "pt"},
        {model_key, o->model},
        {"steps", o->steps},
        {dataset_key, o->dataset},
        {height_key, o->height},
        {width_key, o->width},
        {channels_key, o->channels},
        {classes_key, o->classes},
        {names_key, o->class_names},
        {mean_key, o->mean},
        {deviation_key, o->deviation},
        {loss_key, o->loss},
        {huber_key, o->huber_delta[0] ? o->huber_delta : NULL},
        {DPTI_BASE_KEY, o->base[0] ? o->base : NULL},
        {key, value},
    };
    _Static_assert(DPTI_ORIGIN_LIST > 2 * (sizeof entries / sizeof *entries), "a list has its end");
    size_t n = 0;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        if (!entries[i].value) continue;
        list[n++] = entries[i].key;
        list[n++] = entries[i].value;
    }
    list[n] = NULL;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Parses numbers as print_values writes them; returns false for other text. */
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

/* Reads the loss.  Another text is that of another program, and says nothing. */
static void read_loss(const dpti_safetensors *file, dpt_weights_info *out)
{
    const char *text = dpti_safetensors_metadata(file, loss_key);
    const char *huber = dpti_safetensors_metadata(file, huber_key);
    double delta = 0;
    for (size_t i = 0; text && i < N_LOSSES; i++)
        if (losses[i] && strcmp(losses[i], text) == 0) out->loss = (dpt_loss)i;
    if (out->loss == DPT_LOSS_HUBER && huber && dpti_parse_real(huber, 1e-20, 1e20, &delta))
        out->huber_delta = (float)delta;
}

/* Reads the normalisation of the data, if the file has it. */
static dpt_status read_normalization(const dpti_safetensors *file, const char *name,
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
                        name, DPTI_MAX_STAT_CHANNELS);
    /* If the data were not normalised, one value of each stands for all channels. */
    const bool untouched = n == 1 && out->mean[0] == 0 && out->deviation[0] == 1;
    if (out->channels > 0 && n != out->channels && !untouched)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: its mean and deviation are of %zu channels, and its images have %zu: "
                        "damaged, or written by another program, which should leave them out",
                        name, n, out->channels);
    out->stat_channels = n;
    return DPT_OK;
}

/* Reads height, width and channels if the file has all of them and the classes.  Values that no
   model can have are ignored. */
static dpt_status read_images(const dpti_safetensors *file, const char *name, dpt_weights_info *out,
                              dpt_error *error)
{
    const struct {
        const char *key;
        size_t *value;
    } sizes[] = {
        {height_key, &out->height},
        {width_key, &out->width},
        {channels_key, &out->channels},
        {classes_key, &out->classes},
    };
    size_t n = 0, n_right = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *text = dpti_safetensors_metadata(file, sizes[i].key);
        n += text != NULL;
        n_right += text && dpti_parse_size(text, 1, DPTI_MAX_RECORD, sizes[i].value);
    }
    if (n < sizeof sizes / sizeof *sizes) {
        out->height = out->width = out->channels = 0;
        return DPT_OK;
    }
    /* Each value has at most 24 bits, so no product overflows before it is compared. */
    if (n_right == n && out->height * out->width <= DPTI_MAX_RECORD &&
        out->height * out->width * out->channels <= DPTI_MAX_RECORD)
        return DPT_OK;
    return DPT_FAIL(error, DPT_E_FORMAT,
                    "%s: its height, width, channels and classes are not whole numbers from 1, of "
                    "images of at most %d values: damaged, or written by another program, which "
                    "should leave them out",
                    name, DPTI_MAX_RECORD);
}

/* Returns whether a list has n names, each of which is printable. */
static bool are_names(const json_t *list, size_t n)
{
    bool right = json_is_array(list) && json_array_size(list) == n;
    for (size_t i = 0; right && i < n; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        right = text && text[0] && !text[dpti_plain_bytes(text)];
    }
    return right;
}

/* Returns pointers and, behind them in the same block, at most n_bytes of text; NULL if there is
   no memory. */
static const char **copy_names(const json_t *list, size_t n, size_t n_bytes)
{
    const char **names = malloc(n * sizeof *names + n_bytes);
    char *at = names ? (char *)(names + n) : NULL;
    for (size_t i = 0; names && i < n; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        names[i] = strcpy(at, text);
        at += strlen(text) + 1;
    }
    return names;
}

/* Reads the names of the classes if the size of the images is recorded. */
static dpt_status read_names(const dpti_safetensors *file, const char *name, dpt_weights_info *out,
                             dpt_error *error)
{
    const char *text = dpti_safetensors_metadata(file, names_key);
    if (!text || out->channels == 0) return DPT_OK;
    const size_t n_bytes = strlen(text) + 1;
    json_t *list = n_bytes <= DPTI_CLASS_NAMES_BYTES ? json_loads(text, 0, NULL) : NULL;
    dpt_status status = DPT_OK;
    if (!are_names(list, out->classes))
        status = DPT_FAIL(error, DPT_E_FORMAT,
                          "%s: its class_names are no list of %zu printable names in at most %d "
                          "bytes: damaged, or written by another program, which should leave them "
                          "out",
                          name, out->classes, DPTI_CLASS_NAMES_BYTES);
    else if (!(out->class_names = copy_names(list, out->classes, n_bytes)))
        status = DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to read %s", name);
    json_decref(list);
    return status;
}

dpt_status dpti_origin_read(const dpti_safetensors *file, const char *name, dpt_weights_info *out,
                            dpt_error *error)
{
    const char *model = dpti_safetensors_metadata(file, model_key);
    const char *dataset = dpti_safetensors_metadata(file, dataset_key);
    const char *classes = dpti_safetensors_metadata(file, classes_key);
    dpt_weights_info info = {.size = sizeof info};
    snprintf(info.model, sizeof info.model, "%s", model ? model : "");
    snprintf(info.dataset, sizeof info.dataset, "%s", dataset ? dataset : "");
    if (classes && !dpti_parse_size(classes, 1, SIZE_MAX, &info.classes)) info.classes = 0;
    read_loss(file, &info);
    DPT_TRY(read_images(file, name, &info, error));
    DPT_TRY(read_normalization(file, name, &info, error));
    DPT_TRY(read_names(file, name, &info, error));
    *out = info;
    return DPT_OK;
}

dpt_status dpt_weights_describe(dpt_context *context, const char *path, dpt_weights_info *out)
{
    dpt_error error = {.status = DPT_OK};
    dpti_safetensors *file = NULL;
    dpt_weights_info info;
    DPT_TRY(dpti_check_sized(context, "dpt_weights_info", out));
    dpt_status status = dpti_shards_read_metadata(path, &file, &error);
    if (status == DPT_OK) status = dpti_origin_read(file, path, &info, &error);
    const char *type = status == DPT_OK ? dpti_safetensors_type(file) : NULL;
    if (type) snprintf(info.type, sizeof info.type, "%s", type);
    if (status == DPT_OK) info.adapters = dpti_has_adapters(file);
    dpti_safetensors_close(file);
    if (status == DPT_OK) (void)dpti_give_sized(&info, sizeof info, out);
    return status == DPT_OK ? DPT_OK : dpti_context_fail(context, NULL, &error);
}

void dpt_weights_release(dpt_weights_info *info)
{
    free(info->class_names);
    const dpt_weights_info none = {.size = sizeof none};
    (void)dpti_give_sized(&none, sizeof none, info);
}

/* ---- Whose they may be ----------------------------------------------------------------------- */

/* Guesses from the model's name and the size of the images in the file. */
static void guess_images(const dpt_weights_info *info, const dpt_model *model, char *text,
                         size_t n_bytes)
{
    const dpti_extent e = model->nodes[model->input].extent;
    const bool same = e.h == info->height && e.w == info->width && e.c == info->channels &&
                      dpt_model_outputs(model) == info->classes;
    if (same)
        snprintf(text, n_bytes,
                 "and yet says that it is of this model, for images of this size: damaged, or the "
                 "model has changed since");
    else
        snprintf(text, n_bytes,
                 "it is of that model for images of %zux%zux%zu in %zu classes, trained on %.60s: "
                 "are these data others (--dataset)?",
                 info->height, info->width, info->channels, info->classes, info->dataset);
}

void dpti_origin_guess(const dpti_safetensors *file, const dpt_model *model, char *text,
                       size_t n_bytes)
{
    dpt_weights_info info = {.size = sizeof info};
    const bool told = dpti_origin_read(file, "", &info, NULL) == DPT_OK;
    if (!told || !info.model[0])
        snprintf(text, n_bytes, "is it the checkpoint of another model?");
    else if (strncmp(info.model, model->name, sizeof info.model - 1) != 0)
        snprintf(text, n_bytes, "it is of another model, %.60s (--model)", info.model);
    else if (info.channels > 0)
        guess_images(&info, model, text, n_bytes);
    else if (info.dataset[0] && info.classes > 0)
        snprintf(text, n_bytes,
                 "it is of that model, trained on %.60s with %zu classes: are these data others "
                 "(--dataset)?",
                 info.dataset, info.classes);
    else
        snprintf(text, n_bytes, "is it of images of another size, or of other classes?");
    dpt_weights_release(&info);
}
