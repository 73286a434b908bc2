/* The files of adapters and of their base. */
#ifndef DPTRAIN_CLI_MERGE_H
#define DPTRAIN_CLI_MERGE_H

#include "session.h"

/* Loads the base into the trainer, and the adapters of a folder unless training continues from a
   checkpoint (`resumes`). */
DPT_CHECK_RESULT dpt_status cli_adapters_load(const cli_session *session,
                                              const cli_options *options, bool resumes);

#endif
