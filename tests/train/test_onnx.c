/* Trains networks of ONNX files and compares the losses of 20 steps with those that PyTorch 2.15.0
   has computed from the same weights on the same batch: SGD, rate 0.05, momentum 0.9, label i % 3.
   Of several labels a sample, every fifth is ignored.

   Each network was exported in two ways (docs/onnx.md): "default" by torch.onnx.export with
   dynamo=True and optimize=False, "older" with dynamo=False.  NAME.f32 has the float32 inputs of
   the 8 samples, channels last, or their ids, and then the losses. */
#include "train/mixes.h"
#include "train/session.h"
#include "unit/onnx_files.h"

#include <math.h>
#include <string.h>

enum { COUNT = 8, STEPS = 20, CLASSES = 3, MOST = 8192 };

static const struct {
    const char *name;
    size_t height, width, channels;
    size_t vocabulary; /* the inputs are ids below this number; 0: real numbers */
    size_t classes, n_labels;
} networks[] = {{"mlp", 1, 1, 6, 0, 3, 1},      {"attention", 5, 4, 1, 0, 3, 1},
                {"joined", 4, 4, 2, 0, 3, 1},   {"tied", 1, 1, 6, 0, 3, 1},
                {"bag", 1, 1, 6, 20, 3, 1},     {"bert", 1, 1, 6, 17, 3, 1},
                {"gpt", 1, 1, 6, 11, 11, 6},    {"pixels", 3, 4, 2, 0, 3, 12},
                {"unet", 8, 8, 2, 0, 3, 1},     {"norms", 6, 6, 2, 0, 3, 1},
                {"capsules", 4, 4, 2, 0, 3, 1}, {"lstm", 1, 1, 6, 13, 3, 1},
                {"gru", 5, 4, 1, 0, 3, 1},      {"rnn", 5, 4, 1, 0, 3, 1},
                {"mixer", 8, 8, 2, 0, 3, 1},    {"convnext", 8, 8, 2, 0, 3, 1},
                {"dense", 8, 8, 2, 0, 3, 1},    {"regnet", 8, 8, 2, 0, 3, 1},
                {"mbconv", 8, 8, 2, 0, 3, 1},   {"squeezenet", 9, 9, 2, 0, 3, 1},
                {"vgg", 8, 8, 2, 0, 3, 1},      {"vit", 8, 8, 2, 0, 3, 1},
                {"composed", 4, 4, 2, 0, 3, 1}, {"swin", 8, 8, 2, 0, 3, 1},
                {"bilinear", 8, 8, 2, 0, 3, 1}, {"depth", 8, 8, 2, 0, 3, 1},
                {"strided", 8, 8, 2, 0, 3, 1},  {"dilated", 8, 8, 2, 0, 3, 1},
                {"merged", 5, 4, 1, 0, 3, 1},   {"chosen", 5, 4, 1, 0, 3, 1},
                {"written", 5, 4, 1, 0, 3, 1},  {"volume", 2, 4, 20, 0, 3, 1},
                {"padded", 6, 6, 2, 0, 3, 1},   {"attending", 5, 4, 1, 0, 3, 1},
                {"learned", 5, 4, 1, 0, 3, 1},  {"single", 5, 4, 1, 0, 3, 1},
                {"coded", 5, 4, 1, 0, 3, 1},    {"embedded", 1, 1, 6, 11, 11, 6},
                {"frames", 3, 2, 36, 0, 3, 1},  {"sentences", 3, 4, 3, 0, 3, 1},
                {"clips", 2, 2, 36, 0, 3, 1},   {"twins", 5, 5, 4, 0, 3, 1},
                {"computed", 8, 8, 2, 0, 3, 1}, {"computed_volume", 2, 4, 20, 0, 3, 1},
                {"blocks", 6, 6, 2, 0, 3, 1},   {"pointed", 1, 1, 6, 17, 3, 1},
                {"branches", 4, 4, 2, 0, 3, 1}, {"summed", 5, 4, 1, 0, 3, 1},
                {"arcs", 1, 1, 6, 0, 3, 1}};

