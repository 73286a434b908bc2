/* The thread that writes checkpoints, and the deletion of older ones. */
#include "checkpoint/keeper.h"
#include "context/context.h"

#include "base/clock.h"
#include "base/fence.h"
#include "base/grow.h"
#include "base/text.h"
#include "base/thread.h"
#include "checkpoint/tensor_source.h"
#include "io/folder.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct dpti_keeper {
    dpt_trainer *trainer;
    char *folder;
    size_t n_kept;
    int lock;               /* -1: none */
    dpti_snapshot snapshot; /* belongs to the caller while the keeper is idle, else to the thread */
    /* Checkpoints of this training, ascending.  Belongs to the thread while the keeper is not
       idle. */
    size_t *own;
    size_t n_own, own_capacity;
    bool revocable;  /* the checkpoint of the snapshot may be revoked */
    bool unsettled;  /* the newest checkpoint may be revoked, so older ones are kept, too */
    bool begun_anew; /* the checkpoints of an earlier training are renamed until one of this
                        training is durable */

    pthread_t thread;
    bool running;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Protected by the mutex. */
    bool writing, stop, durable;
    bool told; /* `error` was reported */
    dpt_error error;
    bool counted;             /* `kept` was reported, or there is nothing to report */
    dpti_log_checkpoint kept; /* the cost of the last write, if it is durable */
};

/* ---- The thread ------------------------------------------------------------------------------ */

/* Adds a number.  Returns false if there is no memory. */
static bool remember(dpti_keeper *k, size_t number)
{
    if (k->n_own > 0 && k->own[k->n_own - 1] == number)
        return true; /* the same checkpoint was written again */
    size_t *own = dpti_grow(k->own, k->n_own, &k->own_capacity, sizeof *own);
    if (!own) return false;
    k->own = own;
    k->own[k->n_own++] = number;
    return true;
}

/* Removes the oldest numbers beyond n_kept. */
static void forget_oldest(dpti_keeper *k)
{
    const size_t n = k->n_own > k->n_kept ? k->n_own - k->n_kept : 0;
    memmove(k->own, k->own + n, (k->n_own - n) * sizeof *k->own);
    k->n_own -= n;
}

static bool is_own(const dpti_keeper *k, size_t number)
{
    for (size_t i = 0; i < k->n_own; i++)
        if (k->own[i] == number) return true;
    return false;
}

/* Deletes the checkpoints that are not kept: older ones, those of an earlier training, and those
   after an older checkpoint from which training was resumed.  A file that cannot be deleted is
   tried again next time. */
static void delete_others(dpti_keeper *k)
{
    size_t *numbers = NULL, n = 0;
    if (dpti_folder_list(k->folder, &numbers, &n, NULL) != DPT_OK) return;
    for (size_t i = 0; i < n; i++) {
        if (is_own(k, numbers[i])) continue;
        char *path = dpti_folder_path(k->folder, numbers[i]);
        dpti_fence_pass();
        if (path) (void)unlink(path);
        free(path);
    }
    free(numbers);
    dpti_folder_delete_aside(k->folder);
}

/* The newest checkpoint replaces older ones. */
static void settle(dpti_keeper *k)
{
    k->unsettled = k->begun_anew = false;
    forget_oldest(k);
    delete_others(k);
}

/* Returns the processor time of the calling thread. */
static double processor_seconds(void)
{
    struct timespec now;
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0
               ? (double)now.tv_sec + 1e-9 * (double)now.tv_nsec
               : 0;
}

static dpt_status write_one(dpti_keeper *k, dpti_log_checkpoint *kept, dpt_error *error)
{
    const size_t number = k->snapshot.step;
    const double began = dpti_seconds(), computed = processor_seconds();
    char *path = dpti_folder_path(k->folder, number);
    if (!path) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to write a checkpoint");
    dpti_folder_claim(path);
    const dpt_status status = dpti_snapshot_write(&k->snapshot, path, error);
    struct stat file = {.st_size = 0};
    if (status == DPT_OK) (void)stat(path, &file);
    free(path);
    DPT_TRY(status);
    *kept = (dpti_log_checkpoint){.step = number,
                                  .bytes = (size_t)file.st_size,
                                  .stopped = k->snapshot.seconds,
                                  .written = dpti_seconds() - began,
                                  .processor = processor_seconds() - computed};
    k->unsettled = false;
    if (!remember(k, number))
        k->begun_anew = false; /* nothing is deleted then */
    else if (k->revocable)
        k->unsettled = true;
    else
        settle(k);
    return DPT_OK;
}

