/* Saved weights: the file that is meant, model and data that it is of, and that images reach the
   network as those did that it was trained on. */
#include "session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

bool cli_weights_path(const char *path, char *out, size_t out_bytes)
{
    struct stat info;
    const bool directory = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    const int length =
        snprintf(out, out_bytes, "%s%s", path, directory ? "/model.safetensors" : "");
    return length > 0 && (size_t)length < out_bytes;
}

static const char default_model[] = "lenet", default_data[] = "fashion-mnist";

static const char *find(const char *const *names, const char *name)
{
    for (; *names; names++)
        if (strcmp(*names, name) == 0) return *names;
    return NULL;
}

/* What a file may name: networks by name, and data that lie in files.  Others, such as synthetic
   data of any size, are for whoever gives the command. */
static const char *known_model(const char *name)
{
    return find(dpt_model_names(), name);
}

static const char *known_data(const char *name)
{
    static const char *const names[] = {"fashion-mnist", "mnist", "cifar10", "idx", NULL};
    return find(names, name);
}

static const char *first_of(const char *given, const char *told, const char *otherwise)
{
    return given ? given : told ? told : otherwise;
}

dpt_status cli_weights_name(cli_session *session, const cli_options *options, const char *path)
{
    cli_session *s = session;
    if (path) DPT_TRY(dpt_weights_describe(s->context, path, &s->weights));
    s->model_name = first_of(options->model, known_model(s->weights.model), default_model);
    s->data_name = first_of(options->dataset, known_data(s->weights.dataset), default_data);
    const bool model = !options->model && strcmp(s->model_name, default_model) != 0;
    const bool data = !options->dataset && strcmp(s->data_name, default_data) != 0;
    if ((model || data) && !cli_session_quiet(s, options))
        (void)cli_error(CLI_OK, "%s%s%s%s%s, as %s says", model ? "model " : "",
                        model ? s->model_name : "", model && data ? " and " : "",
                        data ? "data set " : "", data ? s->data_name : "", path);
    return DPT_OK;
}

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

/* --normalize takes this data set's mean and deviation, which another part of it, or the whole, has
   nearly. */
static dpt_status compare(const cli_session *session, const char *path, const dpt_weights_info *w)
{
    if (!was_normalized(w))
        return dpt_fail(session->context, DPT_E_INVALID,
                        "%s comes from a training without --normalize: leave it out", path);
    for (size_t c = 0; c < w->stat_channels; c++)
        if (!is_near(session->mean[c], w->mean[c]) ||
            !is_near(session->deviation[c], w->deviation[c]))
            return dpt_fail(session->context, DPT_E_INVALID,
                            "%s comes from a training with mean %g and deviation %g in channel "
                            "%zu, and --normalize would take %g and %g of these data: leave it "
                            "out, and those of the training are taken",
                            path, (double)w->mean[c], (double)w->deviation[c], c,
                            (double)session->mean[c], (double)session->deviation[c]);
    return DPT_OK;
}

dpt_status cli_weights_adopt(cli_session *session, const cli_options *options, const char *path)
{
    cli_session *s = session;
    const dpt_weights_info *w = &s->weights;
    if (w->stat_channels == 0) return DPT_OK; /* it does not say */
    if (options->normalize) return compare(s, path, w);
    if (!was_normalized(w)) return DPT_OK;
    DPT_TRY(dpt_dataset_normalize(s->test, w->mean, w->deviation));
    for (size_t c = 0; c < sizeof s->mean / sizeof *s->mean; c++) {
        s->mean[c] = w->mean[c];
        s->deviation[c] = w->deviation[c];
    }
    s->normalized = true;
    if (!cli_session_quiet(s, options))
        (void)cli_error(CLI_OK, "images are normalised as those that %s was trained on", path);
    return DPT_OK;
}