static const mix mixes[] = {{"cpu:threads=2", NULL},
                            {"cpu:threads=1,cpu:threads=1", "3:1"},
                            {"cpu:threads=1,cpu:threads=1,cpu:threads=1", "13:2:1"}};
enum { N_MIXES = sizeof mixes / sizeof *mixes };

/* Files without the notes of the default exporter do not tell them from parameters. */
static const dpt_parameter_group buffers[] = {{.pattern = "place*", .frozen = true},
                                              {.pattern = "ones", .frozen = true}};

static bool freezes_buffers(const char *path)
{
    return strstr(path, "merged_older") || strstr(path, "coded_older") ||
           strstr(path, "coded_bare");
}

static dpt_status begin_as(session *r, const char *path, const mix *where,
                           const dpt_dataset_memory *memory, bool deterministic)
{
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = COUNT,
                                         .lr = 0.05f,
                                         .momentum = 0.9f,
                                         .groups = buffers,
                                         .n_groups = freezes_buffers(path) ? 2 : 0,
                                         .split = dpt_split_from(where->split),
                                         .deterministic = deterministic};
    DPT_TRY(dpt_device_set_open(r->context, where->devices, &r->devices));
    DPT_TRY(dpt_dataset_from_memory(r->context, memory, &r->data));
    DPT_TRY(dpt_model_from_onnx(r->context, path, &r->model));
    return dpt_trainer_create(r->devices, r->model, r->data, &options, &r->trainer);
}

static dpt_status begin(session *r, const char *path, const mix *where,
                        const dpt_dataset_memory *memory)
{
    return begin_as(r, path, where, memory, false);
}

/* A predictor, with the weights of the file, predicts what the trainer predicts before its first
   step. */
static void predict(test *t, const session *r, const char *name)
{
    static float wanted[COUNT * MOST], outputs[COUNT * MOST];
    char why[DPT_WHY_BYTES] = "";
    dpt_predictor *predictor = NULL;
    const dpt_predictor_options options = {
        .size = sizeof options, .like = r->data, .micro_batch = 3};
    const size_t n = COUNT * dpt_model_labels(r->model) * dpt_model_outputs(r->model);
    CHECK_OK(dpt_predictor_create(r->devices, r->model, &options, &predictor));
    CHECK_OK(dpt_trainer_predict(r->trainer, r->data, 0, COUNT, wanted));
    if (!CHECK_OK(dpt_predictor_run_data(predictor, r->data, 0, COUNT, outputs, why)))
        FAIL("%s: %s", name, why);
    for (size_t i = 0; i < n; i++)
        if (!CHECK_NEAR((double)outputs[i], (double)wanted[i], 1e-5)) {
            FAIL("%s, output %zu", name, i);
            break;
        }
    dpt_predictor_destroy(predictor);
}

/* Whether losses are those of PyTorch. */
static bool are_near(test *t, const double losses[STEPS], const float expected[STEPS])
{
    bool near = true;
    for (size_t i = 0; i < STEPS; i++) {
        const double loss = (double)expected[i];
        near = CHECK_NEAR(losses[i], loss, 1e-4 * loss + 1e-6) && near;
    }
    return near;
}

/* Trains the session, if it has begun, and compares the losses with those of PyTorch. */
static void compare_losses(test *t, const session *r, const float expected[STEPS], const char *name,
                           const char *devices)
{
    double losses[STEPS];
    if (!r->trainer || !session_train(t, r, STEPS, losses)) return;
    if (!are_near(t, losses, expected)) FAIL("%s on %s", name, devices);
}

/* The data of a network. */
typedef struct kept_data {
    float numbers[MOST];
    int32_t labels[MOST], ids[MOST];
    size_t n; /* numbers of the samples; the losses stand behind them */
} kept_data;

