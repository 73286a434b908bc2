/* Writes networks as ONNX files, reads the files again, and compares outputs, names and weights.

   The built-in networks are trained for two steps before, so that running statistics are not those
   of the beginning.  The networks of tests/onnx/trained are taken with the weights of their files.

   With DPTRAIN_EXPORT_KEEP=FOLDER the files stay in the folder: NAME.onnx, NAME.in (float32, the
   samples channels last, or ids) and NAME.out (float32: 1 if the outputs are probabilities, else 0;
   then the outputs).  tests/onnx/check_export.py compares them with ONNX Runtime. */
#include "dptrain.h"
#include "dptrain_models.h"
#include "graph/tensor.h"
#include "harness.h"
#include "io/safetensors.h"
#include "nets.h"
#include "unit/onnx_files.h"

#include <dirent.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COUNT = 2, STEPS = 2, MOST_FILES = 256 };

static char folder[ONNX_PATH_BYTES / 2];
static bool keeps;

/* Chooses the folder of the files.  Returns false without one. */
static bool choose_folder(void)
{
    const char *keep = getenv("DPTRAIN_EXPORT_KEEP");
    keeps = keep != NULL;
    snprintf(folder, sizeof folder, "%s", keep ? keep : "/tmp/dptrain-export-XXXXXX");
    return keep || mkdtemp(folder);
}

static char *path_of(const char *name, const char *suffix, char path[ONNX_PATH_BYTES])
{
    snprintf(path, ONNX_PATH_BYTES, "%s/%s%s", folder, name, suffix);
    return path;
}

static void drop(const char *name, const char *suffix)
{
    char path[ONNX_PATH_BYTES];
    if (!keeps) (void)unlink(path_of(name, suffix, path));
}

static void keep(const char *name, const char *suffix, const float *numbers, size_t n)
{
    char path[ONNX_PATH_BYTES];
    FILE *file = keeps ? fopen(path_of(name, suffix, path), "wb") : NULL;
    if (!file) return;
    (void)!fwrite(numbers, sizeof *numbers, n, file);
    (void)fclose(file);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* A model with a trainer, and its outputs for COUNT samples. */
typedef struct run {
    dpt_context *context;
    dpt_device_set *devices;
    dpt_dataset *data;
    dpt_model *model;
    dpt_trainer *trainer;
    float *samples, *outputs; /* outputs[0] is 1 for probabilities */
    size_t n_in, n_out;       /* of all samples */
} run;

static void end(run *r)
{
    dpt_trainer_destroy(r->trainer);
    dpt_model_destroy(r->model);
    dpt_dataset_destroy(r->data);
    dpt_device_set_close(r->devices);
    dpt_context_destroy(r->context);
    free(r->samples);
    free(r->outputs);
    *r = (run){.context = NULL};
}

/* The samples: the same for every network with as many elements. */
static dpt_status make_data(run *r)
{
    const dpti_node *input = &r->model->nodes[r->model->input];
    const size_t labels = dpt_model_labels(r->model);
    const bool ids = input->integer;
    dpt_dataset_memory memory = {.size = sizeof memory,
                                 .count = COUNT,
                                 .height = input->extent.h,
                                 .width = input->extent.w,
                                 .channels = input->extent.c,
                                 .outputs = dpt_model_outputs(r->model),
                                 .dtype = ids ? DPT_I32 : DPT_F32,
                                 .vocabulary = ids ? r->model->vocabulary : 0,
                                 .labels_per_sample = labels,
                                 .label_dtype = DPT_I32};
    r->n_in = COUNT * input->elements;
    int32_t *label = calloc(COUNT * labels, sizeof *label);
    int32_t *id = calloc(r->n_in, sizeof *id);
    float *targets = calloc(COUNT * memory.outputs, sizeof *targets);
    r->samples = calloc(r->n_in, sizeof *r->samples);
    if (!label || !id || !targets || !r->samples) return DPT_E_NO_MEMORY;
    uint32_t state = 12345;
    for (size_t i = 0; i < r->n_in; i++) {
        state = state * 1664525u + 1013904223u;
        r->samples[i] = (float)((double)(state >> 8) / (1 << 24) * 2 - 1);
        if (ids) id[i] = (int32_t)((state >> 8) % r->model->vocabulary);
        if (ids) r->samples[i] = (float)id[i];
    }
    memory.images = ids ? (const void *)id : r->samples;
    memory.labels = labels > 1 ? label : NULL;
    memory.targets = labels > 1 ? NULL : targets;
    const dpt_status status = dpt_dataset_from_memory(r->context, &memory, &r->data);
    free(label);
    free(targets);
    free(id);
    return status;
}

static dpt_status make_trainer(run *r)
{
    const bool rows = dpt_model_labels(r->model) > 1;
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = COUNT,
                                         .lr = 0.001f,
                                         .loss = rows ? DPT_LOSS_CROSS_ENTROPY
                                                      : DPT_LOSS_SQUARED_ERROR};
    return dpt_trainer_create(r->devices, r->model, r->data, &options, &r->trainer);
}

