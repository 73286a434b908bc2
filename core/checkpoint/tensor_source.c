/* Reading the tensors of a safetensors file into the flat buffer of a model (tensor_source.h). */
#include "checkpoint/tensor_source.h"

#include "base/half.h"
#include "checkpoint/origin.h"
#include "checkpoint/tensor_differences.h"
#include "checkpoint/tensors.h"
#include "context/context.h"
#include "io/shards.h"

#include <math.h>
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

/* ---- Types ----------------------------------------------------------------------------------- */

/* Writes n numbers, which a file stores at any alignment, as float32.  Those of two bytes have a
   float32 of the same value; those of eight are rounded to the nearest.  Returns false for another
   type. */
static bool read_numbers(const dpti_tensor *tensor, size_t n, float *out)
{
    const char *from = tensor->data;
    const bool brain = strcmp(tensor->dtype, "BF16") == 0;
    if (strcmp(tensor->dtype, "F32") == 0) {
        memcpy(out, from, n * sizeof *out);
        return true;
    }
    if (strcmp(tensor->dtype, "F64") == 0) {
        for (size_t i = 0; i < n; i++) {
            double stored;
            memcpy(&stored, from + i * sizeof stored, sizeof stored);
            out[i] = (float)stored;
        }
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

/* Refuses numbers that no training can go on from.  A buffer of a network of a file may be
   infinite, as the mask of an attention is. */
static dpt_status check_finite(const dpti_tensor_source *source, const dpti_parameter *p,
                               const dpti_tensor *tensor)
{
    const bool mask = p->frozen && !source->model->lora;
    const float *values = source->outside;
    for (size_t i = 0; i < p->size; i++) {
        if (isfinite(values[i]) || (mask && isinf(values[i]))) continue;
        const bool wide = isinf(values[i]) && strcmp(tensor->dtype, "F64") == 0;
        return dpt_fail(source->context, DPT_E_FORMAT,
                        "%s: tensor %s has a value that is not finite: element %zu is %s; use "
                        "weights of an earlier epoch, or train with a lower learning rate",
                        source->path, tensor->name, i,
                        isnan(values[i]) ? "NaN"
                        : wide           ? "infinite as float32"
                                         : "infinite");
    }
    return DPT_OK;
}

/* Says which types the file has besides float32, and what becomes of them. */
static void tell_types(const dpti_tensor_source *source)
{
    static const char *const types[] = {"F16", "BF16", "F64"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        bool found = false;
        for (size_t k = 0; !found && k < dpti_safetensors_count(source->file); k++)
            found = strcmp(dpti_safetensors_get(source->file, k)->dtype, types[i]) == 0;
        if (found)
            dpti_context_notice(source->context, "%s stores weights as %s; each %s", source->path,
                                types[i],
                                types[i][1] == '6' ? "is rounded to the nearest float32"
                                                   : "becomes the float32 of its value");
    }
}

/* Reads the tensor of a parameter, which has its shape, into source->outside. */
static dpt_status read_values(const dpti_tensor_source *source, const dpti_parameter *p,
                              const dpti_tensor *tensor)
{
    if (read_numbers(tensor, p->size, source->outside))
        return source->resumes ? DPT_OK : check_finite(source, p, tensor);
    return dpt_fail(source->context, DPT_E_INVALID,
                    "%s: tensor %s has the type %s, and only F32, F64, F16 and BF16 are read: "
                    "convert the weights, in PyTorch by tensor.float()",
                    source->path, tensor->name, tensor->dtype);
}

/* ---- Weights --------------------------------------------------------------------------------- */

/* Copies of shared parameters must be equal to them. */
static dpt_status check_tied(const dpti_tensor_source *source, const dpti_tensor_names *names)
{
    for (size_t i = 0; i < dpti_safetensors_count(source->file); i++) {
        const dpti_tensor *tensor = dpti_safetensors_get(source->file, i);
        const dpti_parameter *p = dpti_tensor_tied(names, tensor);
        const dpti_tensor *own = p ? dpti_tensor_named(names, p->name) : NULL;
        if (!own || own == tensor ||
            (own->n_bytes == tensor->n_bytes && strcmp(own->dtype, tensor->dtype) == 0 &&
             memcmp(own->data, tensor->data, own->n_bytes) == 0))
            continue;
        return dpt_fail(source->context, DPT_E_INVALID,
                        "%s: tensor %s differs from %s, and model %s shares one for both; choose "
                        "a model that does not (--model)",
                        source->path, tensor->name, own->name, source->model->name);
    }
    return DPT_OK;
}

/* Tells what differs, or fails because the file belongs to another model. */
static dpt_status weigh(const dpti_tensor_source *source, const dpti_differences *d)
{
    if (d->n == 0) return DPT_OK;
    /* What dptrain has written says which model it is of: no list tells more. */
    const bool told = dpti_safetensors_metadata(source->file, "model") != NULL;
    if (source->partial || (d->n > 1 && !told))
        dpti_differences_tell(source->context, d, source->path);
    if (source->partial && d->n_fit > 0) {
        dpti_context_notice(source->context,
                            "%s: %zu tensors of model %s are taken, and %zu "
                            "differences left",
                            source->path, d->n_fit, source->model->name, d->n);
        return DPT_OK;
    }
    char what[DPT_MESSAGE_BYTES], guess[256];
    dpti_difference_words(d, &d->list[0], what, sizeof what);
    dpti_origin_guess(source->file, source->model, guess, sizeof guess);
    const bool shapes = d->list[0].tensor && d->list[0].parameter;
    return dpt_fail(source->context, DPT_E_INVALID, "%s %s%s; %s", source->path, what,
                    shapes ? " (--fresh loads all but some layers)" : "", guess);
}

static dpt_status read_parameters(const dpti_tensor_source *source, const dpti_tensor_names *names,
                                  const char *except, float *flat)
{
    for (size_t i = 0; i < source->model->n_parameters; i++) {
        const dpti_parameter *p = &source->model->parameters[i];
        if (!dpti_is_wanted(names, p, except)) continue;
        const dpti_tensor *tensor = dpti_tensor_of(names, p);
        if (!tensor || !dpti_has_shape(tensor, p)) continue; /* a part is enough: see weigh */
        DPT_TRY(read_values(source, p, tensor));
        dpti_parameter_import(p, source->outside, flat + p->offset);
    }
    return DPT_OK;
}

dpt_status dpti_weights_read(const dpti_tensor_source *source, const char *except, float *flat)
{
    dpt_error error = {.status = DPT_OK};
    dpti_differences differences = {.list = NULL};
    if (dpti_has_adapters(source->file) && !source->model->lora)
        return dpt_fail(source->context, DPT_E_INVALID,
                        "%s has adapters and no weights of model %s: train them with --lora "
                        "FOLDER, or add them to their base with dptrain merge",
                        source->path, source->model->name);
    const dpti_tensor_names names = dpti_tensor_names_of(source->model, source->file);
    if (dpti_differences_find(&names, except, &differences, &error) != DPT_OK)
        return dpti_context_fail(source->context, NULL, &error);
    dpt_status status = weigh(source, &differences);
    dpti_differences_free(&differences);
    if (status == DPT_OK) status = check_tied(source, &names);
    if (status == DPT_OK) status = read_parameters(source, &names, except, flat);
    DPT_TRY(status);
    if (names.prefix > 0)
        dpti_context_notice(source->context, "%s: all names begin with %.*s, which is left out",
                            source->path, (int)names.prefix,
                            dpti_safetensors_get(source->file, 0)->name);
    tell_types(source);
    return DPT_OK;
}

/* ---- Training state -------------------------------------------------------------------------- */

/* The state of a parameter has the parameter's shape. */
static dpt_status read_state(const dpti_tensor_source *source, const dpti_parameter *p,
                             const char *name)
{
    const dpti_tensor_names names = {.model = source->model, .file = source->file};
    const dpti_tensor *tensor = dpti_safetensors_find(source->file, name);
    dpti_parameter named = *p;
    char what[DPT_MESSAGE_BYTES];
    if (tensor && dpti_has_shape(tensor, p)) return read_values(source, p, tensor);
    named.name = (char *)(uintptr_t)name; /* only read */
    dpti_difference_words(&(dpti_differences){.names = names}, &(dpti_difference){tensor, &named},
                          what, sizeof what);
    return dpt_fail(source->context, DPT_E_INVALID, "%s %s: is it damaged?", source->path, what);
}

dpt_status dpti_state_read(const dpti_tensor_source *source, dpti_state_kind kind, float *flat)
{
    for (size_t i = 0; i < source->model->n_parameters; i++) {
        const dpti_parameter *p = &source->model->parameters[i];
        if (dpti_is_statistic(p->role) || !dpti_has_gradient_place(source->model, p)) continue;
        char *name = kind.name_of(kind.number, p->name);
        if (!name)
            return dpt_fail(source->context, DPT_E_NO_MEMORY, "no memory to read %s", source->path);
        const dpt_status status = read_state(source, p, name);
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
