/* dptrain join (join.h).  The job tells its options as a file of settings, without those of
   devices, which each process has for itself. */
#include "join.h"

#include "config.h"
#include "session.h"

#include <stdlib.h>
#include <string.h>

static int connect_to_job(const cli_options *options, dpt_context **out)
{
    if (options->n_operands != 1 || !*options->operands[0])
        return cli_error(CLI_USAGE, "give one address: dptrain join HOST:PORT, where the first "
                                    "process of the training listens (its DPTRAIN_ADDRESS)");
    if (setenv("DPTRAIN_JOIN", options->operands[0], 1) != 0)
        return cli_error(CLI_FAILURE, "no memory for the address");
    dpt_status status = cli_open_context(options, out);
    if (status == DPT_OK) status = dpt_processes_join_for(*out, "train");
    if (status != DPT_OK) return cli_fail(*out, status);
    if (dpt_process_comes(*out)) return CLI_OK;
    return cli_error(CLI_USAGE, "dptrain join connects through TCP: unset DPTRAIN_TRANSPORT");
}

int cli_join_take(cli_options *options, cli_toml *out)
{
    *out = (cli_toml){0};
    int code = connect_to_job(options, &options->context);
    if (code == CLI_OK) {
        const char *told = dpt_process_told(options->context);
        const cli_toml_file file = {.path = "the options of the job",
                                    .bytes = told ? told : "",
                                    .n_bytes = told ? strlen(told) : 0};
        code = cli_config_take(&cli_verbs[0], &file, options, out);
    }
    options->supervise = false; /* a process that is started again comes anew */
    if (code == CLI_OK) return code;
    dpt_context_destroy(options->context);
    options->context = NULL;
    return code;
}
