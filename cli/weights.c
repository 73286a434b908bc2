/* Saved weights: which file is meant, its model and its data set, and how images must be normalised
   for them. */
#include "adapters.h"
#include "recipe.h"
#include "session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool join(const char *path, const char *name, char *out, size_t out_bytes)
{
    const int length = snprintf(out, out_bytes, "%s%s", path, name);
    return length > 0 && (size_t)length < out_bytes;
}

bool cli_weights_path(const char *path, char *out, size_t out_bytes)
{
    static const char one[] = "/model.safetensors", index[] = "/model.safetensors.index.json";
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return join(path, "", out, out_bytes);
    /* Weights in several files have an index. */
    if (join(path, one, out, out_bytes) && stat(out, &info) != 0 &&
        join(path, index, out, out_bytes) && stat(out, &info) == 0)
        return true;
    return join(path, one, out, out_bytes);
}

dpt_status cli_weights_find(cli_session *session, const cli_options *options)
{
    cli_session *s = session;
    if (!cli_weights_path(options->checkpoint, s->path, sizeof s->path))
        return dpt_fail(s->context, DPT_E_INVALID, "--checkpoint: the path is too long");
    if (!cli_has_adapters(options->checkpoint, s->path)) return DPT_OK;
    return dpt_fail(s->context, DPT_E_INVALID,
                    "%s has adapters and no weights: dptrain merge adds them to their base",
                    options->checkpoint);
}

static const char default_data[] = "fashion-mnist";

/* A file may choose a network by name and a data set that consists of files.  Only the command line
   may choose others, such as synthetic data of any size. */
static const char *known_model(const char *name)
{
    return dpt_model_is_known(name) ? name : NULL;
}

static const char *known_data(const char *name)
{
    /* The path of a tokenizer may have been cut off. */
    const bool whole = strlen(name) + 1 < sizeof((dpt_weights_info *)NULL)->dataset;
    const bool folder = strncmp(name, "folder:", 7) == 0 && cli_is_folder(name);
    return folder || cli_is_named_set(name) || (cli_is_text(name) && whole) ? name : NULL;
}

/* The config.json in the folder of the weights; NULL if there is none. */
static const char *config_beside(cli_session *session)
{
    struct stat info;
    const char *path = session->path, *slash = strrchr(path, '/');
    const int n = snprintf(session->config, sizeof session->config, "%.*sconfig.json",
                           slash ? (int)(slash - path) + 1 : 0, path);
    const bool there =
        path[0] && n > 0 && (size_t)n < sizeof session->config && stat(session->config, &info) == 0;
    if (!there) session->config[0] = '\0';
    return there ? session->config : NULL;
}

static const char *first_of(const char *given, const char *told, const char *otherwise)
{
    return given ? given : told ? told : otherwise;
}

/* What the weights to use were trained on, or those of the checkpoint that a training continues: a
   file, and the name of the data set, which is "" if it is not known.  Whether a checkpoint is
   sound, the training finds out. */
typedef struct trained_on {
    char path[PATH_MAX];
    char dataset[sizeof((dpt_weights_info *)NULL)->dataset];
} trained_on;

static trained_on find_trained_on(const cli_session *session, const cli_options *options,
                                  unsigned with)
{
    const cli_session *s = session;
    const bool resumes = with & CLI_WITH_TRAIN && options->resume && options->checkpoint;
    trained_on out = {"", ""};
    dpt_weights_info info = {.size = sizeof info};
    snprintf(out.path, sizeof out.path, "%s", s->path);
    memcpy(out.dataset, s->weights.dataset, sizeof out.dataset);
    if (!resumes || !cli_last_checkpoint(options->checkpoint, out.path, sizeof out.path) ||
        dpt_weights_describe(s->context, out.path, &info) != DPT_OK)
        return out;
    memcpy(out.dataset, info.dataset, sizeof out.dataset);
    dpt_weights_release(&info);
    return out;
}

