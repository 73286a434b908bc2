/* Tests checkpoints of a network with batch-norm: running statistics, the counters that PyTorch
   keeps, an optimizer that begins anew, and files of other models. */
#include "checkpoint/origin.h"
#include "harness.h"
#include "io/safetensors.h"
#include "train/flat.h"
#include "train/replicas/state.h"
#include "train/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char start[] = "start.safetensors", trained[] = "trained.safetensors";

typedef struct setting {
    dpt_context *context;
    dpt_dataset *data;
    dpt_model *model;
} setting;

typedef struct training {
    dpt_device_set *devices;
    dpt_trainer *trainer;
} training;

static const dpt_trainer_options adamw = {.size = sizeof adamw,
                                          .batch_size = FLAT_COUNT,
                                          .optimizer = DPT_OPTIMIZER_ADAMW,
                                          .lr = 0.01f,
                                          .split = {DPT_SPLIT_EQUAL, NULL},
                                          .no_shuffle = true};
static const dpt_trainer_options sgd = {.size = sizeof sgd,
                                        .batch_size = FLAT_COUNT,
                                        .lr = 0.05f,
                                        .momentum = 0.9f,
                                        .split = {DPT_SPLIT_EQUAL, NULL},
                                        .no_shuffle = true};

static bool opened(test *t, const char *devices, const dpt_trainer_options *options, training *out)
{
    const setting *s = t->user;
    *out = (training){.devices = NULL};
    if (CHECK_OK(dpt_device_set_open(s->context, devices, &out->devices)) &&
        CHECK_OK(dpt_trainer_create(out->devices, s->model, s->data, options, &out->trainer)))
        return true;
    FAIL("%s", dpt_error_message(s->context));
    return false;
}

static void close_training(training *w)
{
    dpt_trainer_destroy(w->trainer);
    dpt_device_set_close(w->devices);
}

static void train(test *t, training *w, size_t n_steps)
{
    dpt_step_metrics metrics = {.size = sizeof metrics};
    for (size_t i = 0; i < n_steps; i++)
        CHECK_OK(dpt_trainer_step(w->trainer, &metrics));
}

static void check_same(test *t, const training *a, const training *b, dpt_tensor_kind kind)
{
    const setting *s = t->user;
    const size_t n = s->model->flat_size;
    float *flat = calloc(2 * n, sizeof *flat);
    REQUIRE(flat);
    CHECK_OK(dpti_trainer_read(a->trainer, 0, kind, flat));
    for (size_t rank = 0; rank < dpt_device_set_count(b->devices); rank++) {
        CHECK_OK(dpti_trainer_read(b->trainer, rank, kind, flat + n));
        CHECK(memcmp(flat, flat + n, n * sizeof *flat) == 0);
    }
    free(flat);
}

/* ---- What is in the file --------------------------------------------------------------------- */

static int64_t counter_of(test *t, const char *path, const char *name)
{
    dpti_safetensors *file = NULL;
    dpt_error error = {0};
    int64_t value = -1;
    if (!CHECK_OK(dpti_safetensors_read(path, &file, &error))) return value;
    const dpti_tensor *tensor = dpti_safetensors_find(file, name);
    if (CHECK(tensor) && CHECK_TEXT(tensor->dtype, "I64") && CHECK_SIZE(tensor->rank, 0) &&
        CHECK_SIZE(tensor->n_bytes, sizeof value))
        memcpy(&value, tensor->data, sizeof value);
    dpti_safetensors_close(file);
    return value;
}

static void check_tensor(test *t, training *w, const dpti_safetensors *file, const char *name)
{
    const setting *s = t->user;
    const dpti_tensor *tensor = dpti_safetensors_find(file, name);
    const dpti_parameter *p = dpti_model_parameter(s->model, name);
    REQUIRE(tensor && p);
    float *values = calloc(p->size, sizeof *values);
    REQUIRE(values);
    CHECK_TEXT(tensor->dtype, "F32");
    CHECK_OK(dpt_trainer_get(w->trainer, 0, DPT_PARAMETER, name, values, p->size));
    if (CHECK_SIZE(tensor->n_bytes, p->size * sizeof *values))
        CHECK(memcmp(tensor->data, values, tensor->n_bytes) == 0);
    free(values);
}

