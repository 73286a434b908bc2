/* The table of options, in the order of help.  Parsing, help and suggestions use it. */
#include "table.h"

const cli_option *cli_option_at(size_t i)
{
    static const cli_option_part *const parts[] = {
        &cli_options_of_devices,  &cli_options_of_data,      &cli_options_of_text,
        &cli_options_of_training, &cli_options_of_optimizer, &cli_options_of_bench,
        &cli_options_of_settings, &cli_options_of_supervise, &cli_options_of_output,
    };
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
        if (i < parts[p]->n) return &parts[p]->options[i];
        i -= parts[p]->n;
    }
    return NULL;
}