static void *run(void *argument)
{
    dpti_keeper *k = argument;
    pthread_mutex_lock(&k->mutex);
    for (;;) {
        while (!k->writing && !k->stop)
            pthread_cond_wait(&k->changed, &k->mutex);
        if (!k->writing) break;
        pthread_mutex_unlock(&k->mutex);
        dpt_error error = {.status = DPT_OK};
        dpti_log_checkpoint kept = {.step = 0};
        const dpt_status status = write_one(k, &kept, &error);
        pthread_mutex_lock(&k->mutex);
        k->durable = status == DPT_OK;
        k->error = error;
        k->error.status = status;
        k->told = false;
        k->kept = kept;
        k->counted = status != DPT_OK;
        k->writing = false;
        pthread_cond_broadcast(&k->changed);
    }
    pthread_mutex_unlock(&k->mutex);
    return NULL;
}

/* ---- The caller ------------------------------------------------------------------------------ */

static dpt_status lock(dpti_keeper *k)
{
    dpt_trainer *t = k->trainer;
    dpt_error error = {0};
    const dpt_status status = dpti_folder_lock(k->folder, &k->lock, &error);
    const bool takes_over = t->context->goes_on && t->processes && !k->snapshot.alone &&
                            dpti_processes_timeout(t->processes) > 0;
    if (status == DPT_OK || (status == DPT_E_STATE && takes_over)) return DPT_OK;
    return dpti_context_fail(t->context, NULL, &error);
}

/* n_kept: 0: a folder of copies in memory, of which one is kept. */
static dpt_status create(dpt_trainer *trainer, const char *folder, size_t n_kept, dpti_keeper **out)
{
    dpti_keeper *k = calloc(1, sizeof *k);
    if (!k) return dpt_fail(trainer->context, DPT_E_NO_MEMORY, "no memory for checkpoints");
    *k = (dpti_keeper){.trainer = trainer,
                       .n_kept = n_kept > 0 ? n_kept : 1,
                       .snapshot = {.alone = n_kept == 0},
                       .lock = -1,
                       .told = true,
                       .counted = true,
                       .folder = dpti_strdup(folder)};
    pthread_mutex_init(&k->mutex, NULL);
    pthread_cond_init(&k->changed, NULL);
    dpt_status status = DPT_OK;
    if (!k->folder)
        status = dpt_fail(trainer->context, DPT_E_NO_MEMORY, "no memory for checkpoints");
    if (status == DPT_OK) status = lock(k);
    if (status == DPT_OK) {
        (void)dpti_folder_clean(folder);
        status = dpti_snapshot_create(trainer, &k->snapshot);
    }
    if (status == DPT_OK) {
        const int code = dpti_thread_start(&k->thread, run, k, "checkpoints");
        k->running = code == 0;
        if (code != 0)
            status = dpt_fail(trainer->context, DPT_E_INTERNAL,
                              "cannot start a thread for checkpoints (%s)", strerror(code));
    }
    if (status == DPT_OK)
        *out = k;
    else
        dpti_keeper_destroy(k);
    return status;
}

dpt_status dpti_keeper_create(dpt_trainer *trainer, const char *folder, size_t n_kept,
                              dpti_keeper **out)
{
    return create(trainer, folder, n_kept, out);
}

dpt_status dpti_keeper_create_copies(dpt_trainer *trainer, const char *folder, dpti_keeper **out)
{
    dpti_keeper *k = NULL;
    DPT_TRY(create(trainer, folder, 0, &k));
    const dpt_status status = dpti_keeper_adopt(k);
    if (status == DPT_OK)
        *out = k;
    else
        dpti_keeper_destroy(k);
    return status;
}

void dpti_keeper_destroy(dpti_keeper *keeper)
{
    dpti_keeper *k = keeper;
    if (!k) return;
    if (k->running) {
        pthread_mutex_lock(&k->mutex);
        k->stop = true;
        pthread_cond_broadcast(&k->changed);
        pthread_mutex_unlock(&k->mutex);
        pthread_join(k->thread, NULL);
    }
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->mutex);
    dpti_snapshot_free(&k->snapshot);
    if (k->unsettled) settle(k);
    if (k->begun_anew) dpti_folder_put_back(k->folder);
    if (k->lock >= 0) close(k->lock);
    free(k->own);
    free(k->folder);
    free(k);
}

bool dpti_keeper_idle(dpti_keeper *keeper)
{
    pthread_mutex_lock(&keeper->mutex);
    const bool idle = !keeper->writing;
    pthread_mutex_unlock(&keeper->mutex);
    return idle;
}

void dpti_keeper_wait(dpti_keeper *keeper)
{
    pthread_mutex_lock(&keeper->mutex);
    while (keeper->writing)
        pthread_cond_wait(&keeper->changed, &keeper->mutex);
    pthread_mutex_unlock(&keeper->mutex);
}

