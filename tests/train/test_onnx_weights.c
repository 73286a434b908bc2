/* Weights of an ONNX file are read from the file when a trainer or a predictor is made.  They must
   be those of the file when the network was read, or there is an error. */
#include "dptrain.h"
#include "dptrain_models.h"
#include "graph/model.h"
#include "harness.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIDE = 28, CLASSES = 10, COUNT = 4, PATH = 64 };

static char folder[] = "/tmp/dptrain-weights-XXXXXX";

static char *path_of(const char *name, char path[PATH])
{
    snprintf(path, PATH, "%s/%s", folder, name);
    return path;
}

/* A context with a device, a data set, and a network of a file. */
typedef struct bench {
    dpt_context *context;
    dpt_device_set *devices;
    dpt_dataset *data;
    dpt_model *model;
} bench;

static void end(bench *b)
{
    dpt_model_destroy(b->model);
    dpt_dataset_destroy(b->data);
    dpt_device_set_close(b->devices);
    dpt_context_destroy(b->context);
    *b = (bench){.context = NULL};
}

static dpt_status begin(bench *b, const char *path)
{
    DPT_TRY(dpt_context_create(&b->context));
    DPT_TRY(dpt_device_set_open(b->context, "cpu:threads=1", &b->devices));
    DPT_TRY(dpt_dataset_open(b->context, "synthetic:28x28x1:10:16", NULL, DPT_TRAIN, &b->data));
    return dpt_model_from_onnx(b->context, path, &b->model);
}

static dpt_status train(const bench *b, uint64_t seed, dpt_trainer **out)
{
    const dpt_trainer_options options = {
        .size = sizeof options, .batch_size = COUNT, .seed = seed, .lr = 0.1f};
    return dpt_trainer_create(b->devices, b->model, b->data, &options, out);
}

/* Writes a network, whose weights depend on the seed.  Tensors are in a file beside it if it would
   be larger than most_bytes, unless that is 0. */
static dpt_status write_network(uint64_t seed, size_t most_bytes, const char *path)
{
    const dpt_onnx_options options = {.size = sizeof options, .most_bytes = most_bytes};
    bench b = {.context = NULL};
    dpt_trainer *trainer = NULL;
    char weights[PATH];
    const dpt_model_shape shape = {
        .height = SIDE, .width = SIDE, .channels = 1, .classes = CLASSES};
    dpt_status status = dpt_context_create(&b.context);
    if (status == DPT_OK) status = dpt_device_set_open(b.context, "cpu:threads=1", &b.devices);
    if (status == DPT_OK)
        status = dpt_dataset_open(b.context, "synthetic:28x28x1:10:16", NULL, DPT_TRAIN, &b.data);
    if (status == DPT_OK) status = dpt_model_by_name(b.context, "lenet", &shape, &b.model);
    if (status == DPT_OK) status = train(&b, seed, &trainer);
    if (status == DPT_OK) status = dpt_trainer_save(trainer, path_of("weights", weights));
    if (status == DPT_OK) status = dpt_model_to_onnx(b.model, weights, path, &options);
    (void)unlink(weights);
    dpt_trainer_destroy(trainer);
    end(&b);
    return status;
}

/* The parameters whose values stay in the file. */
static size_t count_stored(const dpt_model *model)
{
    size_t n = 0;
    for (size_t i = 0; i < model->n_parameters; i++)
        n += model->parameters[i].stored.file != NULL;
    return n;
}

/* The first parameter whose values stay in the file. */
static const dpti_parameter *stored(const dpt_model *model)
{
    for (size_t i = 0; i < model->n_parameters; i++)
        if (model->parameters[i].stored.file) return &model->parameters[i];
    return NULL;
}

