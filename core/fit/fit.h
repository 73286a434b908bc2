/* Shared declarations of the training loop: fit.c (limits, steps, epochs), fit_files.c (log, plot,
   trace), fit_report.c (report), fit_checkpoint.c (checkpoints and resuming), fit_carried.c
   (processes that die), fit_copies.c (copies in memory that outlives processes: copies.h). */
#ifndef DPTI_FIT_H
#define DPTI_FIT_H

#include "checkpoint/keeper.h"
#include "fit/board.h"
#include "fit/copies.h"
#include "fit/history.h"
#include "fit/last_steps.h"
#include "fit/reporting.h"
#include "fit/tracing.h"
#include "io/plot.h"
#include "train/components/schedule.h"
#include "train/state/trainer.h"

/* Largest number of different causes of failure that are reported. */
enum { DPTI_FIT_CAUSES = 8 };

struct dpti_fit {
    dpt_trainer *trainer;
    const dpt_fit_options *options;
    dpt_context *context;
    dpti_log *log;
    char *model, *best;   /* paths in the checkpoint folder */
    dpti_history history; /* empty if there is neither a plot nor a report */
    dpti_reporting reporting;
    bool reports; /* process 0 writes a report; in all processes, which predict samples for it */
    dpti_tracing tracing; /* zero if there is no trace */
    dpti_board board;     /* zero if there are no files for TensorBoard */
    dpti_schedule schedule;
    double began; /* start time, moved so that the training before a resume ended just now */
    size_t steps_total;
    size_t epoch;
    dpti_course course;
    /* Retried steps (fit_again.c). */
    size_t rested_step; /* the step of the standby devices' weights; SIZE_MAX: no standby devices */
    dpti_course rested; /* the counts at that step */
    dpti_course ahead;  /* the counts before training went back */
    bool again,
        cut; /* training has gone back; training has ended before it was at its former step again */
    /* Checkpoints. */
    dpti_keeper *keeper;          /* NULL: none */
    dpti_last_steps recent;       /* the last steps, if a training goes on when a process dies; */
    dpt_epoch_metrics last_epoch; /* likewise the last epoch, without classes; 0: none */
    bool carried; /* goes on from a training in which a process has died (fit_carried.c) */
    bool resumed;
    bool wanted;                               /* the program asks for a checkpoint */
    size_t kept_step, kept_steps, kept_epochs; /* step and counts of the last snapshot */
    double kept_at;
    bool kept_finished;
    bool kept_open;     /* the last snapshot is of before the evaluation of its epoch */
    dpti_snapshot copy; /* the copy in host memory, for the loss of all devices; its state is NULL:
                           none yet */
    dpti_snapshot
        next; /* memory for the next copy, so that a failed copy leaves the other one valid */
    size_t copied_steps;             /* steps of the training when the copy was made */
    dpt_error unsaved, unsaved_best; /* failures to write weights; status DPT_OK: none */
    size_t saved_step;               /* the step of model.safetensors; SIZE_MAX: not written yet */
    long causes[DPTI_FIT_CAUSES];
    size_t n_causes;
    dpti_copies copies;
    /* In a process that writes no files, where options->notice is NULL: the program's, for warnings
       of this process alone. */
    void (*own_notice)(dpt_notice kind, const char *text, void *user);
};

dpt_status dpti_fit_no_memory(const dpti_fit *f);
/* Returns whether the course of the training is kept for a plot or a report. */
static inline bool dpti_fit_keeps_history(const dpti_fit *f)
{
    return f->options->plot || f->options->report;
}
/* Computes what the model takes samples for at the end of an epoch, for the report (fit_report.c),
   so that a training that is ended later has this.  All processes call it; no step is in flight.
   The first failure of the computation is a notice, and ends these computations.  If the program
   ends training meanwhile, nothing is known.  Fails only if training was cut meanwhile. */
DPT_CHECK_RESULT dpt_status dpti_fit_look_at_samples(dpti_fit *f, size_t epoch);
/* The same at the end of a training that was not ended early, unless it was done after this step.
 */