static dpt_status predict(run *r)
{
    const size_t labels = dpt_model_labels(r->model);
    r->n_out = COUNT * labels * dpt_model_outputs(r->model);
    free(r->outputs);
    r->outputs = calloc(r->n_out + 1, sizeof *r->outputs);
    if (!r->outputs) return DPT_E_NO_MEMORY;
    r->outputs[0] = labels > 1 ? 1.0f : 0.0f;
    return dpt_trainer_predict(r->trainer, r->data, 0, COUNT, r->outputs + 1);
}

static dpt_status open_devices(run *r)
{
    DPT_TRY(dpt_context_create(&r->context));
    return dpt_device_set_open(r->context, "cpu:threads=1", &r->devices);
}

/* A run of a file. */
static dpt_status begin(run *r, const char *path)
{
    *r = (run){.context = NULL};
    DPT_TRY(open_devices(r));
    DPT_TRY(dpt_model_from_onnx(r->context, path, &r->model));
    DPT_TRY(make_data(r));
    DPT_TRY(make_trainer(r));
    return predict(r);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static void compare_outputs(test *t, const char *name, const run *a, const run *b)
{
    double largest = 0, worst = 0;
    if (!CHECK_SIZE(b->n_out, a->n_out)) return;
    for (size_t i = 1; i <= a->n_out; i++) {
        largest = fmax(largest, fabs((double)a->outputs[i]));
        worst = fmax(worst, fabs((double)a->outputs[i] - (double)b->outputs[i]));
    }
    if (!CHECK(largest > 0 && worst <= 1e-5 * largest))
        FAIL("%s: outputs differ by %g of the largest", name, worst / largest);
}

/* The initial values of a parameter, allocated; NULL if it has none. */
static float *initial_of(const dpti_parameter *p)
{
    float *values = p && dpti_has_initial(p) ? calloc(p->size, sizeof *values) : NULL;
    dpt_error error;
    if (values && p->initial) memcpy(values, p->initial, p->size * sizeof *values);
    if (!values || p->initial || dpti_file_part_read(&p->stored, values, &error) == DPT_OK)
        return values;
    free(values);
    return NULL;
}

/* The values of a tensor as they were exported, allocated; NULL if there is no such tensor. */
static float *exported(const run *a, const dpti_safetensors *file, const char *name)
{
    const dpti_tensor *tensor = file ? dpti_safetensors_find(file, name) : NULL;
    const dpti_parameter *p = dpti_model_parameter(a->model, name);
    if (!file) return initial_of(p);
    float *values = tensor && p ? calloc(p->size, sizeof *values) : NULL;
    if (values) memcpy(values, tensor->data, p->size * sizeof *values);
    return values;
}

/* Whether a parameter has these initial values, if it has any. */
static bool begins_with(const dpti_parameter *p, const float *values)
{
    float *initial = initial_of(p);
    const bool same =
        !dpti_has_initial(p) || (initial && memcmp(initial, values, p->size * sizeof *values) == 0);
    free(initial);
    return same;
}

static void compare_tensor(test *t, const dpti_parameter *found, const dpt_parameter_info *p,
                           const float *values)
{
    if (!CHECK(found && values)) {
        FAIL("the file has no %s", p->name);
        return;
    }
    CHECK_SIZE(found->rank, p->rank);
    CHECK(memcmp(found->shape, p->shape, p->rank * sizeof *p->shape) == 0);
    if (CHECK_SIZE(found->size, p->elements) && !CHECK(begins_with(found, values)))
        FAIL("%s differs", p->name);
}

/* The model of the file has the same tensors with the same names, shapes and values. */
static void compare_weights(test *t, const run *a, const run *b, const dpti_safetensors *file)
{
    dpt_parameter_info p = {.size = sizeof p};
    size_t n_constants = 0;
    for (size_t i = 0; i < dpt_model_tensor_count(a->model); i++) {
        dpt_model_tensor(a->model, i, &p);
        const dpti_parameter *found = dpti_model_parameter(b->model, p.name);
        if (!found && p.elements == 1) { /* becomes a constant (docs/onnx.md) */
            n_constants++;
            continue;
        }
        float *values = exported(a, file, p.name);
        compare_tensor(t, found, &p, values);
        free(values);
    }
    CHECK_SIZE(dpt_model_tensor_count(b->model) + n_constants, dpt_model_tensor_count(a->model));
}

/* Exports a run, whose weights are in a file or as in the beginning, and reads it back. */
static void round_trip(test *t, const char *name, const run *a, const char *weights)
{
    char path[ONNX_PATH_BYTES];
    run b;
    dpt_error error = {.status = DPT_OK};
    dpti_safetensors *file = NULL;
    if (weights) CHECK_OK(dpti_safetensors_read(weights, &file, &error));
    if (!CHECK_OK(dpt_model_to_onnx(a->model, weights, path_of(name, ".onnx", path), NULL))) {
        FAIL("%s: %s", name, dpt_error_message(a->context));
        dpti_safetensors_close(file);
        return;
    }
    keep(name, ".in", a->samples, a->n_in);
    keep(name, ".out", a->outputs, a->n_out + 1);
    if (CHECK_OK(begin(&b, path))) {
        compare_outputs(t, name, a, &b);
        compare_weights(t, a, &b, file);
    } else {
        FAIL("%s: %s", name, dpt_error_message(b.context));
    }
    end(&b);
    dpti_safetensors_close(file);
    drop(name, ".onnx");
}

/* ---- Networks -------------------------------------------------------------------------------- */

static dpt_status build(run *r, const char *name)
{
    const bool grey = strncmp(name, "res", 3) != 0 && strncmp(name, "vgg", 3) != 0;
    const size_t side = strstr(name, "imagenet") ? 46 : strncmp(name, "res", 3) == 0 ? 12 : 32;
    const dpt_model_shape shape = {
        .height = side, .width = side, .channels = grey ? 1 : 3, .classes = 10};
    DPT_TRY(open_devices(r));
    DPT_TRY(dpt_model_by_name(r->context, name, &shape, &r->model));
    DPT_TRY(make_data(r));
    return make_trainer(r);
}

/* Trains for some steps, and exports the weights that were saved then. */
static void train_and_export(test *t, const char *name, run *r)
{
    char weights[ONNX_PATH_BYTES];
    for (size_t i = 0; i < STEPS; i++) {
        dpt_step_metrics step = {.size = sizeof step};
        CHECK_OK(dpt_trainer_step(r->trainer, &step));
    }
    if (CHECK_OK(predict(r)) &&
        CHECK_OK(dpt_trainer_save(r->trainer, path_of(name, ".safetensors", weights))))
        round_trip(t, name, r, weights);
    else
        FAIL("%s: %s", name, dpt_error_message(r->context));
    drop(name, ".safetensors");
}

static void export_built_in(test *t, const char *name)
{
    run r = {.context = NULL};
    if (CHECK_OK(build(&r, name)))
        train_and_export(t, name, &r);
    else
        FAIL("%s: %s", name, dpt_error_message(r.context));
    end(&r);
}

static bool is_small(const char *name)
{
    return strcmp(name, "linear") == 0 || strcmp(name, "mlp") == 0 || strcmp(name, "lenet") == 0;
}

static void small_networks(test *t)
{
    for (const char *const *name = dpt_model_names(); *name; name++)
        if (is_small(*name)) export_built_in(t, *name);
}

static void large_networks(test *t)
{
    for (const char *const *name = dpt_model_names(); *name; name++)
        if (!is_small(*name)) export_built_in(t, *name);
}

/* The networks of a folder of tests/onnx; returns how many. */
static size_t files_of(test *t, const char *kind)
{
    char path[ONNX_PATH_BYTES], name[512];
    size_t n = 0;
    DIR *all = opendir(onnx_path(kind, path));
    if (!CHECK(all != NULL)) return 0;
    for (const struct dirent *entry; (entry = readdir(all));) {
        const char *suffix = strstr(entry->d_name, ".onnx");
        if (!suffix || suffix[5]) continue;
        snprintf(name, sizeof name, "%s/%s", kind, entry->d_name);
        run r;
        if (CHECK_OK(begin(&r, onnx_path(name, path)))) {
            snprintf(name, sizeof name, "%.*s", (int)(suffix - entry->d_name), entry->d_name);
            round_trip(t, name, &r, NULL);
            train_and_export(t, name, &r);
        } else {
            FAIL("%s: %s", name, dpt_error_message(r.context));
        }
        end(&r);
        n++;
    }
    closedir(all);
    return n;
}

static void files(test *t)
{
    CHECK(files_of(t, "trained") > 0);
    CHECK(files_of(t, "reused") > 0);
}

/* Small networks with every kind of layer. */
static void every_layer(test *t)
{
    char name[64];
    for (size_t i = 0; i < n_nets; i++) {
        run r = {.context = NULL};
        snprintf(name, sizeof name, "net-%zu", i);
        dpt_status status = open_devices(&r);
        if (status == DPT_OK) status = net_create(r.context, &nets[i], &r.model);
        if (status == DPT_OK) status = make_data(&r);
        if (status == DPT_OK) status = make_trainer(&r);
        if (CHECK_OK(status))
            train_and_export(t, name, &r);
        else
            FAIL("%s: %s", nets[i].name, dpt_error_message(r.context));
        end(&r);
    }
}

/* ---- Several inputs -------------------------------------------------------------------------- */

/* A run of a file with several inputs, over the arrays of a file of NumPy; labels are those of
   classes. */
static dpt_status begin_several(run *r, const char *path, const char *network)
{
    char name[64], data[ONNX_PATH_BYTES + 4] = "npz:";
    *r = (run){.context = NULL};
    snprintf(name, sizeof name, "several/%s.npz", network);
    (void)onnx_path(name, data + 4);
    DPT_TRY(open_devices(r));
    DPT_TRY(dpt_model_from_onnx(r->context, path, &r->model));
    DPT_TRY(dpt_dataset_open(r->context, data, NULL, DPT_TRAIN, &r->data));
    DPT_TRY(dpt_dataset_arrange(r->context, r->data, r->model));
    const dpt_trainer_options options = {.size = sizeof options, .batch_size = COUNT};
    DPT_TRY(dpt_trainer_create(r->devices, r->model, r->data, &options, &r->trainer));
    return predict(r);
}

static void compare_inputs(test *t, const run *a, const run *b)
{
    REQUIRE(CHECK_SIZE(dpt_model_input_count(b->model), dpt_model_input_count(a->model)));
    for (size_t i = 0; i < dpt_model_input_count(a->model); i++) {
        dpt_input_info x = {.size = sizeof x}, y = {.size = sizeof y};
        dpt_model_input(a->model, i, &x);
        dpt_model_input(b->model, i, &y);
        CHECK_TEXT(y.name, x.name);
        CHECK_SIZE(y.elements, x.elements);
        CHECK_SIZE(y.vocabulary, x.vocabulary);
    }
}

static void several_inputs(test *t)
{
    static const char *const networks[] = {"masked", "paired", "tagged"};
    static const char *const ways[] = {"default", "older"};
    char name[64], path[ONNX_PATH_BYTES], out[ONNX_PATH_BYTES];
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            run a, b = {.context = NULL};
            snprintf(name, sizeof name, "several/%s_%s.onnx", networks[i], ways[w]);
            (void)path_of("several", ".onnx", out);
            if (CHECK_OK(begin_several(&a, onnx_path(name, path), networks[i])) &&
                CHECK_OK(dpt_model_to_onnx(a.model, NULL, out, NULL)) &&
                CHECK_OK(begin_several(&b, out, networks[i]))) {
                compare_inputs(t, &a, &b);
                compare_outputs(t, name, &a, &b);
                compare_weights(t, &a, &b, NULL);
            }
            end(&a);
            end(&b);
            (void)unlink(out);
        }
}