/* The tensors of a batch-norm, in PyTorch's order. */
static void the_file_is_as_pytorch_has_it(test *t)
{
    static const char *const names[] = {"conv1.weight",
                                        "conv1.bias",
                                        "bn1.weight",
                                        "bn1.bias",
                                        "bn1.running_mean",
                                        "bn1.running_var",
                                        "bn1.num_batches_tracked",
                                        "a.conv1.weight"};
    training w;
    dpti_safetensors *file = NULL;
    dpt_error error = {0};
    if (opened(t, "cpu:threads=1,cpu:threads=1", &sgd, &w)) {
        const setting *s = t->user;
        train(t, &w, 3);
        CHECK_OK(dpt_trainer_save(w.trainer, trained));
        REQUIRE_OK(dpti_safetensors_read(trained, &file, &error));
        /* One counter for each of the six batch-norms. */
        CHECK_SIZE(dpti_safetensors_count(file), s->model->n_parameters + 6);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            CHECK_TEXT(dpti_safetensors_get(file, i)->name, names[i]);
        for (size_t i = 0; i < s->model->n_parameters; i++)
            check_tensor(t, &w, file, s->model->parameters[i].name);
        CHECK(counter_of(t, trained, "bn1.num_batches_tracked") == 3);
        CHECK(counter_of(t, trained, "b.bn3.num_batches_tracked") == 3);
        dpti_safetensors_close(file);
    }
    close_training(&w);
}

/* ---- Loading --------------------------------------------------------------------------------- */

static void loading_gives_what_was_saved(test *t)
{
    training a = {.devices = NULL}, b = a; /* what is not opened is closed too */
    const setting *s = t->user;
    dpt_evaluation x = {.size = sizeof x}, y = {.size = sizeof y};
    dpt_trainer_options other = adamw;
    other.seed = 77;
    other.split = dpt_split_from("3:0:1");
    if (opened(t, "cpu:threads=1", &adamw, &a) &&
        opened(t, "faultstaged:threads=1,cpu:threads=1,cpu:threads=1", &other, &b)) {
        train(t, &a, 4);
        train(t, &b, 2);
        CHECK_OK(dpt_trainer_save(a.trainer, trained));
        CHECK_OK(dpt_trainer_load(b.trainer, trained));
        check_same(t, &a, &b, DPT_PARAMETER);
        CHECK_OK(dpt_trainer_evaluate(a.trainer, s->data, &x));
        CHECK_OK(dpt_trainer_evaluate(b.trainer, s->data, &y));
        CHECK_NEAR(y.loss, x.loss, 1e-6);
        /* Counters go on from the file's, not from this trainer's own. */
        train(t, &b, 1);
        CHECK_OK(dpt_trainer_save(b.trainer, trained));
        CHECK(counter_of(t, trained, "bn1.num_batches_tracked") == 5);
        CHECK(dpt_trainer_steps(b.trainer) == 3);
    }
    close_training(&a);
    close_training(&b);
}

/* Moments, and the correction of their bias, begin anew: as if nothing had been trained before. */
static void loading_resets_the_optimizer(test *t)
{
    static const dpt_trainer_options *const options[] = {&adamw, &sgd};
    for (size_t i = 0; i < 2; i++) {
        training a = {.devices = NULL}, b = a; /* what is not opened is closed too */
        if (opened(t, "cpu:threads=1,cpu:threads=1", options[i], &a) &&
            opened(t, "cpu:threads=1,cpu:threads=1", options[i], &b)) {
            CHECK_OK(dpt_trainer_save(a.trainer, start));
            train(t, &a, 3);
            CHECK_OK(dpt_trainer_load(a.trainer, start));
            train(t, &a, 2);
            train(t, &b, 2);
            check_same(t, &b, &a, DPT_PARAMETER);
            check_same(t, &b, &a, DPT_VELOCITY);
            if (options[i] == &adamw) check_same(t, &b, &a, DPT_SQUARES);
        }
        close_training(&a);
        close_training(&b);
    }
}

/* ---- Other files ----------------------------------------------------------------------------- */

typedef struct change {
    const char *what, *tensor;
    void (*apply)(dpti_tensor *tensor, int64_t *counter);
    dpt_status status;
    const char *says;
} change;

static void rename_it(dpti_tensor *tensor, int64_t *counter)
{
    (void)counter;
    tensor->name = "bn9.running_mean";
}

static void rename_counter(dpti_tensor *tensor, int64_t *counter)
{
    (void)counter;
    tensor->name = "bn9.num_batches_tracked";
}

static void count_as_float(dpti_tensor *tensor, int64_t *counter)
{
    (void)counter;
    tensor->dtype = "F32";
    tensor->n_bytes = 4;
}

static void reshape(dpti_tensor *tensor, int64_t *counter)
{
    (void)counter;
    tensor->shape[tensor->rank++] = 1;
}

static void halve(dpti_tensor *tensor, int64_t *counter)
{
    (void)counter;
    tensor->dtype = "I16";
    tensor->n_bytes /= 2;
}

static void count_far(dpti_tensor *tensor, int64_t *counter)
{
    *counter = INT64_C(5000000000);
    tensor->data = counter;
}

