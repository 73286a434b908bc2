/* Checkpoints of the training loop: when one is due, what it stores about the course of training,
   and resuming from one.  If writing fails in the middle of training, a notice reports it and
   training goes on: the older checkpoint stays, and the next one may succeed. */
#include "context/context.h"
#include "fit/fit.h"

#include "base/clock.h"
#include "base/parse.h"
#include "base/print.h"
#include "checkpoint/config.h"
#include "checkpoint/settings.h"
#include "io/file.h"
#include "io/folder.h"
#include "io/safetensors.h"
#include "train/algorithms.h"
#include "train/components/outcome.h"
#include "train/components/schedule.h"
#include "train/exchange/exchange.h"
#include "train/peers/peers.h"
#include "train/progress/in_flight.h"
#include "train/replicas/state_buffers.h"
#include "train/rounds/rounds.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_KEPT = 2 };
/* Bits for what is due: WANTED is what the program has asked for, and process 0 CAN_KEEP it. */
enum { DUE_CHECKPOINT = 1, DUE_COPY = 2, DUE_WANTED = 4, CAN_KEEP = 8, DUE_COPIES = 16 };

/* ---- What is told ---------------------------------------------------------------------------- */

void dpti_fit_warn(dpti_fit *f, const dpt_error *error)
{
    const long cause = error->native * 100 - (long)error->status;
    for (size_t i = 0; i < f->n_causes; i++)
        if (f->causes[i] == cause) return;
    if (f->n_causes < DPTI_FIT_CAUSES) f->causes[f->n_causes++] = cause;
    if (f->own_notice)
        f->own_notice(DPT_NOTICE_WARNING, error->message, f->options->user);
    else
        dpti_fit_notify(f, DPT_NOTICE_WARNING, error->message);
}

static void tell_skipped(const char *text, void *user)
{
    const dpti_fit *f = user;
    dpti_fit_notify(f, DPT_NOTICE_WARNING, text);
}

dpt_status dpti_fit_look_at_checkpoints(dpti_fit *f)
{
    dpt_error error = {.status = DPT_OK};
    dpti_log_checkpoint kept;
    if (!f->keeper) return DPT_OK;
    if (dpti_keeper_failure(f->keeper, &error) != DPT_OK) dpti_fit_warn(f, &error);
    if (!dpti_keeper_kept(f->keeper, &kept) || !f->log) return DPT_OK;
    if (dpti_log_write_checkpoint(f->log, &kept, &error) == DPT_OK) return DPT_OK;
    return dpti_context_fail(f->context, NULL, &error);
}

/* ---- Weights --------------------------------------------------------------------------------- */

/* Writes the description of the network, or of its adapters, beside the weights. */
static dpt_status write_config(const dpti_fit *f, const char *weights)
{
    dpt_error error = {.status = DPT_OK};
    if (dpti_config_write(f->trainer->model, weights, &error) == DPT_OK) return DPT_OK;
    return dpti_context_fail(f->context, NULL, &error);
}

dpt_status dpti_fit_save(dpti_fit *f, const char *path, size_t epoch, dpt_error *unsaved)
{
    const double began = dpti_seconds();
    if (!path) return DPT_OK;
    dpti_folder_claim(path);
    dpt_status status = dpt_trainer_save(f->trainer, path);
    if (status == DPT_OK && path == f->model) status = write_config(f, path);
    dpti_tracing_host(&f->tracing, "checkpoint", epoch, began);
    unsaved->status = DPT_OK;
    if (status == DPT_OK && path == f->model) f->saved_step = dpt_trainer_steps(f->trainer);
    if (status != DPT_E_IO) return status;
    *unsaved = f->context->error;
    dpti_fit_warn(f, unsaved);
    return DPT_OK;
}

/* ---- The best weights of before -------------------------------------------------------------- */

/* Returns the epoch of the weights in best.safetensors: 0 if there are none, SIZE_MAX if the file
   does not say. */
static size_t epoch_of_best(const dpti_fit *f)
{
    enum { HEADER_BYTES = 16 << 20 };
    size_t epoch = 0;
    if (access(f->best, R_OK) != 0) return 0;
    char *text = dpti_safetensors_peek(f->best, HEADER_BYTES, "epoch");
    const bool says = text && dpti_parse_size(text, 0, SIZE_MAX, &epoch);
    free(text);
    return says ? epoch : SIZE_MAX;
}

