/* --lora (adapters.h). */
#include "adapters.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_RANK = 1 << 20 };

/* ---- The option ------------------------------------------------------------------------------ */

/* Copies the next part, which ends at ':', and moves *at behind it. */
static bool take_part(const char **at, char *out, size_t out_bytes)
{
    const size_t n = strcspn(*at, ":");
    if (n == 0 || n >= out_bytes) return false;
    memcpy(out, *at, n);
    out[n] = '\0';
    *at += n + ((*at)[n] == ':' && (*at)[n + 1] != '\0');
    return true;
}

static bool take_numbers(const char *text, cli_adapters *out)
{
    char part[1024];
    if (!take_part(&text, part, sizeof part)) return false;
    if (!cli_parse_count(part, 0, MOST_RANK, &out->options.rank)) return false;
    if (!*text) return true;
    if (!take_part(&text, part, sizeof part)) return false;
    if (cli_parse_real(part, 0, 1e9, &out->options.alpha)) {
        if (!(out->options.alpha > 0)) return false;
        if (!*text) return true;
        if (!take_part(&text, part, sizeof part)) return false;
    }
    memcpy(out->layers, part, sizeof out->layers);
    out->options.layers = out->layers;
    return *text == '\0';
}

static dpt_status read_folder(dpt_context *context, const char *folder, cli_adapters *out)
{
    out->is_folder = true;
    out->info.size = sizeof out->info;
    DPT_TRY(dpt_lora_describe(context, folder, &out->info));
    out->options.rank = out->info.rank;
    out->options.alpha = out->info.alpha;
    out->options.layers = out->info.layers;
    if (out->info.base[0]) out->options.base = out->info.base;
    if (out->info.dropout != 0)
        (void)cli_error(CLI_OK, "warning: %s has a lora_dropout of %g, which is not applied",
                        folder, out->info.dropout);
    return DPT_OK;
}

dpt_status cli_adapters_read(dpt_context *context, const cli_options *options, cli_adapters *out)
{
    const char *text = options->lora;
    *out = (cli_adapters){.options.size = sizeof out->options};
    if (*text < '0' || *text > '9') {
        DPT_TRY(read_folder(context, text, out));
    } else if (!take_numbers(text, out)) {
        return dpt_fail(context, DPT_E_INVALID,
                        "--lora: '%s' is neither RANK[:ALPHA][:LAYERS], such as 8 or 8:16:c_attn, "
                        "nor a folder of adapters",
                        text);
    }
    if (options->load) out->options.base = options->load;
    return DPT_OK;
}

bool cli_adapters_path(const char *folder, char *out, size_t out_bytes)
{
    const int n = snprintf(out, out_bytes, "%s/adapter_model.safetensors", folder);
    return n > 0 && (size_t)n < out_bytes;
}

bool cli_has_adapters(const char *folder, const char *weights)
{
    char path[PATH_MAX];
    return cli_adapters_path(folder, path, sizeof path) && access(path, F_OK) == 0 &&
           access(weights, F_OK) != 0;
}
