/* --freeze and --group. */
#ifndef DPT_CLI_GROUPS_H
#define DPT_CLI_GROUPS_H

#include "cli.h"
#include "dptrain.h"

/* Returns CLI_OK, or CLI_USAGE after one line on stderr. */
int cli_groups_check(const cli_options *options);
/* Returns the groups of these options, which have been checked, those of --freeze first; NULL if
   there are none.  They are valid until the next call. */
const dpt_parameter_group *cli_groups(const cli_options *options, size_t *n);

#endif
