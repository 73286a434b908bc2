/* What the files of the dptrain command share: options, commands ("verbs") and exit codes.  The
   command uses only the public API of the library. */
#ifndef DPTRAIN_CLI_H
#define DPTRAIN_CLI_H

#include "dptrain.h"
#include "dptrain_models.h"

/* Exit codes.  If a signal ended training, the code is 128 plus its number, as in shells. */
enum { CLI_OK = 0, CLI_FAILURE = 1, CLI_USAGE = 2, CLI_DEVICES_LOST = 3 };

/* ---- Options --------------------------------------------------------------------------------- */

typedef enum cli_verb {
    CLI_TRAIN = 1 << 0,
    CLI_EVAL = 1 << 1,
    CLI_DEVICES = 1 << 2,
    CLI_PLAN = 1 << 3,
    CLI_PREDICT = 1 << 4,
    CLI_BENCH = 1 << 5,
    CLI_DATA = 1 << 6,
    CLI_EXPORT = 1 << 7,
    CLI_COMPARE = 1 << 8,
    CLI_GENERATE = 1 << 9,
    CLI_MERGE = 1 << 10,
    CLI_MANUAL = 1 << 11,
    CLI_JOIN = 1 << 12,
    CLI_SUPERVISE = 1 << 13,
} cli_verb;

/* The benchmarks of dptrain bench. */
typedef enum cli_benchmark {
    CLI_MIX = 1 << 0,
    CLI_ALLREDUCE = 1 << 1,
} cli_benchmark;

/* A length of training: "100", "100steps", "5epochs". */
typedef struct cli_span {
    size_t n; /* 0: none */
    bool epochs;
} cli_span;

/* At least the number of options of the table. */
enum { CLI_MOST_OPTIONS = 192 };

/* Lists among the options, once they are read (lists.h). */
typedef struct cli_lists cli_lists;

/* What of a model's recipe is used (model_recipe.c). */
typedef struct cli_taken {
    const char *model; /* the name of the model with the recipe; NULL: no recipe is used */
    const char *none;  /* why the model has no recipe; NULL: it has one, or none is wanted */
    unsigned parts;    /* bits: the options that have their values from the recipe */
    size_t batch_size; /* the recipe's, within the data; 0: not used */
    bool warmup;       /* the warm-up is the recipe's, within the training */
    /* The option for which the recipe's optimizer, or its schedule, is not used; NULL: it is. */
    const char *no_optimizer, *no_schedule;
} cli_taken;

/* The values of --augment: fields of dpt_trainer_options. */
typedef struct cli_augment {
    dpt_augment_options images; /* the field `augment` */
    float rotate;
    dpt_jitter_options jitter;
    float mixup, cutmix;
    dpt_randaugment_options randaugment;
} cli_augment;

static inline bool cli_jitters(const dpt_jitter_options *jitter)
{
    return jitter->brightness > 0 || jitter->contrast > 0 || jitter->saturation > 0 ||
           jitter->hue > 0;
}

/* Where the options table puts values.  Strings point into argv or the text of --config, or are
   literals. */
