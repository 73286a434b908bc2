/* The training loop: epochs, limits, learning rates, evaluations, and the calls that write its
   files. */
#include "fit/fit.h"
#include "context/context.h"

#include "base/clock.h"
#include "base/size.h"
#include "checkpoint/weights.h"
#include "context/sized.h"
#include "train/algorithms.h"
#include "train/components/order.h"
#include "train/components/outcome.h"
#include "train/components/schedule.h"
#include "train/evaluation/classify.h"
#include "train/evaluation/evaluate.h"
#include "train/exchange/form_islands.h"
#include "train/exchange/islands.h"
#include "train/exchange/link_probe.h"
#include "train/peers/header_check.h"
#include "train/peers/peers.h"
#include "train/pipeline/drain.h"
#include "train/pipeline/round.h"
#include "train/pipeline/steps.h"
#include "train/plan/shards.h"
#include "train/progress/calls.h"
#include "train/progress/in_flight.h"
#include "train/recovery/failover.h"
#include "train/recovery/readmit.h"
#include "train/recovery/recover.h"
#include "train/replicas/state_buffers.h"
#include "train/replicas/weights.h"
#include "train/rounds/rounds.h"
#include "train/standby/standby.h"
#include "train/state/in_flight_step.h"

#include <math.h>
#include <stdlib.h>

dpt_status dpti_fit_no_memory(const dpti_fit *f)
{
    return dpt_fail(f->context, DPT_E_NO_MEMORY, "no memory for the course of the training");
}

/* ---- Calling back ---------------------------------------------------------------------------- */

/* The program may make calls on the trainer in the callback.  A failure of such a call is not a
   failure of dpt_fit. */
static int call_progress(const dpti_fit *f, const dpt_fit_progress *progress)
{
    const dpt_error before = f->context->error;
    if (!f->options->progress) return 0;
    f->trainer->callback = progress->epoch ? DPTI_CALLBACK_OF_EPOCH : DPTI_CALLBACK_OTHER;
    const int stop = f->options->progress(progress, f->options->user);
    f->trainer->callback = DPTI_CALLBACK_NONE;
    f->context->error = before;
    return stop;
}

void dpti_fit_notify(const dpti_fit *f, dpt_notice kind, const char *text)
{
    const dpt_error before = f->context->error;
    const dpti_callback within = f->trainer->callback;
    if (!f->options->notice) return;
    f->trainer->callback = DPTI_CALLBACK_OTHER;
    f->options->notice(kind, text, f->options->user);
    f->trainer->callback = within;
    f->context->error = before;
}

/* ---- Limits ---------------------------------------------------------------------------------- */

size_t dpti_fit_steps_per_epoch(const dpti_fit *f)
{
    const dpt_trainer *t = f->trainer;
    return (t->data->count + dpti_step_samples(t) - 1) / dpti_step_samples(t);
}

size_t dpti_fit_planned_steps(const dpti_fit *f)
{
    const dpt_fit_options *o = f->options;
    size_t epochs = o->epochs;
    if (epochs == 0 && o->max_steps == 0 && !(o->max_seconds > 0)) epochs = 1;
    size_t total = 0;
    if (epochs > 0) {
        const size_t used = f->course.first.position / dpti_step_samples(f->trainer);
        if (!dpti_multiply(dpti_fit_steps_per_epoch(f), epochs, &total)) total = SIZE_MAX;
        total -= used;
    }
    if (o->max_steps > 0 && (total == 0 || o->max_steps < total)) total = o->max_steps;
    return total;
}

dpt_status dpti_fit_check_course(dpti_fit *f)
{
    const dpt_fit_options *o = f->options;
    dpt_error error = {0};
    f->steps_total = dpti_fit_planned_steps(f);
    f->schedule =
        (dpti_schedule){.options = o->schedule,
                        .lr = (double)f->trainer->lr,
                        .steps_per_epoch = dpti_fit_steps_per_epoch(f),
                        .total_steps = o->schedule_steps ? o->schedule_steps : f->steps_total};
    if (o->schedule_steps && !dpti_schedule_counts_behind_warmup(o->schedule.kind))
        return dpt_fail(f->context, DPT_E_INVALID,
                        "a number of steps of the schedule goes with a schedule that counts from "
                        "the end of the warm-up");
    if (dpti_schedule_check(&f->schedule, &error) != DPT_OK)
        return dpti_context_fail(f->context, NULL, &error);
    return DPT_OK;
}