/* ---- Opsets ---------------------------------------------------------------------------------- */

/* Recurrent layers in every opset. */
static void every_opset(test *t)
{
    static const char *const files[] = {"lstm_default", "gru_older", "rnn_older"};
    char name[64], path[ONNX_PATH_BYTES];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        for (unsigned opset = 13; opset <= 25; opset++) {
            const dpt_onnx_options options = {.size = sizeof options, .opset = opset};
            run a, b = {.context = NULL};
            snprintf(name, sizeof name, "trained/%s.onnx", files[i]);
            const dpt_status status = begin(&a, onnx_path(name, path));
            snprintf(name, sizeof name, "%s-%u", files[i], opset);
            if (CHECK_OK(status) &&
                CHECK_OK(
                    dpt_model_to_onnx(a.model, NULL, path_of(name, ".onnx", path), &options)) &&
                CHECK_OK(begin(&b, path))) {
                compare_outputs(t, name, &a, &b);
                compare_weights(t, &a, &b, NULL);
                keep(name, ".in", a.samples, a.n_in);
                keep(name, ".out", a.outputs, a.n_out + 1);
            }
            end(&a);
            end(&b);
            drop(name, ".onnx");
        }
}

/* ---- Two files, and failures ----------------------------------------------------------------- */

static size_t size_of(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (size_t)info.st_size : 0;
}