/* One file on one mix of devices. */
static dpt_status begin_network(session *r, kept_data *k, size_t network, const char *name,
                                const mix *where, bool deterministic)
{
    char path[ONNX_PATH_BYTES];
    const size_t n_labels = networks[network].n_labels;
    for (size_t i = 0; i < COUNT * n_labels; i++)
        k->labels[i] = n_labels > 1 && i % 5 == 2 ? DPT_IGNORED_LABEL : (int32_t)(i % CLASSES);
    for (size_t i = 0; i < k->n; i++)
        k->ids[i] = (int32_t)k->numbers[i];
    const bool reads_ids = networks[network].vocabulary > 0;
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = COUNT,
                                       .height = networks[network].height,
                                       .width = networks[network].width,
                                       .channels = networks[network].channels,
                                       .outputs = networks[network].classes,
                                       .dtype = reads_ids ? DPT_I32 : DPT_F32,
                                       .images = reads_ids ? (const void *)k->ids : k->numbers,
                                       .vocabulary = networks[network].vocabulary,
                                       .labels = k->labels,
                                       .labels_per_sample = n_labels,
                                       .label_dtype = DPT_I32};
    DPT_TRY(dpt_context_create(&r->context));
    return begin_as(r, onnx_path(name, path), where, &memory, deterministic);
}

static bool read_network(test *t, size_t network, kept_data *k)
{
    char name[64];
    snprintf(name, sizeof name, "trained/%s.f32", networks[network].name);
    k->n = COUNT * networks[network].height * networks[network].width * networks[network].channels;
    return CHECK_SIZE(onnx_floats(name, k->numbers, MOST), k->n + STEPS);
}

static void train(test *t, size_t network, const char *way, const mix *where)
{
    session r = {.context = NULL};
    char name[64];
    kept_data k;
    REQUIRE(read_network(t, network, &k));
    snprintf(name, sizeof name, "trained/%s_%s.onnx", networks[network].name, way);
    if (begin_network(&r, &k, network, name, where, false) != DPT_OK)
        FAIL("%s", dpt_error_message(r.context));
    else
        predict(t, &r, name);
    compare_losses(t, &r, k.numbers + k.n, name, where->devices);
    session_end(&r);
}

/* The losses of a deterministic training, which are near those of PyTorch. */
static bool train_deterministic(test *t, size_t network, const char *name, const mix *where,
                                double losses[STEPS])
{
    session r = {.context = NULL};
    kept_data k;
    bool trained = false;
    if (!read_network(t, network, &k)) return false;
    if (CHECK_OK(begin_network(&r, &k, network, name, where, true)))
        trained = session_train(t, &r, STEPS, losses) && are_near(t, losses, k.numbers + k.n);
    else
        FAIL("%s", dpt_error_message(r.context));
    session_end(&r);
    return trained;
}

/* Deterministic training has the same bits on all mixes. */
static void the_same_bits(test *t)
{
    static const char *const ways[] = {"default", "older"};
    for (size_t i = 0; i < 2 * sizeof networks / sizeof *networks; i++) {
        double first[STEPS], losses[STEPS];
        char name[64];
        snprintf(name, sizeof name, "trained/%s_%s.onnx", networks[i / 2].name, ways[i % 2]);
        if (!train_deterministic(t, i / 2, name, &mixes[0], first)) FAIL("%s", name);
        for (size_t m = 1; m < N_MIXES; m++)
            if (!train_deterministic(t, i / 2, name, &mixes[m], losses) ||
                !CHECK(memcmp(losses, first, sizeof first) == 0))
                FAIL("%s on %s", name, mixes[m].devices);
    }
}

/* The same on devices of another backend, with few files: a driver of OpenCL compiles the kernels
   of each. */
