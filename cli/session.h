/* What train, eval and predict have in common: context, devices, data and model, opened together
   and closed together. */
#ifndef DPTRAIN_CLI_SESSION_H
#define DPTRAIN_CLI_SESSION_H

#include "cli.h"

#include <limits.h>

typedef struct cli_session {
    dpt_context *context;
    const char *model_name, *data_name; /* that are opened */
    dpt_device_set *devices;
    dpt_dataset *whole;             /* the training data; NULL if they were not asked for */
    dpt_dataset *train;             /* those or a part of them; belongs to `whole` if it is it */
    dpt_dataset *validation, *test; /* validation: the other part, or NULL */
    bool normalized;                /* all data, by these */
    float mean[4], deviation[4];
    char path[PATH_MAX];      /* of eval's and predict's weights; "" */
    dpt_weights_info weights; /* what their file tells */
    bool told;                /* all that data would: none are opened */
    dpt_model *model;
    dpt_trainer *trainer;
} cli_session;

/* What is opened beyond the test data: bits. */
typedef enum cli_session_with {
    CLI_WITH_TRAIN = 1 << 0,     /* the training data */
    CLI_WITH_PROCESSES = 1 << 1, /* the processes that a launcher started with this one */
    CLI_DATA_IF_ASKED = 1 << 2,  /* but no data, where the weights tell of what images they are and
                                    no option is about the data */
} cli_session_with;

/* A context that waits for devices as long as --device-timeout says. */
DPT_CHECK_RESULT dpt_status cli_open_context(const cli_options *options, dpt_context **out);
/* A line on stderr for each device and each backend that did not answer and was not named. */
void cli_tell_left_out(dpt_context *context);
/* The devices of --devices in --precision, and those lines; the context is there. */
DPT_CHECK_RESULT dpt_status cli_open_devices(cli_session *session, const cli_options *options);
/* Opens devices, data and model, but no trainer; `with` are cli_session_with bits.  Without
   training data model and data set are those that the weights of --checkpoint say, where the
   options name none.  After a failure the session is to be closed too. */
DPT_CHECK_RESULT dpt_status cli_session_open(cli_session *session, const cli_options *options,
                                             unsigned with);
/* The same with training data and the trainer that the options describe. */
DPT_CHECK_RESULT dpt_status cli_session_open_training(cli_session *session,
                                                      const cli_options *options, unsigned with);
/* As cli_fail; of several processes that know of a failure one tells of it, and one that fails
   alone is named. */
int cli_session_fail(const cli_session *session, dpt_status status);
/* The same of a trainer that computes: CLI_DEVICES_LOST if it is its devices that failed. */
int cli_session_fail_working(const cli_session *session, dpt_status status);
/* A line on stderr for each device that the trainer has lost and went on without, which have not
   been told. */
void cli_session_tell_lost(const cli_session *session);
/* Whether this process keeps silent: told to, or not the first of several. */
bool cli_session_quiet(const cli_session *session, const cli_options *options);
/* Closes it and returns the command's exit code.  Where a thread waits for a device that does not
   answer, be it now, the process ends with that code (cli_leave). */
int cli_session_close(cli_session *session, int code);

/* A directory's model.safetensors, or the file itself, in out; false if it does not fit
   (weights.c). */
DPT_CHECK_RESULT bool cli_weights_path(const char *path, char *out, size_t out_bytes);
/* Names the model and the data set to open: those of the options, of the file's weights, or the
   defaults; and finds out whether there is a set to open at all (session.told).  `with` as for the
   session. */
DPT_CHECK_RESULT dpt_status cli_weights_name(cli_session *session, const cli_options *options,
                                             unsigned with);
/* The model for the images that the file tells of.  DPT_E_FORMAT if it is of that model, by its
   words, and cannot be: found before the memory is taken that such a model would need. */
DPT_CHECK_RESULT dpt_status cli_weights_model(cli_session *session);
/* Whether model and size are what the file tells: tensors that are of others are its fault, and no
   mistake in the command. */
bool cli_weights_own(const cli_session *session);
/* Whether a data set's name is that of a folder of pictures, which scales them. */
bool cli_is_folder(const char *name);
/* Whether the test data, if they are pictures, are of the classes that the file tells, in that
   order.  DPT_E_INVALID names the first that is another. */
DPT_CHECK_RESULT dpt_status cli_weights_classes(const cli_session *session);
/* Normalises the test data, if there are any, as the file says that the training's were.  Before a
   trainer uses them.  DPT_E_INVALID if --normalize contradicts it. */
DPT_CHECK_RESULT dpt_status cli_weights_adopt(cli_session *session, const cli_options *options,
                                              const char *path);

/* Prints the rest of a device's line: name, threads or compute units, detail, where it is. */
void cli_print_device(const dpt_device_description *device);

/* Prints which devices do not hold the data or their share, and what follows (memory.c). */
DPT_CHECK_RESULT dpt_status cli_print_memory(const cli_session *session);

/* Of several devices prints what each has done: samples of a mean step, and parts of the time; one
   line for all together (account.c). */
DPT_CHECK_RESULT dpt_status cli_print_account(const cli_session *session,
                                              const cli_options *options);

#endif
