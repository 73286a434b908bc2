/* Shared declarations of the training loop: fit.c (limits, steps, epochs), fit_files.c (log, plot,
   trace), fit_checkpoint.c (checkpoints and resuming). */
#ifndef DPTI_FIT_H
#define DPTI_FIT_H

#include "checkpoint/keeper.h"
#include "fit/history.h"
#include "fit/tracing.h"
#include "io/plot.h"
#include "train/schedule.h"
#include "train/trainer.h"

/* Causes of failure that have been told. */
enum { DPTI_FIT_CAUSES = 8 };

typedef struct dpti_fit {
    dpt_trainer *trainer;
    const dpt_fit_options *options;
    dpt_context *context;
    dpti_log *log;
    char *model, *best;   /* paths in the checkpoint's folder */
    dpti_history history; /* kept only if a plot was asked for */
    dpti_tracing tracing; /* likewise */
    dpti_schedule schedule;
    double began; /* as if what ran before a resume had ended just now */
    size_t steps_total;
    size_t epoch;
    dpti_course course;
    /* Steps that are done again (fit_again.c). */
    size_t rested_step; /* where devices that rest stand; SIZE_MAX: there are none; */
    dpti_course rested; /* the course there, */
    dpti_course ahead;  /* and what it had come to before training went back */
    bool again, cut;    /* it did; and it ended before it was there again */
    /* Checkpoints. */
    dpti_keeper *keeper; /* NULL: none */
    bool resumed;
    size_t kept_step, kept_steps, kept_epochs; /* of the last snapshot */
    double kept_at;
    bool kept_finished;
    dpti_snapshot copy;  /* in host memory, should all devices be lost; its state NULL: none yet */
    dpti_snapshot next;  /* where the next one is taken: one that fails leaves the other whole */
    size_t copied_steps; /* of the course, when it was taken */
    dpt_error unsaved, unsaved_best; /* weights that could not be written: DPT_OK if none */
    size_t saved_step;               /* of model.safetensors; SIZE_MAX: not written yet */
    long causes[DPTI_FIT_CAUSES];
    size_t n_causes;
} dpti_fit;

dpt_status dpti_fit_no_memory(const dpti_fit *f);
/* Calls the program back with a notice, if it wants any (fit.c). */
void dpti_fit_notify(const dpti_fit *f, dpt_notice kind, const char *text);
/* Steps that the course has in all, as far as epochs and max_steps tell; 0 if only time limits it
   (fit.c). */
size_t dpti_fit_planned_steps(const dpti_fit *f);
size_t dpti_fit_steps_per_epoch(const dpti_fit *f);
/* Takes the steps of the whole, the schedule and the limits from the options and from where the
   course began. */
DPT_CHECK_RESULT dpt_status dpti_fit_check_course(dpti_fit *f);
/* Whether a limit, or the lack of one, asks for more steps. */
bool dpti_fit_wants_more(const dpti_fit *f);
/* What has happened to devices. */
dpt_status dpti_fit_tell_devices(dpti_fit *f);
/* A step is part of the course, */
void dpti_fit_count(dpti_fit *f, const dpt_step_metrics *step);
/* and an epoch, whose sums begin anew. */
void dpti_fit_close_epoch(dpti_fit *f);
/* Whether all steps of an epoch are done, and its end is not: its evaluation has failed. */
bool dpti_fit_epoch_is_open(const dpti_fit *f);
/* The next one that ends. */
size_t dpti_fit_next_epoch(const dpti_fit *f);
/* Between steps: asks progress, with nothing to tell, and the limits whether training is to end. */
bool dpti_fit_is_to_end(dpti_fit *f);

/* A step has been submitted: if devices that rest have the weights before it, training may go back
   to there (fit_again.c). */
void dpti_fit_note_standby(dpti_fit *f);
/* dpti_standby.listen: training has gone back and does steps again, of which nobody is told but
   progress, by calls with nothing to tell.  The course goes back, too, until all are done.  If
   training is to end meanwhile it is cut there, DPT_E_STATE, and the course is that of the steps
   that count. */
DPT_CHECK_RESULT dpt_status dpti_fit_again(void *fit, const dpt_step_metrics *step);

/* Before the first step: paths and folders are checked, files opened (fit_files.c). */
DPT_CHECK_RESULT dpt_status dpti_fit_check_files(dpti_fit *f);
/* Of several processes the first one writes files: it warns of kinds that were `given` (this
   process's options as they came, or NULL) to others and not to it. */
DPT_CHECK_RESULT dpt_status dpti_fit_tell_ignored(dpti_fit *f, const dpt_fit_options *given);
/* A log or trace that is a pipe waits for its reader; if training is to end before, it is not
   opened. */
DPT_CHECK_RESULT dpt_status dpti_fit_open_files(dpti_fit *f);
DPT_CHECK_RESULT dpt_status dpti_fit_log_done(dpti_fit *f);
/* Draws the plot and closes the others, whatever `status` is, and returns the first failure. */
dpt_status dpti_fit_close_files(dpti_fit *f, dpt_status status);

/* Opens the folder of checkpoints and goes on from the newest, where that is asked for
   (fit_checkpoint.c).  Before the schedule is checked, which needs to know where it began. */
DPT_CHECK_RESULT dpt_status dpti_fit_open_checkpoints(dpti_fit *f);
/* All else is well, and a new training begins, unless one is resumed: what the folder has of one
   that has ended makes room for it, which is told. */
DPT_CHECK_RESULT dpt_status dpti_fit_begin_new(dpti_fit *f);
/* Whether a checkpoint is due and can be taken, or a copy in host memory: the next step is
   submitted after it.  The same in all processes behind the same step, whoever writes. */
bool dpti_fit_is_due(dpti_fit *f);
/* Takes what is due, if anything is; nothing in flight. */
DPT_CHECK_RESULT dpt_status dpti_fit_keep(dpti_fit *f);
/* Behind the loss of all devices: writes the copy if no checkpoint is as new, and waits for it. */
void dpti_fit_keep_copy(dpti_fit *f);
/* The last one, at the end of training or after a failure (`failed`), and waits for it. */
DPT_CHECK_RESULT dpt_status dpti_fit_keep_last(dpti_fit *f, bool failed);
/* Writes the weights to model.safetensors or best.safetensors (a path of f, or NULL).  One that
   cannot be written is told and remembered in *unsaved. */
DPT_CHECK_RESULT dpt_status dpti_fit_save(dpti_fit *f, const char *path, size_t epoch,
                                          dpt_error *unsaved);
/* Tells of writes that have ended in the background: a warning of one that failed, the log's line
   of one that is durable. */
dpt_status dpti_fit_look_at_checkpoints(dpti_fit *f);
/* The failure of weights that are not there in the end. */
DPT_CHECK_RESULT dpt_status dpti_fit_check_saved(dpti_fit *f);

#endif