/* Weights of more than 512 bytes go to a second file. */
static void two_files(test *t)
{
    const dpt_onnx_options options = {.size = sizeof options, .most_bytes = 512};
    char path[ONNX_PATH_BYTES], data[ONNX_PATH_BYTES];
    run a, b = {.context = NULL};
    if (!CHECK_OK(begin(&a, onnx_path("trained/gpt_default.onnx", path)))) {
        end(&a);
        return;
    }
    path_of("large", ".onnx", path);
    path_of("large", ".onnx.data", data);
    if (CHECK_OK(dpt_model_to_onnx(a.model, NULL, path, &options)) &&
        CHECK(size_of(data) >= 1024) && CHECK_OK(begin(&b, path))) {
        compare_outputs(t, "large", &a, &b);
        compare_weights(t, &a, &b, NULL);
    }
    end(&b);
    keep("large", ".in", a.samples, a.n_in);
    keep("large", ".out", a.outputs, a.n_out + 1);

    /* The second file cannot be written: the first one stays. */
    const size_t before = size_of(path);
    const dpt_onnx_options other = {.size = sizeof other, .opset = 20, .most_bytes = 512};
    char folder_path[ONNX_PATH_BYTES];
    CHECK(before > 0 && rename(data, path_of("large", ".kept", folder_path)) == 0);
    CHECK(mkdir(data, 0777) == 0);
    CHECK_STATUS(dpt_model_to_onnx(a.model, NULL, path, &other), DPT_E_IO);
    CHECK_SIZE(size_of(path), before);
    CHECK(rmdir(data) == 0 && rename(folder_path, data) == 0);
    end(&a);
    drop("large", ".onnx");
    drop("large", ".onnx.data");
}