static void hand_over(dpti_keeper *k)
{
    pthread_mutex_lock(&k->mutex);
    k->writing = true;
    k->durable = false;
    pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->mutex);
}

dpt_status dpti_keeper_keep(dpti_keeper *keeper, const dpti_run_state *course, bool revocable)
{
    DPT_TRY(dpti_snapshot_take(keeper->trainer, course, &keeper->snapshot));
    keeper->revocable = revocable;
    hand_over(keeper);
    return DPT_OK;
}

void dpti_keeper_revoke(dpti_keeper *keeper)
{
    dpti_keeper *k = keeper;
    if (!k->unsettled) return;
    char *path = dpti_folder_path(k->folder, dpti_keeper_last(k));
    if (path) (void)unlink(path);
    free(path);
    k->n_own--;
    k->unsettled = false;
}

void dpti_keeper_keep_copy(dpti_keeper *keeper, dpti_snapshot *copy)
{
    const dpti_snapshot own = keeper->snapshot;
    keeper->snapshot = *copy;
    keeper->revocable = false;
    *copy = own;
    hand_over(keeper);
}

dpt_status dpti_keeper_failure(dpti_keeper *keeper, dpt_error *error)
{
    pthread_mutex_lock(&keeper->mutex);
    const dpt_status status = keeper->told ? DPT_OK : keeper->error.status;
    if (status != DPT_OK) *error = keeper->error;
    keeper->told = true;
    pthread_mutex_unlock(&keeper->mutex);
    return status;
}

bool dpti_keeper_kept(dpti_keeper *keeper, dpti_log_checkpoint *out)
{
    pthread_mutex_lock(&keeper->mutex);
    const bool news = !keeper->counted;
    if (news) *out = keeper->kept;
    keeper->counted = true;
    pthread_mutex_unlock(&keeper->mutex);
    return news;
}

bool dpti_keeper_durable(dpti_keeper *keeper)
{
    pthread_mutex_lock(&keeper->mutex);
    const bool durable = keeper->durable;
    pthread_mutex_unlock(&keeper->mutex);
    return durable;
}

bool dpti_keeper_has_any(const dpti_keeper *keeper)
{
    return keeper->n_own > 0;
}

size_t dpti_keeper_last(const dpti_keeper *keeper)
{
    return keeper->n_own > 0 ? keeper->own[keeper->n_own - 1] : 0;
}

/* ---- Which one to go on from ----------------------------------------------------------------- */

static dpt_status list(dpti_keeper *k, size_t **numbers, size_t *n)
{
    dpt_error error = {0};
    if (dpti_folder_list(k->folder, numbers, n, &error) == DPT_OK) return DPT_OK;
    return dpti_context_fail(k->trainer->context, NULL, &error);
}

/* Returns whether a checkpoint is not valid, so that an older one may be used. */
static bool unsound(dpt_status status)
{
    return status == DPT_E_FORMAT || status == DPT_E_IO || status == DPT_E_NOT_FOUND;
}

/* Returns whether the system refused to read a checkpoint, which may be valid. */
static bool unreadable(const dpt_error *error)
{
    return error->status == DPT_E_IO && error->native != 0;
}

static dpt_status open_numbered(dpti_keeper *k, size_t number, dpti_checkpoint *out)
{
    char *path = dpti_folder_path(k->folder, number);
    if (!path)
        return dpt_fail(k->trainer->context, DPT_E_NO_MEMORY, "no memory to read checkpoints");
    dpt_status status = dpti_checkpoint_open(k->trainer, path, out);
    if (status == DPT_OK && out->state.done.step != number) {
        status =
            dpt_fail(k->trainer->context, DPT_E_FORMAT,
                     "%s is of step %zu: it was given another name", path, out->state.done.step);
        dpti_checkpoint_close(out);
    }
    free(path);
    return status;
}

static dpt_status none_at_all(const dpti_keeper *k)
{
    dpt_context *context = k->trainer->context;
    if (dpti_folder_count_aside(k->folder) == 0)
        return dpt_fail(context, DPT_E_NOT_FOUND, "there is no checkpoint in %s", k->folder);
    return dpt_fail(
        context, DPT_E_INVALID,
        "%s has checkpoints of an earlier training only: a later training renamed them "
        "to old-*.safetensors and ended before its first checkpoint; leave out --resume "
        "to begin the later training again, or remove old- from the names of these "
        "files to continue the earlier one",
        k->folder);
}

/* A search for a sound checkpoint among numbered files. */
typedef struct search {
    size_t *numbers; /* (n) the greatest first */
    size_t n;
    size_t found;           /* index of the last file that was opened */
    dpti_keeper_tell *tell; /* is called for each file that is not sound */
    void *user;
} search;