typedef struct cli_options {
    /* The text with which each option of the table was given, of a flag "true" or "false".  NULL:
       it was not given. */
    const char *given[CLI_MOST_OPTIONS];
    const char *recipe; /* NULL: $DPTRAIN_RECIPE, or the default */
    cli_taken taken;
    dpt_context *context; /* of a process that has come to a job (join.h), which the session takes;
                             NULL: none */
    const char *devices;  /* NULL: all */
    const char *devices_of;      /* the file that has them (cli_read_devices); NULL: none */
    const char *model, *dataset; /* NULL: the default, or what weights are of (session.h) */
    const char *data, *test_data, *tokenizer;
    const char *split, *optimizer, *schedule, *precision, *recompute, *shard;
    size_t logit_rows; /* 0: by memory */
    size_t batch_size; /* 0: the default, within the data */
    size_t epochs, max_steps;
    double max_time;
    double measure; /* dptrain plan: seconds; 0: not */
    size_t micro_batch, accumulate;
    size_t compress_rank;            /* 0: the default */
    size_t local_steps;              /* 0: none */
    size_t outer_delay;              /* 0: none */
    size_t outer_fragments;          /* 0: one */
    double outer_lr, outer_momentum; /* outer_lr 0: the default */
    double validation;               /* part of the training data; 0: none */
    size_t patience;
    double lr; /* 0: the optimizer's default */
    size_t lr_base_batch;
    double momentum, weight_decay, beta1, beta2, epsilon;
    double clip_norm, label_smoothing, huber_delta;
    bool nesterov, no_bias_decay, freeze_batch_norm;
    size_t step_every;
    double step_factor, min_lr;
    size_t schedule_steps; /* 0: all steps of the training */
    cli_span warmup;
    const char *batchnorm, *overlap, *standby, *compress, *loss, *class_weights, *freeze, *group;
    cli_augment augment;
    dpt_init init;
    bool stop_on_loss;
    double device_timeout;  /* 0: the default */
    size_t verify_replicas; /* 0: never */
    double readmit_after;   /* likewise */
    size_t host_copy;       /* likewise */
    size_t requeue_exit;    /* likewise */
    bool offload, deterministic, normalize, no_shuffle, no_measure, quiet, verbose;
    size_t seed;
    const char *lora;
    const char *checkpoint, *load, *fresh, *log, *plot, *trace, *tensorboard, *report;
    bool tensorboard_histograms, metrics, load_partial, skip_unreadable, no_orientation;
    size_t labels_from;            /* 0: labels are as they are */
    const char *command;           /* the whole command line, for the report; NULL: there is none */
    dpt_interval checkpoint_every; /* all zero: the default */
    size_t checkpoint_keep;        /* likewise */
    bool resume, supervise;
    const char *copies; /* the folder of a job in memory (job.h); NULL: none */
    bool again;         /* the job has been started before */
    /* Of dptrain supervise: */
    size_t processes, least;            /* 0: not given */
    const char *hosts, *probe, *memory; /* NULL: not given */
    size_t top;                         /* 0: the default */
    size_t repeat;                      /* likewise */
    bool best_batch, all_only;
    const char *json, *collective, *format, *output;
    const char *prompt, *prompt_file, *stop_id;
    double temperature, top_p; /* top_p 0: the default */
    size_t top_k, tokens;      /* 0: the default */
    const char *onnx;          /* the file that export writes */
    size_t opset;              /* 0: the default */
    cli_lists *lists;          /* NULL: no list is given */
    char *const *operands;     /* (n_operands) the arguments that are no options */
    size_t n_operands;
    const char *config, *save_config; /* files (config.h) */
    bool help, version;
} cli_options;

/* One option: parsing, help and suggestions use it. */
typedef struct cli_option cli_option;

/* One command: name, text for help, and the function that runs it. */
typedef struct cli_verb_entry {
    const char *name;
    cli_verb verb; /* 0: reserved, not in this version */
    const char *arguments;
    const char *help;
    bool operands; /* takes arguments that are not options */
    bool command;  /* they are a command: options end before the first one */
    bool hidden;   /* not in help: for the build */
    int (*run)(const cli_options *options);
} cli_verb_entry;

extern const cli_verb_entry cli_verbs[]; /* ends with a NULL name; the first is the default */

/* The arguments of the program, and the first one behind the verb. */
typedef struct cli_arguments {
    int argc;
    char **argv;
    int first;
} cli_arguments;

/* Parses argv from argv[first] on, and moves the arguments that are no options there.  Returns
 * CLI_OK, or CLI_USAGE after one line on stderr. */
DPT_CHECK_RESULT int cli_parse(const cli_verb_entry *verb, const cli_arguments *arguments,
                               cli_options *out);
/* Returns the command that argv names, or the default one; *first is the index of the next
   argument. NULL after one line on stderr. */
const cli_verb_entry *cli_find_verb(int argc, char **argv, int *first);
/* Prints help on stdout: of one command, or of dptrain as a whole. */
void cli_print_help(const cli_verb_entry *verb, bool whole);

/* ---- The options table ----------------------------------------------------------------------- */

typedef enum cli_kind {
    CLI_FLAG,     /* bool */
    CLI_TEXT,     /* const char * */
    CLI_COUNT,    /* size_t, from min to max */
    CLI_REAL,     /* double, from low to high */
    CLI_SECONDS,  /* double: 90, 90s, 5m, 2h */
    CLI_SPAN,     /* cli_span */
    CLI_INTERVAL, /* dpt_interval */
    CLI_AUGMENT,  /* cli_augment */
    CLI_INIT,     /* dpt_init */
} cli_kind;

struct cli_option {
    const char *group; /* heading of help, at the first of a group */
    const char *name;
    char letter;          /* 0: none */
    const char *argument; /* NULL for a flag */
    const char *help;     /* NULL: not in this version */
    const char *now;      /* the name that replaces this one.  The older name is valid for one more
                             release, and not in help.  NULL: none */
    unsigned verbs;       /* cli_verb bits */
    unsigned benchmarks;  /* cli_benchmark bits, with CLI_BENCH; 0: only mix */
    cli_kind kind;
    size_t offset; /* into cli_options */
    size_t min, max;
    double low, high;
    const char *const *values; /* the allowed words, NULL-terminated; NULL: any */
    const char *const *offers; /* words that completion offers beside other text; likewise */
    bool list;                 /* several words with commas between them */
};

