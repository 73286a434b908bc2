/* Reading the tensors of a safetensors file into the flat buffer of a model (tensor_source.h). */
#include "checkpoint/tensor_source.h"

#include "base/half.h"
#include "checkpoint/origin.h"
#include "checkpoint/tensors.h"
#include "context/context.h"
#include "io/shards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Files of the training state hold the optimizer's buffers too, and facts about the devices. */
enum { MOST_BUFFERS = 8, MOST_DEVICES = 1024 };

/* ---- Layers that are left out ---------------------------------------------------------------- */

/* Returns the next name of a list, of *length characters, and moves *list behind the name; NULL:
   the list has ended. */
static const char *next_layer(const char **list, size_t *length)
{
    const char *name = *list;
    if (!name || !*name) return NULL;
    *length = strcspn(name, ",");
    *list = name + *length + (name[*length] == ',');
    return name;
}

static bool is_of_layer(const char *tensor, const char *layer, size_t length)
{
    return strncmp(tensor, layer, length) == 0 && tensor[length] == '.';
}

static bool is_excepted(const char *except, const char *tensor)
{
    size_t length = 0;
    for (const char *layer; (layer = next_layer(&except, &length));)
        if (is_of_layer(tensor, layer, length)) return true;
    return false;
}

dpt_status dpti_tensor_source_check_layers(const dpti_tensor_source *source, const char *except)
{
    size_t length = 0;
    for (const char *layer; (layer = next_layer(&except, &length));) {
        bool found = false;
        for (size_t i = 0; i < source->model->n_parameters; i++)
            found = found || is_of_layer(source->model->parameters[i].name, layer, length);
        if (!found)
            return dpt_fail(source->context, DPT_E_INVALID,
                            "model %s has no layer '%.*s' with weights; dptrain plan lists its "
                            "layers",
                            source->model->name, length < 64 ? (int)length : 64, layer);
    }
    return DPT_OK;
}

/* ---- Loading -----------------------------------------------------------------------------------
 */

/* Fails because the file belongs to another model; `what` says what does not fit. */
static dpt_status fail_model(const dpti_tensor_source *source, const char *what)
{
    char guess[256];
    dpti_origin_guess(source->file, source->model, guess, sizeof guess);
    return dpt_fail(source->context, DPT_E_INVALID, "%s %s; %s", source->path, what, guess);
}

static dpt_status describe_mismatch(const dpti_tensor_source *source, const dpti_parameter *p,
                                    const dpti_tensor *tensor)
{
    char wanted[96] = "", found[192] = "", what[512];
    size_t n = 0;
    for (size_t i = 0; i < p->rank && n < sizeof wanted; i++)
        n += (size_t)snprintf(wanted + n, sizeof wanted - n, "%s%zu", i ? "x" : "", p->shape[i]);
    n = 0;
    for (size_t i = 0; i < tensor->rank && n < sizeof found; i++)
        n += (size_t)snprintf(found + n, sizeof found - n, "%s%zu", i ? "x" : "", tensor->shape[i]);
    snprintf(what, sizeof what,
             "has a tensor %.200s of %s, which is %s in model %.60s (--fresh loads all but some "
             "layers)",
             tensor->name, found, wanted, source->model->name);
    return fail_model(source, what);
}

/* ---- Types ----------------------------------------------------------------------------------- */

/* Writes n numbers, which a file stores at any alignment, as float32.  Those of two bytes have a
   float32 of the same value.  Returns false for another type. */