static void the_same_bits_on_other_devices(test *t)
{
    static const char *const names[] = {"joined", "attention", "capsules", "vit"};
    if (testing_cpu()) SKIP("the same bits has the CPU's devices");
    const mix others[] = {{tested_devices("@0"), NULL},
                          {tested_devices("@0,cpu:threads=1"), "3:1"}};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        double first[STEPS], losses[STEPS];
        char name[64];
        size_t i = 0;
        while (strcmp(networks[i].name, names[k]) != 0)
            i++;
        snprintf(name, sizeof name, "trained/%s_default.onnx", names[k]);
        if (!CHECK(train_deterministic(t, i, name, &mixes[0], first))) FAIL("%s", name);
        for (size_t m = 0; m < sizeof others / sizeof *others; m++)
            if (!CHECK(train_deterministic(t, i, name, &others[m], losses)) ||
                !CHECK(memcmp(losses, first, sizeof first) == 0))
                FAIL("%s on %s", name, others[m].devices);
    }
}

static void trains_as_pytorch(test *t)
{
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        for (const mix *where = mixes; where < mixes + N_MIXES; where++) {
            train(t, i, "default", where);
            train(t, i, "older", where);
            if (strcmp(networks[i].name, "coded") != 0) continue;
            train(t, i, "optimised", where); /* optimize=True, as merged_default */
            train(t, i, "bare", where);      /* without the notes of the exporter */
        }
}

/* Few of them, because a driver of OpenCL compiles the kernels of each: a convolutional network
   with a path around others, a transformer, and convolutions whose filters are computed. */
static void trains_on_other_devices(test *t)
{
    static const char *const names[] = {"joined", "attention", "computed"};
    if (testing_cpu()) SKIP("the CPU trains all of them");
    const mix others[] = {{tested_devices("@0"), NULL},
                          {tested_devices("@0,cpu:threads=1"), "3:1"},
                          {tested_devices("cpu:threads=1,@0,@1"), "13:2:1"}};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        size_t i = 0;
        while (strcmp(networks[i].name, names[k]) != 0)
            i++;
        for (size_t m = 0; m < sizeof others / sizeof *others; m++)
            train(t, i, "default", &others[m]);
    }
}

/* ---- Stochastic depth ------------------------------------------------------------------------ */

enum { DROPPING_STEPS = 6, DROPPING_MOST = COUNT * 8 * 8 * 2 };

/* The losses of a network that drops half of its blocks, from the samples of "depth". */
static void train_dropping(test *t, const char *way, const mix *where,
                           double losses[DROPPING_STEPS])
{
    session r = {.context = NULL};
    char name[64], path[ONNX_PATH_BYTES];
    float numbers[MOST];
    int32_t labels[COUNT];
    REQUIRE(onnx_floats("trained/depth.f32", numbers, MOST) == DROPPING_MOST + STEPS);
    for (size_t i = 0; i < COUNT; i++)
        labels[i] = (int32_t)(i % CLASSES);
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = COUNT,
                                       .height = 8,
                                       .width = 8,
                                       .channels = 2,
                                       .outputs = CLASSES,
                                       .dtype = DPT_F32,
                                       .images = numbers,
                                       .labels = labels,
                                       .label_dtype = DPT_I32};
    snprintf(name, sizeof name, "random/%s.onnx", way);
    REQUIRE_OK(dpt_context_create(&r.context));
    if (begin(&r, onnx_path(name, path), where, &memory) != DPT_OK)
        FAIL("%s", dpt_error_message(r.context));
    for (size_t i = 0; i < DROPPING_STEPS; i++) {
        dpt_step_metrics step = {.size = sizeof step};
        if (r.trainer) CHECK_OK(dpt_trainer_step(r.trainer, &step));
        losses[i] = step.loss;
    }
    const double kept = (double)numbers[DROPPING_MOST];
    CHECK(fabs(losses[0] - kept) > 1e-3 * kept); /* the loss where nothing is dropped */
    session_end(&r);
}

/* What is dropped depends on the sample, not on the device that has it.  It does not depend on how
   the choice is written either: Bernoulli, a comparison, or the floor of a sum. */