/* Checks that a time is 0, which means none, or more. */
static dpt_status check_seconds(const dpti_fit *f, const char *what, double seconds)
{
    if (seconds >= 0) return DPT_OK; /* false for NaN */
    return dpt_fail(f->context, DPT_E_INVALID, "%s of %g s is not 0 or more", what, seconds);
}

/* `data`: NULL: none. */
static dpt_status check_evaluated(const dpti_fit *f, const dpt_dataset *data)
{
    if (!data) return DPT_OK;
    DPT_TRY(dpti_trainer_check_test(f->trainer, data));
    return f->options->metrics ? dpti_trainer_check_classes(f->trainer, data) : DPT_OK;
}

/* Checks everything that can be checked before the first step. */
static dpt_status check(dpti_fit *f)
{
    const dpt_fit_options *o = f->options;
    DPT_TRY(check_seconds(f, "a time limit", o->max_seconds));
    DPT_TRY(check_seconds(f, "an interval of checkpoints", o->checkpoint_every.seconds));
    if (o->patience > 0 && !o->validation)
        return dpt_fail(f->context, DPT_E_INVALID,
                        "patience needs validation data, whose loss tells when to end");
    if (o->resume && !o->checkpoint && dpt_process_rank(f->context) == 0)
        return dpt_fail(f->context, DPT_E_INVALID,
                        "resume needs the folder of the checkpoints: give checkpoint");
    if (o->tensorboard_histograms && !o->tensorboard && dpt_process_rank(f->context) == 0)
        return dpt_fail(f->context, DPT_E_INVALID,
                        "histograms are written to the events for TensorBoard: give tensorboard");
    if (o->host_copy > 0 && !o->checkpoint && dpt_process_rank(f->context) == 0)
        return dpt_fail(f->context, DPT_E_INVALID,
                        "a host copy is written to the folder of the checkpoints: give checkpoint");
    if (o->copies && !o->checkpoint && dpt_process_rank(f->context) == 0)
        return dpt_fail(f->context, DPT_E_INVALID,
                        "copies in memory go with a folder of checkpoints: give checkpoint");
    DPT_TRY(check_evaluated(f, o->validation));
    DPT_TRY(check_evaluated(f, o->test));
    return dpti_fit_check_course(f);
}

/* With several processes no single clock may decide: all processes must end after the same
   step. */
static bool time_is_up(const dpti_fit *f)
{
    const double limit = f->options->max_seconds;
    const bool up = limit > 0 && dpti_seconds() - f->began >= limit;
    if (!f->trainer->processes) return up;
    if (up) dpti_peers_request(f->trainer, DPTI_RUN_REQUEST_TIME);
    return dpti_peers_agreed(f->trainer) & DPTI_RUN_REQUEST_TIME;
}

bool dpti_fit_wants_more(const dpti_fit *f)
{
    const size_t submitted = dpti_steps_next(f->trainer)->step - f->course.first.step;
    if (f->steps_total > 0 && submitted >= f->steps_total) return false;
    const bool ends = f->course.result.stopped || f->course.result.no_patience || time_is_up(f);
    /* Training that is to end goes on to the end of its round, where a checkpoint has all that a
       resumed training needs.  With an outer delay that would be the end of the epoch, which may be
       hours away: run_epochs ends the round early. */
    return !ends || (f->trainer->outer_delay == 0 && dpti_rounds_continue(f->trainer));
}

/* ---- Reports --------------------------------------------------------------------------------- */

/* With several processes all end after the same step, which they agree on. */
static void request_stop(dpti_fit *f, int cause)
{
    const unsigned told = cause > 0 && cause < DPTI_RUN_CAUSES ? (unsigned)cause : DPTI_RUN_CAUSES;
    dpti_peers_request_stop(f->trainer, told);
    if (f->trainer->processes || f->course.result.stopped) return;
    f->course.result.stopped = true;
    f->course.result.stopped_for = (int)told;
}

/* Reports a step, an epoch or an event, and the progress of training. */
static void report(dpti_fit *f, dpt_fit_progress progress)
{
    progress.steps_done = f->course.result.steps;
    progress.steps_total = f->steps_total;
    progress.seconds = dpti_seconds() - f->began;
    const int stop = call_progress(f, &progress);
    if (stop != 0) request_stop(f, stop);
}

/* Notes that all processes have agreed to end. */
static void note_stop(dpti_fit *f)
{
    if (!(dpti_peers_agreed(f->trainer) & DPTI_RUN_REQUEST_STOP)) return;
    f->course.result.stopped = true;
    f->course.result.stopped_by = dpti_peers_stopped_by(f->trainer);
    f->course.result.stopped_for = (int)dpti_peers_stopped_for(f->trainer);
}

