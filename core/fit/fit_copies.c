/* Copies of the training state in memory that outlives processes (copies.h).  Processes have the
   same state after the same step, so one copy on each host is enough, and any of them will do. */
#include "context/context.h"
#include "fit/fit.h"

#include "base/clock.h"
#include "base/print.h"
#include "io/folder.h"
#include "train/peers/peers.h"
#include "train/progress/in_flight.h"
#include "train/replicas/state_buffers.h"
#include "train/rounds/rounds.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Without an interval a copy is taken every second, if it takes a twentieth of that. */
static const double least_seconds = 1, seconds_of_cost = 20;

/* ---- The folder ------------------------------------------------------------------------------ */

/* About the size of a copy. */
static double copy_bytes(const dpt_trainer *t)
{
    const size_t n = dpti_trainer_n_state_buffers(t) + (dpti_rounds_velocity(t) ? 1 : 0);
    return (double)n * (double)t->model->flat_size * sizeof(float) + (1 << 20);
}

/* A copy is written beside the one before. */
static dpt_status check_room(dpti_fit *f)
{
    static const double mb = 1e6;
    const char *folder = f->options->copies;
    const int n = dpti_keeper_has_any(f->copies.keeper) ? 1 : 2;
    const double needed = n * copy_bytes(f->trainer);
    struct statvfs about;
    if (statvfs(folder, &about) != 0)
        return dpt_fail(f->context, DPT_E_IO, "cannot tell the room in %s: %s", folder,
                        strerror(errno));
    const double room = (double)about.f_bavail * (double)about.f_frsize;
    if (about.f_blocks == 0 || room >= needed) return DPT_OK; /* 0: without a limit */
    return dpt_fail(f->context, DPT_E_INVALID,
                    "%s has room for %.0f MB, and %s %.0f MB: "
                    "make that file system larger, or choose another folder in memory (supervise "
                    "--memory DIR)",
                    folder, room / mb,
                    n == 1 ? "another copy of the training state needs"
                           : "two copies of the training state need",
                    needed / mb);
}

static dpt_status open_folder(dpti_fit *f)
{
    const dpt_error before = f->context->error;
    const dpt_status status =
        dpti_keeper_create_copies(f->trainer, f->options->copies, &f->copies.keeper);
    if (status == DPT_E_STATE) { /* another process of this host keeps the copy */
        f->context->error = before;
        return DPT_OK;
    }
    DPT_TRY(status);
    return check_room(f);
}

/* Process 0 comes first, because its clock and its times say when a copy is due. */
dpt_status dpti_copies_open(dpti_fit *f, dpt_status mine)
{
    const bool first = dpt_process_rank(f->context) == 0;
    if (!f->options->copies) return mine;
    if (mine == DPT_OK && first) mine = open_folder(f);
    mine = dpti_peers_agree(f->trainer, mine);
    if (mine == DPT_OK && !first) mine = open_folder(f);
    return dpti_peers_agree(f->trainer, mine);
}

void dpti_copies_close(dpti_fit *f)
{
    dpti_keeper_destroy(f->copies.keeper);
    f->copies.keeper = NULL;
}

/* ---- Finding --------------------------------------------------------------------------------- */

/* What a process has. */
typedef struct offer {
    bool any;
    size_t step;    /* of its copy */
    size_t on_disk; /* the step of the newest checkpoint in process 0's folder; 0: none */
} offer;

/* A copy that is handed out, or why it cannot be. */
typedef struct handed {
    bool sound;
    char why[400];
} handed;

static size_t newest_on_disk(const dpti_fit *f)
{
    size_t *numbers = NULL, n = 0, newest = 0;
    if (!f->keeper || dpti_fit_begins_anew(f) ||
        dpti_folder_list(f->options->checkpoint, &numbers, &n, NULL) != DPT_OK)
        return 0;
    if (n > 0) newest = numbers[0];
    free(numbers);
    return newest;
}

/* As dpti_peers_all_gather, also of one process. */
static dpt_status gather(dpti_fit *f, dpt_status mine, dpti_bytes data, dpti_gathered *out)
{
    if (f->trainer->processes) return dpti_peers_all_gather(f->trainer, mine, data, out);
    DPT_TRY(mine);
    out->data = malloc(data.n_bytes + 1);
    if (!out->data) return dpti_fit_no_memory(f);
    if (data.n_bytes > 0) memcpy(out->data, data.data, data.n_bytes);
    return DPT_OK;
}

/* Returns the process with the newest copy, the lowest if several have it; n: none has one. */
static size_t choose(const offer *offers, size_t n)
{
    size_t found = n;
    for (size_t r = 0; r < n; r++)
        if (offers[r].any && (found == n || offers[r].step > offers[found].step)) found = r;
    return found;
}

static dpt_status find_newest(dpti_fit *f, size_t *from, offer *chosen)
{
    const size_t n = dpt_process_count(f->context);
    const dpti_keeper *k = f->copies.keeper;
    const offer mine = {.any = k && dpti_keeper_has_any(k),
                        .step = k ? dpti_keeper_last(k) : 0,
                        .on_disk = newest_on_disk(f)};
    dpti_gathered all = {.data = NULL};
    DPT_TRY(gather(f, DPT_OK, (dpti_bytes){&mine, sizeof mine}, &all));
    const offer *offers = (const offer *)(const void *)all.data;
    *from = choose(offers, n);
    *chosen = *from < n ? offers[*from] : (offer){.any = false};
    chosen->on_disk = offers[0].on_disk;
    dpti_gathered_free(&all);
    return DPT_OK;
}

