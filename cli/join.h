/* dptrain join: this process takes part in a training that runs elsewhere. */
#ifndef DPTRAIN_CLI_JOIN_H
#define DPTRAIN_CLI_JOIN_H

#include "toml.h"

/* Connects to the job at the address that the operands give, and takes the options of its training
   that the command line has not.  *out has what the options then point into; the caller releases it
   in all cases.  options->context is connected then.  CLI_OK, or an exit code after one line on
   stderr. */
DPT_CHECK_RESULT int cli_join_take(cli_options *options, cli_toml *out);

#endif