static void tell(dpti_fit *f, const dpt_step_metrics *step, const dpt_epoch_metrics *epoch)
{
    report(f, (dpt_fit_progress){.size = sizeof(dpt_fit_progress), .step = step, .epoch = epoch});
    note_stop(f);
}

bool dpti_fit_is_to_end(dpti_fit *f)
{
    tell(f, NULL, NULL);
    return (dpti_peers_requests(f->trainer) & DPTI_RUN_REQUEST_STOP) || !dpti_fit_wants_more(f);
}

void dpti_fit_tell_device(dpti_fit *f, const dpt_device_event *event)
{
    report(f, (dpt_fit_progress){.size = sizeof(dpt_fit_progress), .event = event});
    dpti_board_event(&f->board, event);
    if (f->options->report) dpti_reporting_add(&f->reporting, event);
}

dpt_status dpti_fit_tell_devices(dpti_fit *f)
{
    dpt_device_event event = {.size = sizeof event};
    dpt_error error = {0};
    while (dpt_trainer_next_event(f->trainer, &event)) {
        dpti_fit_tell_device(f, &event);
        if (f->log && dpti_log_write_device_event(f->log, &event, &error) != DPT_OK)
            return dpti_context_fail(f->context, NULL, &error);
    }
    return DPT_OK;
}

void dpti_fit_count(dpti_fit *f, const dpt_step_metrics *step)
{
    dpti_course *c = &f->course;
    f->epoch = step->epoch;
    c->result.steps++;
    c->total_samples += step->samples;
    c->loss += step->loss * (double)step->labels;
    c->samples += step->samples;
    c->labels += step->labels;
    c->hits += step->hits;
    c->seconds += step->seconds;
}

void dpti_fit_close_epoch(dpti_fit *f)
{
    dpti_course *c = &f->course;
    c->result.epochs++;
    c->result.seconds += c->seconds;
    c->result.train_loss = c->loss / (double)c->labels;
    c->loss = c->seconds = 0;
    c->samples = c->labels = c->hits = 0;
}

static dpt_status after_step(dpti_fit *f, const dpt_step_metrics *m)
{
    dpt_error error = {0};
    DPT_TRY(dpti_fit_tell_devices(f));
    dpti_fit_count(f, m);
    if (dpt_process_survives(f->context)) dpti_last_steps_add(&f->recent, m);
    if (f->log && m->rebalance && dpti_log_write_rebalance(f->log, m, &error) != DPT_OK)
        return dpti_context_fail(f->context, NULL, &error);
    if (f->log && dpti_log_write_step(f->log, m, &error) != DPT_OK)
        return dpti_context_fail(f->context, NULL, &error);
    if (dpti_tracing_step(&f->tracing, m, &error) != DPT_OK ||
        dpti_board_step(&f->board, m, &error) != DPT_OK)
        return dpti_context_fail(f->context, NULL, &error);
    if (m->round_seconds > 0)
        dpti_tracing_host(&f->tracing, "exchange of a round", m->epoch,
                          dpti_seconds() - m->round_seconds);
    if (dpti_fit_keeps_history(f) && !dpti_history_add_step(&f->history, m))
        return dpti_fit_no_memory(f);
    tell(f, m, NULL);
    const dpt_fit_options *o = f->options;
    if (o->wants_checkpoint && o->wants_checkpoint(o->user)) f->wanted = true;
    return DPT_OK;
}

/* ---- Evaluations ----------------------------------------------------------------------------- */

/* dpti_evaluation_listen: asks the program whether training is to end. */
static bool is_to_stop(void *fit)
{
    dpti_fit *f = fit;
    tell(f, NULL, NULL);
    return f->course.result.stopped;
}

void dpti_fit_listen(dpti_fit *f, bool listens)
{
    dpti_evaluation_listen(f->trainer, listens ? is_to_stop : NULL, f);
    if (!listens) note_stop(f);
}

/* A data set that is evaluated, and its name in the trace. */
typedef struct evaluated {
    const char *name;
    const dpt_dataset *data;
} evaluated;

/* Evaluates a data set and adds the evaluation to the trace. */
static dpt_status evaluate_on(dpti_fit *f, evaluated what, size_t epoch, dpt_evaluation *out)
{
    const double began = dpti_seconds();
    dpti_fit_listen(f, true);
    const dpt_status status = dpt_trainer_evaluate(f->trainer, what.data, out);
    dpti_fit_listen(f, false);
    dpti_tracing_host(&f->tracing, what.name, epoch, began);
    DPT_TRY(status);
    return dpti_fit_tell_devices(f);
}