static dpt_status find_newest(dpti_keeper *k, search *s, dpti_checkpoint *out)
{
    dpt_context *context = k->trainer->context;
    dpt_error unread = {.status = DPT_OK};
    if (s->n == 0) return none_at_all(k);
    for (size_t i = 0; i < s->n; i++) {
        const dpt_status status = open_numbered(k, s->numbers[i], out);
        s->found = i;
        if (!unsound(status)) return status;
        if (unreadable(&context->error)) unread = context->error;
        s->tell(dpt_error_message(context), s->user);
    }
    if (unread.status != DPT_OK)
        return dpt_fail(context, DPT_E_IO,
                        "no checkpoint in %s can be gone on with (%.300s): make them readable",
                        k->folder, unread.message);
    return dpt_fail(context, DPT_E_FORMAT,
                    "no checkpoint in %s is sound: remove checkpoint-*.safetensors there to begin "
                    "anew, without resuming",
                    k->folder);
}

dpt_status dpti_keeper_newest(dpti_keeper *keeper, dpti_keeper_tell *tell, void *user,
                              dpti_checkpoint *out)
{
    dpti_keeper *k = keeper;
    search s = {.tell = tell, .user = user};
    DPT_TRY(list(k, &s.numbers, &s.n));
    dpt_status status = find_newest(k, &s, out);
    for (size_t i = s.n; status == DPT_OK && i > s.found; i--)
        if (!remember(k, s.numbers[i - 1])) {
            dpti_checkpoint_close(out);
            status = dpt_fail(k->trainer->context, DPT_E_NO_MEMORY, "no memory for checkpoints");
        }
    free(s.numbers);
    return status;
}

dpt_status dpti_keeper_open_last(dpti_keeper *keeper, bool *sound, dpti_checkpoint *out)
{
    dpti_keeper *k = keeper;
    const dpt_status status = open_numbered(k, dpti_keeper_last(k), out);
    if (status != DPT_OK && !unsound(status)) return status;
    *sound = status == DPT_OK;
    if (*sound) return DPT_OK;
    char *path = dpti_folder_path(k->folder, dpti_keeper_last(k));
    if (path) (void)unlink(path);
    free(path);
    k->n_own--;
    return DPT_OK;
}

dpt_status dpti_keeper_adopt(dpti_keeper *keeper)
{
    size_t *numbers = NULL, n = 0;
    bool complete = true;
    DPT_TRY(list(keeper, &numbers, &n));
    for (size_t i = n; i > 0; i--)
        complete = complete && remember(keeper, numbers[i - 1]);
    free(numbers);
    if (complete) return DPT_OK;
    return dpt_fail(keeper->trainer->context, DPT_E_NO_MEMORY, "no memory for checkpoints");
}

/* Returns whether a checkpoint, of this or another training, says that its training has ended. */
static bool has_ended(const dpti_keeper *k, size_t number, dpt_error *error)
{
    char *path = dpti_folder_path(k->folder, number);
    const bool ended =
        path &&
        dpti_checkpoint_ended(
            path, dpti_checkpoint_most_bytes(k->trainer, path) + DPTI_OTHER_MODEL_BYTES, error);
    free(path);
    return ended;
}

dpt_status dpti_keeper_check_new(dpti_keeper *keeper)
{
    dpti_keeper *k = keeper;
    size_t *numbers = NULL, n = 0;
    dpt_error error = {.status = DPT_OK};
    DPT_TRY(list(k, &numbers, &n));
    const bool lost = n > 0 && !has_ended(k, numbers[0], &error);
    free(numbers);
    if (!lost) return DPT_OK;
    if (unreadable(&error))
        return dpt_fail(k->trainer->context, DPT_E_IO,
                        "whether the training in %s has ended cannot be told (%.300s): make its "
                        "checkpoints readable, or choose another folder",
                        k->folder, error.message);
    return dpt_fail(k->trainer->context, DPT_E_INVALID,
                    "%s has the checkpoints of a training that was interrupted: resume it "
                    "(--resume), choose another folder, or remove checkpoint-*.safetensors there",
                    k->folder);
}

dpt_status dpti_keeper_begin_new(dpti_keeper *keeper, size_t *ended)
{
    size_t *numbers = NULL, n = 0;
    dpt_error error = {0};
    *ended = 0;
    DPT_TRY(list(keeper, &numbers, &n));
    if (n > 0) *ended = numbers[0];
    free(numbers);
    keeper->begun_anew = true;
    if (dpti_folder_set_aside(keeper->folder, &error) == DPT_OK) return DPT_OK;
    return dpti_context_fail(keeper->trainer->context, NULL, &error);
}