static bool read_numbers(const dpti_tensor *tensor, size_t n, float *out)
{
    const char *from = tensor->data;
    const bool brain = strcmp(tensor->dtype, "BF16") == 0;
    if (strcmp(tensor->dtype, "F32") == 0) {
        memcpy(out, from, n * sizeof *out);
        return true;
    }
    if (!brain && strcmp(tensor->dtype, "F16") != 0) return false;
    for (size_t i = 0; i < n; i++) {
        uint16_t stored;
        memcpy(&stored, from + i * sizeof stored, sizeof stored);
        const uint32_t bits = (uint32_t)stored << 16;
        if (brain)
            memcpy(&out[i], &bits, sizeof bits);
        else
            out[i] = dpti_half_to_float(stored);
    }
    return true;
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* What `transformers` puts in front of the names of a model with a head, and leaves out in files of
   the model without the head. */
static const char *const prefixes[] = {"transformer.", "model."};
enum { N_PREFIXES = sizeof prefixes / sizeof *prefixes };

/* The tensor of a name, also if the file leaves its prefix out. */
static const dpti_tensor *find_tensor(const dpti_tensor_source *source, const char *name)
{
    const dpti_tensor *tensor = dpti_safetensors_find(source->file, name);
    for (size_t i = 0; !tensor && i < N_PREFIXES; i++) {
        const size_t n = strlen(prefixes[i]);
        if (strncmp(name, prefixes[i], n) == 0)
            tensor = dpti_safetensors_find(source->file, name + n);
    }
    return tensor;
}

/* Whether the tensor is that of a parameter whose name has a prefix. */
static bool is_without_prefix(const dpti_tensor_source *source, const dpti_tensor *tensor)
{
    char name[512];
    for (size_t i = 0; i < N_PREFIXES; i++) {
        const int n = snprintf(name, sizeof name, "%s%s", prefixes[i], tensor->name);
        if (n > 0 && (size_t)n < sizeof name && dpti_model_parameter(source->model, name) &&
            find_tensor(source, name) == tensor)
            return true;
    }
    return false;
}

/* Whether the tensor is a buffer that older versions of `transformers` have stored: the mask of an
   attention, or the speeds of rotary positions. */
static bool is_buffer(const dpti_tensor *tensor)
{
    static const char *const endings[] = {".attn.bias", ".attn.masked_bias",
                                          ".rotary_emb.inv_freq"};
    const size_t n = strlen(tensor->name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t behind = strlen(endings[i]);
        if (n > behind && strcmp(tensor->name + n - behind, endings[i]) == 0) return true;
    }
    return false;
}

/* The parameter that a layer shares with another one, if the tensor has the name of the layer's
   own weight; NULL: it has not. */
static const dpti_parameter *tied_to(const dpt_model *model, const dpti_tensor *tensor)
{
    static const char weight[] = ".weight";
    const size_t n = strlen(tensor->name), behind = sizeof weight - 1;
    if (n <= behind || strcmp(tensor->name + n - behind, weight) != 0) return NULL;
    for (size_t i = 0; i < model->n_nodes; i++)
        if (model->nodes[i].weight != SIZE_MAX && strlen(model->nodes[i].name) == n - behind &&
            strncmp(model->nodes[i].name, tensor->name, n - behind) == 0)
            return &model->parameters[model->nodes[i].weight];
    return NULL;
}

/* A copy of a shared parameter must be equal to it. */
static dpt_status check_tied(const dpti_tensor_source *source, const dpti_tensor *tensor,
                             const dpti_parameter *p)
{
    const dpti_tensor *own = find_tensor(source, p->name);
    if (!own || (own->n_bytes == tensor->n_bytes && strcmp(own->dtype, tensor->dtype) == 0 &&
                 memcmp(own->data, tensor->data, own->n_bytes) == 0))
        return DPT_OK;
    return dpt_fail(source->context, DPT_E_INVALID,
                    "%s: tensor %s differs from %s, and model %s shares one for both; choose a "
                    "model that does not (--model)",
                    source->path, tensor->name, own->name, source->model->name);
}

/* Reads a parameter's tensor of that name into source->outside. */
static dpt_status read_tensor(const dpti_tensor_source *source, const dpti_parameter *p,
                              const char *name)
{
    const dpti_tensor *tensor = find_tensor(source, name);
    char what[512];
    if (!tensor) {
        snprintf(what, sizeof what, "has no tensor %.200s, which model %.60s has", name,
                 source->model->name);
        return fail_model(source, what);
    }
    if (tensor->rank != p->rank || memcmp(tensor->shape, p->shape, p->rank * sizeof *p->shape) != 0)
        return describe_mismatch(source, p, tensor);
    if (read_numbers(tensor, p->size, source->outside)) return DPT_OK;
    return dpt_fail(source->context, DPT_E_INVALID,
                    "%s: tensor %s has the type %s, and only F32, F16 and BF16 are read: convert "
                    "the weights, in PyTorch by tensor.float()",
                    source->path, tensor->name, tensor->dtype);
}

/* Whether the tensor is that of an adapter of the model. */
static bool is_adapter(const dpt_model *model, const char *tensor)
{
    const char *name = dpti_behind_adapter(tensor);
    const dpti_parameter *p = name ? dpti_model_parameter(model, name) : NULL;
    return p && p->is_adapter;
}

/* A tensor that the model does not have shows that the file belongs to another model. */
static dpt_status all_known(const dpti_tensor_source *source, const char *except)
{
    const dpti_safetensors *file = source->file;
    for (size_t i = 0; i < dpti_safetensors_count(file); i++) {
        const dpti_tensor *tensor = dpti_safetensors_get(file, i);
        const char *name = tensor->name;
        char what[512];
        if (dpti_model_parameter(source->model, name) || dpti_is_counter(source->model, tensor) ||
            dpti_is_state(source->model, tensor) || is_excepted(except, name) ||
            is_without_prefix(source, tensor) || is_buffer(tensor) ||
            is_adapter(source->model, name))
            continue;
        const dpti_parameter *tied = tied_to(source->model, tensor);
        if (tied) {
            DPT_TRY(check_tied(source, tensor, tied));
            continue;
        }
        snprintf(what, sizeof what, "has a tensor %.200s that model %.60s does not have", name,
                 source->model->name);
        return fail_model(source, what);
    }
    return DPT_OK;
}

dpt_status dpti_weights_read(const dpti_tensor_source *source, const char *except, float *flat)
{
    const bool adapters = dpti_has_adapters(source->file);
    if (adapters && !source->model->lora)
        return dpt_fail(source->context, DPT_E_INVALID,
                        "%s has adapters and no weights of model %s: train them with --lora "
                        "FOLDER, or add them to their base with dptrain merge",
                        source->path, source->model->name);
    DPT_TRY(all_known(source, except));
    for (size_t i = 0; i < source->model->n_parameters; i++) {
        const dpti_parameter *p = &source->model->parameters[i];
        char name[512];
        if (is_excepted(except, p->name)) continue;
        if (source->model->lora && p->is_adapter != adapters) continue;
        snprintf(name, sizeof name, "%s%s", adapters ? DPTI_ADAPTER_PREFIX : "", p->name);
        DPT_TRY(read_tensor(source, p, name));
        dpti_parameter_import(p, source->outside, flat + p->offset);
    }
    return DPT_OK;
}

dpt_status dpti_state_read(const dpti_tensor_source *source, dpti_state_kind kind, float *flat)
{
    for (size_t i = 0; i < source->model->n_parameters; i++) {
        const dpti_parameter *p = &source->model->parameters[i];
        if (dpti_is_statistic(p->role) || !dpti_has_gradient_place(source->model, p)) continue;
        char *name = kind.name_of(kind.number, p->name);
        if (!name)
            return dpt_fail(source->context, DPT_E_NO_MEMORY, "no memory to read %s", source->path);
        const dpt_status status = read_tensor(source, p, name);
        free(name);
        DPT_TRY(status);
        dpti_parameter_import(p, source->outside, flat + p->offset);
    }
    return DPT_OK;
}

/* Files of dptrain are sealed.  If a file says that it is from dptrain and is not sealed, the
   checksum entry has been damaged. */
dpt_status dpti_tensor_source_check_seal(const dpti_tensor_source *source)
{
    const bool is_ours = dpti_safetensors_metadata(source->file, "model") &&
                         dpti_safetensors_metadata(source->file, "steps");
    if (!is_ours || dpti_safetensors_sealed(source->file)) return DPT_OK;
    return dpt_fail(source->context, DPT_E_FORMAT,
                    "%s says that it is dptrain's and has no checksum: damaged, or written by "
                    "another program, which should leave out the metadata",
                    source->path);
}

/* ---- A file of weights ----------------------------------------------------------------------- */

size_t dpti_weights_most_bytes(const dpt_model *model, size_t n_flats, size_t n_devices)
{
    size_t n = ((size_t)4 << 20) + DPTI_CLASS_NAMES_BYTES;
    for (size_t i = 0; i < model->n_parameters; i++) {
        const dpti_parameter *p = &model->parameters[i];
        n += n_flats * (p->size * sizeof(float) + 512 + 6 * strlen(p->name));
    }
    for (size_t i = 0; i < model->n_nodes; i++)
        n += (512 + 6 * strlen(model->nodes[i].name)) * (1 + n_devices);
    return n;
}

dpt_status dpti_weights_load(dpt_context *context, const dpt_model *model, const char *path,
                             float *flat)
{
    dpti_safetensors *file = NULL;
    dpt_error error = {0};
    const size_t most =
        dpti_weights_most_bytes(model, MOST_BUFFERS, MOST_DEVICES) + DPTI_OTHER_MODEL_BYTES;
    float *outside = malloc(model->flat_size * sizeof *outside);
    if (!outside) return dpt_fail(context, DPT_E_NO_MEMORY, "no memory to read %s", path);
    dpt_status status = dpti_shards_read(path, most, &file, &error);
    const dpti_tensor_source source = {
        .context = context, .model = model, .path = path, .file = file, .outside = outside};
    if (status != DPT_OK) status = dpti_context_fail(context, NULL, &error);
    if (status == DPT_OK) status = dpti_tensor_source_check_seal(&source);
    if (status == DPT_OK) status = dpti_weights_read(&source, NULL, flat);
    dpti_safetensors_close(file);
    free(outside);
    return status;
}