/* Adds what the samples of evaluated data are taken for, if that is asked for. */
static dpt_status classify(dpti_fit *f, const dpt_dataset *data, const dpt_classification **out)
{
    dpt_classification *made = NULL;
    if (!f->options->metrics) return DPT_OK;
    dpti_fit_listen(f, true);
    const dpt_status status = dpt_trainer_classify(f->trainer, data, &made);
    dpti_fit_listen(f, false);
    DPT_TRY(status);
    *out = made;
    return dpti_fit_tell_devices(f);
}

static void forget_classes(dpt_epoch_metrics *m)
{
    dpt_classification_destroy((dpt_classification *)m->validation_classes);
    dpt_classification_destroy((dpt_classification *)m->test_classes);
}

/* A loss that is not a number is worse than any other loss. */
static bool is_better(const dpt_fit_result *r, double loss)
{
    if (r->best_epoch == 0) return true;
    return isnan(r->best_validation_loss) ? !isnan(loss) : loss < r->best_validation_loss;
}

/* Evaluates the validation data, and saves the weights if their loss is the lowest so far. */
static dpt_status validate(dpti_fit *f, size_t epoch, dpt_evaluation *out)
{
    dpt_fit_result *r = &f->course.result;
    DPT_TRY(evaluate_on(f, (evaluated){"validation", f->options->validation}, epoch, out));
    const bool better = is_better(r, out->loss);
    f->course.without_better = better ? 0 : f->course.without_better + 1;
    if (!better) return DPT_OK;
    r->best_epoch = epoch;
    r->best_validation_loss = out->loss;
    return dpti_fit_save(f, f->best, epoch, &f->unsaved_best);
}

/* Evaluates validation and test data, if they exist, and stores the metrics of the epoch and of
   the result.  A part of an epoch counts as best only if no whole epoch does: a resumed training
   completes the epoch, and the best epoch must be a whole one.  DPT_E_CANCELLED: the program has
   ended training meanwhile. */
static dpt_status evaluate(dpti_fit *f, bool whole, dpt_epoch_metrics *m)
{
    dpt_evaluation e = {.size = sizeof e};
    if (f->options->validation && (whole || f->course.result.best_epoch == 0)) {
        DPT_TRY(validate(f, m->epoch, &e));
        m->validated = true;
        m->validation_loss = e.loss;
        m->validation_accuracy = e.accuracy;
        if (whole) DPT_TRY(classify(f, f->options->validation, &m->validation_classes));
    }
    if (f->options->test) {
        DPT_TRY(evaluate_on(f, (evaluated){"test", f->options->test}, m->epoch, &e));
        m->tested = true;
        m->test_loss = f->course.result.test_loss = e.loss;
        m->test_accuracy = f->course.result.test_accuracy = e.accuracy;
        if (whole) DPT_TRY(classify(f, f->options->test, &m->test_classes));
    }
    return DPT_OK;
}

/* Evaluates the model at the end of an epoch, from a checkpoint on, if one is due: a process that
   ends in the evaluation then loses no step.  If the evaluation fails, or the program ends training
   before or meanwhile (DPT_E_CANCELLED), the counts are those of before: a resumed training
   evaluates again.  But training may have gone back during the evaluation, and the counts with it.
 */
static dpt_status evaluate_epoch(dpti_fit *f, dpt_epoch_metrics *m)
{
    if (!f->options->validation && !f->options->test) return DPT_OK;
    if (f->course.result.stopped) return DPT_E_CANCELLED;
    DPT_TRY(dpti_fit_keep(f));
    const dpti_course before = f->course;
    const size_t step = dpt_trainer_steps(f->trainer);
    const dpt_status status = evaluate(f, true, m);
    if (status == DPT_OK) return DPT_OK;
    const bool stands = !f->again && !f->cut && dpt_trainer_steps(f->trainer) == step;
    const dpt_fit_result now = f->course.result;
    if (!stands) return status;
    f->course = before;
    f->course.result.stopped = now.stopped;
    f->course.result.stopped_by = now.stopped_by;
    f->course.result.stopped_for = now.stopped_for;
    return status;
}