static const change changes[] = {
    {"a missing statistic", "a.bn1.running_mean", rename_it, DPT_E_INVALID, "bn9.running_mean"},
    {"a counter of another layer", "bn1.num_batches_tracked", rename_counter, DPT_E_INVALID,
     "bn9.num_batches_tracked"},
    {"a counter of another type", "bn1.num_batches_tracked", count_as_float, DPT_E_INVALID,
     "bn1.num_batches_tracked"},
    {"a statistic of another shape", "b.bn2.running_var", reshape, DPT_E_INVALID,
     "b.bn2.running_var"},
    {"a weight of another shape", "fc.weight", reshape, DPT_E_INVALID, "fc.weight"},
    {"weights of another type", "fc.weight", halve, DPT_E_INVALID,
     "tensor fc.weight has the type I16, and only F32, F64, F16 and BF16 are read: convert"},
    {"a counter beyond 32 bits", "b.bn3.num_batches_tracked", count_far, DPT_OK, NULL},
};

/* A copy of a file with one tensor changed; with `counters` false without counters. */
static void copy_file(test *t, const char *from, const change *c, bool counters, const char *to)
{
    dpti_safetensors *file = NULL;
    dpt_error error = {0};
    dpti_tensor tensors[64];
    int64_t counter = 0;
    size_t n = 0;
    REQUIRE_OK(dpti_safetensors_read(from, &file, &error));
    for (size_t i = 0; i < dpti_safetensors_count(file) && n < 64; i++) {
        tensors[n] = *dpti_safetensors_get(file, i);
        if (!counters && strcmp(tensors[n].dtype, "I64") == 0) continue;
        if (c && strcmp(tensors[n].name, c->tensor) == 0) c->apply(&tensors[n], &counter);
        n++;
    }
    CHECK_OK(dpti_safetensors_write(
        &(dpti_tensor_file){.path = to, .tensors = tensors, .n_tensors = n}, &error));
    dpti_safetensors_close(file);
}

static void other_files_are_refused(test *t)
{
    training w = {.devices = NULL}, untouched = w;
    const setting *s = t->user;
    if (opened(t, "cpu:threads=1", &sgd, &w) && opened(t, "cpu:threads=1", &sgd, &untouched)) {
        train(t, &w, 1);
        train(t, &untouched, 1);
        CHECK_OK(dpt_trainer_save(w.trainer, trained));
        for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
            const change *c = &changes[i];
            copy_file(t, trained, c, true, "changed.safetensors");
            if (!CHECK_STATUS(dpt_trainer_load(w.trainer, "changed.safetensors"), c->status))
                FAIL("%s", c->what);
            if (c->says) {
                CHECK_CONTAINS(dpt_error_message(s->context), c->says);
                check_same(t, &untouched, &w, DPT_PARAMETER);
                check_same(t, &untouched, &w, DPT_VELOCITY);
            }
        }
        /* The last one was loaded. */
        train(t, &w, 1);
        CHECK_OK(dpt_trainer_save(w.trainer, trained));
        CHECK(counter_of(t, trained, "bn1.num_batches_tracked") == INT64_C(5000000001));
    }
    close_training(&w);
    close_training(&untouched);
}

static void counters_may_be_missing(test *t)
{
    training w;
    if (opened(t, "cpu:threads=1", &sgd, &w)) {
        train(t, &w, 2);
        CHECK_OK(dpt_trainer_save(w.trainer, trained));
        copy_file(t, trained, NULL, false, "weights.safetensors");
        CHECK_OK(dpt_trainer_load(w.trainer, "weights.safetensors"));
        train(t, &w, 1);
        CHECK_OK(dpt_trainer_save(w.trainer, trained));
        CHECK(counter_of(t, trained, "bn1.num_batches_tracked") == 1);
    }
    close_training(&w);
}

/* ---- Where weights come from ----------------------------------------------------------------- */

/* Writes no tensors but this metadata. */
static void write_metadata(test *t, const char *path, const char *const *metadata)
{
    dpt_error error = {0};
    CHECK_OK(dpti_safetensors_write(
        &(dpti_tensor_file){.path = path, .tensors = NULL, .n_tensors = 0, .metadata = metadata},
        &error));
}

