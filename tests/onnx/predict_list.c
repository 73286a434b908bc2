/* Computes the logits of many ONNX files in one process, for tests/onnx/node_tests.py.

       test-onnx-predict-list DEVICES LIST

   Each line of LIST is `MODEL COUNT INPUT OUTPUT`: a file, the number of samples, the file of their
   float32 values, and the file that gets the logits.  One line is printed for each: `ok N`, with
   the number of logits of a sample, or `refused MESSAGE`. */
#include <dptrain.h>

#include <stdio.h>
#include <stdlib.h>

enum { PATH_BYTES = 1024, LARGEST = 1 << 26 };

typedef struct entry {
    char model[PATH_BYTES], input[PATH_BYTES], output[PATH_BYTES];
    size_t count;
} entry;

/* The content of a file; the caller frees it. */
static void *content(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    void *bytes = NULL;
    if (fseek(file, 0, SEEK_END) == 0) {
        const long size = ftell(file);
        rewind(file);
        if (size > 0 && size < LARGEST) bytes = malloc((size_t)size);
        if (bytes && fread(bytes, 1, (size_t)size, file) != (size_t)size) {
            free(bytes);
            bytes = NULL;
        }
    }
    (void)fclose(file);
    return bytes;
}

static bool keep(const char *path, const float *values, size_t n)
{
    FILE *file = fopen(path, "wb");
    if (!file) return false;
    const bool whole = fwrite(values, sizeof *values, n, file) == n;
    return fclose(file) == 0 && whole;
}

/* Predicts one entry.  `why` gets the message of a failure. */
static dpt_status predict(dpt_device_set *devices, const dpt_model *model, const entry *e,
                          char why[DPT_WHY_BYTES])
{
    const size_t n = e->count * dpt_model_labels(model) * dpt_model_outputs(model);
    const dpt_predictor_options options = {
        .size = sizeof options, .dtype = DPT_F32, .logits = true};
    dpt_predictor *predictor = NULL;
    void *samples = content(e->input);
    float *logits = calloc(n, sizeof *logits);
    dpt_status status = samples && logits ? DPT_OK : DPT_E_IO;
    if (status == DPT_OK) status = dpt_predictor_create(devices, model, &options, &predictor);
    if (status == DPT_OK) status = dpt_predictor_run(predictor, samples, e->count, logits, why);
    if (status == DPT_OK && !keep(e->output, logits, n)) status = DPT_E_IO;
    dpt_predictor_destroy(predictor);
    free(logits);
    free(samples);
    return status;
}

static void run(dpt_context *context, dpt_device_set *devices, const entry *e)
{
    char why[DPT_WHY_BYTES] = "";
    dpt_model *model = NULL;
    dpt_status status = dpt_model_from_onnx(context, e->model, &model);
    if (status == DPT_OK) status = predict(devices, model, e, why);
    if (status == DPT_OK)
        printf("ok %zu\n", dpt_model_labels(model) * dpt_model_outputs(model));
    else
        printf("refused %s\n", why[0] ? why : dpt_error_message(context));
    (void)fflush(stdout);
    dpt_model_destroy(model);
}

int main(int argc, char **argv)
{
    dpt_context *context = NULL;
    dpt_device_set *devices = NULL;
    if (argc != 3) {
        fprintf(stderr, "usage: %s DEVICES LIST\n", argv[0]);
        return 2;
    }
    FILE *list = fopen(argv[2], "r");
    if (!list || dpt_context_create(&context) != DPT_OK) return 1;
    const dpt_status status = dpt_device_set_open(context, argv[1], &devices);
    if (status != DPT_OK) fprintf(stderr, "%s\n", dpt_error_message(context));
    entry e;
    while (status == DPT_OK &&
           fscanf(list, "%1023s %zu %1023s %1023s", e.model, &e.count, e.input, e.output) == 4)
        run(context, devices, &e);
    (void)fclose(list);
    dpt_device_set_close(devices);
    dpt_context_destroy(context);
    return status == DPT_OK ? 0 : 1;
}
