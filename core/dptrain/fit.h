/* dpt_fit, the training loop: epochs, schedules, logs, checkpoints and resuming.
   Part of the public API: programs include dptrain.h. */
#ifndef DPTRAIN_FIT_H
#define DPTRAIN_FIT_H

#include "dptrain/classification.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dpt_epoch_metrics {
    size_t size; /* of the struct in the release that the program runs with */
    size_t epoch;
    /* Means over the epoch's labels.  With class weights, train_loss is the mean of the losses of
       the steps, each of which counts as many times as it has labels; the loss of a step is
       weighted (dpt_trainer_options.class_weights).  So the loss of an epoch of equal batches is
       the mean of PyTorch's losses of the batches. */
    double train_loss, train_accuracy;
    bool tested, validated;
    double test_loss, test_accuracy;
    double validation_loss, validation_accuracy;
    double seconds; /* of training, without evaluation */
    double images_per_second;
    /* If there is a log: the SHA-256 of the weights after the epoch, as 64 hexadecimal digits
       (docs/log.md says of which bytes).  "": there is no log, it is of another process, or
       training went back to an earlier step because the devices with these weights failed. */
    char weights_sha256[65];
    /* With dpt_fit_options.metrics, for the time of the callback: what the samples of these data
       are taken for.  NULL: they were not evaluated. */
    const dpt_classification *validation_classes, *test_classes;
} dpt_epoch_metrics;

typedef struct dpt_fit_progress {
    size_t size;                    /* of the struct in the release that the program runs with */
    const dpt_step_metrics *step;   /* set after each step, else NULL */
    const dpt_epoch_metrics *epoch; /* set after each epoch, else NULL */
    const dpt_device_event *event;  /* set when a device event has occurred, else NULL */
    size_t steps_done, steps_total; /* steps_total is 0 if it is not known */
    double seconds;                 /* since fit began */
} dpt_fit_progress;

typedef enum dpt_schedule_kind {
    DPT_SCHEDULE_CONSTANT = 0,
    DPT_SCHEDULE_STEP =
        1, /* multiplied by `factor` after every `every` epochs, as PyTorch's StepLR */
    DPT_SCHEDULE_COSINE =
        2, /* falls to 0 at the end in each step, as PyTorch's CosineAnnealingLR */
    DPT_SCHEDULE_ONECYCLE = 3, /* Smith and Topin 2018, as PyTorch's OneCycleLR with its defaults;
                                  lr is the maximum; momentum does not change */
    /* The next three count from the end of the warm-up, fall to `min_lr` at the end of the
       schedule, and stay there.  The kinds before them run from the first step on, and the warm-up
       is a factor of theirs.  With W = warmup_steps, step t < W has */
    DPT_SCHEDULE_COSINE_NANOGPT = 4,      /* lr * (t + 1) / (W + 1), as nanoGPT's get_lr */
    DPT_SCHEDULE_COSINE_TRANSFORMERS = 5, /* lr * t / W, as get_cosine_schedule_with_warmup of
                                             `transformers` */
    DPT_SCHEDULE_LINEAR_TRANSFORMERS = 6, /* lr * t / W, as get_linear_schedule_with_warmup */
} dpt_schedule_kind;

typedef struct dpt_schedule {
    dpt_schedule_kind kind;
    size_t warmup_steps; /* number of first steps in which lr rises linearly to the value of the
                            schedule */
    size_t every;        /* STEP: epochs, default 30 */
    float factor;        /* STEP: default 0.1 */
    float min_lr;        /* of the kinds that count from the end of the warm-up: default 0 */
} dpt_schedule;

/* A number of steps, epochs or seconds, whichever ends first. 0: that unit does not count. */
typedef struct dpt_interval {
    size_t steps, epochs;
    double seconds;
} dpt_interval;

/* The kind of a notice of dpt_fit, for example that training resumes, or that a checkpoint was
   skipped or could not be written. */
typedef enum dpt_notice { DPT_NOTICE_INFO = 0, DPT_NOTICE_WARNING = 1 } dpt_notice;