/* The weights tell at which label the classes began. */
static dpt_status check_labels(const cli_session *session, const trained_on *before,
                               const cli_options *options)
{
    const size_t trained = cli_labels_from(before->dataset);
    if (!trained || !options->labels_from || trained == options->labels_from) return DPT_OK;
    return dpt_fail(session->context, DPT_E_INVALID,
                    "%s was trained with --labels-from %zu: leave --labels-from %zu out",
                    before->path, trained, options->labels_from);
}

/* Puts the words of options, and those of the weights, behind the name of the data set.  For
   predictions --skip-unreadable is about the pictures of the command line. */
static dpt_status add_words(cli_session *session, const cli_options *options, unsigned with)
{
    cli_session *s = session;
    cli_options own = *options;
    const trained_on before = find_trained_on(s, options, with);
    const cli_data_name from = {&own, s->data_name, before.dataset};
    const char *why;
    if (with & CLI_DATA_IF_ASKED) own.skip_unreadable = false;
    DPT_TRY(check_labels(s, &before, options));
    if (s->told) return DPT_OK;
    if (!cli_data_words(&from, s->data_words, sizeof s->data_words, &why))
        return dpt_fail(s->context, DPT_E_INVALID, "%s, and not for %.100s", why, s->data_name);
    s->data_name = s->data_words;
    return DPT_OK;
}

dpt_status cli_weights_name(cli_session *session, const cli_options *options, unsigned with)
{
    cli_session *s = session;
    const char *path = s->path;
    s->weights.size = sizeof s->weights;
    if (path[0]) DPT_TRY(dpt_weights_describe(s->context, path, &s->weights));
    s->told = with & CLI_DATA_IF_ASKED && s->weights.channels > 0 && !options->dataset &&
              !options->data && !options->normalize;
    s->model_name = first_of(options->model, known_model(s->weights.model), NULL);
    if (!s->model_name) s->model_name = first_of(NULL, config_beside(s), cli_default_model);
    s->data_name = first_of(options->dataset, known_data(s->weights.dataset), default_data);
    DPT_TRY(add_words(s, options, with));
    const bool model = !options->model && strcmp(s->model_name, cli_default_model) != 0;
    const bool data = !s->told && !options->dataset && strcmp(s->data_name, default_data) != 0;
    const bool tells = !(with & CLI_UNTOLD) && !cli_session_quiet(s, options);
    const char *teller = s->config[0] && !data ? s->config : path;
    if ((model || data) && tells)
        (void)cli_error(CLI_OK, "%s%s%s%s%s, as %s says", model ? "model " : "",
                        model ? s->model_name : "", model && data ? " and " : "",
                        data ? "data set " : "", data ? s->data_name : "", teller);
    return DPT_OK;
}

/* ---- The model ------------------------------------------------------------------------------- */

/* The least number of bytes that the model's tensors take in a file. */
static size_t model_bytes(const dpt_model *model)
{
    dpt_parameter_info tensor = {.size = sizeof tensor};
    size_t n_bytes = 0;
    for (size_t i = 0; i < dpt_model_tensor_count(model); i++) {
        dpt_model_tensor(model, i, &tensor);
        n_bytes += tensor.elements * sizeof(float);
    }
    return n_bytes;
}

/* Whether the file chose both the size of the images and the model. */
bool cli_weights_own(const cli_session *session)
{
    const cli_session *s = session;
    return s->told && strcmp(s->model_name, s->weights.model) == 0;
}

static dpt_status check_bytes(const cli_session *session)
{
    const cli_session *s = session;
    struct stat info;
    const size_t least = model_bytes(s->model);
    const size_t n_bytes = stat(s->path, &info) == 0 ? (size_t)info.st_size : 0;
    if (n_bytes >= least) return DPT_OK;
    if (!cli_weights_own(s))
        return dpt_fail(s->context, DPT_E_INVALID,
                        "%s has %zu bytes, fewer than model %s needs: it is of another model%s%s "
                        "(--model)",
                        s->path, n_bytes, s->model_name, s->weights.model[0] ? ", " : "",
                        s->weights.model);
    return dpt_fail(s->context, DPT_E_FORMAT,
                    "%s has %zu bytes, and model %s for the images and classes that the file names "
                    "needs %zu: the file is damaged",
                    s->path, n_bytes, s->model_name, least);
}

