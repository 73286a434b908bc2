/* The options of files of settings. */
#include "table.h"

static const cli_option options[] = {
    {
        .group = "Settings",
        .name = "config",
        .argument = "FILE",
        .help = "take options from this file of TOML, with lines such as batch-size = 128. Options "
                "of the command line replace those of the file",
        .verbs = RUNS | CLI_DATA | CLI_EXPORT | CLI_GENERATE,
        .kind = CLI_TEXT,
        TARGET(config),
    },
    {
        .name = "save-config",
        .argument = "FILE",
        .help = "write the options of this command, those of --config too, as a file for --config",
        .verbs = SETS,
        .kind = CLI_TEXT,
        TARGET(save_config),
    },
};

const cli_option_part cli_options_of_settings = CLI_PART(options);