typedef struct dpt_fit_options {
    size_t size; /* sizeof(dpt_fit_options) */
    /* Number of epochs.  Default 1, unless max_steps or max_seconds is set.  If single steps have
       begun an epoch before the call, that epoch is the first one, and dpt_fit makes its remaining
       steps. */
    size_t epochs;
    size_t max_steps;              /* 0: no limit */
    double max_seconds;            /* 0: no limit */
    const dpt_dataset *test;       /* evaluated after each epoch; may be NULL */
    const dpt_dataset *validation; /* evaluated after each epoch; the best epoch has the lowest loss
                                      on it; may be NULL */
    size_t patience; /* training ends after this many epochs without a lower validation loss; 0:
                        never */
    dpt_schedule schedule;  /* all kinds but constant and step need `epochs`, `max_steps` or
                               `schedule_steps` */
    const char *log;        /* JSON Lines (docs/log.md); may be NULL */
    const char *plot;       /* SVG; may be NULL */
    const char *trace;      /* Chrome's trace events (docs/trace.md); may be NULL */
    const char *checkpoint; /* A directory; may be NULL. model.safetensors is written after each
                               epoch, best.safetensors after the epoch with the lowest validation
                               loss so far.  `resume` uses checkpoint-STEP.safetensors, which have
                               the format of dpt_trainer_save_state */
    dpt_interval checkpoint_every; /* all zero: after each epoch */
    size_t checkpoint_keep;        /* number of checkpoint-STEP files that are kept; default 2 */
    size_t host_copy; /* number of steps between two copies of the training state into host memory;
                         if all devices are lost and none can be read, the copy is written as a
                         checkpoint; 0: never */
    bool resume; /* resume from the newest valid checkpoint in `checkpoint`; begin anew if there is
                    none */
    /* Called after each step and after each epoch.  Called without step, epoch and event from time
       to time while the log or the trace is a pipe that nobody reads yet, and in evaluations: at
       the beginning and about ten times a second.  Also called after each
       retried step if training has gone back to the weights of standby devices because all others
       were lost; steps_done is then lower than before.  A result other than 0 ends training in good
       order.  An evaluation that has begun is broken off then, and one that is due is not begun.
       Their epoch does not count, and a resumed training begins with its evaluation. */
    int (*progress)(const dpt_fit_progress *progress, void *user);
    /* Called with one line of text for each notice; may be NULL. */
    void (*notice)(dpt_notice kind, const char *text, void *user);
    void *user;
    /* The number of steps of a schedule that counts from the end of the warm-up, the warm-up
       included.  0: all steps of the training. */
    size_t schedule_steps;
    /* Asked after each step by the thread that called dpt_fit; may be NULL.  true: a checkpoint is
       written besides those of `checkpoint_every`, as soon as no step is in flight and the one
       before is written.  With several processes one that asks is enough.  Without `checkpoint`
       nothing is written. */
    bool (*wants_checkpoint)(void *user);
    /* A directory for TensorBoard's event files (docs/tensorboard.md); may be NULL.  Without
       `resume` it has none yet. */
    const char *tensorboard;
    const char *report;  /* HTML (docs/report.md), written when training ends, also by a failure;
                            may be NULL */
    const char *command; /* the command that made the report, which shows it; may be NULL */
    bool tensorboard_histograms; /* the event files also have histograms of the weights, after each
                                    epoch */
    /* After each epoch also dpt_trainer_classify of test and validation data, for `progress` and
       the log.  The probabilities of all samples are computed for this, beside the evaluation. */
    bool metrics;
    /* A folder in memory, such as one in /dev/shm, that only this user may enter; may be NULL.  One
       process of each host keeps the training state there as a checkpoint, which outlives the
       process: before the first step, every `host_copy` steps, or without `host_copy` every second,
       and less often if that takes more than a twentieth of the time.  With several processes each
       gives the folder of its host.  Needs `checkpoint`.  Nobody deletes the last copy. */
    const char *copies;
    /* This training has been started before with `copies`, and ended because a process or a host
       was lost.  It goes on from the newest copy of any host, or from a newer checkpoint in
       `checkpoint`, or from the newest one there if no copy is left.  It begins as `resume` says if
       there is none that was interrupted. */
    bool again;
} dpt_fit_options;

typedef struct dpt_fit_result {
    size_t size;          /* sizeof(dpt_fit_result), to be set before the call */
    size_t steps, epochs; /* steps made, epochs completed */
    double seconds;       /* of training, without evaluation */
    double images_per_second;
    double train_loss, test_loss,
        test_accuracy; /* of the last epoch; NaN if no epoch was completed */
    size_t best_epoch; /* epoch with the lowest validation loss; 0 without validation */
    double best_validation_loss;
    bool stopped;     /* `progress` ended training */
    bool no_patience; /* `patience` ended training */
    /* If `stopped`: the rank of the process whose `progress` ended training, the lowest if there
       were several. */
    size_t stopped_by;
    /* If `stopped`: what that `progress` returned, if it is from 1 to 254, and else 255.  With
       several processes it is the same in all of them. */
    int stopped_for;
} dpt_fit_result;