dpt_status cli_weights_model(cli_session *session)
{
    cli_session *s = session;
    const dpt_weights_info *w = &s->weights;
    const dpt_model_shape shape = {
        .height = w->height,
        .width = w->width,
        .channels = w->channels,
        .classes = w->classes,
    };
    const dpt_status status = dpt_model_by_name(s->context, s->model_name, &shape, &s->model);
    if (status == DPT_E_INVALID && cli_weights_own(s))
        return dpt_fail(
            s->context, DPT_E_FORMAT,
            "%s says that it is for %zux%zux%zu images and %zu classes, and model %s cannot "
            "be built for them: %s",
            s->path, w->height, w->width, w->channels, w->classes, s->model_name,
            dpt_error_message(s->context));
    DPT_TRY(status);
    return check_bytes(s);
}

/* ---- The classes ----------------------------------------------------------------------------- */

dpt_status cli_weights_classes(const cli_session *session)
{
    const dpt_weights_info *w = &session->weights;
    dpt_dataset_info data = {.size = sizeof data};
    if (!session->test) return DPT_OK;
    dpt_dataset_describe(session->test, &data);
    if (!cli_is_folder(data.name) || !w->class_names || w->classes != data.outputs) return DPT_OK;
    for (size_t c = 0; c < data.outputs; c++)
        if (strcmp(data.class_names[c], w->class_names[c]) != 0)
            return dpt_fail(session->context, DPT_E_INVALID,
                            "%s was trained with %s as class %zu, which is %s in %s: these are "
                            "pictures of other classes",
                            session->path, w->class_names[c], c, data.class_names[c], data.source);
    return DPT_OK;
}

/* ---- Normalisation --------------------------------------------------------------------------- */

static bool was_normalized(const dpt_weights_info *w)
{
    bool was = false;
    for (size_t c = 0; c < w->stat_channels; c++)
        was = was || w->mean[c] != 0 || w->deviation[c] != 1;
    return was;
}

static bool is_near(float a, float b)
{
    return fabsf(a - b) <= 1e-6f + 1e-4f * fabsf(b);
}

/* Compares the file's mean and deviation with those that --normalize has taken from the data.  A
   part of a data set has nearly those of the whole. */
static dpt_status compare(const cli_session *session, const char *path, const dpt_weights_info *w)
{
    if (!was_normalized(w))
        return dpt_fail(session->context, DPT_E_INVALID,
                        "%s comes from a training without --normalize: leave --normalize out",
                        path);
    for (size_t c = 0; c < w->stat_channels; c++)
        if (!is_near(session->mean[c], w->mean[c]) ||
            !is_near(session->deviation[c], w->deviation[c]))
            return dpt_fail(session->context, DPT_E_INVALID,
                            "%s comes from a training with mean %g and deviation %g in channel "
                            "%zu, and --normalize would take %g and %g from these data: leave "
                            "--normalize out to use those of the training",
                            path, (double)w->mean[c], (double)w->deviation[c], c,
                            (double)session->mean[c], (double)session->deviation[c]);
    return DPT_OK;
}

dpt_status cli_weights_adopt(cli_session *session, const cli_options *options, const char *path)
{
    cli_session *s = session;
    const dpt_weights_info *w = &s->weights;
    if (w->stat_channels == 0) return DPT_OK; /* the file does not say */
    if (options->normalize) return compare(s, path, w);
    if (!was_normalized(w)) return DPT_OK;
    if (s->test) DPT_TRY(dpt_dataset_normalize(s->test, w->mean, w->deviation));
    for (size_t c = 0; c < sizeof s->mean / sizeof *s->mean; c++) {
        s->mean[c] = w->mean[c];
        s->deviation[c] = w->deviation[c];
    }
    s->normalized = true;
    if (!cli_session_quiet(s, options))
        (void)cli_error(CLI_OK, "images are normalised as those that %s was trained on", path);
    return DPT_OK;
}
