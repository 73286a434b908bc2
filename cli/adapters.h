/* What --lora says: the adapters of a training, or of dptrain merge. */
#ifndef DPTRAIN_CLI_ADAPTERS_H
#define DPTRAIN_CLI_ADAPTERS_H

#include "cli.h"

typedef struct cli_adapters {
    dpt_lora_options options;
    dpt_lora_info info; /* of the folder */
    bool is_folder;     /* --lora names a folder with adapters; otherwise RANK[:ALPHA][:LAYERS] */
    char layers[1024];
} cli_adapters;

/* Reads --lora, which is given.  `options` of *out point into *out and into the program's options.
   Errors: DPT_E_INVALID; those of dpt_lora_describe. */
DPT_CHECK_RESULT dpt_status cli_adapters_read(dpt_context *context, const cli_options *options,
                                              cli_adapters *out);
/* Writes the path of the adapters in a folder to `out`; false if it is too long. */
bool cli_adapters_path(const char *folder, char *out, size_t out_bytes);
/* Whether a folder has adapters, and the file of weights `weights` is not there. */
bool cli_has_adapters(const char *folder, const char *weights);

#endif