/* The option at this place of the table, which cli/options/ holds; NULL behind the last one.  An
   option whose text differs between commands has several entries. */
const cli_option *cli_option_at(size_t i);
/* Whether the command line or a file of settings has an option whose value is at this offset. */
bool cli_is_given(const cli_options *options, size_t offset);
/* Checks the text of an option and stores the value, and the text in options->given.  A flag has
   the text "true" or "false".  `label` names the option in messages, such as "--epochs".  CLI_OK,
   or CLI_USAGE after one line on stderr (setting.c). */
DPT_CHECK_RESULT int cli_set_option(const cli_option *option, const char *label, const char *text,
                                    cli_options *options);

enum { CLI_LIST_BYTES = 512 };

/* Joins a NULL-terminated list to "a, b, c", cut if it is too long.  Returns `out`. */
const char *cli_join(const char *const *list, char out[CLI_LIST_BYTES]);

/* Parse values (values.c): the whole text, without white space and signs.  False for anything else.
 */
DPT_CHECK_RESULT bool cli_parse_count(const char *text, size_t min, size_t max, size_t *out);
DPT_CHECK_RESULT bool cli_parse_real(const char *text, double low, double high, double *out);
DPT_CHECK_RESULT bool cli_parse_seconds(const char *text, double *out);
/* "100", "100steps", "5epochs", "90s", "10m", "2h". */
DPT_CHECK_RESULT bool cli_parse_interval(const char *text, size_t max, dpt_interval *out);
DPT_CHECK_RESULT bool cli_parse_span(const char *text, size_t max, cli_span *out);
/* Parses the first range of a list such as "0,5,10-19", and moves *list to the comma after it, or
   to the end. */
DPT_CHECK_RESULT bool cli_parse_run(const char **list, size_t *first, size_t *last);
/* The words of --augment, NULL-terminated. */
extern const char *const cli_augmentations[];
/* Parses "none", or "crop:4,flip,erase:0.25,mixup:1,cutmix:1,rotate:15,jitter:0.4:0.4:0.4:0.1";
   these numbers are the defaults, except those of rotate and jitter, which have none.  Returns
   CLI_OK, or CLI_USAGE after one line on stderr that begins with the label. */
DPT_CHECK_RESULT int cli_parse_augment(const char *label, const char *text, cli_augment *out);
/* Parses "default", "normal:STD", "xavier" or "he".  Results as of cli_parse_augment. */
DPT_CHECK_RESULT int cli_parse_init(const char *label, const char *text, dpt_init *out);

/* Reads the file of --devices-of, if there is one, into options->devices: its lines joined by ";",
   without comments.  *text is what that points into, for the caller to free, or NULL.  CLI_OK, or
   an exit code after one line on stderr. */
DPT_CHECK_RESULT int cli_read_devices(cli_options *options, char **text);

/* Puts --tokenizer, if it is given, into the name of the data set, to which *name then points, for
   the caller to free.  Checks that --tokenizer and --test-data go with the data set.  CLI_OK, or an
   exit code after one line on stderr. */
DPT_CHECK_RESULT int cli_name_text(cli_options *options, char **name);
/* Whether a data set of this name is text or tokens. */
bool cli_is_text(const char *name);
/* The names of data sets that completion offers, NULL-terminated.  A size or a file belongs behind
   those that end with a colon (options/data.c). */
extern const char *const cli_data_sets[];
/* The largest label that may be the first one. */
enum { CLI_MOST_LABEL = 65535 };
/* The name of a class, or its number, which is written to `number`. */
const char *cli_class_name(const dpt_dataset_info *data, size_t i, char number[24]);
/* The number of UTF-8 characters of a name.  Names are printable. */
int cli_columns(const char *name);

/* The command line as a text that a shell reads as the same words; the program is "dptrain".  The
   caller frees the text; NULL if there is no memory (command_line.c). */
char *cli_command_line(int argc, char *const *argv);

/* ---- Diagnostics ----------------------------------------------------------------------------- */

/* Prints one line on stderr, "dptrain: ...", and returns `code`. */
DPT_PRINTF(2, 3) int cli_error(int code, const char *format, ...);
/* The same for a note, which is neither an error nor a warning: "dptrain: note: ...". */
DPT_PRINTF(1, 2) void cli_note(const char *format, ...);
/* The exit code for a failure.  A device that is lost or hung has a code of its own, because the
   same command may succeed the next time. */