/* If the best weights could not be written before an interruption, they are lost, because no
   checkpoint has them. */
static void miss_best(dpti_fit *f)
{
    (void)DPT_FAIL(&f->unsaved_best, DPT_E_IO,
                   "%s is not that of the best epoch, %zu: it could not be written, or was removed",
                   f->best, f->course.result.best_epoch);
}

/* If the best weights are of a later epoch than the checkpoint, nothing is lost: that epoch is
   trained again. */
static void look_for_best(dpti_fit *f)
{
    if (!f->best || epoch_of_best(f) >= f->course.result.best_epoch) return;
    miss_best(f);
    dpti_fit_warn(f, &f->unsaved_best);
}

dpt_status dpti_fit_check_saved(dpti_fit *f)
{
    const size_t epoch = f->course.result.best_epoch;
    if (f->unsaved.status != DPT_OK) return dpti_context_fail(f->context, NULL, &f->unsaved);
    if (f->resumed && f->best && epoch > 0 && f->unsaved_best.status == DPT_OK) {
        const size_t found = epoch_of_best(f);
        if (found != epoch && found != SIZE_MAX) miss_best(f);
    }
    if (f->unsaved_best.status == DPT_OK) return DPT_OK;
    return dpti_context_fail(f->context, NULL, &f->unsaved_best);
}

/* ---- Going on -------------------------------------------------------------------------------- */

/* Compares the rate, the schedule and what the schedule depends on with the checkpoint, and
   refuses a difference. */
static dpt_status compare_course(dpti_fit *f, const dpti_checkpoint *c)
{
    const dpti_schedule *s = &f->schedule;
    dpti_settings *now = calloc(1, sizeof *now);
    if (!now) return dpti_fit_no_memory(f);
    dpti_settings_of_course(&s->options, s->lr, s->total_steps, now);
    const dpt_status status = dpti_checkpoint_compare(f->trainer, c, now);
    free(now);
    return status;
}

/* Reports what becomes of the error feedback if it is not simply restored. */
static void tell_residuals(const dpti_fit *f, const dpti_checkpoint *c)
{
    char text[256];
    const size_t then = c->state.n_owing, now = dpt_process_count(f->context);
    const bool packs = dpti_packs(f->trainer);
    if (packs && then == 0)
        snprintf(text, sizeof text,
                 "the checkpoint was not compressing: error feedback begins with zeros");
    else if (packs && then != now)
        snprintf(text, sizeof text, "error feedback of %zu processes goes on with the first of %zu",
                 then, now);
    else if (!packs && then > 0)
        snprintf(text, sizeof text,
                 "error feedback of %zu processes is dropped: nothing is compressed any more",
                 then);
    else
        return;
    dpti_fit_notify(f, packs ? DPT_NOTICE_INFO : DPT_NOTICE_WARNING, text);
}

static void tell_resumed(const dpti_fit *f, const dpti_checkpoint *c)
{
    char text[256];
    if (f->carried)
        snprintf(text, sizeof text, "%zu process%s on after step %zu",
                 dpt_process_count(f->context),
                 dpt_process_count(f->context) == 1 ? " goes" : "es go", c->state.done.step);
    else
        snprintf(text, sizeof text, "resuming from %.150s, after step %zu", c->path,
                 c->state.done.step);
    dpti_fit_notify(f, DPT_NOTICE_INFO, text);
    if (f->carried && dpti_packs(f->trainer))
        dpti_fit_notify(f, DPT_NOTICE_WARNING, "error feedback begins with zeros");
    if (!f->carried) tell_residuals(f, c);
}

/* The epochs whose steps are all done, also if the last one is not evaluated yet. */
static size_t epochs_trained(const dpti_fit *f)
{
    return f->course.result.epochs + (dpti_fit_epoch_is_open(f) ? 1 : 0);
}

