/* What train, eval and predict have in common: context, devices, data and model, opened together
   and closed together. */
#ifndef DPTRAIN_CLI_SESSION_H
#define DPTRAIN_CLI_SESSION_H

#include "cli.h"

#include <limits.h>

enum { CLI_DATA_NAME = 8192 };

typedef struct cli_session {
    dpt_context *context;
    const char *model_name, *data_name; /* of the model and the data set to open */
    char data_words[CLI_DATA_NAME];     /* data_name, if options have added to it */
    dpt_device_set *devices;
    dpt_dataset *whole;             /* all training data; NULL if not opened */
    dpt_dataset *train;             /* `whole`, or the part that is trained on */
    dpt_dataset *validation, *test; /* validation: the part set apart, or NULL */
    bool normalized;                /* all data are normalised by mean and deviation */
    float mean[4], deviation[4];
    char path[PATH_MAX];      /* the file of weights of eval and predict; else "" */
    char config[PATH_MAX];    /* the config.json beside it, if that tells the model; else "" */
    dpt_weights_info weights; /* what that file says */
    bool told;                /* the file says all that is needed: no data are opened */
    dpt_model *model;
    dpt_trainer *trainer;
} cli_session;

/* Bits: what to open beside the test data. */
typedef enum cli_session_with {
    CLI_WITH_TRAIN = 1 << 0,     /* the training data */
    CLI_WITH_PROCESSES = 1 << 1, /* the processes that a launcher started with this one */
    CLI_DATA_IF_ASKED = 1 << 2,  /* no data, if the file of weights says the size of images and the
                                    classes, and no option names data */
    CLI_UNTOLD = 1 << 3,         /* no line says which model and data the file of weights chose */
} cli_session_with;

/* Creates a context with --device-timeout and the device list. */
DPT_CHECK_RESULT dpt_status cli_open_context(const cli_options *options, dpt_context **out);
/* Prints the notices of a context on stderr, of several processes those of the first. */
void cli_tell_notices(dpt_context *context);
/* Prints a line on stderr for each device and backend that `all` left out because it did not
 * answer. */
void cli_tell_left_out(dpt_context *context);
/* Opens the devices of --devices in --precision, and prints these lines.  The session has a
 * context. */
DPT_CHECK_RESULT dpt_status cli_open_devices(cli_session *session, const cli_options *options);
/* Opens devices, data and model, but no trainer.  `with` has cli_session_with bits.  Without
   CLI_WITH_TRAIN the file of weights (--checkpoint) chooses model and data set if the options name
   none.  Close the session after a failure too. */
DPT_CHECK_RESULT dpt_status cli_session_open(cli_session *session, const cli_options *options,
                                             unsigned with);
/* The same with the training data and all that a trainer needs, but no trainer. */
DPT_CHECK_RESULT dpt_status cli_session_prepare_training(cli_session *session,
                                                         const cli_options *options, unsigned with);
/* The same with the trainer that the options describe. */
DPT_CHECK_RESULT dpt_status cli_session_open_training(cli_session *session,
                                                      const cli_options *options, unsigned with);
/* Creates that trainer: after cli_session_prepare_training, and of the devices that are left after
   dpt_process_go_on. */
DPT_CHECK_RESULT dpt_status cli_session_create_trainer(cli_session *session,
                                                       const cli_options *options);
/* As cli_fail.  If several processes know of the failure, one prints it.  If this process fails
   alone, the message names it. */
int cli_session_fail(const cli_session *session, dpt_status status);
/* The same for a failure of a trainer's computation: CLI_DEVICES_LOST if its devices failed. */
int cli_session_fail_working(const cli_session *session, dpt_status status);
/* The width of a column of device names, at least that of its heading. */
int cli_id_width(const dpt_device_set *devices);
/* Prints a line on stderr for each device that the trainer has lost since the last call. */
void cli_session_tell_lost(const cli_session *session);
/* Whether this process prints no progress: with --quiet, or if it is not the first of several. */
bool cli_session_quiet(const cli_session *session, const cli_options *options);
/* Closes the session and returns the exit code.  If a thread waits for a hung device, also one that
   hangs while it is closed, the process ends with that code (cli_leave). */
int cli_session_close(cli_session *session, int code);