static void files_tell_the_normalization(test *t)
{
    const setting *s = t->user;
    static const float none[4] = {0}, mean[4] = {0.1f, -3, 1e-9f},
                       deviation[4] = {0.3f, 0, 1234.5678f};
    static const char *const paths[] = {"weights.safetensors", "state.safetensors"};
    training w;
    for (size_t set = 0; set < 2; set++) {
        CHECK_OK(dpt_dataset_normalize(s->data, set ? mean : none, set ? deviation : none));
        if (opened(t, "cpu:threads=1", &sgd, &w)) {
            CHECK_OK(dpt_trainer_save(w.trainer, paths[0]));
            CHECK_OK(dpt_trainer_save_state(w.trainer, paths[1]));
        }
        close_training(&w);
        for (size_t i = 0; i < 2; i++) {
            dpt_weights_info info = {.size = sizeof info, .classes = 99};
            CHECK_OK(dpt_weights_describe(s->context, paths[i], &info));
            CHECK_TEXT(info.model, dpt_model_name(s->model));
            CHECK_TEXT(info.dataset, "memory");
            CHECK_SIZE(info.classes, FLAT_CLASSES);
            if (!CHECK_SIZE(info.stat_channels, FLAT_CHANNELS)) continue;
            for (size_t c = 0; c < FLAT_CHANNELS; c++) {
                const bool divides = set && deviation[c] != 0;
                CHECK(info.mean[c] == (set ? mean[c] : 0)); /* to the bit */
                CHECK(info.deviation[c] == (divides ? deviation[c] : 1));
            }
        }
    }
    CHECK_OK(dpt_dataset_normalize(s->data, none, none));
}

static void files_may_tell_nothing(test *t)
{
    static const char *const old[] = {"format", "pt", "model", "net", "steps", "3", NULL};
    static const char *const wrong[][2] = {
        {"", "1"},    {"1", ""},    {"1 2", "1"},  {"1 ", "1 1"}, {"1 2 3 4 5", "1 2 3 4 5"},
        {"nan", "1"}, {"1", "inf"}, {"1e99", "1"}, {"0x1", "1"}};
    const setting *s = t->user;
    dpt_weights_info info = {.size = sizeof info, .classes = 99};
    write_metadata(t, "told.safetensors", NULL);
    CHECK_OK(dpt_weights_describe(s->context, "told.safetensors", &info));
    CHECK(info.model[0] == '\0' && info.dataset[0] == '\0');
    CHECK_SIZE(info.classes + info.stat_channels, 0);
    write_metadata(t, "told.safetensors", old);
    CHECK_OK(dpt_weights_describe(s->context, "told.safetensors", &info));
    CHECK_TEXT(info.model, "net");
    CHECK_SIZE(info.classes + info.stat_channels, 0);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *const metadata[] = {"mean", wrong[i][0], "deviation", wrong[i][1], NULL};
        write_metadata(t, "told.safetensors", metadata);
        CHECK_STATUS(dpt_weights_describe(s->context, "told.safetensors", &info), DPT_E_FORMAT);
        CHECK_CONTAINS(dpt_error_message(s->context), "mean and deviation");
    }
    CHECK_STATUS(dpt_weights_describe(s->context, "no-such-file", &info), DPT_E_NOT_FOUND);
}

static void files_tell_the_images(test *t)
{
    static const char *const names[FLAT_CLASSES] = {"a", "b \"c\"", "\\", "\xc3\xa9",
                                                    "T-shirt/top"};
    static const char *const paths[] = {"weights.safetensors", "state.safetensors"};
    const setting *s = t->user;
    training w;
    for (size_t named = 0; named < 2; named++) {
        s->data->class_names = named ? names : NULL;
        if (opened(t, "cpu:threads=1", &sgd, &w)) {
            CHECK_OK(dpt_trainer_save(w.trainer, paths[0]));
            CHECK_OK(dpt_trainer_save_state(w.trainer, paths[1]));
        }
        close_training(&w);
        for (size_t i = 0; i < 2; i++) {
            dpt_weights_info info = {.size = sizeof info, .classes = 99};
            if (!CHECK_OK(dpt_weights_describe(s->context, paths[i], &info))) continue;
            CHECK(info.height == FLAT_SIDE && info.width == FLAT_SIDE);
            CHECK(info.channels == FLAT_CHANNELS && info.classes == FLAT_CLASSES);
            CHECK((info.class_names != NULL) == (named == 1));
            for (size_t c = 0; info.class_names && c < FLAT_CLASSES; c++)
                CHECK_TEXT(info.class_names[c], names[c]);
            dpt_weights_release(&info);
            CHECK(info.classes == 0 && !info.class_names);
        }
    }
    s->data->class_names = NULL;
}

/* Names that are too long to be told are left out. */
static void long_names_are_left_out(test *t)
{
    static char longest[DPTI_CLASS_NAMES_BYTES], name[DPTI_CLASS_NAMES_BYTES / FLAT_CLASSES];
    const char *names[FLAT_CLASSES];
    const setting *s = t->user;
    /* ["...","...",...] and the zero at its end */
    const size_t frame = 2 + 3 * FLAT_CLASSES - 1 + 1;
    memset(name, 'n', sizeof name - 1);
    memset(longest, 'l', sizeof longest - frame - (FLAT_CLASSES - 1) * (sizeof name - 5));
    name[sizeof name - 5] = '\0';
    for (size_t c = 0; c < FLAT_CLASSES; c++)
        names[c] = c ? name : longest;
    for (size_t more = 0; more < 2; more++) {
        training w;
        dpt_weights_info info = {.size = sizeof info, .classes = 99};
        s->data->class_names = names;
        if (more) longest[strlen(longest)] = 'm';
        if (opened(t, "cpu:threads=1", &sgd, &w)) {
            CHECK_OK(dpt_trainer_save(w.trainer, "long.safetensors"));
            CHECK_OK(dpt_weights_describe(s->context, "long.safetensors", &info));
            CHECK((info.class_names != NULL) == (more == 0));
            CHECK_SIZE(info.classes, FLAT_CLASSES);
            if (info.class_names) CHECK_TEXT(info.class_names[0], longest);
            dpt_weights_release(&info);
        }
        close_training(&w);
    }
    s->data->class_names = NULL;
}