static void refusals(test *t)
{
    char path[ONNX_PATH_BYTES], out[ONNX_PATH_BYTES];
    dpt_context *context = NULL;
    dpt_model *model = NULL, *built = NULL, *begun = NULL;
    const dpt_model_shape shape = {.height = 8, .width = 8, .channels = 1, .classes = 3};
    path_of("refused", ".onnx", out);
    REQUIRE_OK(dpt_context_create(&context));
    CHECK_OK(dpt_model_from_onnx(context, onnx_path("trained/mlp_older.onnx", path), &model));
    CHECK_OK(dpt_model_by_name(context, "mlp", &shape, &built));
    CHECK_OK(dpt_model_create(context, "begun", &begun));
    CHECK_STATUS(dpt_model_to_onnx(NULL, NULL, out, NULL), DPT_E_INVALID);
    CHECK_STATUS(dpt_model_to_onnx(model, NULL, NULL, NULL), DPT_E_INVALID);
    CHECK_STATUS(dpt_model_to_onnx(begun, NULL, out, NULL), DPT_E_STATE);
    CHECK_STATUS(dpt_model_to_onnx(built, NULL, out, NULL), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(context), "has no weights yet");
    CHECK_STATUS(
        dpt_model_to_onnx(model, NULL, out,
                          &(dpt_onnx_options){.size = sizeof(dpt_onnx_options), .opset = 12}),
        DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(context), "opsets 13 to 25");
    CHECK_STATUS(
        dpt_model_to_onnx(model, NULL, out,
                          &(dpt_onnx_options){.size = sizeof(dpt_onnx_options), .opset = 26}),
        DPT_E_INVALID);
    CHECK_STATUS(dpt_model_to_onnx(model, "/nowhere.safetensors", out, NULL), DPT_E_NOT_FOUND);
    CHECK_STATUS(dpt_model_to_onnx(model, NULL, "/nowhere/out.onnx", NULL), DPT_E_IO);
    CHECK_SIZE(size_of(out), 0);
    dpt_model_destroy(begun);
    dpt_model_destroy(built);
    dpt_model_destroy(model);
    dpt_context_destroy(context);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"small built-in networks", small_networks},
        {"large built-in networks", large_networks},
        {"networks of files", files},
        {"small networks with every layer", every_layer},
        {"every opset", every_opset},
        {"a second file of weights", two_files},
        {"several inputs", several_inputs},
        {"refusals", refusals},
    };
#ifndef DPTRAIN_HAS_ONNX
    puts("this build has no protobuf-c");
    return TEST_SKIP_CODE;
#endif
    if (!choose_folder()) return 1;
    const int code = test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
    if (!keeps) (void)rmdir(folder);
    return code;
}