/* Writes the path of the weights to `out`: the file, or model.safetensors in a directory.  False if
   it does not fit (weights.c). */
DPT_CHECK_RESULT bool cli_weights_path(const char *path, char *out, size_t out_bytes);
/* Sets session->path to that of --checkpoint, which is given.  DPT_E_INVALID if it is too long, or
   the folder has adapters in place of weights. */
DPT_CHECK_RESULT dpt_status cli_weights_find(cli_session *session, const cli_options *options);
/* Sets the names of the model and the data set to open: those of the options, of the file of
   weights, or the defaults.  Sets session.told.  `with` as for cli_session_open. */
DPT_CHECK_RESULT dpt_status cli_weights_name(cli_session *session, const cli_options *options,
                                             unsigned with);
/* Builds the model for the images and classes that the file of weights says.  DPT_E_FORMAT if the
   file also chose the model and contradicts itself.  This is found before the model's memory is
   taken. */
DPT_CHECK_RESULT dpt_status cli_weights_model(cli_session *session);
/* Whether the file of weights chose both the model and the size of images.  Then wrong tensors are
   a fault of the file, and not a mistake on the command line. */
bool cli_weights_own(const cli_session *session);
/* Words behind the names of folders of pictures (dpt_dataset_open). */
#define CLI_NO_ORIENTATION  ":no-orientation"
#define CLI_SKIP_UNREADABLE ":skip-unreadable"

/* The name of a data set before words are put behind it. */
typedef struct cli_data_name {
    const cli_options *options;
    const char *name, *trained_on; /* what the weights were trained on; "": not known */
} cli_data_name;
/* Writes the name of a data set with the words that options ask for, and the first label of the
   weights' training (data_words.c).  Returns false, and why, if the data set is not of the kind
   that an option asks for, or the name is too long. */
bool cli_data_words(const cli_data_name *from, char *out, size_t out_bytes, const char **why);
/* Returns the label that a name says to be the first one; 0: it says nothing. */
size_t cli_labels_from(const char *name);
/* Whether a data set is a folder of pictures, which are scaled. */
bool cli_is_folder(const char *name);
/* Whether a data set of this name consists of arrays of files: npz, npy or csv. */
bool cli_is_arrays(const char *name);
/* Whether the test part of a data set of this name is in a file of its own, which may be missing.
 */
bool cli_has_test_files(const char *name);
/* Whether a name is that of a data set in files that have names of their own, such as "mnist". */
bool cli_is_named_set(const char *name);
/* Checks that the test data, if they are pictures, have the classes of the file of weights in the
   same order.  DPT_E_INVALID names the first class that differs. */
DPT_CHECK_RESULT dpt_status cli_weights_classes(const cli_session *session);
/* Normalises the test data, if there are any, as the file of weights says.  Call it before a
   trainer uses them.  DPT_E_INVALID if --normalize contradicts the file. */
DPT_CHECK_RESULT dpt_status cli_weights_adopt(cli_session *session, const cli_options *options,
                                              const char *path);

/* Fills options->lists with the weights of --class-weights, if they depend on the training data of
   the session.  DPT_E_INVALID if a file does not fit the classes (class_weights.c). */
DPT_CHECK_RESULT dpt_status cli_class_weights(cli_session *session, const cli_options *options);

/* Prints the line of a device: name, threads or compute units, detail, process and host. */
void cli_print_device(const dpt_device_info *device);

/* All bytes that a device takes (memory.c). */
size_t cli_plan_bytes(const dpt_device_plan *plan);
/* The bytes of the optimizer's state on all devices together (memory.c). */
DPT_CHECK_RESULT dpt_status cli_sum_optimizer(dpt_trainer *trainer, size_t *out);
/* Prints which devices cannot hold the data or their shard, and what they do; and the parts of the
   optimizer's state that devices hold (memory.c). */
DPT_CHECK_RESULT dpt_status cli_print_memory(const cli_session *session,
                                             const cli_options *options);

/* With several devices, prints a line for each: samples of a mean step and parts of the time.  A
   last line is for all together (account.c). */
DPT_CHECK_RESULT dpt_status cli_print_account(const cli_session *session,
                                              const cli_options *options);

#endif