/* Tells of an epoch that is evaluated, and counts it.  `step`: the step before the evaluation. */
static dpt_status close_epoch(dpti_fit *f, size_t step, dpt_epoch_metrics *m)
{
    dpt_error error = {0};
    f->course.result.no_patience =
        f->options->patience > 0 && f->course.without_better >= f->options->patience;
    dpti_fit_close_epoch(f);
    f->last_epoch = *m;
    f->last_epoch.validation_classes = f->last_epoch.test_classes = NULL;
    if (f->log) DPT_TRY(dpti_weights_sha256(f->trainer, m->weights_sha256));
    /* Training has gone back: the weights are those of an earlier step. */
    if (dpt_trainer_steps(f->trainer) != step) m->weights_sha256[0] = '\0';
    if (f->log && dpti_log_write_epoch(f->log, m, &error) != DPT_OK)
        return dpti_context_fail(f->context, NULL, &error);
    if (dpti_board_epoch(&f->board, m, &error) != DPT_OK)
        return dpti_context_fail(f->context, NULL, &error);
    DPT_TRY(dpti_fit_save(f, f->model, m->epoch, &f->unsaved));
    DPT_TRY(dpti_fit_keep(f));
    DPT_TRY(dpti_fit_look_at_samples(f, m->epoch));
    if (dpti_fit_keeps_history(f) && !dpti_history_add_epoch(&f->history, m))
        return dpti_fit_no_memory(f);
    tell(f, NULL, m);
    return DPT_OK;
}

static dpt_status after_epoch(dpti_fit *f, size_t epoch)
{
    const double samples = (double)f->course.samples, labels = (double)f->course.labels;
    dpt_epoch_metrics m = {.size = sizeof m,
                           .epoch = epoch,
                           .train_loss = f->course.loss / labels,
                           .train_accuracy = (double)f->course.hits / labels,
                           .test_loss = NAN,
                           .test_accuracy = NAN,
                           .validation_loss = NAN,
                           .validation_accuracy = NAN,
                           .seconds = f->course.seconds,
                           .images_per_second = samples / f->course.seconds};
    const size_t step = dpt_trainer_steps(f->trainer);
    dpt_status status = evaluate_epoch(f, &m);
    if (status == DPT_OK)
        status = close_epoch(f, step, &m);
    else if (status == DPT_E_CANCELLED && f->course.result.stopped)
        status = DPT_OK;
    forget_classes(&m);
    return status;
}

/* ---- The loop -------------------------------------------------------------------------------- */

/* The rate is set directly, because a schedule may end at 0, which dpt_trainer_set_lr refuses. */
static dpt_status submit(dpti_fit *f)
{
    dpt_trainer *t = f->trainer;
    t->lr = (float)dpti_schedule_lr(&f->schedule, dpti_steps_next(t)->step - f->course.first.step);
    dpti_trainer_forget_unsubmitted(t); /* this is that step */
    DPT_TRY(dpt_trainer_submit(t));
    dpti_fit_note_standby(f);
    return DPT_OK;
}

/* Devices are readmitted, put on standby or taken off standby only when no step is in flight, and
   rounds of local steps exchange only then. */
static bool may_submit(const dpt_trainer *t)
{
    const bool stops = dpti_rounds_open(t) && dpti_rounds_stops(t, dpti_steps_next(t));
    const bool waits = dpti_readmit_waits(t) || dpti_standby_waits(t) || stops;
    return dpt_trainer_in_flight(t) < DPTI_MAX_IN_FLIGHT &&
           !(dpt_trainer_in_flight(t) > 0 && waits);
}

/* Keeps two steps in flight within an epoch.  Evaluations between epochs, and checkpoints, need no
   step in flight. */
static dpt_status run_epoch(dpti_fit *f)
{
    dpt_trainer *t = f->trainer;
    const size_t epoch = dpti_steps_next(t)->epoch;
    const double began = dpti_seconds();
    dpt_step_metrics m = {.size = sizeof m};
    bool whole = false;
    do {
        bool due = dpti_fit_is_due(f);
        if (due && dpt_trainer_in_flight(t) == 0) {
            DPT_TRY(dpti_fit_let_in(f));
            DPT_TRY(dpti_fit_keep(f));
            note_stop(f); /* which processes have agreed on behind a round */
            due = false;
        }
        while (!due && may_submit(t) && dpti_steps_next(t)->epoch == epoch &&
               dpti_fit_wants_more(f)) {
            DPT_TRY(submit(f));
            due = dpti_fit_is_due(f);
        }
        if (dpt_trainer_in_flight(t) == 0) break;
        DPT_TRY(dpt_trainer_collect(t, &m));
        whole = m.last_of_epoch;
        DPT_TRY(after_step(f, &m));
        DPT_TRY(dpti_fit_look_at_checkpoints(f));
    } while (!whole);
    dpti_tracing_host(&f->tracing, "epoch", epoch, began);
    return whole ? after_epoch(f, epoch) : DPT_OK;
}

/* Ends an epoch that a limit cut short: its steps count, and it is evaluated.  DPT_E_CANCELLED: the
   program has ended training meanwhile. */
