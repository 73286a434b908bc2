/* The options of dptrain bench alone. */
#include "table.h"

static const char *const collectives[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast",
                                          NULL};

static const cli_option options[] = {
    {
        .group = "Benchmark",
        .name = "repeat",
        .argument = "N",
        .help = "number of repetitions of each run. The table has medians. Default: 3",
        .verbs = CLI_BENCH,
        .kind = CLI_COUNT,
        TARGET(repeat),
        .min = 1,
        .max = 1000,
    },
    {
        .name = "max-time",
        .argument = "TIME",
        .help = "time each run for this long after it has settled: seconds, or 90s, 5m. Default: "
                "2, and at least 5 steps",
        .verbs = CLI_BENCH,
        .kind = CLI_SECONDS,
        TARGET(max_time),
    },
    {
        .name = "max-steps",
        .argument = "N",
        .help = "time at most N steps of each run",
        .verbs = CLI_BENCH,
        .kind = CLI_COUNT,
        TARGET(max_steps),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "best-batch",
        .help = "also run each device alone with a quarter, half, twice and four times the batch, "
                "and mark the fastest",
        .verbs = CLI_BENCH,
        .kind = CLI_FLAG,
        TARGET(best_batch),
    },
    {
        .name = "all-only",
        .help = "of the mixes, run only the one of all devices",
        .verbs = CLI_BENCH,
        .kind = CLI_FLAG,
        TARGET(all_only),
    },
    {
        .name = "collective",
        .argument = "NAME",
        .help = "the collective to measure: all-reduce (default), reduce-scatter, all-gather or "
                "broadcast. Bytes are those of a whole array",
        .verbs = CLI_BENCH,
        .benchmarks = CLI_ALLREDUCE,
        .kind = CLI_TEXT,
        TARGET(collective),
        .values = collectives,
    },
};

const cli_option_part cli_options_of_bench = CLI_PART(options);