/* Every character of theirs takes four in the file: two in the array, and two for each of these. */
static void states_have_the_longest_names(test *t)
{
    static char name[DPTI_CLASS_NAMES_BYTES / FLAT_CLASSES / 2 - 4];
    const char *names[FLAT_CLASSES];
    const setting *s = t->user;
    training w;
    dpt_weights_info info = {.size = sizeof info, .classes = 99};
    memset(name, '"', sizeof name - 1);
    for (size_t c = 0; c < FLAT_CLASSES; c++)
        names[c] = name;
    s->data->class_names = names;
    if (opened(t, "cpu:threads=1", &sgd, &w)) {
        CHECK_OK(dpt_trainer_save_state(w.trainer, "longest.safetensors"));
        CHECK_OK(dpt_weights_describe(s->context, "longest.safetensors", &info));
        if (CHECK(info.class_names != NULL)) CHECK_TEXT(info.class_names[FLAT_CLASSES - 1], name);
        dpt_weights_release(&info);
        CHECK_OK(dpt_trainer_load_state(w.trainer, "longest.safetensors"));
    }
    close_training(&w);
    s->data->class_names = NULL;
}

/* What would be believed of a file that does not know better, or means harm. */
static void files_may_tell_nonsense(test *t)
{
    enum { WELL, SIZES, NAMES, VALUES };
    static const char *const words[] = {
        [SIZES] = "height, width, channels and classes",
        [NAMES] = "class_names are no list",
        [VALUES] = "mean and deviation are of",
    };
    static const struct {
        const char *height, *width, *channels, *classes, *names, *values;
        int wrong;
    } cases[] = {
        {"28", "28", "3", "2", "[\"a\",\"b\"]", "1 2 3", WELL},
        {"28", "28", "3", "2", "[\"a\",\"b\"]", "0", VALUES}, /* the deviation is 0, too */
        {"28", "28", "1", "2", "[\"a\",\"b\"]", "1 2 3", VALUES},
        {"0", "28", "1", "2", NULL, NULL, SIZES},
        {"-28", "28", "1", "2", NULL, NULL, SIZES},
        {"28", "2.5", "1", "2", NULL, NULL, SIZES},
        {"28", "28 ", "1", "2", NULL, NULL, SIZES},
        {"28", "", "1", "2", NULL, NULL, SIZES},
        {"28", "28", "0x1", "2", NULL, NULL, SIZES},
        {"28", "28", "1", "0", NULL, NULL, SIZES},
        {"28", "28", "1", "ten", NULL, NULL, SIZES},
        {"28", "28", "1", "16777217", NULL, NULL, SIZES},
        {"18446744073709551616", "28", "1", "2", NULL, NULL, SIZES},
        {"4294967296", "4294967296", "1", "2", NULL, NULL, SIZES},
        {"16777216", "16777216", "16777216", "2", NULL, NULL, SIZES},
        {"4096", "4097", "1", "2", NULL, NULL, SIZES},
        {"4096", "4096", "2", "2", NULL, NULL, SIZES},
        {"4096", "4096", "1", "16777216", NULL, NULL, WELL},
        {"28", "28", "1", "2", "", NULL, NAMES},
        {"28", "28", "1", "2", "a b", NULL, NAMES},
        {"28", "28", "1", "2", "{\"a\":\"b\"}", NULL, NAMES},
        {"28", "28", "1", "2", "[\"a\"]", NULL, NAMES},
        {"28", "28", "1", "2", "[\"a\",\"b\",\"c\"]", NULL, NAMES},
        {"28", "28", "1", "2", "[\"a\",\"\"]", NULL, NAMES},
        {"28", "28", "1", "2", "[\"a\",2]", NULL, NAMES},
        {"28", "28", "1", "2", "[\"a\",[\"b\"]]", NULL, NAMES},
        {"28", "28", "1", "2", "[\"a\",\"b\"] ", NULL, WELL},
        {"28", "28", "1", "2", "[\"a\",\"b\"]]", NULL, NAMES},
        {"28", "28", "1", "2", "[\"a\",\"\\u001b[2J\"]", NULL, NAMES},
        {"28", "28", "1", "2", "[\"a\",\"b\\nc\"]", NULL, NAMES},
        {"28", "28", "1", "2", "[\"a\",\"\\u0000b\"]", NULL, NAMES},
        {"28", "28", "1", "2", "[\"a\",\"\\u009b2J\"]", NULL, NAMES},
        {"28", "28", "1", "2", "[\"a\",\"\x7f\"]", NULL, NAMES},
        {"28", "28", "1", "16777216", "[\"a\",\"b\"]", NULL, NAMES},
    };
    const setting *s = t->user;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const list[][2] = {
            {"height", cases[i].height},     {"width", cases[i].width},
            {"channels", cases[i].channels}, {"classes", cases[i].classes},
            {"class_names", cases[i].names}, {"mean", cases[i].values},
            {"deviation", cases[i].values},
        };
        const char *metadata[2 * sizeof list / sizeof *list + 1] = {NULL};
        dpt_weights_info info = {.size = sizeof info, .classes = 99};
        for (size_t k = 0, n = 0; k < sizeof list / sizeof *list; k++) {
            if (!list[k][1]) continue;
            metadata[n++] = list[k][0];
            metadata[n++] = list[k][1];
        }
        write_metadata(t, "told.safetensors", metadata);
        const dpt_status status = dpt_weights_describe(s->context, "told.safetensors", &info);
        if (!CHECK_STATUS(status, cases[i].wrong ? DPT_E_FORMAT : DPT_OK)) FAIL("case %zu", i);
        if (cases[i].wrong) CHECK_CONTAINS(dpt_error_message(s->context), words[cases[i].wrong]);
        if (status == DPT_OK) dpt_weights_release(&info);
        /* A part of it is nothing. */
        metadata[0] = "heights";
        write_metadata(t, "told.safetensors", metadata);
        if (!CHECK_OK(dpt_weights_describe(s->context, "told.safetensors", &info))) continue;
        CHECK(info.height + info.width + info.channels == 0 && !info.class_names);
        dpt_weights_release(&info);
    }
}