static void drops_alike_on_every_mix(test *t)
{
    static const char *const ways[] = {"depth_default", "depth_older", "floored_depth_default",
                                       "floored_depth_older"};
    double wanted[DROPPING_STEPS], losses[DROPPING_STEPS] = {0};
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (size_t m = 0; m < N_MIXES; m++) {
            train_dropping(t, ways[w], &mixes[m], losses);
            if (w == 0 && m == 0) memcpy(wanted, losses, sizeof wanted);
            for (size_t i = 0; i < DROPPING_STEPS; i++)
                if (!CHECK_NEAR(losses[i], wanted[i], 1e-4 * wanted[i] + 1e-6))
                    FAIL("%s on %s, step %zu", ways[w], mixes[m].devices, i + 1);
        }
}

/* ---- Several inputs -------------------------------------------------------------------------- */

/* The samples are in NAME.npz, and NAME.f32 has the losses. */
static dpt_status begin_several(session *r, const char *network, const char *way, const mix *where)
{
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = COUNT,
                                         .lr = 0.05f,
                                         .momentum = 0.9f,
                                         .split = dpt_split_from(where->split)};
    char name[64], path[ONNX_PATH_BYTES], data[ONNX_PATH_BYTES + 4] = "npz:";
    snprintf(name, sizeof name, "several/%s.npz", network);
    memcpy(data + 4, onnx_path(name, path), sizeof path);
    DPT_TRY(dpt_device_set_open(r->context, where->devices, &r->devices));
    DPT_TRY(dpt_dataset_open(r->context, data, NULL, DPT_TRAIN, &r->data));
    snprintf(name, sizeof name, "several/%s_%s.onnx", network, way);
    DPT_TRY(dpt_model_from_onnx(r->context, onnx_path(name, path), &r->model));
    DPT_TRY(dpt_dataset_arrange(r->context, r->data, r->model));
    return dpt_trainer_create(r->devices, r->model, r->data, &options, &r->trainer);
}

static void train_several(test *t, const char *network, const char *way, const mix *where)
{
    session r = {.context = NULL};
    char name[64];
    float losses[MOST];
    snprintf(name, sizeof name, "several/%s.f32", network);
    REQUIRE(onnx_floats(name, losses, MOST) == STEPS);
    REQUIRE_OK(dpt_context_create(&r.context));
    if (begin_several(&r, network, way, where) != DPT_OK) FAIL("%s", dpt_error_message(r.context));
    snprintf(name, sizeof name, "several/%s_%s", network, way);
    compare_losses(t, &r, losses, name, where->devices);
    session_end(&r);
}

static void trains_with_several_inputs(test *t)
{
    static const char *const several[] = {
        "masked", "paired", "tagged",
        /* These give their loss, of which the labels are an input. */
        "squares", "classes", "places", "penalised"};
    for (size_t i = 0; i < sizeof several / sizeof *several; i++)
        for (const mix *where = mixes; where < mixes + N_MIXES; where++) {
            train_several(t, several[i], "default", where);
            train_several(t, several[i], "older", where);
        }
}

/* ---- Recurrent layers ------------------------------------------------------------------------ */

/* Those that PyTorch does not write (tests/onnx/make_recurrent.py). */
static const char *const recurrent[] = {"gru_before",        "gru_before_both",  "gru_reverse",
                                        "gru_state",         "lstm_both",        "lstm_cell",
                                        "lstm_reverse_cell", "lstm_activations", "rnn_both",
                                        "lengths_both",      "lengths_state",    "layout",
                                        "layout_state",      "folded_both",      "folded_before",
                                        "folded_lengths",    "folded_layout"};

