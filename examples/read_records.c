/* Data that stay in a file.  The file has records of an image and its label.  Threads of the
   library read the images of coming steps while devices compute, so the file may be larger than
   memory.  The program makes a small file first.

       read_records [DEVICES]        default: cpu:threads=1,cpu:threads=1 */
#define _POSIX_C_SOURCE 200809L /* pread */
#include <dptrain.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 12, CLASSES = 4, COUNT = 2000, IMAGE_BYTES = SIDE * SIDE, EPOCHS = 3 };

typedef struct record {
    unsigned char label, image[IMAGE_BYTES];
} record;

/* An image with a bright spot in one of its four quarters, which is the label. */
static record make_record(unsigned i)
{
    record r = {.label = (unsigned char)(i * 7 % CLASSES)};
    const unsigned row = r.label / 2 * (SIDE / 2) + i % 5,
                   column = r.label % 2 * (SIDE / 2) + i % 3;
    for (unsigned k = 0; k < IMAGE_BYTES; k++)
        r.image[k] = (unsigned char)((i * 31 + k * 17) % 64);
    r.image[row * SIDE + column] = r.image[row * SIDE + column + 1] = 255;
    return r;
}

static int make_file(const char *path, unsigned char *labels)
{
    FILE *file = fopen(path, "wb");
    int written = file != NULL;
    for (unsigned i = 0; written && i < COUNT; i++) {
        const record r = make_record(i);
        labels[i] = r.label;
        written = fwrite(&r, sizeof r, 1, file) == 1;
    }
    return file && fclose(file) == 0 && written ? open(path, O_RDONLY) : -1;
}

/* Several threads call this function at once.  pread uses no file position that they would share.
 */
static dpt_status read_image(void *user, size_t sample, size_t epoch, void *image, char *why)
{
    const int *file = user;
    record r;
    (void)epoch; /* the image is the same in every epoch */
    if (pread(*file, &r, sizeof r, (off_t)(sample * sizeof r)) == (ssize_t)sizeof r) {
        memcpy(image, r.image, sizeof r.image);
        return DPT_OK;
    }
    snprintf(why, DPT_READER_WHY_BYTES, "the file of records is too short");
    return DPT_E_IO;
}

static dpt_status create_data(dpt_context *context, int *file, const unsigned char *labels,
                              dpt_dataset **out)
{
    const dpt_dataset_memory memory = {
        .size = sizeof memory,
        .count = COUNT,
        .height = SIDE,
        .width = SIDE,
        .channels = 1,
        .outputs = CLASSES,
        .dtype = DPT_U8,
        .labels = labels,
    };
    const dpt_dataset_reader reader = {.size = sizeof reader, .read = read_image, .user = file};
    return dpt_dataset_from_reader(context, &memory, &reader, out);
}

static dpt_status create_model(dpt_context *context, dpt_model **out)
{
    const dpt_linear_options hidden = {
        .size = sizeof hidden, .out = 32, .activation = DPT_ACT_RELU};
    DPT_TRY(dpt_model_create(context, "corners", out));
    const dpt_value x = dpt_flatten(*out, dpt_input(*out, SIDE, SIDE, 1));
    const dpt_value h = dpt_linear(*out, x, "hidden", &hidden);
    return dpt_model_finish(
        *out,
        dpt_linear(*out, h, "corner",
                   &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = CLASSES}));
}

static int show(const dpt_fit_progress *progress, void *user)
{
    (void)user;
    if (progress->epoch)
        printf("epoch %zu: loss %.3f, accuracy %.3f\n", progress->epoch->epoch,
               progress->epoch->train_loss, progress->epoch->test_accuracy);
    return 0;
}

int main(int argc, char **argv)
{
    const char *list = argc > 1 ? argv[1] : "cpu:threads=1,cpu:threads=1";
    const dpt_trainer_options how = {
        .size = sizeof how, .batch_size = 50, .lr = 0.1F, .momentum = 0.9F};
    static unsigned char labels[COUNT];
    int file = make_file("records.bin", labels);
    dpt_context *context;
    dpt_device_set *devices = NULL;
    dpt_dataset *data = NULL;
    dpt_model *model = NULL;
    dpt_trainer *trainer = NULL;
    dpt_fit_result result = {.size = sizeof result};
    dpt_status status = dpt_context_create(&context);
    if (status != DPT_OK) return 1;
    if (!status) status = dpt_device_set_open(context, list, &devices);
    if (!status) status = create_data(context, &file, labels, &data);
    if (!status) status = create_model(context, &model);
    if (!status) status = dpt_trainer_create(devices, model, data, &how, &trainer);
    const dpt_fit_options fit = {
        .size = sizeof fit, .epochs = EPOCHS, .test = data, .progress = show};
    if (!status) status = dpt_fit(trainer, &fit, &result);
    if (status) fprintf(stderr, "read_records: %s\n", dpt_error_message(context));
    dpt_trainer_destroy(trainer);
    dpt_model_destroy(model);
    dpt_dataset_destroy(data);
    dpt_device_set_close(devices);
    dpt_context_destroy(context);
    if (file >= 0) close(file);
    return status ? 1 : 0;
}