static dpt_status go_on(dpti_fit *f, const dpti_checkpoint *c)
{
    const dpti_run_state *s = &c->state;
    f->course = s->course;
    DPT_TRY(dpti_fit_check_course(f));
    DPT_TRY(compare_course(f, c));
    DPT_TRY(dpti_checkpoint_apply(f->trainer, c));
    f->resumed = true;
    f->began = dpti_seconds() - s->course.elapsed;
    f->epoch = s->done.epoch;
    f->kept_step = s->done.step;
    f->kept_steps = s->course.result.steps;
    f->kept_epochs = epochs_trained(f);
    f->kept_finished = s->finished;
    f->kept_open = dpti_fit_epoch_is_open(f);
    dpt_fit_result *r = &f->course.result;
    r->stopped = false;
    r->no_patience = f->options->patience > 0 && f->course.without_better >= f->options->patience;
    tell_resumed(f, c);
    look_for_best(f);
    return DPT_OK;
}

/* With several processes process 0 has the files.  It sends its status `mine`, and the checkpoint
   or none (path NULL), to the others. *any: there is a checkpoint, and after success all processes
   have it. */
static dpt_status shard(dpti_fit *f, dpt_status mine, dpti_checkpoint *c, bool *any)
{
    size_t n = 0;
    uint8_t *bytes = NULL;
    dpti_gathered all = {.data = NULL};
    if (mine == DPT_OK && c->path) {
        bytes = dpti_checkpoint_pack(f->trainer, c, &n);
        if (!bytes) mine = dpti_fit_no_memory(f);
    }
    dpt_status status = dpti_peers_all_gather(f->trainer, mine, (dpti_bytes){bytes, n}, &all);
    *any = status == DPT_OK && all.begins[1] > 0;
    if (status == DPT_OK && dpt_process_rank(f->context) > 0 && all.begins[1] > 0)
        status = dpti_checkpoint_unpack(f->trainer, all.data, c) ? DPT_OK : dpti_fit_no_memory(f);
    dpti_gathered_free(&all);
    free(bytes);
    return *any ? dpti_peers_agree(f->trainer, status) : status;
}

bool dpti_fit_begins_anew(const dpti_fit *f)
{
    return f->options->again && !f->options->resume && !f->carried && f->keeper &&
           dpti_keeper_check_new(f->keeper) == DPT_OK;
}

/* Resumes from the folder; `mine` is the status of opening it. */
static dpt_status resume(dpti_fit *f, dpt_status mine)
{
    dpti_checkpoint c = {.path = NULL};
    if (mine == DPT_OK && f->keeper && !dpti_fit_begins_anew(f))
        mine = dpti_keeper_newest(f->keeper, tell_skipped, f, &c);
    if (mine == DPT_E_NOT_FOUND) {
        dpti_fit_notify(f, DPT_NOTICE_INFO, "no checkpoint to resume from: beginning at step 1");
        mine = DPT_OK;
    }
    bool any = c.path != NULL;
    dpt_status status = f->trainer->processes ? shard(f, mine, &c, &any) : mine;
    if (status == DPT_OK && any) status = dpti_checkpoint_deal(f->trainer, &c);
    if (status == DPT_OK && any) status = go_on(f, &c);
    if (any) status = dpti_algorithms_resume(f->trainer, status, &c.state.algorithms);
    dpti_checkpoint_close(&c);
    return status;
}

/* Goes on from a training state in host memory, which all processes have if `status` is DPT_OK. The
   checkpoints in the folder are those of this training, or of one before it that has ended. */
static dpt_status go_on_from_memory(dpti_fit *f, dpt_status status, dpti_checkpoint *c)
{
    if (status == DPT_OK && f->keeper)
        status = dpti_fit_begins_anew(f) ? dpti_fit_begin_new(f) : dpti_keeper_adopt(f->keeper);
    status = dpti_peers_agree(f->trainer, status);
    if (status == DPT_OK) status = go_on(f, c);
    status = dpti_algorithms_resume(f->trainer, status, &c->state.algorithms);
    dpti_checkpoint_close(c);
    return status;
}

/* Goes on in a job from which a process has died, or to which one has come. */
static dpt_status carry_on(dpti_fit *f, dpt_status mine)
{
    dpti_checkpoint c = {.path = NULL};
    dpt_status status = dpti_peers_agree(f->trainer, mine);
    if (status == DPT_OK) status = dpti_carried_open(f, &c);
    return go_on_from_memory(f, status, &c);
}

