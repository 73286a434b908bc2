/* The files of adapters (merge.h), and dptrain merge. */
#include "merge.h"

#include "adapters.h"
#include "new_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Files ----------------------------------------------------------------------------------- */

/* The path of the base's weights: --load, or what the folder's adapter_config.json names, if that
   is there; false: neither, or the path is too long. */
static bool base_path(const cli_adapters *adapters, const cli_options *options, char *out,
                      size_t out_bytes)
{
    const char *base = options->load ? options->load : adapters->options.base;
    if (!base || !cli_weights_path(base, out, out_bytes)) return false;
    return options->load || access(out, R_OK) == 0;
}

/* Whether a file has adapters. */
static dpt_status look(dpt_context *context, const char *path, bool *adapters)
{
    dpt_weights_info info = {.size = sizeof info};
    DPT_TRY(dpt_weights_describe(context, path, &info));
    *adapters = info.adapters;
    dpt_weights_release(&info);
    return DPT_OK;
}

static dpt_status load_base(const cli_session *session, const cli_options *options,
                            const cli_adapters *a)
{
    char path[PATH_MAX];
    bool adapters;
    if (!base_path(a, options, path, sizeof path)) {
        if (a->options.base)
            return dpt_fail(session->context, DPT_E_NOT_FOUND,
                            "the base %s, which the adapters name, is not there: give the file or "
                            "the folder of its weights with --load",
                            a->options.base);
        if (!cli_session_quiet(session, options))
            (void)cli_error(CLI_OK,
                            "warning: the base has random weights: --load FILE gives it others");
        return DPT_OK;
    }
    DPT_TRY(look(session->context, path, &adapters));
    if (adapters)
        return dpt_fail(session->context, DPT_E_INVALID,
                        "%s has adapters: give their folder with --lora, and the weights of the "
                        "base with --load",
                        path);
    return dpt_trainer_load(session->trainer, path);
}

/* Adapters and weights in one folder would be taken for each other. */
static dpt_status check_folder(const cli_session *session, const cli_options *options)
{
    char path[PATH_MAX];
    if (!options->checkpoint || !cli_weights_path(options->checkpoint, path, sizeof path) ||
        access(path, F_OK) != 0)
        return DPT_OK;
    return dpt_fail(session->context, DPT_E_INVALID,
                    "--checkpoint: %s has weights, beside which adapters would be mistaken: name "
                    "another folder",
                    options->checkpoint);
}

dpt_status cli_adapters_load(const cli_session *session, const cli_options *options, bool resumes)
{
    char path[PATH_MAX];
    cli_adapters a;
    bool adapters;
    DPT_TRY(check_folder(session, options));
    DPT_TRY(cli_adapters_read(session->context, options, &a));
    DPT_TRY(load_base(session, options, &a));
    if (!a.is_folder || resumes) return DPT_OK;
    if (!cli_adapters_path(options->lora, path, sizeof path))
        return dpt_fail(session->context, DPT_E_INVALID, "--lora: the path is too long");
    DPT_TRY(look(session->context, path, &adapters));
    if (!adapters)
        return dpt_fail(session->context, DPT_E_FORMAT, "%s has weights and no adapters", path);
    return dpt_trainer_load(session->trainer, path);
}

/* ---- Merging --------------------------------------------------------------------------------- */

/* The shape of samples matters for no weight: one token, and the vocabulary that the files or the
   name say. */
static dpt_status open_model(cli_session *s, const cli_options *options, const cli_adapters *a,
                             const char *adapter)
{
    s->weights.size = sizeof s->weights;
    DPT_TRY(dpt_weights_describe(s->context, adapter, &s->weights));
    s->model_name = options->model ? options->model : s->weights.model;
    if (!*s->model_name)
        return dpt_fail(s->context, DPT_E_INVALID,
                        "%s does not say of which network it is: give --model, with its "
                        "vocabulary, such as gpt:4:4:32:24:61",
                        adapter);
    const size_t classes = s->weights.classes ? s->weights.classes : 1;
    const dpt_model_by_name_options how = {
        .size = sizeof how,
        .shape = {.height = 1, .width = 1, .channels = 1, .classes = classes},
        .lora = &a->options};
    return dpt_model_by_name_with(s->context, s->model_name, &how, &s->model);
}

static dpt_status merge(cli_session *s, const cli_options *options, char *merged, size_t n_bytes)
{
    static const dpt_context_options one = {.size = sizeof one, .devices = "cpu"};
    char base[PATH_MAX], adapter[PATH_MAX];
    cli_adapters a;
    DPT_TRY(dpt_context_create_with(&one, &s->context));
    cli_tell_notices(s->context);
    DPT_TRY(cli_adapters_read(s->context, options, &a));
    if (!a.is_folder)
        return dpt_fail(s->context, DPT_E_INVALID, "merge needs a folder of adapters: --lora DIR");
    const int n = snprintf(merged, n_bytes, "%s/model.safetensors", options->checkpoint);
    if (n < 0 || (size_t)n >= n_bytes || !cli_adapters_path(options->lora, adapter, sizeof adapter))
        return dpt_fail(s->context, DPT_E_INVALID, "a path is too long");
    if (!base_path(&a, options, base, sizeof base))
        return dpt_fail(s->context, DPT_E_INVALID,
                        "merge needs the weights of the base: --load FILE or --load DIR");
    if (cli_is_same_file(base, merged))
        return dpt_fail(s->context, DPT_E_INVALID,
                        "%s is the file of the base: merge into another folder", merged);
    char stray[PATH_MAX];
    if (cli_adapters_path(options->checkpoint, stray, sizeof stray) && access(stray, F_OK) == 0)
        return dpt_fail(s->context, DPT_E_INVALID,
                        "%s has adapters, beside which weights would be mistaken: merge into "
                        "another folder",
                        options->checkpoint);
    DPT_TRY(open_model(s, options, &a, adapter));
    const bool made = mkdir(options->checkpoint, 0777) == 0;
    if (!made && errno != EEXIST)
        return dpt_fail(s->context, DPT_E_IO, "cannot make the folder %s: %s", options->checkpoint,
                        strerror(errno));
    const dpt_lora_files files = {
        .size = sizeof files, .base = base, .adapter = adapter, .merged = merged};
    const dpt_status status = dpt_lora_merge(s->model, &files);
    if (status != DPT_OK && made) (void)rmdir(options->checkpoint);
    return status;
}

int cli_merge(const cli_options *options)
{
    char merged[PATH_MAX];
    if (!options->lora) return cli_error(CLI_USAGE, "merge needs adapters: --lora=DIR");
    if (!options->checkpoint)
        return cli_error(CLI_USAGE, "merge needs a folder to write to: --checkpoint=DIR");
    cli_session session = {0};
    const dpt_status status = merge(&session, options, merged, sizeof merged);
    int code = CLI_OK;
    if (status != DPT_OK)
        code = cli_fail(session.context, status);
    else
        printf("wrote %s\n", merged);
    return cli_session_close(&session, code);
}
