/* dptrain predict: prints the most likely classes of images, by the weights of a checkpoint. */
#include "predict_lines.h"
#include "recipe.h"
#include "session.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DEFAULT_TOP = 3, MAX_RUN = 256, LONG_RUN = 4096, RUN_BYTES = 1 << 26 };

/* One image to classify: a sample of a data set. */
typedef struct subject {
    const char *path; /* path_length characters of the command line, or the name of a picture */
    size_t path_length;
    const dpt_dataset *data; /* NULL, until all are known: the pictures of the command line */
    size_t index;
    const dpt_pictures *pictures; /* whose picture it is; NULL: no picture */
} subject;

/* A folder on the command line. */
typedef struct folder {
    const char *name;
    dpt_pictures *pictures;
    dpt_dataset *data;
} folder;

typedef struct prediction {
    cli_session session;
    dpt_dataset_info info; /* shape and classes of the training data, without a count */
    subject *subjects;
    size_t n_subjects, subjects_capacity;
    dpt_dataset **files; /* the IDX files, n_files */
    size_t n_files;
    folder *folders; /* (n_folders) */
    size_t n_folders;
    size_t n_unreadable; /* pictures that are left out */
    const char **named;  /* (n_named) the pictures of the command line */
    size_t n_named;
    dpt_pictures *pictures; /* the same, and their data */
    dpt_dataset *pictures_data;
    dpt_predictor *predictor;
    cli_lines lines;
    bool told; /* a failure is told already */
} prediction;

static dpt_status no_memory(const prediction *p)
{
    return dpt_fail(p->session.context, DPT_E_NO_MEMORY, "no memory for the images");
}

static dpt_status add_subject(prediction *p, subject s)
{
    if (p->n_subjects == p->subjects_capacity) {
        const size_t wanted = p->subjects_capacity ? 2 * p->subjects_capacity : 64;
        subject *grown = realloc(p->subjects, wanted * sizeof *grown);
        if (!grown) return no_memory(p);
        p->subjects = grown;
        p->subjects_capacity = wanted;
    }
    p->subjects[p->n_subjects++] = s;
    return DPT_OK;
}

/* ---- Pictures -------------------------------------------------------------------------------- */

/* Whether pictures are scaled: if the training's data set was a folder of pictures. */
static bool scales(const prediction *p)
{
    const char *trained_on = p->session.weights.dataset;
    return cli_is_folder(trained_on[0] || !p->info.name ? trained_on : p->info.name);
}

/* Pictures are turned, or not, as those of the training. */
static bool is_unoriented(const prediction *p, const cli_options *options)
{
    const char *trained_on = p->session.weights.dataset;
    return options->no_orientation || strstr(trained_on, CLI_NO_ORIENTATION) != NULL;
}

static dpt_status shape_of(const prediction *p, const cli_options *options, const char *path,
                           dpt_picture_shape *out)
{
    *out = (dpt_picture_shape){
        .height = p->info.height,
        .width = p->info.width,
        .channels = p->info.channels,
        .scaled = scales(p),
        .unoriented = is_unoriented(p, options),
    };
    if (out->channels == 1 || out->channels == 3) return DPT_OK;
    return dpt_fail(p->session.context, DPT_E_INVALID,
                    "%s: a picture has 1 or 3 channels, but the model takes %zu", path,
                    out->channels);
}

/* The first picture that is left out is named. */
static void leave_out(prediction *p, const char *why)
{
    if (p->n_unreadable++ == 0) cli_note("left out: %s", why);
}

/* Opens pictures, which are read when they are classified. */
static dpt_status open_pictures(const prediction *p, const cli_options *options,
                                dpt_pictures *pictures, dpt_dataset **out)
{
    dpt_pictures_options how = {.size = sizeof how,
                                .outputs = p->info.outputs,
                                .skip_unreadable = options->skip_unreadable};
    DPT_TRY(shape_of(p, options, dpt_pictures_name(pictures, 0), &how.shape));
    return dpt_pictures_open(p->session.context, pictures, &how, out);
}