/* Goes on in a job that is started again.  `mine` is the same in all processes. */
static dpt_status start_again(dpti_fit *f, dpt_status mine)
{
    dpti_checkpoint c = {.path = NULL};
    bool found = false;
    DPT_TRY(mine);
    const dpt_status status = dpti_copies_find(f, &found, &c);
    return found || status != DPT_OK ? go_on_from_memory(f, status, &c) : resume(f, DPT_OK);
}

dpt_status dpti_fit_open_checkpoints(dpti_fit *f)
{
    const dpt_fit_options *o = f->options;
    const size_t n_kept = o->checkpoint_keep > 0 ? o->checkpoint_keep : DEFAULT_KEPT;
    f->kept_step = SIZE_MAX;
    f->kept_at = dpti_seconds();
    dpt_status status = DPT_OK;
    if (f->trainer->compress != DPT_COMPRESS_NONE && !f->trainer->processes)
        dpti_fit_notify(
            f, DPT_NOTICE_WARNING,
            "there is one process, which exchanges with no other: nothing is compressed");
    if (o->checkpoint) status = dpti_keeper_create(f->trainer, o->checkpoint, n_kept, &f->keeper);
    status = dpti_copies_open(f, status);
    if (f->carried) return carry_on(f, status);
    if (o->copies && o->again) return start_again(f, status);
    if (o->resume) return resume(f, status);
    DPT_TRY(status);
    return f->keeper ? dpti_keeper_check_new(f->keeper) : DPT_OK;
}

dpt_status dpti_fit_begin_new(dpti_fit *f)
{
    size_t ended = 0;
    char text[400];
    if (!f->keeper || f->resumed) return DPT_OK;
    DPT_TRY(dpti_keeper_begin_new(f->keeper, &ended));
    if (ended == 0) return DPT_OK;
    snprintf(text, sizeof text,
             "%.200s has the checkpoints of a training that ended at step %zu: they are deleted "
             "when the first of this one is written",
             f->options->checkpoint, ended);
    dpti_fit_notify(f, DPT_NOTICE_WARNING, text);
    return DPT_OK;
}

/* ---- Keeping --------------------------------------------------------------------------------- */

static bool is_due(dpti_fit *f)
{
    if (!f->keeper) return false;
    dpt_interval every = f->options->checkpoint_every;
    if (every.steps == 0 && every.epochs == 0 && !(every.seconds > 0)) every.epochs = 1;
    const size_t steps = dpti_steps_next(f->trainer)->step - f->course.first.step - f->kept_steps;
    const size_t epochs = epochs_trained(f) - f->kept_epochs;
    const bool due = (every.steps > 0 && steps >= every.steps) ||
                     (every.epochs > 0 && epochs >= every.epochs) ||
                     (every.seconds > 0 && dpti_seconds() - f->kept_at >= every.seconds);
    /* If the disk is slower, the next checkpoint waits, and is then made of the newest step. */
    return due && dpti_keeper_idle(f->keeper);
}

dpti_run_state *dpti_fit_describe(dpti_fit *f, bool finished)
{
    dpti_run_state *state = calloc(1, sizeof *state);
    if (!state) return NULL;
    f->course.elapsed = dpti_seconds() - f->began;
    state->in_course = true;
    state->course = f->course;
    state->lr = f->schedule.lr;
    state->finished = finished;
    dpti_settings_of_course(&f->schedule.options, f->schedule.lr, f->schedule.total_steps,
                            &state->settings);
    return state;
}

/* If sums over processes are compressed, all processes take part.  Processes other than process 0
   have no more to do. */