/* Opens the copy in the process that has it, and tells all whether it is sound. */
static dpt_status open_copy(dpti_fit *f, size_t from, bool *sound, dpti_checkpoint *c)
{
    handed mine = {.sound = false};
    dpti_gathered all = {.data = NULL};
    dpt_status status = DPT_OK;
    if (dpt_process_rank(f->context) == from) {
        status = dpti_keeper_open_last(f->copies.keeper, &mine.sound, c);
        if (status == DPT_OK && !mine.sound)
            snprintf(mine.why, sizeof mine.why, "%.390s", dpt_error_message(f->context));
    }
    DPT_TRY(gather(f, status, (dpti_bytes){&mine, sizeof mine}, &all));
    const handed *one = (const handed *)(const void *)all.data + from;
    *sound = one->sound;
    if (!one->sound) dpti_fit_notify(f, DPT_NOTICE_WARNING, one->why);
    dpti_gathered_free(&all);
    return DPT_OK;
}

/* The other processes get what process `from` has opened. */
static dpt_status hand_out(dpti_fit *f, size_t from, dpti_checkpoint *c)
{
    dpt_trainer *t = f->trainer;
    const bool gives = dpt_process_rank(f->context) == from;
    size_t n = 0;
    dpti_gathered all = {.data = NULL};
    if (!t->processes) return DPT_OK;
    uint8_t *bytes = gives ? dpti_checkpoint_pack(t, c, &n) : NULL;
    dpt_status status = gives && !bytes ? dpti_fit_no_memory(f) : DPT_OK;
    status = dpti_peers_all_gather(t, status, (dpti_bytes){bytes, n}, &all);
    free(bytes);
    if (status == DPT_OK && !gives && !dpti_checkpoint_unpack(t, all.data, c))
        status = dpti_fit_no_memory(f);
    dpti_gathered_free(&all);
    return dpti_peers_agree(t, status);
}

dpt_status dpti_copies_find(dpti_fit *f, bool *found, dpti_checkpoint *out)
{
    const size_t n = dpt_process_count(f->context);
    size_t from = n;
    offer chosen;
    *found = false;
    for (;;) {
        DPT_TRY(find_newest(f, &from, &chosen));
        if (from == n) {
            dpti_fit_notify(f, DPT_NOTICE_WARNING,
                            "no copy of the training state is left in memory: going on from the "
                            "last checkpoint, or from the beginning without one");
            return DPT_OK;
        }
        if (chosen.on_disk > chosen.step) return DPT_OK;
        DPT_TRY(open_copy(f, from, found, out));
        if (*found) return hand_out(f, from, out);
    }
}

/* ---- Keeping --------------------------------------------------------------------------------- */

/* Reports what has become of the last copy. */
static dpt_status look(dpti_fit *f, dpt_error *error)
{
    dpti_log_checkpoint kept;
    if (dpti_keeper_kept(f->copies.keeper, &kept)) f->copies.cost = kept.stopped + kept.written;
    return dpti_keeper_failure(f->copies.keeper, error);
}

static dpt_status keep(dpti_fit *f)
{
    dpti_run_state *state = dpti_fit_describe(f, false);
    if (!state) return dpti_fit_no_memory(f);
    const dpt_status status = dpti_keeper_keep(f->copies.keeper, state, false);
    free(state);
    return status;
}

static void note_kept(dpti_fit *f)
{
    f->copies.steps = f->course.result.steps;
    f->copies.at = dpti_seconds();
}

/* The first copy, unless training goes on from it. */
static dpt_status keep_first(dpti_fit *f)
{
    dpti_keeper *k = f->copies.keeper;
    dpt_error error = {.status = DPT_OK};
    if (!k || (dpti_keeper_has_any(k) && dpti_keeper_last(k) == dpt_trainer_steps(f->trainer)))
        return DPT_OK;
    DPT_TRY(keep(f));
    dpti_keeper_wait(k);
    return look(f, &error) == DPT_OK ? DPT_OK : dpti_context_fail(f->context, NULL, &error);
}

dpt_status dpti_copies_begin(dpti_fit *f)
{
    if (!f->options->copies) return DPT_OK;
    note_kept(f);
    return dpti_peers_agree(f->trainer, keep_first(f));
}

bool dpti_copies_are_due(const dpti_fit *f)
{
    const dpt_fit_options *o = f->options;
    const dpti_copies *c = &f->copies;
    if (!o->copies) return false;
    const size_t steps = dpti_steps_next(f->trainer)->step - f->course.first.step - c->steps;
    if (steps == 0 || (c->keeper && !dpti_keeper_idle(c->keeper))) return false;
    if (o->host_copy > 0) return steps >= o->host_copy;
    const double pause = seconds_of_cost * c->cost;
    return dpti_seconds() - c->at >= (pause > least_seconds ? pause : least_seconds);
}

/* Another process may still be writing its copy: that one is a step of before then. */
dpt_status dpti_copies_keep(dpti_fit *f)
{
    dpt_error error = {.status = DPT_OK};
    note_kept(f);
    if (!f->copies.keeper) return DPT_OK;
    if (!dpti_keeper_idle(f->copies.keeper)) return DPT_OK;
    if (look(f, &error) != DPT_OK) dpti_fit_warn(f, &error);
    return keep(f);
}