DPT_CHECK_RESULT dpt_status dpti_fit_look_at_last(dpti_fit *f);
/* Writes the report, if there is one.  `failure`: why training has failed; NULL: it has not. */
DPT_CHECK_RESULT dpt_status dpti_fit_write_report(dpti_fit *f, const dpt_error *failure);
/* Whether evaluations and predictions ask the program if training is to end (fit.c), which
   course.result.stopped then says. */
void dpti_fit_listen(dpti_fit *f, bool listens);
/* Calls the program's `notice`, if there is one (fit.c). */
void dpti_fit_notify(const dpti_fit *f, dpt_notice kind, const char *text);
/* Warns once for each cause, in any process. */
void dpti_fit_warn(dpti_fit *f, const dpt_error *error);
/* Returns the total number of steps that epochs and max_steps give; 0 if only time limits training
   (fit.c). */
size_t dpti_fit_planned_steps(const dpti_fit *f);
size_t dpti_fit_steps_per_epoch(const dpti_fit *f);
/* Computes the total number of steps, the schedule and the limits from the options and from the
   position at which the training began. */
DPT_CHECK_RESULT dpt_status dpti_fit_check_course(dpti_fit *f);
/* Returns whether the limits ask for more steps. */
bool dpti_fit_wants_more(const dpti_fit *f);
/* Reports device events. */
dpt_status dpti_fit_tell_devices(dpti_fit *f);
/* Reports an event of a device, and adds it to the report and to TensorBoard's files. */
void dpti_fit_tell_device(dpti_fit *f, const dpt_device_event *event);
/* Counts a step. */
void dpti_fit_count(dpti_fit *f, const dpt_step_metrics *step);
/* Counts an epoch and resets its sums. */
void dpti_fit_close_epoch(dpti_fit *f);
/* Returns whether all steps of an epoch are done but the epoch is not counted, because its
   evaluation has failed. */
bool dpti_fit_epoch_is_open(const dpti_fit *f);
/* Returns the number of the next epoch that ends. */
size_t dpti_fit_next_epoch(const dpti_fit *f);
/* Called between steps: calls `progress` with nothing to report, and returns whether `progress` or
   a limit ends training. */
bool dpti_fit_is_to_end(dpti_fit *f);

/* Called after a step was submitted: if standby devices have the weights before it, training may
   go back to this step (fit_again.c). */
void dpti_fit_note_standby(dpti_fit *f);
/* dpti_standby.listen: training has gone back and retries steps.  `progress` is called without
   step and epoch.  The counts go back too, until all steps are retried.  If training is to end
   meanwhile, it is cut there (DPT_E_STATE), and the counts are those of the committed steps. */
DPT_CHECK_RESULT dpt_status dpti_fit_again(void *fit, const dpt_step_metrics *step);

/* Called before the first step: checks paths and folders, and opens files (fit_files.c). */
DPT_CHECK_RESULT dpt_status dpti_fit_check_files(dpti_fit *f);
/* With several processes process 0 writes the files.  Warns of outputs that were `given` to other
   processes and not to process 0 (`given`: this process's options as the program passed them, or
   NULL). */
DPT_CHECK_RESULT dpt_status dpti_fit_tell_ignored(dpti_fit *f, const dpt_fit_options *given);
/* A log or trace that is a pipe waits for its reader.  If training is to end before that, it is
   not opened. */
DPT_CHECK_RESULT dpt_status dpti_fit_open_files(dpti_fit *f);
DPT_CHECK_RESULT dpt_status dpti_fit_log_done(dpti_fit *f);
/* Draws the plot and closes the other files, whatever `status` is.  Returns the first failure. */
dpt_status dpti_fit_close_files(dpti_fit *f, dpt_status status);

/* Opens the checkpoint folder and, if `resume` is set, resumes from the newest checkpoint
   (fit_checkpoint.c).  Called before the schedule is checked, because the schedule depends on
   where the training began. */
DPT_CHECK_RESULT dpt_status dpti_fit_open_checkpoints(dpti_fit *f);
/* Returns whether a training that is started again has no checkpoint that was interrupted: those in
   the folder, if there are any, are of an earlier training that has ended (fit_checkpoint.c). */