static dpt_status keep(dpti_fit *f, bool finished)
{
    const double began = dpti_seconds();
    if (!f->keeper) return dpti_snapshot_send(f->trainer);
    dpt_error error = {0};
    if (dpti_board_flush(&f->board, &error) != DPT_OK)
        return dpti_context_fail(f->context, NULL, &error);
    dpti_run_state *state = dpti_fit_describe(f, finished);
    if (!state) return dpti_fit_no_memory(f);
    dpt_status status = dpti_fit_look_at_checkpoints(f);
    const bool open = dpti_fit_epoch_is_open(f);
    if (status == DPT_OK) status = dpti_keeper_keep(f->keeper, state, open);
    free(state);
    DPT_TRY(status);
    f->kept_step = dpt_trainer_steps(f->trainer);
    f->kept_steps = f->course.result.steps;
    f->kept_epochs = epochs_trained(f);
    f->kept_at = dpti_seconds();
    f->kept_finished = finished;
    f->kept_open = open;
    dpti_tracing_host(&f->tracing, "checkpoint", dpti_steps_next(f->trainer)->epoch, began);
    return DPT_OK;
}

static bool is_finished(const dpti_fit *f)
{
    return !f->course.result.stopped && !dpti_fit_epoch_is_open(f) && !dpti_fit_wants_more(f);
}

/* Returns whether the counts of dpt_fit match the weights.  They do not if a step was committed
   and not collected. */
static bool is_consistent(const dpti_fit *f)
{
    const dpt_trainer *t = f->trainer;
    return dpti_steps_done(t)->step == f->course.first.step + f->course.result.steps &&
           (dpti_steps_done(t)->epoch == f->course.first.epoch + f->course.result.epochs ||
            dpti_fit_epoch_is_open(f)) &&
           (dpti_trainer_trusted(t) < t->n_workers || dpti_state_is_kept(t));
}

static bool is_kept(const dpti_fit *f, bool finished)
{
    return f->kept_step == dpt_trainer_steps(f->trainer) && f->kept_finished == finished &&
           f->kept_open == dpti_fit_epoch_is_open(f) && dpti_keeper_durable(f->keeper);
}

/* Returns whether training has gone back behind the last checkpoint.  That checkpoint stays, and a
   resume uses it. */
static bool has_later(const dpti_fit *f)
{
    const size_t step = dpt_trainer_steps(f->trainer);
    return dpti_keeper_last(f->keeper) > step || (f->copy.state && f->copy.step > step);
}

/* Checks the result of a write that was waited for. */
static dpt_status check_written(dpti_fit *f)
{
    dpt_error error;
    if (dpti_keeper_failure(f->keeper, &error) != DPT_OK)
        return dpti_context_fail(f->context, NULL, &error);
    return dpti_fit_look_at_checkpoints(f);
}

/* Writes the copy in host memory, if no durable checkpoint is as new.  The keeper is idle. */
static void write_copy(dpti_fit *f)
{
    if (!f->copy.state || f->copy.step <= dpti_keeper_last(f->keeper)) return;
    dpti_keeper_keep_copy(f->keeper, &f->copy);
    dpti_keeper_wait(f->keeper);
}

dpt_status dpti_fit_keep_last(dpti_fit *f, bool failed)
{
    const bool finished = !failed && is_finished(f), together = dpti_packs(f->trainer);
    if ((!f->keeper && !together) || (failed && !is_consistent(f))) return DPT_OK;
    /* The error feedback of other processes cannot be collected after a failure, because they may
       have ended or be at another step. */
    if (failed && together) return DPT_OK;
    if (f->keeper) dpti_keeper_wait(f->keeper);
    if (f->keeper && has_later(f)) {
        write_copy(f);
        return check_written(f);
    }
    unsigned due = f->keeper && !is_kept(f, finished) ? DUE_CHECKPOINT : 0;
    if (together) DPT_TRY(dpti_peers_ask_first(f->trainer, due, &due));
    if (due == 0) return dpti_fit_look_at_checkpoints(f);
    DPT_TRY(keep(f, finished));
    if (!f->keeper) return DPT_OK;
    dpti_keeper_wait(f->keeper);
    return check_written(f);
}

void dpti_fit_revoke(dpti_fit *f)
{
    if (!f->keeper || !f->kept_open || !dpti_fit_epoch_is_open(f)) return;
    dpti_keeper_wait(f->keeper);
    (void)dpti_fit_look_at_checkpoints(f);
    dpti_keeper_revoke(f->keeper);
}

/* ---- A copy in host memory ------------------------------------------------------------------- */