static dpt_status finish_partial(dpti_fit *f)
{
    const double labels = (double)f->course.labels;
    dpt_epoch_metrics m = {.size = sizeof m, .epoch = f->epoch};
    dpt_error error = {0};
    if (f->course.result.steps > 0 && f->course.samples == 0) return DPT_OK;
    if (f->course.samples > 0) f->course.result.train_loss = f->course.loss / labels;
    f->course.result.seconds += f->course.seconds;
    if (f->course.result.stopped) return DPT_OK;
    DPT_TRY(evaluate(f, false, &m));
    return dpti_board_epoch(&f->board, &m, &error) == DPT_OK
               ? DPT_OK
               : dpti_context_fail(f->context, NULL, &error);
}

/* Saves the weights, unless the last epoch has saved them or, if training has gone back, later
   weights are saved.  A training that is resumed at its end has not saved any, and the file may be
   of another step. */
static dpt_status save_last(dpti_fit *f)
{
    const bool saved = f->saved_step != SIZE_MAX && f->saved_step >= dpt_trainer_steps(f->trainer);
    if (saved && f->unsaved.status == DPT_OK) return DPT_OK;
    return dpti_fit_save(f, f->model, f->epoch, &f->unsaved);
}

/* With several processes the votes of the steps agree that the time is up.  A resumed training may
   have used up its time before its first step. */
static dpt_status ask_for_time(dpti_fit *f)
{
    const double limit = f->options->max_seconds;
    unsigned up = limit > 0 && dpti_seconds() - f->began >= limit ? DPTI_RUN_REQUEST_TIME : 0;
    if (!f->trainer->processes || !(limit > 0)) return DPT_OK;
    DPT_TRY(dpti_peers_ask_first(f->trainer, up, &up));
    dpti_peers_note_agreed(f->trainer, up);
    return DPT_OK;
}

bool dpti_fit_epoch_is_open(const dpti_fit *f)
{
    const dpti_cursor *done = dpti_steps_done(f->trainer);
    return done->position == 0 && f->course.samples > 0 &&
           done->epoch == f->course.first.epoch + f->course.result.epochs + 1;
}

size_t dpti_fit_next_epoch(const dpti_fit *f)
{
    return dpti_steps_done(f->trainer)->epoch - (dpti_fit_epoch_is_open(f) ? 1 : 0);
}

static dpt_status run_epochs(dpti_fit *f)
{
    if (dpti_fit_epoch_is_open(f)) DPT_TRY(after_epoch(f, dpti_fit_next_epoch(f)));
    DPT_TRY(dpti_copies_begin(f));
    DPT_TRY(ask_for_time(f));
    while (dpti_fit_wants_more(f))
        DPT_TRY(run_epoch(f));
    return dpti_round_end(f->trainer); /* which the last step, or a request, may have cut short */
}

/* Evaluates what is left to evaluate.  If the program ends training meanwhile, the checkpoint of
   the end, with the counts `kept`, is replaced by one of a training that was interrupted. */
static dpt_status finish_evaluations(dpti_fit *f, const dpti_course *kept)
{
    const bool was_stopped = f->course.result.stopped;
    dpt_status status = finish_partial(f);
    if (status == DPT_OK) status = save_last(f);
    if (status == DPT_OK) status = dpti_fit_look_at_last(f);
    if (was_stopped || !f->course.result.stopped) return status;
    if (status != DPT_OK && status != DPT_E_CANCELLED) return status;
    const dpti_course now = f->course;
    f->course = *kept;
    f->course.result.stopped = true;
    status = dpti_fit_keep_last(f, false);
    f->course = now;
    return status == DPT_OK ? save_last(f) : status;
}

/* If training is cut during one of these calls, the other calls are skipped. */
static dpt_status finish(dpti_fit *f)
{
    dpti_course *c = &f->course;
    const dpti_course before = f->course;
    const bool was_cut = f->cut;
    /* The checkpoint comes before the evaluation of an incomplete epoch, because a training that
       is resumed with other limits completes the epoch. */
    const dpt_status kept = dpti_fit_keep_last(f, false);
    const dpt_error not_kept = f->context->error;
    if (f->cut != was_cut) return kept;
    DPT_TRY(finish_evaluations(f, &before));
    DPT_TRY(dpti_fit_tell_devices(f));
    if (c->result.seconds > 0)
        c->result.images_per_second = (double)c->total_samples / c->result.seconds;
    if (f->log) DPT_TRY(dpti_fit_log_done(f));
    if (kept != DPT_OK) return dpti_context_fail(f->context, NULL, &not_kept);
    return dpti_fit_check_saved(f);
}