/* The outputs of FOLDER/FILE.onnx for three samples are those in FOLDER/FILE.f32. */
static void compute(test *t, const char *folder, const char *file, const float *samples)
{
    enum { SAMPLES = 3 };
    session r = {.context = NULL};
    char name[64], path[ONNX_PATH_BYTES], why[DPT_WHY_BYTES] = "";
    float wanted[MOST], outputs[MOST];
    dpt_predictor *predictor = NULL;
    const dpt_predictor_options options = {
        .size = sizeof options, .dtype = DPT_F32, .logits = true};
    snprintf(name, sizeof name, "%s/%s.f32", folder, file);
    const size_t n = onnx_floats(name, wanted, MOST);
    snprintf(name, sizeof name, "%s/%s.onnx", folder, file);
    REQUIRE_OK(dpt_context_create(&r.context));
    REQUIRE_OK(dpt_device_set_open(r.context, mixes[1].devices, &r.devices));
    if (!CHECK_OK(dpt_model_from_onnx(r.context, onnx_path(name, path), &r.model)) ||
        !CHECK_OK(dpt_predictor_create(r.devices, r.model, &options, &predictor)))
        FAIL("%s", dpt_error_message(r.context));
    if (predictor && CHECK_SIZE(SAMPLES * dpt_model_outputs(r.model), n) &&
        CHECK_OK(dpt_predictor_run(predictor, samples, SAMPLES, outputs, why)))
        for (size_t i = 0; i < n; i++)
            if (!CHECK_NEAR((double)outputs[i], (double)wanted[i], 1e-5)) FAIL("%s", file);
    dpt_predictor_destroy(predictor);
    session_end(&r);
}

static void computes_recurrent_layers(test *t)
{
    float samples[MOST];
    REQUIRE(onnx_floats("recurrent/x.f32", samples, MOST) > 0);
    for (size_t i = 0; i < sizeof recurrent / sizeof *recurrent; i++)
        compute(t, "recurrent", recurrent[i], samples);
}

/* ---- Operators that the import composes ------------------------------------------------------ */

/* tests/onnx/make_composed.py */
static const char *const composed[] = {"to_space",
                                       "to_space_crd",
                                       "to_depth",
                                       "sums",
                                       "sums_exclusive",
                                       "sums_reverse",
                                       "sums_both",
                                       "product",
                                       "product_kept",
                                       "einsum_batch",
                                       "einsum_outer",
                                       "einsum_order",
                                       "einsum_weight",
                                       "einsum_dots",
                                       "einsum_implied",
                                       "einsum_alphabet",
                                       "einsum_ones",
                                       "einsum_diagonal",
                                       "linear_half",
                                       "linear_pytorch",
                                       "linear_corners",
                                       "linear_asymmetric",
                                       "linear_down",
                                       "nearest_floor",
                                       "nearest_whole",
                                       "nearest_ceil",
                                       "linear_symmetric",
                                       "linear_smooth",
                                       "cubic",
                                       "cubic_down",
                                       "cubic_corners",
                                       "cubic_asymmetric",
                                       "cubic_smooth",
                                       "not_larger",
                                       "not_smaller",
                                       "dilated",
                                       "dilated_ceil",
                                       "average",
                                       "power",
                                       "power_global",
                                       "reflect",
                                       "edge",
                                       "wrap",
                                       "negative",
                                       "same",
                                       "enlarged",
                                       "enlarged_shape",
                                       "places",
                                       "places_last",
                                       "taken",
                                       "smallest",
                                       "norm_values",
                                       "few",
                                       "few_infinite",
                                       "put_none",
                                       "put_add",
                                       "put_max",
                                       "put_min",
                                       "put_mul",
                                       "parts",
                                       "rows",
                                       "hot",
                                       "row",
                                       "column",
                                       "middle",
                                       "tiled",
                                       "triangle",
                                       "remainder",
                                       "hard",
                                       "scaled_zero",
                                       "scaled",
                                       "divided",
                                       "divided_inf",
                                       "attention_0",
                                       "attention_1",
                                       "attention_3"};

static void computes_composed_operators(test *t)
{
    float samples[MOST];
    REQUIRE(onnx_floats("composed/x.f32", samples, MOST) > 0);
    for (size_t i = 0; i < sizeof composed / sizeof *composed; i++)
        compute(t, "composed", composed[i], samples);
}

/* ---- Outputs of integers --------------------------------------------------------------------- */

/* Places are predicted as they are, also where probabilities are asked for, and cannot be trained.
 */