static dpt_status add_picture(prediction *p, const cli_options *options, const char *path)
{
    if (!p->named) p->named = calloc(options->n_operands, sizeof *p->named);
    if (!p->named) return no_memory(p);
    p->named[p->n_named] = path;
    return add_subject(p,
                       (subject){.path = path, .path_length = strlen(path), .index = p->n_named++});
}

/* Opens the pictures of the command line, once all are known. */
static dpt_status open_named(prediction *p, const cli_options *options)
{
    if (p->n_named == 0) return DPT_OK;
    DPT_TRY(dpt_pictures_list(p->session.context, p->named, p->n_named, &p->pictures));
    DPT_TRY(open_pictures(p, options, p->pictures, &p->pictures_data));
    for (size_t i = 0; i < p->n_subjects; i++) {
        subject *s = &p->subjects[i];
        if (s->data) continue;
        s->data = p->pictures_data;
        s->pictures = p->pictures;
    }
    return DPT_OK;
}

/* ---- Folders --------------------------------------------------------------------------------- */

/* Adds all pictures below a folder. */
static dpt_status add_folder(prediction *p, const cli_options *options, const char *name)
{
    dpt_context *context = p->session.context;
    folder *grown = realloc(p->folders, (p->n_folders + 1) * sizeof *grown);
    if (!grown) return no_memory(p);
    p->folders = grown;
    folder *f = &p->folders[p->n_folders++];
    *f = (folder){.name = name};
    DPT_TRY(dpt_pictures_find(context, name, &f->pictures));
    const size_t n = dpt_pictures_count(f->pictures), others = dpt_pictures_others(f->pictures);
    if (n == 0)
        return dpt_fail(context, DPT_E_NOT_FOUND, "there is no picture in %s or below it", name);
    if (others > 0)
        cli_note("%s: passed over %zu file%s that %s no picture%s", name, others,
                 others == 1 ? "" : "s", others == 1 ? "is" : "are", others == 1 ? "" : "s");
    DPT_TRY(open_pictures(p, options, f->pictures, &f->data));
    for (size_t i = 0; i < n; i++) {
        const char *picture = dpt_pictures_name(f->pictures, i);
        DPT_TRY(add_subject(p, (subject){.path = picture,
                                         .path_length = strlen(picture),
                                         .data = f->data,
                                         .index = i,
                                         .pictures = f->pictures}));
    }
    return DPT_OK;
}

/* ---- IDX files ------------------------------------------------------------------------------- */

/* An IDX file on the command line. */
typedef struct image_file {
    const char *name; /* as on the command line, for messages */
    size_t count;     /* of its images */
    subject first;    /* its first image */
} image_file;

/* Adds the images of the first run of a list such as "0,5,10-19" and moves *list past it. */
static dpt_status add_run(prediction *p, const image_file *file, const char **list)
{
    subject next = file->first;
    size_t first = 0, last = 0;
    if (!cli_parse_run(list, &first, &last))
        return dpt_fail(p->session.context, DPT_E_INVALID,
                        "%s: write indices such as 0,5,10-19 after the colon", file->name);
    if (last >= file->count)
        return dpt_fail(p->session.context, DPT_E_INVALID,
                        "%s: there is no image %zu; the file has images 0 to %zu", file->name, last,
                        file->count - 1);
    for (next.index = first; next.index <= last; next.index++)
        DPT_TRY(add_subject(p, next));
    return DPT_OK;
}

/* Adds the images of the list; NULL: all images. */
static dpt_status add_indices(prediction *p, const image_file *file, const char *list)
{
    if (!list) {
        subject next = file->first;
        for (next.index = 0; next.index < file->count; next.index++)
            DPT_TRY(add_subject(p, next));
        return DPT_OK;
    }
    do
        DPT_TRY(add_run(p, file, &list));
    while (*list++ == ',');
    return DPT_OK;
}