/* Whose weights they are is a hint where they do not fit. */
static void the_model_is_a_hint(test *t)
{
    static const char *const models[][2] = {
        {"lenet", "another model, lenet (--model)"},
        {"", "of that model, trained on mnist with 10 classes"}};
    static const char *const heights[] = {"9", "8"};
    static const char *const guesses[] = {
        "of that model for images of 9x8x3 in 5 classes, trained on mnist",
        "says that it is of this model, for images of this size"};
    const setting *s = t->user;
    training w;
    if (opened(t, "cpu:threads=1", &sgd, &w)) {
        for (size_t i = 0; i < 2; i++) {
            const char *name = models[i][0][0] ? models[i][0] : dpt_model_name(s->model);
            const char *const metadata[] = {"model",   name, "dataset", "mnist",
                                            "classes", "10", NULL};
            write_metadata(t, "told.safetensors", metadata);
            CHECK_STATUS(dpt_trainer_load(w.trainer, "told.safetensors"), DPT_E_INVALID);
            CHECK_CONTAINS(dpt_error_message(s->context), models[i][1]);
        }
        for (size_t i = 0; i < 2; i++) {
            const char *const metadata[] = {"model",    dpt_model_name(s->model),
                                            "dataset",  "mnist",
                                            "height",   heights[i],
                                            "width",    "8",
                                            "classes",  "5",
                                            "channels", "3",
                                            NULL};
            write_metadata(t, "told.safetensors", metadata);
            CHECK_STATUS(dpt_trainer_load(w.trainer, "told.safetensors"), DPT_E_INVALID);
            CHECK_CONTAINS(dpt_error_message(s->context), guesses[i]);
        }
        write_metadata(t, "told.safetensors", NULL);
        CHECK_STATUS(dpt_trainer_load(w.trainer, "told.safetensors"), DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(s->context), "checkpoint of another model?");
    }
    close_training(&w);
}

/* ---- Tensors by name ------------------------------------------------------------------------- */