static void predicts_integers(test *t)
{
    enum { SAMPLES = 3, HEIGHT = 4, WIDTH = 6, CHANNELS = 8 };
    session r = {.context = NULL};
    float samples[MOST], wanted[MOST], outputs[MOST];
    int32_t labels[SAMPLES] = {0};
    char path[ONNX_PATH_BYTES], why[DPT_WHY_BYTES] = "";
    dpt_predictor *predictor = NULL;
    const dpt_predictor_options options = {.size = sizeof options, .dtype = DPT_F32};
    REQUIRE(onnx_floats("composed/x.f32", samples, MOST) > 0);
    const size_t n = onnx_floats("composed/places.f32", wanted, MOST);
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = SAMPLES,
                                       .height = HEIGHT,
                                       .width = WIDTH,
                                       .channels = CHANNELS,
                                       .outputs = n / SAMPLES,
                                       .dtype = DPT_F32,
                                       .images = samples,
                                       .labels = labels,
                                       .label_dtype = DPT_I32};
    REQUIRE_OK(dpt_context_create(&r.context));
    CHECK_STATUS(begin(&r, onnx_path("composed/places.onnx", path), mixes, &memory),
                 DPT_E_UNSUPPORTED);
    CHECK_CONTAINS(dpt_error_message(r.context), "its output is integers, such as places");
    REQUIRE(r.model);
    CHECK_OK(dpt_predictor_create(r.devices, r.model, &options, &predictor));
    CHECK_OK(dpt_predictor_run(predictor, samples, SAMPLES, outputs, why));
    for (size_t i = 0; i < n; i++)
        CHECK_NEAR((double)outputs[i], (double)wanted[i], 0);
    dpt_predictor_destroy(predictor);
    session_end(&r);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static const struct {
    const char *file;
    dpt_status status;
    const char *says;
} refusals[] = {
    {"bad/cut.onnx", DPT_E_FORMAT, "cut.onnx"},
    {"bad/nowhere.onnx", DPT_E_NOT_FOUND, "nowhere.onnx"},
    {"mixed/reduce.onnx", DPT_E_UNSUPPORTED, "(ReduceMean): it mixes the samples of a batch"},
    {"recurrent/clip.onnx", DPT_E_UNSUPPORTED, "(LSTM): clip cannot be trained"},
    {"recurrent/projected.onnx", DPT_E_INVALID, "has 7 numbers, but the layer has 6"},
    {"recurrent/activation.onnx", DPT_E_UNSUPPORTED, "(RNN): the activation Elu"},
    {"composed/outside.onnx", DPT_E_INVALID, "(CumSum): axis 4 is none of its 4 axes"},
    {"composed/twice.onnx", DPT_E_UNSUPPORTED, "(Einsum): the equation \"nchw,wk->nchh\" does not"},
    {"composed/many_axes.onnx", DPT_E_UNSUPPORTED,
     "(Einsum): a product of its first 2 operands would"},
    {"composed/mirror.onnx", DPT_E_UNSUPPORTED, "(Pad): only the modes constant, reflect, edge"},
    {"composed/deep.onnx", DPT_E_UNSUPPORTED, "(OneHot): an axis of 1099511627776 elements"},
    {"composed/far.onnx", DPT_E_INVALID, "(Pad): it reflects 4 elements of the 4 along axis 2"},
    {"composed/outside_rows.onnx", DPT_E_INVALID, "(ScatterND): index 8 is outside the 8 elements"},
    {"composed/dropped_filters.onnx", DPT_E_UNSUPPORTED,
     "(Conv): its filters differ between samples; only filters that are the same for all"},
    {"composed/few_blocks.onnx", DPT_E_FORMAT,
     "(Col2Im): its image, its blocks and its input do not fit together"},
    {"composed/own_filters.onnx", DPT_E_UNSUPPORTED, "(Conv): its filters differ between samples"},
    {"composed/indices.onnx", DPT_E_UNSUPPORTED, "(MaxPool): its indices count over all samples"},
    {"composed/crop.onnx", DPT_E_UNSUPPORTED, "(Resize): only the modes nearest, linear and cubic"},
};