/* Makes room for one more file. */
static dpt_status grow_files(prediction *p)
{
    dpt_dataset **grown = realloc(p->files, (p->n_files + 1) * sizeof(dpt_dataset *));
    if (!grown) return no_memory(p);
    p->files = grown;
    return DPT_OK;
}

static dpt_status add_idx(prediction *p, const char *name, const char *path, const char *list)
{
    dpt_context *context = p->session.context;
    dpt_dataset_info info = {.size = sizeof info};
    DPT_TRY(grow_files(p));
    DPT_TRY(dpt_dataset_open_images(context, path, p->info.outputs, &p->files[p->n_files]));
    const dpt_dataset *data = p->files[p->n_files++];
    dpt_dataset_describe(data, &info);
    if (info.height != p->info.height || info.width != p->info.width ||
        info.channels != p->info.channels)
        return dpt_fail(context, DPT_E_INVALID,
                        "%s: the images are %zux%zux%zu (height x width x channels), but the model "
                        "takes %zux%zux%zu",
                        path, info.height, info.width, info.channels, p->info.height, p->info.width,
                        p->info.channels);
    const subject first = {.path = name, .path_length = strlen(path), .data = data};
    return add_indices(p, &(image_file){name, info.count, first}, list);
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

static dpt_status add_arrays(prediction *p, const char *name, const char *path, const char *list)
{
    dpt_context *context = p->session.context;
    char data_name[PATH_MAX + sizeof "npz:"];
    dpt_dataset_info info = {.size = sizeof info};
    DPT_TRY(grow_files(p));
    snprintf(data_name, sizeof data_name, "npz:%s", path);
    /* Of a file with several parts the test part is meant.  A file of the training, which is
       named, is meant itself, and not the file of the test part beside it. */
    const char *slash = strrchr(path, '/');
    const dpt_part part = strstr(slash ? slash : path, "train") ? DPT_TRAIN : DPT_TEST;
    DPT_TRY(dpt_dataset_open(context, data_name, NULL, part, &p->files[p->n_files]));
    dpt_dataset *data = p->files[p->n_files++];
    DPT_TRY(dpt_dataset_arrange(context, data, p->session.model));
    dpt_dataset_describe(data, &info);
    const subject first = {.path = name, .path_length = strlen(path), .data = data};
    return add_indices(p, &(image_file){name, info.count, first}, list);
}

/* ---- The command line's images --------------------------------------------------------------- */

typedef enum image_kind { KIND_OTHER, KIND_PICTURE, KIND_IDX, KIND_ARRAYS } image_kind;

/* The kind of a file by its first bytes: an IDX file starts with two zeros, or is compressed by
   gzip. The library checks the whole file later. */
static image_kind kind_of(const char *path)
{
    uint8_t head[4] = {0xff};
    if (dpt_is_picture(path)) return KIND_PICTURE;
    FILE *file = fopen(path, "rb");
    const size_t n = file ? fread(head, 1, sizeof head, file) : 0;
    if (file) fclose(file);
    if (n >= 4 && memcmp(head, "PK", 2) == 0) return KIND_ARRAYS;
    const bool plain = head[0] == 0 && head[1] == 0, gzipped = head[0] == 0x1f && head[1] == 0x8b;
    return n >= 2 && (plain || gzipped) ? KIND_IDX : KIND_OTHER;
}

/* Adds the images of an argument: a file, or a file with a list of indices after its last colon. */
static dpt_status add_image(prediction *p, const cli_options *options, const char *name)
{
    dpt_context *context = p->session.context;
    struct stat info;
    const char *list = strrchr(name, ':');
    char path[PATH_MAX];
    if (stat(name, &info) == 0) list = NULL;
    const size_t length = list ? (size_t)(list - name) : strlen(name);
    if (length >= sizeof path)
        return dpt_fail(p->session.context, DPT_E_INVALID, "%s: the path is too long", name);
    memcpy(path, name, length);
    path[length] = '\0';
    if (stat(path, &info) != 0)
        return dpt_fail(context, DPT_E_IO, "cannot read %s: %s", path, strerror(errno));
    const bool several = dpt_model_input_count(p->session.model) > 1;
    if (S_ISDIR(info.st_mode) && !list && !several) return add_folder(p, options, name);
    if (!S_ISREG(info.st_mode))
        return dpt_fail(context, DPT_E_IO, "cannot read %s: it is not a file", path);
    const image_kind kind = kind_of(path);
    if (kind == KIND_OTHER)
        return dpt_fail(context, DPT_E_FORMAT,
                        "%s: no picture that is read, and neither IDX nor npz", path);
    if (kind == KIND_ARRAYS) return add_arrays(p, name, path, list ? list + 1 : NULL);
    if (several)
        return dpt_fail(context, DPT_E_INVALID,
                        "%s: the model has several inputs, which are arrays of one npz file", path);
    if (kind == KIND_IDX) return add_idx(p, name, path, list ? list + 1 : NULL);
    if (list)
        return dpt_fail(context, DPT_E_INVALID,
                        "%s: indices are for IDX and npz files only, and %s is a picture", name,
                        path);
    return add_picture(p, options, name);
}

static dpt_status add_images(prediction *p, const cli_options *options)
{
    for (size_t i = 0; i < options->n_operands; i++)
        DPT_TRY(add_image(p, options, options->operands[i]));
    DPT_TRY(open_named(p, options));
    const cli_session *s = &p->session;
    if (!s->normalized) return DPT_OK;
    if (p->pictures_data) DPT_TRY(dpt_dataset_normalize(p->pictures_data, s->mean, s->deviation));
    for (size_t i = 0; i < p->n_files; i++)
        DPT_TRY(dpt_dataset_normalize(p->files[i], s->mean, s->deviation));
    for (size_t i = 0; i < p->n_folders; i++)
        DPT_TRY(dpt_dataset_normalize(p->folders[i].data, s->mean, s->deviation));
    return DPT_OK;
}

/* ---- Predicting ------------------------------------------------------------------------------ */

/* The most images at once.  Pictures are read ahead within a run. */
static size_t most_at_once(const prediction *p, const subject *s)
{
    const size_t fit = RUN_BYTES / sizeof(float) / p->lines.classes;
    if (!s->pictures || fit < MAX_RUN) return MAX_RUN;
    return fit < LONG_RUN ? fit : LONG_RUN;
}

/* The number of subjects from the i-th on that are consecutive samples of one data set. */
static size_t run_length(const prediction *p, size_t i)
{
    const subject *first = &p->subjects[i];
    const size_t most = most_at_once(p, first);
    size_t n = 1;
    while (n < most && i + n < p->n_subjects && first[n].data == first->data &&
           first[n].index == first->index + n)
        n++;
    return n;
}

/* A network of damaged weights, or one whose values overflow, tells nothing about an image. */
static dpt_status check_finite(const prediction *p, const subject *s, const float *numbers,
                               size_t n)
{
    char index[32] = "";
    size_t i = 0;
    while (i < n && isfinite(numbers[i]))
        i++;
    if (i == n) return DPT_OK;
    if (!s->pictures) snprintf(index, sizeof index, ":%zu", s->index);
    return dpt_fail(p->session.context, DPT_E_NOT_FINITE,
                    "%.*s%s: the outputs of the network are not finite, and tell no class; the "
                    "weights are damaged, or their training diverged",
                    (int)s->path_length, s->path, index);
}

/* Adds the line of an image, or leaves it out. */
static dpt_status add_line(prediction *p, const subject *s, const float *outputs)
{
    const char *why = s->pictures ? dpt_pictures_failure(s->pictures, s->index) : NULL;
    char name[PATH_MAX + 32];
    if (why) {
        leave_out(p, why);
        return DPT_OK;
    }
    DPT_TRY(check_finite(p, s, outputs, p->lines.classes));
    if (s->pictures) {
        cli_lines_add(&p->lines, s->path, s->path_length, outputs);
        return DPT_OK;
    }
    const int n = snprintf(name, sizeof name, "%.*s:%zu", (int)s->path_length, s->path, s->index);
    cli_lines_add(&p->lines, name, (size_t)n, outputs);
    return DPT_OK;
}

static dpt_status predict_run(prediction *p, size_t first, size_t n, float *outputs)
{
    const subject *s = &p->subjects[first];
    char why[DPT_WHY_BYTES];
    dpt_status status = dpt_predictor_run_data(p->predictor, s->data, s->index, n, outputs, why);
    if (status != DPT_OK) return dpt_fail(p->session.context, status, "%s", why);
    for (size_t i = 0; i < n && status == DPT_OK; i++)
        status = add_line(p, &s[i], outputs + i * p->lines.classes);
    /* Images before one that fails are written. */
    p->told = cli_lines_flush(&p->lines) != CLI_OK;
    return p->told ? DPT_E_IO : status;
}

static dpt_status predict_all(prediction *p, const cli_options *options)
{
    cli_lines *l = &p->lines;
    l->classes = dpt_model_outputs(p->session.model);
    l->top = options->top ? options->top : DEFAULT_TOP;
    l->regression = cli_loss_of(options, &p->session.weights) != DPT_LOSS_CROSS_ENTROPY ||
                    dpt_model_gives_loss(p->session.model) ||
                    !dpt_model_has_gradient(p->session.model);
    if (p->info.outputs == l->classes) l->class_names = p->info.class_names;
    size_t most = 0;
    for (size_t i = 0, n; i < p->n_subjects; i += n) {
        n = run_length(p, i);
        if (n > most) most = n;
    }
    float *outputs = calloc(most, l->classes * sizeof *outputs);
    if (!outputs) return no_memory(p);
    p->told = cli_lines_open(options, l) != CLI_OK;
    dpt_status status = p->told ? DPT_E_IO : DPT_OK;
    for (size_t i = 0, n; i < p->n_subjects && status == DPT_OK; i += n) {
        n = run_length(p, i);
        status = predict_run(p, i, n, outputs);
    }
    free(outputs);
    if (cli_lines_close(l) == CLI_OK || status != DPT_OK) return status;
    p->told = true;
    return DPT_E_IO;
}

/* ---- The verb -------------------------------------------------------------------------------- */

static void describe(prediction *p)
{
    const dpt_weights_info *w = &p->session.weights;
    const size_t classes = dpt_model_outputs(p->session.model);
    if (p->session.told)
        p->info = (dpt_dataset_info){
            .size = sizeof(dpt_dataset_info),
            .height = w->height,
            .width = w->width,
            .channels = w->channels,
            .outputs = classes,
            .class_names = w->classes == classes ? w->class_names : NULL,
        };
    else {
        p->info.size = sizeof p->info;
        dpt_dataset_describe(p->session.test, &p->info);
    }
}

/* Warns if the names of classes come from another data set than that of the training. */
static void warn_of_names(const prediction *p, const char *weights)
{
    const dpt_weights_info *w = &p->session.weights;
    if (p->session.told || !p->info.class_names || !w->dataset[0] ||
        strcmp(w->dataset, p->info.name) == 0)
        return;
    (void)cli_error(
        CLI_OK,
        "warning: %s was trained on %s, but the names of the classes are those of %s: give "
        "--dataset %s",
        weights, w->dataset, p->info.name, w->dataset);
}

static dpt_status load(prediction *p, const cli_options *options, const char *weights)
{
    cli_session *s = &p->session;
    const dpt_loss loss = cli_loss_of(options, &s->weights);
    if (dpt_model_labels(s->model) > 1)
        return dpt_fail(s->context, DPT_E_UNSUPPORTED,
                        "model %s has %zu labels a sample; predict prints one (dpt_predictor_run "
                        "gives them all)",
                        s->model_name, dpt_model_labels(s->model));
    const dpt_predictor_options predictor = {
        .size = sizeof predictor,
        .weights = weights,
        .like = p->subjects[0].data, /* all are alike */
        .logits = dpt_model_gives_loss(s->model) ||
                  (loss != DPT_LOSS_CROSS_ENTROPY && loss != DPT_LOSS_BINARY_CROSS_ENTROPY),
        .sigmoid = loss == DPT_LOSS_BINARY_CROSS_ENTROPY,
        .split = {DPT_SPLIT_EQUAL, NULL}, /* a repeated command prints the same */
        .device_timeout = options->device_timeout,
        .deterministic = options->deterministic};
    const dpt_status status = dpt_predictor_create(s->devices, s->model, &predictor, &p->predictor);
    return status == DPT_E_INVALID && cli_weights_own(s) ? DPT_E_FORMAT : status;
}

static void tell_lost(const prediction *p)
{
    dpt_predictor_device_info info = {.size = sizeof info};
    for (size_t i = 0; dpt_predictor_device(p->predictor, i, &info) == DPT_OK; i++)
        if (info.lost)
            (void)cli_error(CLI_OK, "device %s is lost, and the others compute its samples: %s",
                            info.id, info.message);
}

/* Looks at the kind of every file before the first image is classified.  Pictures are read
   meanwhile. */
static dpt_status predict(prediction *p, const cli_options *options, const char *weights)
{
    DPT_TRY(cli_session_open(&p->session, options, CLI_DATA_IF_ASKED));
    DPT_TRY(cli_weights_classes(&p->session));
    DPT_TRY(cli_weights_adopt(&p->session, options, weights));
    describe(p);
    DPT_TRY(add_images(p, options));
    DPT_TRY(load(p, options, weights));
    warn_of_names(p, weights);
    const dpt_status status = predict_all(p, options);
    if (status == DPT_OK) tell_lost(p);
    if (status == DPT_OK && p->n_unreadable == p->n_subjects)
        return dpt_fail(p->session.context, DPT_E_NOT_FOUND, "no image could be read");
    if (p->n_unreadable > 0)
        cli_note("%zu picture%s could not be read and %s left out", p->n_unreadable,
                 p->n_unreadable == 1 ? "" : "s", p->n_unreadable == 1 ? "is" : "are");
    return status;
}

static int end(prediction *p, int code)
{
    code = cli_flush(code); /* first: a device may keep this process waiting */
    dpt_predictor_destroy(p->predictor);
    dpt_dataset_destroy(p->pictures_data);
    dpt_pictures_destroy(p->pictures);
    free(p->named);
    for (size_t i = 0; i < p->n_files; i++)
        dpt_dataset_destroy(p->files[i]);
    free(p->files);
    for (size_t i = 0; i < p->n_folders; i++) {
        dpt_dataset_destroy(p->folders[i].data);
        dpt_pictures_destroy(p->folders[i].pictures);
    }
    free(p->folders);
    free(p->subjects);
    return cli_session_close(&p->session, code);
}

/* Devices that fail in a prediction have an exit status of their own. */
static int fail(const prediction *p, dpt_status status)
{
    if (p->told) return CLI_FAILURE;
    const int code = cli_session_fail(&p->session, status);
    const bool device = status == DPT_E_DEVICE || status == DPT_E_DEVICE_LOST;
    return device && p->predictor ? CLI_DEVICES_LOST : code;
}

int cli_predict(const cli_options *options)
{
    char weights[PATH_MAX];
    if (!options->checkpoint)
        return cli_error(CLI_USAGE, "predict needs weights: --checkpoint=FILE or --checkpoint=DIR");
    if (options->n_operands == 0)
        return cli_error(CLI_USAGE, "predict needs images: a picture, or an IDX or npz file");
    if (!cli_weights_path(options->checkpoint, weights, sizeof weights))
        return cli_error(CLI_USAGE, "--checkpoint: the path is too long");
    const int usage = cli_lines_check(options);
    if (usage != CLI_OK) return usage;
    prediction p = {.lines = {.file = -1}};
    const dpt_status status = predict(&p, options, weights);
    return end(&p, status == DPT_OK ? CLI_OK : fail(&p, status));
}