int cli_code_of(dpt_status status);
/* Prints the context's last failure (or the status in words) and returns the exit code. */
int cli_fail(const dpt_context *context, dpt_status status);
/* Flushes stdout.  Returns `code`, or CLI_FAILURE if stdout cannot be written and `code` is CLI_OK.
 */
int cli_flush(int code);
/* Says how many devices did not answer, flushes all streams and ends the process at once.  The
   threads of these devices are stuck in drivers, whose exit handlers may not return
   (dpt_context_abandoned). */
void cli_leave(size_t n_stuck, int code);
/* Runs this command line, whose options begin at `first`, in a child process, and again with
   --resume when the child's devices are lost or it crashes.  Returns the exit code of the last
   child. */
int cli_supervise(int argc, char **argv, int first, const cli_options *options);

/* Whether a folder has a checkpoint, sound or damaged; false if the folder is NULL. */
bool cli_has_checkpoint(const char *folder);
/* Writes the path of the checkpoint of the last step to `out`.  False if a folder has none, or it
   does not fit. */
DPT_CHECK_RESULT bool cli_last_checkpoint(const char *folder, char *out, size_t out_bytes);

/* Whether this process is a child of cli_supervise.  The first call removes the mark from the
   environment, so that this process's own children are not. */
bool cli_supervised(void);

/* ---- Verbs ----------------------------------------------------------------------------------- */

int cli_train(const cli_options *options);
int cli_eval(const cli_options *options);
int cli_devices(const cli_options *options);
int cli_data(const cli_options *options);
int cli_plan(const cli_options *options);
int cli_predict(const cli_options *options);
int cli_generate(const cli_options *options);
int cli_export(const cli_options *options);
int cli_bench(const cli_options *options);
int cli_compare(const cli_options *options);
int cli_merge(const cli_options *options);
int cli_supervise_job(const cli_options *options);
int cli_manual(const cli_options *options);

/* ---- Progress of training -------------------------------------------------------------------- */

/* What rates count. */
typedef struct cli_unit {
    const char *name;  /* "img/s", or "tok/s" of text */
    double per_sample; /* 1, or the tokens of a sample of text */
} cli_unit;

cli_unit cli_unit_of(const dpt_dataset *data);

typedef struct cli_progress {
    bool bar;    /* draw one, on stderr */
    bool colour; /* in the bar */
    bool quiet;
    bool regression; /* there is no accuracy */
    size_t epochs;   /* 0: no limit */
    size_t samples_per_epoch;
    double max_seconds; /* 0: no limit */
    cli_unit unit;

    bool drawn; /* a bar is on the terminal */
    double last_draw;
    size_t epoch, epoch_samples, epoch_labels, epoch_hits;
    double loss;                       /* smoothed */
    double rate;                       /* samples per second, smoothed */
    double step_seconds, data_seconds; /* of all steps; of these, waiting for images */
} cli_progress;

/* Whether a line on this file descriptor can be erased: a terminal that is not dumb. */
bool cli_can_redraw(int descriptor);
int cli_terminal_columns(void); /* of stderr */
/* Initialises progress by the terminal and the environment (NO_COLOR, TERM). */
void cli_progress_init(cli_progress *progress, bool quiet);
/* For dpt_fit_options.progress, with the struct as `user`.  After a signal it returns 1, which ends
   training. */
int cli_progress_show(const dpt_fit_progress *progress, void *user);
/* For dpt_fit_options.notice: prints a line on stderr. */
void cli_progress_notice(dpt_notice kind, const char *text, void *user);
/* Erases the bar. */
void cli_progress_end(cli_progress *progress);

/* Installs handlers: the first SIGINT, SIGTERM or SIGHUP is recorded, and a SIGINT or SIGTERM that
   comes more than three seconds later kills.  A signal that was ignored stays ignored. */
void cli_signals_catch(void);
/* Installs handlers of a training: SIGUSR1 and SIGUSR2 ask for a checkpoint, or, with
   --requeue-exit, for the end. */
void cli_signals_catch_wishes(const cli_options *options);
int cli_signals_caught(void); /* the number of the recorded signal; 0: none */
/* For dpt_fit_options.wants_checkpoint: whether a signal has asked for one since the last call. */
bool cli_signals_want_checkpoint(void *user);
/* The exit status of a training that a signal has ended. */
int cli_signals_status(int number, const cli_options *options);
/* Until cli_signals_tell_no_more, the handler writes a line on stderr at once, because a step may
   take some time.  The line names the signal, and the process if there are several.  `bar`: erase a
   bar first. */
void cli_signals_tell(const dpt_context *context, bool bar);
void cli_signals_tell_no_more(void);

#endif