/* Makes a trainer and reads the weights with which it begins. */
static dpt_status read_weights(const bench *b, const dpti_parameter *p, float *out)
{
    dpt_trainer *trainer = NULL;
    dpt_status status = train(b, 1, &trainer);
    if (status == DPT_OK)
        status = dpt_trainer_get(trainer, 0, DPT_PARAMETER, p->name, out, p->size);
    dpt_trainer_destroy(trainer);
    return status;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

/* Two networks of the same size, the first one read, and the values of its first stored weight. */
typedef struct pair {
    char first[PATH], second[PATH];
    bench b;
    const dpti_parameter *p;
    float *before, *now;
} pair;

static void begin_pair(test *t, pair *x)
{
    *x = (pair){.p = NULL};
    CHECK_OK(write_network(1, 0, path_of("first.onnx", x->first)));
    CHECK_OK(write_network(2, 0, path_of("second.onnx", x->second)));
    if (!CHECK_OK(begin(&x->b, x->first))) return;
    x->p = stored(x->b.model);
    if (!CHECK(x->p)) return;
    x->before = calloc(x->p->size, sizeof *x->before);
    x->now = calloc(x->p->size, sizeof *x->now);
    if (CHECK(x->before && x->now)) CHECK_OK(read_weights(&x->b, x->p, x->before));
}

static void end_pair(pair *x)
{
    free(x->before);
    free(x->now);
    end(&x->b);
    (void)unlink(x->first);
    (void)unlink(x->second);
}

static bool same(const pair *x)
{
    return memcmp(x->before, x->now, x->p->size * sizeof *x->now) == 0;
}

/* Large weights stay in the file, small ones are copied, and two networks differ. */
static void weights_are_those_of_the_file(test *t)
{
    pair x;
    bench other = {.context = NULL};
    begin_pair(t, &x);
    REQUIRE(x.now);
    CHECK(count_stored(x.b.model) > 0 && count_stored(x.b.model) < x.b.model->n_parameters);
    CHECK_OK(read_weights(&x.b, x.p, x.now));
    CHECK(same(&x));
    if (CHECK_OK(begin(&other, x.second))) CHECK_OK(read_weights(&other, x.p, x.now));
    CHECK(!same(&x));
    end(&other);
    end_pair(&x);
}

/* A file that is replaced or removed leaves the network with the weights that it was read with. */
static void a_file_that_is_replaced(test *t)
{
    pair x;
    begin_pair(t, &x);
    REQUIRE(x.now);
    CHECK(rename(x.second, x.first) == 0);
    CHECK_OK(read_weights(&x.b, x.p, x.now));
    CHECK(same(&x));
    CHECK(unlink(x.first) == 0);
    memset(x.now, 0, x.p->size * sizeof *x.now);
    CHECK_OK(read_weights(&x.b, x.p, x.now));
    CHECK(same(&x));
    end_pair(&x);
}

/* Tensors of another file stay in that file. */
static void weights_in_another_file(test *t)
{
    pair x;
    bench other = {.context = NULL};
    struct stat info;
    begin_pair(t, &x);
    REQUIRE(x.now);
    CHECK_OK(write_network(1, 1000, x.second));
    CHECK(stat(x.second, &info) == 0 && info.st_size < (off_t)(x.p->size * sizeof(float)));
    if (CHECK_OK(begin(&other, x.second))) {
        CHECK_SIZE(count_stored(other.model), count_stored(x.b.model));
        CHECK_OK(read_weights(&other, x.p, x.now));
    }
    CHECK(same(&x));
    end(&other);
    strcat(x.second, ".data");
    end_pair(&x);
    x.second[strlen(x.second) - 5] = 0;
    (void)unlink(x.second);
}

static dpt_status predict(const bench *b)
{
    dpt_predictor *predictor = NULL;
    const dpt_status status = dpt_predictor_create(b->devices, b->model, NULL, &predictor);
    dpt_predictor_destroy(predictor);
    return status;
}

static void expect_changed(test *t, const pair *x)
{
    char again[PATH];
    CHECK_STATUS(read_weights(&x->b, x->p, x->now), DPT_E_IO);
    CHECK(strstr(dpt_error_message(x->b.context), x->first) != NULL);
    CHECK(strstr(dpt_error_message(x->b.context), "written after it was opened") != NULL);
    CHECK_STATUS(predict(&x->b), DPT_E_IO);
    CHECK_STATUS(dpt_model_to_onnx(x->b.model, NULL, path_of("again.onnx", again), NULL), DPT_E_IO);
    CHECK(access(again, F_OK) != 0);
}

/* A file that is written in place, or made shorter, has other weights: an error says so. */
static void a_file_that_is_written(test *t)
{
    pair x;
    begin_pair(t, &x);
    REQUIRE(x.now);
    CHECK_OK(predict(&x.b));
    const int fd = open(x.first, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0 && pwrite(fd, "x", 1, 0) == 1);
    expect_changed(t, &x);
    CHECK(ftruncate(fd, 100) == 0 && close(fd) == 0);
    expect_changed(t, &x);
    end_pair(&x);
}

/* So it is if the file has its size and its time again. */
static void a_file_that_is_written_with_its_time(test *t)
{
    pair x;
    struct stat was;
    char byte = 0;
    begin_pair(t, &x);
    REQUIRE(x.now);
    const off_t last = (off_t)(x.p->stored.offset + x.p->stored.n_bytes - 1);
    const int fd = open(x.first, O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0 && fstat(fd, &was) == 0 && pread(fd, &byte, 1, last) == 1);
    const struct timespec times[2] = {was.st_atim, was.st_mtim};
    byte ^= 1;
    CHECK(pwrite(fd, &byte, 1, last) == 1 && futimens(fd, times) == 0);
    expect_changed(t, &x);
    byte ^= 1;
    CHECK(pwrite(fd, &byte, 1, last) == 1 && futimens(fd, times) == 0 && close(fd) == 0);
    CHECK_OK(read_weights(&x.b, x.p, x.now));
    CHECK(same(&x));
    end_pair(&x);
}

/* The error of a file beside the network names the whole path. */
static void another_file_that_is_written(test *t)
{
    pair x;
    bench other = {.context = NULL};
    begin_pair(t, &x);
    REQUIRE(x.now);
    CHECK_OK(write_network(1, 1000, x.second));
    const dpt_status status = begin(&other, x.second);
    strcat(x.second, ".data");
    const int fd = open(x.second, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, 100) == 0 && close(fd) == 0);
    if (CHECK_OK(status)) CHECK_STATUS(read_weights(&other, x.p, x.now), DPT_E_IO);
    CHECK(strstr(dpt_error_message(other.context), x.second) != NULL);
    end(&other);
    end_pair(&x);
    x.second[strlen(x.second) - 5] = 0;
    (void)unlink(x.second);
}