static void refuses_the_rest(test *t)
{
    dpt_context *context = NULL;
    char path[ONNX_PATH_BYTES];
    REQUIRE_OK(dpt_context_create(&context));
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        dpt_model *model = NULL;
        CHECK_STATUS(dpt_model_from_onnx(context, onnx_path(refusals[i].file, path), &model),
                     refusals[i].status);
        CHECK(!model);
        CHECK_CONTAINS(dpt_error_message(context), refusals[i].says);
    }
    dpt_model *model = NULL;
    CHECK_STATUS(dpt_model_from_onnx(context, NULL, &model), DPT_E_INVALID);
    CHECK_STATUS(dpt_model_from_onnx(context, "x.onnx", NULL), DPT_E_INVALID);
    dpt_context_destroy(context);
}

/* ---- Remarks --------------------------------------------------------------------------------- */

static const struct {
    const char *file, *says; /* NULL: there is no remark */
} remarks[] = {
    {"remarked/outputs.onnx", "has 2 outputs: only the first, \"y\", is trained"},
    {"remarked/merged.onnx", "may have merged batch-norms"},
    {"remarked/normed.onnx", NULL},
    {"remarked/modes.onnx", "1 of 2 batch-norms are in evaluation mode, such as node \"still\""},
    {"remarked/momentum.onnx", "node \"all\""},
    {"remarked/momentum.onnx", "are those of the last batch alone"},
    {"remarked/modes.onnx", "--freeze-batch-norm keeps the running statistics of all"},
    {"remarked/unbiased.onnx", "no layer has a bias: tf2onnx leaves out biases of zeros"},
    {"remarked/unbiased_jax.onnx", NULL},
    {"remarked/twice.onnx", "each layer gets its own again, 1 in all, such as \"c.2\" for \"c\""},
    {"remarked/twice_jax.onnx", NULL},
    {"trained/vgg_older.onnx", NULL},
    {"trained/joined_default.onnx", NULL},
    {"trained/merged_default.onnx", "has dropped biases of zeros (3)"},
    {"trained/merged_older.onnx", "each layer gets its own again, 30 in all"},
};

static void remarks_on_what_is_left_out(test *t)
{
    dpt_context *context = NULL;
    char path[ONNX_PATH_BYTES];
    REQUIRE_OK(dpt_context_create(&context));
    for (size_t i = 0; i < sizeof remarks / sizeof *remarks; i++) {
        dpt_model *model = NULL;
        if (!CHECK_OK(dpt_model_from_onnx(context, onnx_path(remarks[i].file, path), &model)))
            FAIL("%s: %s", path, dpt_error_message(context));
        else if (remarks[i].says)
            CHECK_CONTAINS(dpt_model_remark(model, 0), remarks[i].says);
        else
            CHECK(!dpt_model_remark(model, 0));
        if (model && !strstr(remarks[i].file, "merged_default")) CHECK(!dpt_model_remark(model, 1));
        dpt_model_destroy(model);
    }
    dpt_context_destroy(context);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"trains as PyTorch", trains_as_pytorch},
        {"the same bits", the_same_bits},
        {"the same bits on other devices", the_same_bits_on_other_devices},
        {"trains on other devices", trains_on_other_devices},
        {"drops alike on every mix", drops_alike_on_every_mix},
        {"trains with several inputs", trains_with_several_inputs},
        {"computes recurrent layers", computes_recurrent_layers},
        {"computes composed operators", computes_composed_operators},
        {"predicts integers", predicts_integers},
        {"refuses the rest", refuses_the_rest},
        {"remarks on what is left out", remarks_on_what_is_left_out},
    };
#ifndef DPTRAIN_HAS_ONNX
    puts("this build has no protobuf-c");
    return TEST_SKIP_CODE;
#endif
    const int missing = tested_backend_missing();
    if (missing) return missing;
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
