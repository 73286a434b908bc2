/* Text and tokens: what --tokenizer and --test-data mean.  Names of classes. */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool begins(const char *name, const char *kind)
{
    const size_t n = strlen(kind);
    return strncmp(name, kind, n) == 0 && (name[n] == ':' || name[n] == '\0');
}

bool cli_is_text(const char *name)
{
    return begins(name, "text") || begins(name, "tokens");
}

cli_unit cli_unit_of(const dpt_dataset *data)
{
    dpt_dataset_info info = {.size = sizeof info};
    dpt_dataset_describe(data, &info);
    if (!cli_is_text(info.name)) return (cli_unit){"img/s", 1};
    return (cli_unit){"tok/s", (double)info.labels_per_sample};
}

int cli_name_text(cli_options *options, char **name)
{
    cli_options *o = options;
    const bool is_text = o->dataset && cli_is_text(o->dataset);
    if (o->test_data && o->dataset && !is_text)
        return cli_error(CLI_USAGE, "--test-data goes with --dataset text:CONTEXT or "
                                    "tokens:CONTEXT");
    if (!o->tokenizer) return CLI_OK;
    if (!is_text)
        return cli_error(CLI_USAGE, "--tokenizer goes with --dataset text:CONTEXT or "
                                    "tokens:CONTEXT");
    const size_t n = strlen(o->dataset) + strlen(o->tokenizer) + 2;
    *name = malloc(n);
    if (!*name) return cli_error(CLI_FAILURE, "no memory for the name of the data set");
    snprintf(*name, n, "%s:%s", o->dataset, o->tokenizer);
    o->dataset = *name;
    return CLI_OK;
}

const char *cli_class_name(const dpt_dataset_info *data, size_t i, char number[24])
{
    if (data->class_names && i < data->outputs) return data->class_names[i];
    snprintf(number, 24, "%zu", i);
    return number;
}

int cli_columns(const char *name)
{
    int n = 0;
    for (; *name; name++)
        n += ((unsigned char)*name & 0xC0) != 0x80;
    return n;
}
