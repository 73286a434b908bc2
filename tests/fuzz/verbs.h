/* For programs with the command's parser and without the command: the functions that the table of
   commands names, which nobody calls. */
#ifndef DPT_TEST_VERBS_H
#define DPT_TEST_VERBS_H

#include "cli.h"

int cli_train(const cli_options *options)
{
    return options->help;
}
int cli_eval(const cli_options *options)
{
    return options->help;
}
int cli_devices(const cli_options *options)
{
    return options->help;
}
int cli_data(const cli_options *options)
{
    return options->help;
}
int cli_plan(const cli_options *options)
{
    return options->help;
}
int cli_predict(const cli_options *options)
{
    return options->help;
}
int cli_generate(const cli_options *options)
{
    return options->help;
}
int cli_export(const cli_options *options)
{
    return options->help;
}
int cli_bench(const cli_options *options)
{
    return options->help;
}
int cli_manual(const cli_options *options)
{
    return options->help;
}
int cli_merge(const cli_options *options)
{
    return options->help;
}
int cli_supervise_job(const cli_options *options)
{
    return options->help;
}
int cli_compare(const cli_options *options)
{
    return options->help;
}

#endif