/* A training that is cut while it retries steps, at any time, ends in good order at the step that
   it has reached. */
static dpt_status train(dpti_fit *f)
{
    const dpt_error before = f->context->error;
    dpt_status status = run_epochs(f);
    if (status == DPT_OK && !f->cut) status = finish(f);
    if (!f->cut) return status;
    f->context->error = before;
    return finish(f);
}

/* After a failure: steps in flight are reported or dropped.  The training state is written as a
   checkpoint, unless the weights are what failed: from a replica that can still be read, else from
   the copy in host memory.  The first failure is the one that is reported. */
static void give_up(dpti_fit *f, dpt_status status)
{
    const dpt_error first = f->context->error;
    dpt_step_metrics m = {.size = sizeof m};
    while (!f->trainer->processes && dpt_trainer_in_flight(f->trainer) > 0 &&
           dpt_trainer_collect(f->trainer, &m) == DPT_OK)
        (void)after_step(f, &m); /* writing the log may be what has failed */
    dpti_trainer_drain(f->trainer);
    (void)dpti_fit_tell_devices(f);
    if (dpti_carried_take(f)) {
        f->context->error = first;
        return;
    }
    const bool diverged = dpti_peers_diverged(f->trainer);
    if (status == DPT_E_NOT_FINITE) dpti_fit_revoke(f);
    const bool whole = f->trainer->local_steps == 0; /* the weights are those of all processes */
    const bool worth =
        whole && status != DPT_E_NOT_FINITE && !diverged && f->course.result.steps > 0;
    const bool salvage = dpti_is_loss(status) && !diverged;
    dpti_state_salvage(f->trainer, salvage);
    if (salvage && worth && save_last(f) != DPT_OK) (void)dpti_fit_look_at_checkpoints(f);
    if (worth && dpti_fit_keep_last(f, true) != DPT_OK) (void)dpti_fit_look_at_checkpoints(f);
    if (salvage || diverged) dpti_fit_keep_copy(f);
    dpti_state_salvage(f->trainer, false);
    f->context->error = first;
}

/* Only process 0 writes files and calls `notice`. */
static void leave_files_to_process_0(const dpt_trainer *t, dpt_fit_options *own)
{
    if (dpt_process_rank(t->context) == 0) return;
    own->log = own->plot = own->trace = own->checkpoint = own->tensorboard = own->report = NULL;
    own->notice = NULL;
}

static dpt_status check_steps(dpti_fit *f)
{
    const size_t done = f->course.result.steps;
    if (f->options->max_seconds > 0) return DPT_OK;
    return dpti_trainer_check_steps(f->trainer, f->steps_total > done ? f->steps_total - done : 0);
}

/* Checks everything that can be checked before the first step, in all processes. */
static dpt_status prepare(dpti_fit *f, const dpt_fit_options *given)
{
    dpt_status status = check(f);
    const bool moves = f->options->resume || f->options->again || f->carried;
    if (status == DPT_OK && !moves) status = check_steps(f);
    if (status == DPT_OK) status = dpti_fit_check_files(f);
    DPT_TRY(dpti_peers_agree(f->trainer, status));
    DPT_TRY(dpti_header_check_course(f->trainer, f->options));
    DPT_TRY(dpti_peers_agree(f->trainer, dpti_fit_open_checkpoints(f)));
    DPT_TRY(dpti_peers_check_weights(f->trainer));
    dpti_islands_form(f->trainer); /* after a resume has prepared programs anew */
    DPT_TRY(dpti_algorithms_gather(f->trainer, DPT_OK));
    DPT_TRY(dpti_fit_tell_ignored(f, given));
    status = dpti_fit_open_files(f);
    if (status == DPT_OK && moves) status = check_steps(f);
    if (status == DPT_OK) status = dpti_fit_begin_new(f);
    return dpti_peers_agree(f->trainer, status);
}