/* Calls on the trainer from within `progress` and `notice`, by the thread that called dpt_fit.

   Always allowed: the functions that report what the trainer knows without its devices (devices,
   plan, operations, reports, steps, in_flight, feedback_bytes).  Allowed if `epoch` is set:
   dpt_trainer_evaluate, predict, get and save; with several processes all of them must call.
   Without `epoch` these four give DPT_E_STATE.  Never allowed (DPT_E_STATE): dpt_trainer_step,
   submit, collect, set, set_lr, load, load_state, save_state and dpt_fit. dpt_trainer_next_event
   finds nothing, because `progress` gets the events.

   A failure of such a call fails that call alone.  The callbacks must not destroy anything that
   dpt_fit uses. */

/* Trains the model: makes steps with two steps in flight until a limit is reached.  `options` may
   be NULL: one epoch.  The schedule starts with the call, at the trainer's learning rate; after the
   call the trainer has that learning rate again.  An epoch that a limit cuts short is evaluated
   too.  Files are opened before the first step.  If a reader closes a pipe, the call gives
   DPT_E_IO; no SIGPIPE is raised, and the process's signal handlers do not change.

   Checkpoints.  A background thread writes checkpoints from a copy in host memory, atomically and
   one at a time.  If the disk is slower than `checkpoint_every` asks, there are fewer checkpoints.
   Older checkpoints are deleted after a newer one is durable.  A checkpoint or a weights file that
   cannot be written, for example because the disk is full, causes one notice per cause, and
   training goes on.  The last checkpoint is written when training ends by a limit or by `progress`.
   A checkpoint at the end of an epoch is written before the evaluation of the epoch, and replaced
   behind it if it is durable by then.  It is deleted if the evaluation finds a loss that is not
   finite.

   Resume.  With `resume` training continues as if it had not been interrupted: limits, schedule,
   patience and the figures of the result count from the first beginning, and `log` is continued.
   Damaged checkpoints are skipped with a notice.  Limits may differ from those before, except where
   the schedule depends on the number of steps.  Without `resume` the folder must not hold
   checkpoints of a training that did not end.  Checkpoints of a training that did end, and its
   best.safetensors, are renamed to old-... and deleted when the first checkpoint is durable, or
   renamed back if dpt_fit ends before that.

   Report.  With `report` the classes that the model predicts for the test data, or else for the
   validation data, are computed after each epoch, and at the end if training ends by a limit.  A
   training that ends earlier has those of its last epoch in the report.  If the computation fails,
   a notice says so, and the report is written without them.

   Errors.  DPT_E_IO: a log, plot, trace, report, event file or checkpoint cannot be opened, read or
   written; at the end, the last checkpoint or the weights could not be written.  DPT_E_STATE: steps
   are in flight, the call is made within dpt_fit, or another training uses the log, the trace or
   the checkpoint folder. DPT_E_INVALID: two outputs are the same file; an output is the log that is
   replayed; patience without validation; histograms without `tensorboard`; a negative or invalid
   time; a schedule that needs the number of steps when it is not known; data that do not fit the
   model; `copies` without `checkpoint`, or too little room there; with `resume`, a checkpoint of
   another training (the message names the setting), or
   old-... files; without `resume`, checkpoints of a training that did not end, or event files in
   `tensorboard`.  DPT_E_FORMAT: with `resume`, no checkpoint is valid. All errors of
   dpt_trainer_step and dpt_trainer_evaluate.  After a failure no step is in flight.
 */
DPT_API DPT_CHECK_RESULT dpt_status dpt_fit(dpt_trainer *trainer, const dpt_fit_options *options,
                                            dpt_fit_result *out);
/* This process has come to a job that runs (dpt_process_comes): compares the model, the data and
   the options with those of the job, as all processes do when a trainer is created.  The other
   processes work on meanwhile.  Call it before dpt_process_go_on, with what dpt_trainer_create and
   dpt_fit get after it.  Without the call a difference is found when the process has been let in,
   and the others create their trainers anew, twice.  Does nothing if this process has not come.
   Errors: DPT_E_INVALID if something differs, which the message names, and the program ends
   then; DPT_E_NO_MEMORY. */
DPT_API DPT_CHECK_RESULT dpt_status dpt_process_check(const dpt_model *model,
                                                      const dpt_dataset *data,
                                                      const dpt_trainer_options *trainer,
                                                      const dpt_fit_options *fit);

#ifdef __cplusplus
}
#endif

#endif
