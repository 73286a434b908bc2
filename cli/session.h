/* What train and eval have in common: context, devices, data and model, opened together and closed
   together. */
#ifndef DPTRAIN_CLI_SESSION_H
#define DPTRAIN_CLI_SESSION_H

#include "cli.h"

typedef struct cli_session {
    dpt_context *context;
    dpt_device_set *devices;
    dpt_dataset *train, *test; /* train is NULL if it was not asked for */
    dpt_model *model;
    dpt_trainer *trainer;
} cli_session;

/* Opens devices, data and model, but no trainer.  After a failure the session is to be closed too.
 */
DPT_CHECK_RESULT dpt_status cli_session_open(cli_session *session, const cli_options *options,
                                             bool with_train);
void cli_session_close(cli_session *session);

/* The batch size to use on data of `count` samples. */
size_t cli_batch_size(const cli_options *options, size_t count);
/* A directory's model.safetensors, or the file itself, in out; false if it does not fit. */
DPT_CHECK_RESULT bool cli_weights_path(const char *path, char *out, size_t out_bytes);

#endif