static void tensors_by_name(test *t)
{
    static const char name[] = "b.conv1.weight"; /* its layout differs inside */
    enum { SIZE = 12 * 8 * 9 };
    const setting *s = t->user;
    training w = {.devices = NULL}, plain = w;
    float values[SIZE], seen[SIZE], mean[8];
    dpt_trainer_options still = sgd;
    still.momentum = 0;
    if (opened(t, "cpu:threads=1,faultstaged:threads=1", &adamw, &w) &&
        opened(t, "cpu:threads=1", &still, &plain)) {
        static const dpt_tensor_kind kinds[] = {DPT_PARAMETER, DPT_GRADIENT, DPT_VELOCITY,
                                                DPT_SQUARES};
        test_random random = {3};
        train(t, &w, 1);
        CHECK_OK(dpt_trainer_get(w.trainer, 0, DPT_GRADIENT, "bn1.running_mean", mean, 8));
        CHECK(mean[0] != 0);
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            CHECK_OK(dpt_trainer_get(w.trainer, 0, kinds[k], name, seen, SIZE));
            CHECK_OK(dpt_trainer_get(w.trainer, 1, kinds[k], name, values, SIZE));
            CHECK(memcmp(seen, values, sizeof seen) == 0 && seen[0] != 0);
            test_fill_normal(&random, values, SIZE);
            CHECK_OK(dpt_trainer_set(w.trainer, kinds[k], name, values, SIZE));
            for (size_t d = 0; d < 2; d++) {
                CHECK_OK(dpt_trainer_get(w.trainer, d, kinds[k], name, seen, SIZE));
                CHECK(memcmp(seen, values, sizeof seen) == 0);
            }
        }
        CHECK_STATUS(dpt_trainer_get(plain.trainer, 0, DPT_VELOCITY, name, seen, SIZE),
                     DPT_E_NOT_FOUND);
        CHECK_STATUS(dpt_trainer_get(plain.trainer, 0, DPT_SQUARES, name, seen, SIZE),
                     DPT_E_NOT_FOUND);
        CHECK_CONTAINS(dpt_error_message(s->context), "second moment");
        CHECK_STATUS(dpt_trainer_set(plain.trainer, DPT_SQUARES, name, values, SIZE),
                     DPT_E_NOT_FOUND);
        CHECK_STATUS(dpt_trainer_get(w.trainer, 2, DPT_SQUARES, name, seen, SIZE), DPT_E_INVALID);
    }
    close_training(&w);
    close_training(&plain);
}

/* A linear layer of this name; the status with which the model is finished. */
static dpt_status finish_with(dpt_context *context, const char *model, const char *layer)
{
    dpt_model *m = NULL;
    DPT_TRY(dpt_model_create(context, model, &m));
    const dpt_value x = dpt_flatten(m, dpt_input(m, 2, 2, 1));
    const dpt_status status = dpt_model_finish(
        m, dpt_linear(m, x, layer,
                      &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = 2}));
    dpt_model_destroy(m);
    return status;
}

static void names_can_be_saved(test *t)
{
    const setting *s = t->user;
    static const char *const right[] = {"fc", "couche \xc3\xa9t\xc3\xa9", "optimizer.momentum.fc",
                                        "owed"};
    static const char *const wrong[] = {
        "two\nlines",       "\033[31mred",           "no \xff UTF-8",
        "next\xc2\x85line", "optimizer.velocity.fc", "optimizer.squares.fc",
        "owed.0.fc"};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        CHECK_OK(finish_with(s->context, right[i], right[i]));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const bool layers_only = i >= 4; /* a model may well be called so */
        if (!CHECK_STATUS(finish_with(s->context, "m", wrong[i]), DPT_E_INVALID))
            FAIL("layer \"%s\"", wrong[i]);
        CHECK_CONTAINS(dpt_error_message(s->context), "choose another name");
        if (!CHECK_STATUS(finish_with(s->context, wrong[i], "fc"),
                          layers_only ? DPT_OK : DPT_E_INVALID))
            FAIL("model \"%s\"", wrong[i]);
    }
    CHECK_STATUS(finish_with(s->context, "two\nlines", "fc"), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(s->context), "byte 4 of a model's name");
}

/* ---- All but some layers --------------------------------------------------------------------- */

enum { FEWER = 3 }; /* classes of the second network */

static dpt_status make_other(dpt_context *context, dpt_dataset **data, dpt_model **model)
{
    static const uint8_t images[4 * FLAT_PIXELS], labels[4] = {0, 1, 2, 0};
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = 4,
                                       .height = FLAT_SIDE,
                                       .width = FLAT_SIDE,
                                       .channels = FLAT_CHANNELS,
                                       .outputs = FEWER,
                                       .dtype = DPT_U8,
                                       .images = images,
                                       .labels = labels};
    const dpt_model_shape shape = {FLAT_SIDE, FLAT_SIDE, FLAT_CHANNELS, FEWER};
    DPT_TRY(dpt_dataset_from_memory(context, &memory, data));
    return dpt_model_by_name(context, "resnet18", &shape, model);
}

/* Tensors of the layers begin as before, the others are as in the file. */
static void check_loaded(test *t, const dpt_model *m, const float *before, const float *after,
                         const dpti_safetensors *file)
{
    for (size_t i = 0; i < m->n_parameters; i++) {
        const dpti_parameter *p = &m->parameters[i];
        const dpti_tensor *tensor = dpti_safetensors_find(file, p->name);
        float *outside = calloc(p->size, sizeof *outside);
        REQUIRE(tensor && outside);
        dpti_parameter_export(p, after + p->offset, outside);
        if (strncmp(p->name, "fc.", 3) == 0)
            CHECK(memcmp(before + p->offset, after + p->offset, p->size * sizeof *after) == 0);
        else
            CHECK(memcmp(tensor->data, outside, tensor->n_bytes) == 0);
        free(outside);
    }
}

