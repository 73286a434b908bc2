/* The options of dptrain generate: the text, and how its tokens are drawn. */
#include "table.h"

static const cli_option options[] = {
    {
        .group = "Text",
        .name = "prompt",
        .argument = "TEXT",
        .help = "the text to continue",
        .verbs = CLI_GENERATE,
        .kind = CLI_TEXT,
        TARGET(prompt),
    },
    {
        .name = "prompt-file",
        .argument = "FILE",
        .help = "the file with the text to continue; - is standard input",
        .verbs = CLI_GENERATE,
        .kind = CLI_TEXT,
        TARGET(prompt_file),
    },
    {
        .name = "tokens",
        .argument = "N",
        .help = "the most tokens to generate. Default: 100",
        .verbs = CLI_GENERATE,
        .kind = CLI_COUNT,
        TARGET(tokens),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "temperature",
        .argument = "T",
        .help = "draw each token by its probability after the logits are divided by T. Default: 0, "
                "the likeliest token",
        .verbs = CLI_GENERATE,
        .kind = CLI_REAL,
        TARGET(temperature),
        .low = 0,
        .high = 1000000,
    },
    {
        .name = "top-k",
        .argument = "K",
        .help = "draw from the K likeliest tokens only. Default: all",
        .verbs = CLI_GENERATE,
        .kind = CLI_COUNT,
        TARGET(top_k),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "top-p",
        .argument = "P",
        .help = "draw from the likeliest tokens only: the fewest that have more than this part of "
                "the probability. Default: 1, all",
        .verbs = CLI_GENERATE,
        .kind = CLI_REAL,
        TARGET(top_p),
        .low = 0.000001,
        .high = 1,
    },
    {
        .name = "seed",
        .argument = "N",
        .help = "seed of the draws. Default: 0",
        .verbs = CLI_GENERATE,
        .kind = CLI_COUNT,
        TARGET(seed),
        .max = SIZE_MAX,
    },
    {
        .name = "stop-id",
        .argument = "ID[,...]",
        .help = "ids of the tokens that end the text. Default: eos_token_id of the config.json in "
                "the folder of --checkpoint",
        .verbs = CLI_GENERATE,
        .kind = CLI_TEXT,
        TARGET(stop_id),
        .list = true,
    },
    {
        .name = "json",
        .argument = "FILE",
        .help = "write the ids of the prompt and of the text, and the times, as JSON",
        .verbs = CLI_GENERATE,
        .kind = CLI_TEXT,
        TARGET(json),
    },
};

const cli_option_part cli_options_of_text = CLI_PART(options);
