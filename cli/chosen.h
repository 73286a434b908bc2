/* What --shard auto has chosen, why, and what it costs. */
#ifndef DPTRAIN_CLI_CHOSEN_H
#define DPTRAIN_CLI_CHOSEN_H

#include "session.h"

/* Prints the lines that say so, of which the first begins with `label`; nothing without --shard
 * auto.
 */
DPT_CHECK_RESULT dpt_status cli_print_chosen(const cli_session *session, const char *label);
/* Prints a table of the combinations that were tried; nothing without --shard auto.  step_seconds:
   what a step takes; 0: it was not measured. */
DPT_CHECK_RESULT dpt_status cli_print_candidates(const cli_session *session, double step_seconds);

#endif