static void read_all(test *t, dpt_trainer *trainer, float *flat)
{
    CHECK_OK(dpti_trainer_read(trainer, 0, DPT_PARAMETER, flat));
}

static void load_except(test *t, dpt_trainer *trainer, const dpt_model *m)
{
    const setting *s = t->user;
    static const char *const wrong[] = {"fc.weight", "f", "fc,layer9", ",", "fc,,conv1"};
    float *flats = calloc(2 * m->flat_size, sizeof *flats);
    dpti_safetensors *file = NULL;
    dpt_error error = {0};
    REQUIRE(flats);
    float *before = flats, *after = flats + m->flat_size;
    read_all(t, trainer, before);
    CHECK_STATUS(dpt_trainer_load(trainer, "five.safetensors"), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(s->context), "fc.weight of 5x512, which is 3x512");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_STATUS(dpt_trainer_load_except(trainer, "five.safetensors", wrong[i]), DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(s->context), "has no layer '");
    }
    CHECK_STATUS(dpt_trainer_load_except(trainer, "five.safetensors", "conv1"), DPT_E_INVALID);
    read_all(t, trainer, after);
    CHECK(memcmp(before, after, m->flat_size * sizeof *after) == 0);
    if (CHECK_OK(dpt_trainer_load_except(trainer, "five.safetensors", "fc")) &&
        CHECK_OK(dpti_safetensors_read("five.safetensors", &file, &error))) {
        read_all(t, trainer, after);
        check_loaded(t, m, before, after, file);
    }
    dpti_safetensors_close(file);
    free(flats);
}

static void all_but_some_layers(test *t)
{
    const setting *s = t->user;
    const dpt_trainer_options other = {.size = sizeof other,
                                       .batch_size = 4,
                                       .lr = 0.1f,
                                       .seed = 9,
                                       .split = {DPT_SPLIT_EQUAL, NULL}};
    const dpt_model_shape shape = {FLAT_SIDE, FLAT_SIDE, FLAT_CHANNELS, FLAT_CLASSES};
    dpt_device_set *devices = NULL;
    dpt_model *five = NULL, *three = NULL;
    dpt_dataset *data = NULL;
    dpt_trainer *from = NULL, *to = NULL;
    if (CHECK_OK(dpt_device_set_open(s->context, "cpu:threads=1,cpu:threads=1", &devices)) &&
        CHECK_OK(dpt_model_by_name(s->context, "resnet18", &shape, &five)) &&
        CHECK_OK(dpt_trainer_create(devices, five, s->data, &sgd, &from)) &&
        CHECK_OK(dpt_trainer_save(from, "five.safetensors")) &&
        CHECK_OK(make_other(s->context, &data, &three)) &&
        CHECK_OK(dpt_trainer_create(devices, three, data, &other, &to)))
        load_except(t, to, three);
    dpt_trainer_destroy(to);
    dpt_trainer_destroy(from);
    dpt_dataset_destroy(data);
    dpt_model_destroy(three);
    dpt_model_destroy(five);
    dpt_device_set_close(devices);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"the file is as PyTorch has it", the_file_is_as_pytorch_has_it},
        {"loading gives what was saved", loading_gives_what_was_saved},
        {"loading resets the optimizer", loading_resets_the_optimizer},
        {"names can be saved", names_can_be_saved},
        {"other files are refused", other_files_are_refused},
        {"counters may be missing", counters_may_be_missing},
        {"files tell the normalization", files_tell_the_normalization},
        {"files may tell nothing", files_may_tell_nothing},
        {"files tell the images", files_tell_the_images},
        {"long names are left out", long_names_are_left_out},
        {"states have the longest names", states_have_the_longest_names},
        {"files may tell nonsense", files_may_tell_nonsense},
        {"the model is a hint", the_model_is_a_hint},
        {"tensors by name", tensors_by_name},
        {"all but some layers", all_but_some_layers},
    };
    setting s = {0};
    add_fault_plugins();
    if (dpt_context_create(&s.context) != DPT_OK ||
        flat_data(s.context, FLAT_COUNT, 0, &s.data) != DPT_OK ||
        flat_residual(s.context, &s.model) != DPT_OK) {
        fputs("FAIL: no data or no model\n", stdout);
        return 1;
    }
    const int code = test_main(argc, argv, cases, sizeof cases / sizeof *cases, &s);
    dpt_model_destroy(s.model);
    dpt_dataset_destroy(s.data);
    dpt_context_destroy(s.context);
    return code;
}