/* Reports the islands, which are formed once. */
static void show_islands(const dpti_fit *f)
{
    const dpti_processes *p = f->trainer->processes;
    char text[256], words[128], fragments[64] = "";
    for (size_t i = 0; i < dpti_islands_count(f->trainer); i++) {
        dpti_islands_words(f->trainer, i, text, sizeof text);
        dpti_fit_notify(f, DPT_NOTICE_INFO, text);
    }
    const bool wide = dpti_islands_are_wide(f->trainer);
    if (!p || (wide && !dpti_processes_delays(p))) return;
    dpti_processes_words(p, words, sizeof words);
    if (f->trainer->n_fragments > 1)
        snprintf(fragments, sizeof fragments, "in %zu fragments, each ", f->trainer->n_fragments);
    if (f->trainer->outer_delay > 0)
        snprintf(text, sizeof text,
                 "processes exchange what has changed every %zu steps of an epoch, %sbeside the "
                 "next %zu, through %s",
                 f->trainer->local_steps, fragments, f->trainer->outer_delay, words);
    else if (f->trainer->local_steps > 0)
        snprintf(text, sizeof text,
                 "processes exchange what has changed every %zu steps of an epoch through %s",
                 f->trainer->local_steps, words);
    else
        snprintf(text, sizeof text, "%s through %s",
                 wide ? "everything else between processes goes" : "processes sum gradients",
                 words);
    dpti_fit_notify(f, DPT_NOTICE_INFO, text);
    dpti_link_probe_words(f->trainer, text, sizeof text);
    if (text[0]) dpti_fit_notify(f, DPT_NOTICE_INFO, text);
}

/* If a process has died, but not all others have seen that, this training goes on with them. */
static dpt_status settle(const dpti_fit *f)
{
    dpt_error error = {.status = DPT_OK};
    dpti_processes *p = f->trainer->processes;
    if (!p || dpti_processes_settle(p, &error) == DPT_OK) return DPT_OK;
    return dpti_context_fail(f->context, NULL, &error);
}

/* Waits for the checkpoint and the copy that are being written. */
static void release(dpti_fit *f)
{
    dpti_keeper_destroy(f->keeper);
    dpti_copies_close(f);
    dpti_snapshot_free(&f->next);
    dpti_snapshot_free(&f->copy);
    dpti_history_free(&f->history);
    dpti_last_steps_free(&f->recent);
    dpti_reporting_free(&f->reporting);
    free(f->best);
    free(f->model);
}

dpt_status dpt_fit(dpt_trainer *trainer, const dpt_fit_options *options, dpt_fit_result *out)
{
    dpt_fit_options given, own;
    DPT_TRY(dpti_trainer_given(trainer, "dpt_fit", "out", out));
    DPT_TRY(dpti_check_sized(trainer->context, "dpt_fit_result", out));
    DPT_TRY(dpti_take_sized(trainer->context,
                            &(dpti_sized){"dpt_fit_options", options, sizeof given}, &given));
    own = given;
    leave_files_to_process_0(trainer, &own);
    DPT_TRY(dpti_trainer_check_idle(trainer, "dpt_fit"));
    DPT_TRY(dpti_rounds_check_closed(trainer, "dpt_fit"));
    if (dpti_standby_count(trainer) > 0)
        DPT_TRY(dpti_trainer_refresh(trainer)); /* training cannot go back further than this call */
    DPT_TRY(dpti_trainer_catch_up(
        trainer)); /* completes the retries if the call before failed in them */
    dpti_trainer_forget_unsubmitted(trainer);
    dpti_fit f = {.trainer = trainer,
                  .options = &own,
                  .context = trainer->context,
                  .carried = trainer->context->goes_on,
                  .began = dpti_seconds(),
                  .epoch = dpti_steps_next(trainer)->epoch,
                  .saved_step = SIZE_MAX,
                  .own_notice = dpt_process_rank(trainer->context) > 0 ? given.notice : NULL,
                  .rested_step = SIZE_MAX,
                  .course = {.first = *dpti_steps_next(trainer),
                             .result = {.size = sizeof(dpt_fit_result),
                                        .train_loss = NAN,
                                        .test_loss = NAN,
                                        .test_accuracy = NAN,
                                        .best_validation_loss = NAN}}};
    dpti_peers_forget_requests(trainer);
    dpti_standby_listen(trainer, dpti_fit_again, &f);
    const float lr = trainer->lr;
    dpt_status status = prepare(&f, &given);
    if (status == DPT_OK) status = dpti_fit_invite(&f);
    if (status == DPT_OK) {
        show_islands(&f);
        dpti_carried_drop(f.context);
        status = train(&f);
        if (status == DPT_OK) status = settle(&f);
        if (status != DPT_OK) give_up(&f, status);
    }
    /* If the other processes do not know of the failure, they and this process would wait for each
       other. */
    if (status != DPT_OK) dpt_process_give_up(f.context);
    trainer->lr = lr;
    dpti_trainer_forget_unsubmitted(trainer);
    dpti_standby_listen(trainer, NULL, NULL);
    status = dpti_fit_close_files(&f, status);
    if (status == DPT_OK) (void)dpti_give_sized(&f.course.result, sizeof f.course.result, out);
    release(&f);
    return status;
}