/* A network can be written over its own file: the new file takes the place of the old one. */
static void a_network_over_its_own_file(test *t)
{
    pair x;
    bench again = {.context = NULL};
    begin_pair(t, &x);
    REQUIRE(x.now);
    CHECK_OK(dpt_model_to_onnx(x.b.model, NULL, x.first, NULL));
    CHECK_OK(read_weights(&x.b, x.p, x.now));
    CHECK(same(&x));
    memset(x.now, 0, x.p->size * sizeof *x.now);
    if (CHECK_OK(begin(&again, x.first))) CHECK_OK(read_weights(&again, x.p, x.now));
    CHECK(same(&x));
    end(&again);
    end_pair(&x);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"weights are those of the file", weights_are_those_of_the_file},
        {"weights in another file", weights_in_another_file},
        {"a file that is replaced", a_file_that_is_replaced},
        {"a file that is written", a_file_that_is_written},
        {"a file that is written with its time", a_file_that_is_written_with_its_time},
        {"another file that is written", another_file_that_is_written},
        {"a network over its own file", a_network_over_its_own_file},
    };
#ifndef DPTRAIN_HAS_ONNX
    puts("this build has no protobuf-c");
    return TEST_SKIP_CODE;
#endif
    if (!mkdtemp(folder)) return 1;
    const int code = test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
    (void)rmdir(folder);
    return code;
}
