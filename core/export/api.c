/* The public function that writes a network as an ONNX file. */
#include "context/context.h"
#include "context/sized.h"
#include "export/export.h"
#include "io/file.h"
#include "io/safetensors.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const size_t default_most_bytes = (size_t)1792 << 20;

/* What is written, and what it is made of. */
typedef struct export_task {
    const dpt_model *model;
    const char *weights_path;
    dpti_safetensors *file; /* NULL: the weights that the model began with */
    const void **weights;   /* (n_parameters) */
    void **read;            /* (n_parameters) memory of weights that were read; owned */
    size_t n_read;
} export_task;

/* ---- Weights --------------------------------------------------------------------------------- */

static dpt_status find_tensor(const export_task *x, const dpti_parameter *p, const void **out,
                              dpt_error *error)
{
    const dpti_tensor *tensor = dpti_safetensors_find(x->file, p->name);
    if (!tensor)
        return DPT_FAIL(error, DPT_E_INVALID, "%s has no tensor %.200s, which model %.200s has",
                        x->weights_path, p->name, x->model->name);
    if (tensor->rank != p->rank || memcmp(tensor->shape, p->shape, p->rank * sizeof *p->shape) != 0)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "%s: the tensor %.200s has another shape in model %.200s; is it of another "
                        "model, or of images of another size?",
                        x->weights_path, p->name, x->model->name);
    if (strcmp(tensor->dtype, "F32") != 0)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "%s: tensor %.200s has the type %s, and only float32 (F32) is written",
                        x->weights_path, p->name, tensor->dtype);
    *out = tensor->data;
    return DPT_OK;
}

/* The initial values of a parameter, as the model has them. */
static dpt_status find_initial(export_task *x, const dpti_parameter *p, const void **out,
                               dpt_error *error)
{
    if (!dpti_has_initial(p))
        return DPT_FAIL(error, DPT_E_INVALID,
                        "model %.200s has no weights yet: name a file of weights", x->model->name);
    *out = p->initial;
    if (*out) return DPT_OK;
    float *read = malloc(p->size * sizeof *read);
    if (!read) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to export a model");
    x->read[x->n_read++] = read;
    *out = read;
    DPT_TRY(dpti_file_part_read(&p->stored, read, error));
    return dpti_file_part_check(&p->stored, libdeflate_crc32(0, read, p->stored.n_bytes), error);
}

static dpt_status find_weights(export_task *x, dpt_error *error)
{
    const dpt_model *m = x->model;
    x->weights = calloc(m->n_parameters, sizeof *x->weights);
    x->read = calloc(m->n_parameters, sizeof *x->read);
    if (!x->weights || !x->read)
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to export a model");
    if (x->weights_path) DPT_TRY(dpti_safetensors_read(x->weights_path, &x->file, error));
    for (size_t i = 0; i < m->n_parameters; i++) {
        const dpti_parameter *p = &m->parameters[i];
        if (x->file)
            DPT_TRY(find_tensor(x, p, &x->weights[i], error));
        else
            DPT_TRY(find_initial(x, p, &x->weights[i], error));
    }
    return DPT_OK;
}

/* ---- Metadata -------------------------------------------------------------------------------- */

/* What a file of weights tells of the training, under these keys (checkpoint/origin.h). */
static const char *const keys[][2] = {
    {"dataset", "dptrain.dataset"}, {"class_names", "dptrain.class_names"},
    {"mean", "dptrain.mean"},       {"deviation", "dptrain.deviation"},
    {"epoch", "dptrain.epoch"},     {"steps", "dptrain.steps"},
};
enum { N_KEYS = sizeof keys / sizeof *keys, METADATA_SIZE = 2 * N_KEYS + 1 };

static void find_metadata(const export_task *x, const char *out[METADATA_SIZE])
{
    size_t n = 0;
    for (size_t i = 0; x->file && i < N_KEYS; i++) {
        const char *value = dpti_safetensors_metadata(x->file, keys[i][0]);
        if (!value || !*value) continue;
        out[n++] = keys[i][1];
        out[n++] = value;
    }
    out[n] = NULL;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static dpt_status write_model(export_task *x, const char *path, const dpt_onnx_options *options,
                              dpt_error *error)
{
    const char *metadata[METADATA_SIZE];
    dpti_draft draft;
    DPT_TRY(find_weights(x, error));
    find_metadata(x, metadata);
    const dpti_export_file file = {.path = path,
                                   .graph_name = x->model->name,
                                   .metadata = metadata,
                                   .most_bytes = options->most_bytes ? options->most_bytes
                                                                     : default_most_bytes};
    dpti_draft_begin(&draft, options->opset ? options->opset : DPTI_EXPORT_OPSET);
    dpt_status status = dpti_export_graph(x->model, x->weights, &draft, error);
    if (status == DPT_OK) status = dpti_export_write(&draft, &file, error);
    dpti_draft_clear(&draft);
    return status;
}

/* Writing over the weights would lose them. */
static dpt_status check_place(const dpt_model *model, const char *weights, const char *path)
{
    struct stat a, b;
    if (!weights || stat(weights, &a) != 0 || stat(path, &b) != 0) return DPT_OK;
    if (!dpti_same_file(&a, &b)) return DPT_OK;
    return dpt_fail(model->context, DPT_E_INVALID,
                    "%s is the file of the weights: write the ONNX file to another place", path);
}

static dpt_status check(const dpt_model *model, const dpt_onnx_options *options)
{
    if (!model->finished)
        return dpt_fail(model->context, DPT_E_STATE,
                        "model %s: dpt_model_to_onnx comes before dpt_model_finish", model->name);
    if (options->opset != 0 &&
        (options->opset < DPTI_EXPORT_OLDEST_OPSET || options->opset > DPTI_EXPORT_NEWEST_OPSET))
        return dpt_fail(model->context, DPT_E_INVALID,
                        "opset %u: only the opsets %d to %d can be written", options->opset,
                        DPTI_EXPORT_OLDEST_OPSET, DPTI_EXPORT_NEWEST_OPSET);
    return DPT_OK;
}

dpt_status dpt_model_to_onnx(const dpt_model *model, const char *weights, const char *path,
                             const dpt_onnx_options *options)
{
    dpt_onnx_options o;
    dpt_error error = {.status = DPT_OK};
    if (!model) return DPT_E_INVALID;
    if (!path)
        return dpt_fail(model->context, DPT_E_INVALID, "dpt_model_to_onnx: the path is NULL");
    DPT_TRY(
        dpti_take_sized(model->context, &(dpti_sized){"dpt_onnx_options", options, sizeof o}, &o));
    DPT_TRY(check(model, &o));
    DPT_TRY(check_place(model, weights, path));
    export_task x = {.model = model, .weights_path = weights};
    const dpt_status status = write_model(&x, path, &o, &error);
    dpti_safetensors_close(x.file);
    for (size_t i = 0; i < x.n_read; i++)
        free(x.read[i]);
    free(x.read);
    free(x.weights);
    return status == DPT_OK ? DPT_OK : dpti_context_fail(model->context, NULL, &error);
}

#ifndef DPTRAIN_HAS_ONNX

dpt_status dpti_export_write(const dpti_draft *draft, const dpti_export_file *file,
                             dpt_error *error)
{
    (void)draft;
    return DPT_FAIL(error, DPT_E_UNSUPPORTED,
                    "%s: this build cannot write ONNX files; build dptrain where protobuf-c is "
                    "installed",
                    file->path);
}

#endif