static bool copy_is_due(const dpti_fit *f)
{
    const size_t steps = dpti_steps_next(f->trainer)->step - f->course.first.step - f->copied_steps;
    return f->options->host_copy > 0 && steps >= f->options->host_copy;
}

/* As `keep`: process 0 has the copy. */
static dpt_status copy(dpti_fit *f)
{
    if (dpt_process_rank(f->context) > 0) return dpti_snapshot_send(f->trainer);
    if (!f->next.flats[0]) DPT_TRY(dpti_snapshot_create(f->trainer, &f->next));
    dpti_run_state *state = dpti_fit_describe(f, false);
    if (!state) return dpti_fit_no_memory(f);
    const dpt_status status = dpti_snapshot_take(f->trainer, state, &f->next);
    free(state);
    DPT_TRY(status);
    const dpti_snapshot before = f->copy;
    f->copy = f->next;
    f->next = before;
    f->copied_steps = f->course.result.steps;
    return DPT_OK;
}

void dpti_fit_keep_copy(dpti_fit *f)
{
    if (!f->keeper) return;
    dpti_keeper_wait(f->keeper);
    write_copy(f);
    (void)dpti_fit_look_at_checkpoints(f);
}

/* ---- What is due ----------------------------------------------------------------------------- */

static unsigned find_due(dpti_fit *f)
{
    const unsigned wanted = f->wanted ? DUE_WANTED : 0;
    if (!f->keeper) return f->trainer->processes ? wanted : 0;
    return CAN_KEEP | wanted | (is_due(f) ? DUE_CHECKPOINT : 0) | (copy_is_due(f) ? DUE_COPY : 0) |
           (dpti_copies_are_due(f) ? DUE_COPIES : 0);
}

/* The clock and the disk of process 0 decide, and what the program of any process has asked for.
   With several processes all go on to the same step, whichever process writes: shards follow from
   what was collected before a step is submitted, and a process that ends with a step must not leave
   the others in the next one. */
bool dpti_fit_is_due(dpti_fit *f)
{
    const unsigned due = find_due(f) & ~(unsigned)CAN_KEEP;
    if (!f->trainer->processes) return due != 0;
    if (dpti_fit_lets_in(f)) return true;
    /* Between rounds of local steps nothing is in flight, and dpti_fit_keep asks all processes. */
    if (f->trainer->local_steps > 0) return !dpti_rounds_continue(f->trainer);
    if (due != 0) dpti_peers_request(f->trainer, DPTI_RUN_REQUEST_KEEP);
    return dpti_peers_agreed(f->trainer) & DPTI_RUN_REQUEST_KEEP;
}

/* Returns whether the last checkpoint is of this step, and of before the evaluation that has ended
   now.  It is replaced if it is written already, as behind a long evaluation. */
static bool is_evaluated(const dpti_fit *f)
{
    return f->keeper && f->kept_open && !dpti_fit_epoch_is_open(f) &&
           f->kept_step == dpt_trainer_steps(f->trainer) && dpti_keeper_idle(f->keeper);
}

dpt_status dpti_fit_keep(dpti_fit *f)
{
    unsigned due = find_due(f) | (is_evaluated(f) ? DUE_CHECKPOINT : 0);
    if (f->trainer->local_steps > 0) { /* who asks for the end need not wait for the next round */
        DPT_TRY(dpti_peers_ask_requests(f->trainer, due * DPTI_RUN_REQUESTS, &due));
        due /= DPTI_RUN_REQUESTS;
    } else if (f->trainer->processes) {
        DPT_TRY(dpti_peers_ask_any(f->trainer, due, &due));
        dpti_peers_have(f->trainer, DPTI_RUN_REQUEST_KEEP);
    }
    f->wanted = false;
    if (due & DUE_COPY) DPT_TRY(copy(f));
    if (due & DUE_COPIES) DPT_TRY(dpti_copies_keep(f));
    if (due & DUE_WANTED && due & CAN_KEEP) {
        if (f->keeper) dpti_keeper_wait(f->keeper);
        due |= DUE_CHECKPOINT;
    }
    return due & DUE_CHECKPOINT ? keep(f, is_finished(f)) : DPT_OK;
}