bool dpti_fit_begins_anew(const dpti_fit *f);
/* Called when everything else has succeeded and a new training begins: renames the files of a
   training that has ended, and reports that.  Does nothing in a resumed training. */
DPT_CHECK_RESULT dpt_status dpti_fit_begin_new(dpti_fit *f);
/* Returns the present run state, which the caller frees; NULL if there is no memory. */
dpti_run_state *dpti_fit_describe(dpti_fit *f, bool finished);
/* Returns whether a checkpoint or a copy in host memory is due and can be made; the next step is
   then submitted after it.  The result is the same in all processes after the same step. */
bool dpti_fit_is_due(dpti_fit *f);
/* Makes what is due; no step may be in flight. */
DPT_CHECK_RESULT dpt_status dpti_fit_keep(dpti_fit *f);
/* After the loss of all devices: writes the copy if no checkpoint is as new, and waits for it. */
void dpti_fit_keep_copy(dpti_fit *f);
/* Writes the last checkpoint, at the end of training or after a failure (`failed`), and waits for
   it. */
DPT_CHECK_RESULT dpt_status dpti_fit_keep_last(dpti_fit *f, bool failed);
/* Called when numbers were not finite: deletes the checkpoint with these weights that was made
   before their evaluation, if there is one. */
void dpti_fit_revoke(dpti_fit *f);
/* Writes the weights to model.safetensors or best.safetensors (a path of f, or NULL).  A failure
   is reported and stored in *unsaved. */
DPT_CHECK_RESULT dpt_status dpti_fit_save(dpti_fit *f, const char *path, size_t epoch,
                                          dpt_error *unsaved);
/* Reports writes that have ended in the background: a warning for a failed one, a line in the log
   for a durable one. */
dpt_status dpti_fit_look_at_checkpoints(dpti_fit *f);
/* Returns the failure of weights that could not be written in the end. */
DPT_CHECK_RESULT dpt_status dpti_fit_check_saved(dpti_fit *f);

/* ---- Processes that come (fit_arrivals.c) -----------------------------------------------------
 */

/* Tells processes that come for how many devices there is room.  All processes call it when they
   are ready for the first step; the process that came last is one of them from then on. */
DPT_CHECK_RESULT dpt_status dpti_fit_invite(dpti_fit *f);
/* Returns whether all processes have agreed to let another one in before more steps are
   submitted. */
bool dpti_fit_lets_in(dpti_fit *f);
/* Called when they have, with no step in flight: fails in all processes, with DPT_E_STATE, and the
   training is carried on by the next dpt_fit.  Fails as the transport does if a process has died.
   Returns DPT_OK if they have not. */
DPT_CHECK_RESULT dpt_status dpti_fit_let_in(dpti_fit *f);

/* ---- Going on when a process has died (fit_carried.c) -----------------------------------------
 */

/* Called after a failure of a training, with nothing in flight: if the transport has failed and the
   job can go on, the context keeps the training state of this process, where dpt_process_go_on and
   the next dpt_fit find it.  Returns whether it does. */
bool dpti_carried_take(dpti_fit *f);
/* Returns whether the context keeps a training state. */
bool dpti_carried_any(const dpt_context *context);
/* Frees it. */
void dpti_carried_drop(dpt_context *context);
/* All processes go on from the same state, which some of them have.  It is that of process 0,
   because that process has the log, unless process 0 has none, or has a step whose results it does
   not know.
   *out: that state; it fits the trainer, and the caller closes it. */
DPT_CHECK_RESULT dpt_status dpti_carried_open(dpti_fit *f, dpti_checkpoint *out);
/* In process 0: writes an event for each device of the processes that have died to the log, and
   tells the program of it.  Also tells the program of processes that died before the first step. */
DPT_CHECK_RESULT dpt_status dpti_carried_tell_lost(dpti_fit *f);
/* The same of the process that was let in last, if any. */
DPT_CHECK_RESULT dpt_status dpti_carried_tell_joined(dpti_fit *f);

#endif
