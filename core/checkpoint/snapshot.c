/* The whole state of a trainer, from the devices to a file and back. */
#include "checkpoint/snapshot.h"
#include "context/context.h"

#include "base/clock.h"
#include "base/text.h"
#include "checkpoint/settings.h"
#include "checkpoint/tensor_source.h"
#include "checkpoint/tensors.h"
#include "train/algorithms.h"
#include "train/components/order.h"
#include "train/exchange/exchange.h"
#include "train/peers/peers.h"
#include "train/pipeline/steps.h"
#include "train/plan/shards.h"
#include "train/progress/calls.h"
#include "train/progress/in_flight.h"
#include "train/recovery/recover.h"
#include "train/replicas/base_hash.h"
#include "train/replicas/replicas.h"
#include "train/replicas/state.h"
#include "train/replicas/state_buffers.h"
#include "train/rounds/rounds.h"
#include "train/standby/standby.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char state_key[] = "dptrain";

/* ---- Taking ---------------------------------------------------------------------------------- */

dpt_status dpti_snapshot_create(dpt_trainer *trainer, dpti_snapshot *out)
{
    dpt_trainer *t = trainer;
    dpti_snapshot s = {
        .model = t->model, .n_kinds = dpti_trainer_n_state_buffers(t), .alone = out->alone};
    for (size_t k = 0; k < s.n_kinds; k++) {
        s.flats[k] = dpti_trainer_make_flat(t);
        if (s.flats[k]) continue;
        dpti_snapshot_free(&s);
        return DPT_E_NO_MEMORY;
    }
    if (dpti_packs(t) && !s.alone) {
        s.n_owing = dpti_processes_count(t->processes);
        s.residual = calloc(s.n_owing, t->model->flat_gradients * sizeof *s.residual);
        if (!s.residual) {
            dpti_snapshot_free(&s);
            return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for a checkpoint");
        }
    }
    if (dpti_rounds_velocity(t)) {
        s.outer = dpti_trainer_make_flat(t);
        if (!s.outer) {
            dpti_snapshot_free(&s);
            return DPT_E_NO_MEMORY;
        }
    }
    if (dpti_exchange_factors(t)) {
        s.factors = dpti_trainer_make_flat(t);
        if (!s.factors) {
            dpti_snapshot_free(&s);
            return DPT_E_NO_MEMORY;
        }
    }
    *out = s;
    return DPT_OK;
}

void dpti_snapshot_free(dpti_snapshot *snapshot)
{
    for (size_t k = 0; k < DPTI_MAX_STATE_BUFFERS; k++)
        free(snapshot->flats[k]);
    free(snapshot->residual);
    free(snapshot->outer);
    free(snapshot->factors);
    free(snapshot->state);
    dpti_origin_free(&snapshot->origin);
    *snapshot = (dpti_snapshot){.n_kinds = 0};
}

static size_t factor_bytes(const dpt_trainer *t)
{
    return dpti_exchange_factors(t) ? t->model->flat_trained * sizeof(float) : 0;
}

/* Stores what the balance has learnt about each device, and which devices are on standby.  Does
   nothing if there is no balance. */
static bool take_balance(const dpt_trainer *t, dpti_run_state *state)
{
    dpti_time_model models[DPTI_BALANCE_MAX_DEVICES];
    size_t shards[DPTI_BALANCE_MAX_DEVICES];
    bool rests[DPTI_BALANCE_MAX_DEVICES] = {false};
    double exchange[DPTI_BALANCE_MAX_DEVICES] = {0.0};
    const dpti_balance *balance = dpti_shards_balance(t);
    if (!balance || !dpti_balance_learnt(balance, models, shards, &state->calibrated)) return true;
    state->may_standby = dpti_standby_export(t, rests, exchange, &state->rest);
    state->devices = calloc(t->n_devices, sizeof *state->devices);
    if (!state->devices) return false;
    state->n_devices = t->n_devices;
    for (size_t i = 0; i < t->n_devices; i++) {
        dpti_run_device *d = &state->devices[i];
        *d = (dpti_run_device){
            .shard = shards[i], .model = models[i], .rests = rests[i], .exchange = exchange[i]};
        snprintf(d->id, sizeof d->id, "%s", dpti_peers_device(t, i)->id);
    }
    return true;
}

/* Collects the error feedback of each process (flat_gradients each) in process 0, if no process has
   failed so far (`status`).  `all` is NULL in the other processes. */
static dpt_status collect_residuals(dpt_trainer *t, dpt_status status, float *all)
{
    dpt_error error = {.status = DPT_OK};
    float *mine = status == DPT_OK ? dpti_trainer_make_flat(t) : NULL;
    if (status == DPT_OK && !mine) status = DPT_E_NO_MEMORY;
    status = dpti_peers_agree(t, status);
    if (status == DPT_OK) {
        size_t count;
        const float *residual = dpti_exchange_feedback(t, &count);
        memcpy(mine, residual, count * sizeof *mine);
        const dpti_rooted what = {
            .mine = mine, .all = all, .n_bytes = t->model->flat_gradients * sizeof *mine};
        status = dpti_processes_collect(t->processes, &what, &error);
        if (status != DPT_OK) (void)dpti_context_fail(t->context, NULL, &error);
    }
    free(mine);
    return status;
}

dpt_status dpti_snapshot_send(dpt_trainer *trainer)
{
    return dpti_packs(trainer) ? collect_residuals(trainer, DPT_OK, NULL) : DPT_OK;
}

/* Describes the training; `course`: as in dpti_snapshot_take.  The caller frees *state, after a
   failure too. */
static bool describe(dpt_trainer *t, const dpti_run_state *course, dpti_run_state *state)
{
    if (course) *state = *course;
    const dpti_state_origin origin = dpti_state_get_origin(t);
    state->done = *dpti_steps_done(t);
    state->optimizer_origin = origin.optimizer;
    state->batches_before = origin.batches;
    if (!course) state->lr = (double)t->lr;
    dpti_settings_of_trainer(t, &state->settings);
    return take_balance(t, state) && dpti_algorithms_note(t, &state->algorithms);
}

dpt_status dpti_snapshot_take(dpt_trainer *trainer, const dpti_run_state *course,
                              dpti_snapshot *snapshot)
{
    dpt_trainer *t = trainer;
    const double began = dpti_seconds();
    const char *base;
    dpt_status status = dpti_base_hash(t, &base);
    if (status == DPT_OK) status = dpti_trainer_read_trusted(t, snapshot->n_kinds, snapshot->flats);
    if (dpti_packs(t) && !snapshot->alone)
        status = collect_residuals(t, status, snapshot->residual);
    DPT_TRY(status);
    if (snapshot->outer)
        memcpy(snapshot->outer, dpti_rounds_velocity(t),
               t->model->flat_gradients * sizeof *snapshot->outer);
    if (snapshot->factors) memcpy(snapshot->factors, dpti_exchange_factors(t), factor_bytes(t));
    dpti_run_state *state = calloc(1, sizeof *state);
    if (!state) return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for a checkpoint");
    const bool complete = describe(t, course, state);
    state->n_owing = snapshot->n_owing;
    char *text = complete ? dpti_run_state_encode(state) : NULL;
    dpti_run_state_free(state);
    free(state);
    if (!text) return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for a checkpoint");
    free(snapshot->state);
    snapshot->state = text;
    snapshot->step = dpt_trainer_steps(t);
    dpti_origin_free(&snapshot->origin);
    dpti_origin_of(t, &snapshot->origin);
    snapshot->batches = (int64_t)(dpti_state_get_origin(t).batches + dpt_trainer_steps(t));
    snapshot->seconds = dpti_seconds() - began;
    return DPT_OK;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static dpt_status write_file(dpti_snapshot *s, const char *path, dpti_tensors *tensors,
                             dpt_error *error)
{
    const char *metadata[DPTI_ORIGIN_LIST];
    dpti_origin_list(&s->origin, state_key, s->state, metadata);
    DPT_TRY(dpti_tensors_create(s->model,
                                s->n_kinds + s->n_owing + (s->outer != NULL) + (s->factors != NULL),
                                tensors, error));
    DPT_TRY(dpti_tensors_add_weights(tensors, s->flats[0], s->batches, error));
    for (size_t k = 1; k < s->n_kinds; k++)
        DPT_TRY(dpti_tensors_add_state(
            tensors, (dpti_state_kind){dpti_optimizer_tensor, dpti_state_buffer_kind(k)},
            s->flats[k], error));
    for (size_t r = 0; r < s->n_owing; r++)
        DPT_TRY(dpti_tensors_add_state(tensors, (dpti_state_kind){dpti_residual_tensor, r},
                                       s->residual + r * s->model->flat_gradients, error));
    if (s->outer)
        DPT_TRY(dpti_tensors_add_state(tensors, (dpti_state_kind){dpti_outer_tensor, 0}, s->outer,
                                       error));
    if (s->factors)
        DPT_TRY(dpti_tensors_add_state(tensors, (dpti_state_kind){dpti_factor_tensor, 0},
                                       s->factors, error));
    return dpti_safetensors_seal(
        &(dpti_tensor_file){
            .path = path, .tensors = tensors->list, .n_tensors = tensors->n, .metadata = metadata},
        error);
}

dpt_status dpti_snapshot_write(dpti_snapshot *snapshot, const char *path, dpt_error *error)
{
    dpti_tensors tensors = {.n = 0};
    const dpt_status status = write_file(snapshot, path, &tensors, error);
    dpti_tensors_free(&tensors);
    free(snapshot->state);
    snapshot->state = NULL;
    return status;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static const size_t most_header_bytes = (size_t)16 << 20;

/* Reads from a file's header how many processes' error feedback, and how many devices' algorithms,
   the file has. */
static void peek(const char *path, size_t *n_owing, size_t *n_devices)
{
    char *text = dpti_safetensors_peek(path, most_header_bytes, state_key);
    dpti_run_state *state = calloc(1, sizeof *state);
    *n_owing = *n_devices = 0;
    if (text && state && dpti_run_state_decode(path, text, state, NULL) == DPT_OK) {
        *n_owing = state->n_owing;
        *n_devices = state->algorithms.n;
        dpti_run_state_free(state);
    }
    free(state);
    free(text);
}

/* The bound adds up the data, a header entry for each tensor, and in the run state, for each
   device, the algorithm of every operation. */
size_t dpti_checkpoint_most_bytes(const dpt_trainer *trainer, const char *path)
{
    const dpt_trainer *t = trainer;
    size_t n_owing, n_devices;
    peek(path, &n_owing, &n_devices);
    if (n_devices < t->n_devices) n_devices = t->n_devices;
    /* 2: the outer velocity, and factors */
    const size_t n_flats = DPTI_MAX_STATE_BUFFERS + 2 + n_owing;
    return dpti_weights_most_bytes(t->model, n_flats, n_devices);
}

/* Returns whether this order of samples can reach the cursor. */
static bool fits_data(const dpt_trainer *t, const dpti_cursor *cursor)
{
    return cursor->position < t->data->count && cursor->position % dpti_step_samples(t) == 0;
}

static dpt_status check_position(dpt_trainer *t, const dpti_checkpoint *c)
{
    const dpti_run_state *s = &c->state;
    if (fits_data(t, &s->done) && (!s->in_course || fits_data(t, &s->course.first))) return DPT_OK;
    return dpt_fail(t->context, DPT_E_FORMAT, "%s: its position is not in the data", c->path);
}

dpt_status dpti_checkpoint_compare(dpt_trainer *trainer, const dpti_checkpoint *checkpoint,
                                   const dpti_settings *settings)
{
    const char *was = NULL;
    const dpti_setting *now = dpti_settings_differ(settings, &checkpoint->state.settings, &was);
    char option[128], before[101], after[101];
    if (!now) return DPT_OK;
    dpti_setting_option(now, option, sizeof option);
    dpti_setting_show(was ? was : "none", before, sizeof before);
    dpti_setting_show(now->text, after, sizeof after);
    return dpt_fail(
        trainer->context, DPT_E_INVALID,
        "%s is of a training with another %s (%s, and now it is %s): give the same%s, or "
        "begin anew from its weights (--load)",
        checkpoint->path, now->key, before, after, option);
}

static dpt_status compare_trainer(dpt_trainer *t, const dpti_checkpoint *c)
{
    dpti_settings *now = calloc(1, sizeof *now);
    if (!now) return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory to read %s", c->path);
    dpti_settings_of_trainer(t, now);
    const dpt_status status = dpti_checkpoint_compare(t, c, now);
    free(now);
    return status;
}

/* Reads the error feedback of the file's processes and assigns it to the trainer's processes: see
   dpti_checkpoint_deal. */
static dpt_status read_residuals(dpt_trainer *t, const dpti_tensor_source *source,
                                 dpti_checkpoint *c)
{
    const size_t n = dpti_processes_count(t->processes), size = t->model->flat_gradients;
    const bool same = c->state.n_owing == n;
    float *flat = dpti_trainer_make_flat(t);
    c->all_residuals = calloc(n, size * sizeof *c->all_residuals);
    dpt_status status = flat && c->all_residuals ? DPT_OK : DPT_E_NO_MEMORY;
    for (size_t r = 0; status == DPT_OK && r < c->state.n_owing; r++) {
        status = dpti_state_read(source, (dpti_state_kind){dpti_residual_tensor, r}, flat);
        float *to = c->all_residuals + (same ? r * size : 0);
        for (size_t i = 0; i < size; i++)
            to[i] += flat[i];
    }
    free(flat);
    if (status == DPT_E_NO_MEMORY)
        return dpt_fail(t->context, status, "no memory to read %s", c->path);
    return status;
}

static bool is_factor(const char *name)
{
    return strncmp(name, DPTI_FACTOR_PREFIX, strlen(DPTI_FACTOR_PREFIX)) == 0;
}

/* Reads the factors of low rank; zeros if the file has none.  Whatever they are, the next step can
   begin with them. */
static dpt_status read_factors(dpt_trainer *t, const dpti_tensor_source *source, dpti_checkpoint *c)
{
    if (!dpti_exchange_factors(t)) return DPT_OK;
    c->factors = dpti_trainer_make_flat(t);
    if (!c->factors) return DPT_E_NO_MEMORY;
    if (!dpti_safetensors_any(source->file, is_factor)) return DPT_OK;
    return dpti_state_read(source, (dpti_state_kind){dpti_factor_tensor, 0}, c->factors);
}

static dpt_status read_tensors(dpt_trainer *t, const dpti_safetensors *file, dpti_checkpoint *c)
{
    const size_t n_kinds = dpti_trainer_n_state_buffers(t);
    float *outside = dpti_trainer_make_flat(t);
    if (!outside) return DPT_E_NO_MEMORY;
    const dpti_tensor_source source = {.context = t->context,
                                       .model = t->model,
                                       .path = c->path,
                                       .file = file,
                                       .outside = outside,
                                       .resumes = true};
    dpt_status status = DPT_OK;
    for (size_t k = 0; status == DPT_OK && k < n_kinds; k++) {
        c->flats[k] = dpti_trainer_make_flat(t);
        if (!c->flats[k])
            status = DPT_E_NO_MEMORY;
        else if (k == 0)
            status = dpti_weights_read(&source, NULL, c->flats[0]);
        else
            status = dpti_state_read(
                &source, (dpti_state_kind){dpti_optimizer_tensor, dpti_state_buffer_kind(k)},
                c->flats[k]);
    }
    if (status == DPT_OK && dpti_packs(t) && c->state.n_owing > 0)
        status = read_residuals(t, &source, c);
    if (status == DPT_OK && dpti_rounds_velocity(t)) {
        c->outer = dpti_trainer_make_flat(t);
        status = c->outer
                     ? dpti_state_read(&source, (dpti_state_kind){dpti_outer_tensor, 0}, c->outer)
                     : DPT_E_NO_MEMORY;
    }
    if (status == DPT_OK) status = read_factors(t, &source, c);
    free(outside);
    return status;
}

static dpt_status read_file(dpt_trainer *t, const dpti_safetensors *file, dpti_checkpoint *c)
{
    dpt_error error = {0};
    const char *text = dpti_safetensors_metadata(file, state_key);
    if (!text)
        return dpt_fail(t->context, DPT_E_FORMAT,
                        "%s has weights only, and not the state of a training", c->path);
    if (dpti_run_state_decode(c->path, text, &c->state, &error) != DPT_OK)
        return dpti_context_fail(t->context, NULL, &error);
    DPT_TRY(compare_trainer(t, c));
    DPT_TRY(check_position(t, c));
    DPT_TRY(dpti_base_check(t, c->path, dpti_safetensors_metadata(file, DPTI_BASE_KEY)));
    return read_tensors(t, file, c);
}

/* A file that is too large for the trainer's model belongs to another model, if its header says
   so. */
static dpt_status compare_header(dpt_trainer *t, dpti_checkpoint *c)
{
    char *text = dpti_safetensors_peek(c->path, most_header_bytes, state_key);
    const bool read = text && dpti_run_state_decode(c->path, text, &c->state, NULL) == DPT_OK;
    free(text);
    return read ? compare_trainer(t, c) : DPT_OK;
}

dpt_status dpti_checkpoint_open(dpt_trainer *trainer, const char *path, dpti_checkpoint *out)
{
    dpt_trainer *t = trainer;
    dpti_safetensors *file = NULL;
    dpt_error error = {0};
    dpti_checkpoint c = {.path = dpti_strdup(path)};
    if (!c.path) return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory to read %s", path);
    dpt_status status =
        dpti_safetensors_read_sealed(path, dpti_checkpoint_most_bytes(t, path), &file, &error);
    if (status == DPT_E_FORMAT && error.native == EFBIG && compare_header(t, &c) != DPT_OK)
        status = t->context->error.status;
    else if (status != DPT_OK)
        (void)dpti_context_fail(t->context, NULL, &error);
    else
        status = read_file(t, file, &c);
    dpti_safetensors_close(file);
    if (status == DPT_OK)
        *out = c;
    else
        dpti_checkpoint_close(&c);
    return status;
}

void dpti_checkpoint_close(dpti_checkpoint *checkpoint)
{
    for (size_t k = 0; k < DPTI_MAX_STATE_BUFFERS; k++)
        free(checkpoint->flats[k]);
    free(checkpoint->all_residuals);
    free(checkpoint->residual);
    free(checkpoint->outer);
    free(checkpoint->factors);
    dpti_run_state_free(&checkpoint->state);
    free(checkpoint->path);
    *checkpoint = (dpti_checkpoint){.path = NULL};
}

static size_t flat_bytes(const dpt_trainer *t, size_t k)
{
    return dpti_saved_elements(t, dpti_state_buffer_kind(k)) * sizeof(float);
}

static size_t outer_bytes(const dpt_trainer *t)
{
    return dpti_rounds_velocity(t) ? t->model->flat_gradients * sizeof(float) : 0;
}

dpt_status dpti_checkpoint_take(dpt_trainer *trainer, const dpti_run_state *course,
                                const char *name, dpti_checkpoint *out)
{
    dpt_trainer *t = trainer;
    dpti_checkpoint c = {.path = dpti_strdup(name)};
    dpt_status status = dpti_replica_make_flats(t, c.flats);
    if (status == DPT_OK)
        status = dpti_trainer_read_trusted(t, dpti_trainer_n_state_buffers(t), c.flats);
    if (status == DPT_OK && (!c.path || !describe(t, course, &c.state)))
        status = dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for the training state");
    if (status == DPT_OK)
        *out = c;
    else
        dpti_checkpoint_close(&c);
    return status;
}

/* Zeros stand for none. */
static void pack_factors(const dpt_trainer *t, const dpti_checkpoint *c, uint8_t *to)
{
    if (c->factors)
        memcpy(to, c->factors, factor_bytes(t));
    else
        memset(to, 0, factor_bytes(t));
}

/* Packs the run state as in the file, the path and the flat buffers.  Error feedback is not
   packed, because dpti_checkpoint_deal distributes it. */
uint8_t *dpti_checkpoint_pack(const dpt_trainer *trainer, const dpti_checkpoint *checkpoint,
                              size_t *n_bytes)
{
    const dpti_checkpoint *c = checkpoint;
    char *state = dpti_run_state_encode(&c->state);
    if (!state) return NULL;
    const size_t path_bytes = strlen(c->path) + 1, state_bytes = strlen(state) + 1;
    *n_bytes = state_bytes + path_bytes;
    for (size_t k = 0; k < DPTI_MAX_STATE_BUFFERS && c->flats[k]; k++)
        *n_bytes += flat_bytes(trainer, k);
    *n_bytes += outer_bytes(trainer) + factor_bytes(trainer);
    uint8_t *bytes = malloc(*n_bytes), *at = bytes;
    if (bytes) {
        memcpy(at, state, state_bytes);
        at += state_bytes;
        memcpy(at, c->path, path_bytes);
        at += path_bytes;
    }
    for (size_t k = 0; bytes && k < DPTI_MAX_STATE_BUFFERS && c->flats[k]; k++) {
        memcpy(at, c->flats[k], flat_bytes(trainer, k));
        at += flat_bytes(trainer, k);
    }
    if (bytes && c->outer) memcpy(at, c->outer, outer_bytes(trainer));
    if (bytes) pack_factors(trainer, c, at + outer_bytes(trainer));
    free(state);
    return bytes;
}

/* Returns a copy of the next bytes; NULL if there is no memory. */
static void *take_copy(const uint8_t **at, size_t n_bytes)
{
    void *copy = malloc(n_bytes);
    if (copy) memcpy(copy, *at, n_bytes);
    *at += n_bytes;
    return copy;
}

bool dpti_checkpoint_unpack(const dpt_trainer *trainer, const uint8_t *bytes, dpti_checkpoint *out)
{
    dpti_checkpoint c = {.path = NULL};
    const char *state = (const char *)bytes;
    const uint8_t *at = bytes + strlen(state) + 1;
    c.path = take_copy(&at, strlen((const char *)at) + 1);
    bool complete = c.path && dpti_run_state_decode(c.path, state, &c.state, NULL) == DPT_OK;
    for (size_t k = 0; k < dpti_trainer_n_state_buffers(trainer); k++) {
        c.flats[k] = take_copy(&at, flat_bytes(trainer, k));
        complete = complete && c.flats[k];
    }
    if (outer_bytes(trainer) > 0) {
        c.outer = take_copy(&at, outer_bytes(trainer));
        complete = complete && c.outer;
    }
    if (factor_bytes(trainer) > 0) {
        c.factors = take_copy(&at, factor_bytes(trainer));
        complete = complete && c.factors;
    }
    if (complete)
        *out = c;
    else
        dpti_checkpoint_close(&c);
    return complete;
}

bool dpti_checkpoint_ended(const char *path, size_t max_bytes, dpt_error *error)
{
    dpti_safetensors *file = NULL;
    dpti_run_state *state = calloc(1, sizeof *state);
    bool ended = false;
    if (state && dpti_safetensors_read_sealed(path, max_bytes, &file, error) == DPT_OK) {
        const char *text = dpti_safetensors_metadata(file, state_key);
        ended = text && dpti_run_state_decode(path, text, state, NULL) == DPT_OK && state->finished;
        dpti_run_state_free(state);
    }
    dpti_safetensors_close(file);
    free(state);
    return ended;
}

/* ---- Going on -------------------------------------------------------------------------------- */

/* Restores what the balance has learnt if the devices are the same; otherwise the balance begins
   anew.  Returns whether it was restored. */
static bool apply_balance(dpt_trainer *t, const dpti_run_state *state)
{
    dpti_time_model models[DPTI_BALANCE_MAX_DEVICES];
    size_t shards[DPTI_BALANCE_MAX_DEVICES];
    char id[DPTI_RUN_ID_BYTES];
    if (!dpti_shards_balance(t) || state->n_devices != t->n_devices) return false;
    for (size_t i = 0; i < t->n_devices; i++) {
        snprintf(id, sizeof id, "%s", dpti_peers_device(t, i)->id);
        if (strcmp(id, state->devices[i].id) != 0) return false;
        models[i] = state->devices[i].model;
        shards[i] = state->devices[i].shard;
    }
    return dpti_balance_resume(dpti_shards_balance(t), models, shards, state->calibrated);
}

static void apply_rest(dpt_trainer *t, const dpti_run_state *state)
{
    bool rests[DPTI_BALANCE_MAX_DEVICES];
    double exchange[DPTI_BALANCE_MAX_DEVICES];
    if (!state->may_standby) return;
    for (size_t i = 0; i < t->n_devices; i++) {
        rests[i] = state->devices[i].rests;
        exchange[i] = state->devices[i].exchange;
    }
    dpti_standby_resume(t, rests, exchange, &state->rest);
}

dpt_status dpti_checkpoint_deal(dpt_trainer *trainer, dpti_checkpoint *checkpoint)
{
    dpt_trainer *t = trainer;
    dpti_checkpoint *c = checkpoint;
    dpt_error error = {.status = DPT_OK};
    const unsigned owing = c->state.n_owing > 0;
    unsigned first = owing;
    if (!dpti_packs(t)) return DPT_OK;
    DPT_TRY(dpti_peers_ask_first(t, owing, &first));
    DPT_TRY(dpti_peers_agree(
        t, owing == first ? DPT_OK
                          : dpt_fail(t->context, DPT_E_INVALID,
                                     "the state to go on from is another one than process 0's: "
                                     "load the same file in all processes")));
    if (!owing) return DPT_OK;
    c->residual = dpti_trainer_make_flat(t);
    DPT_TRY(dpti_peers_agree(t, c->residual ? DPT_OK : DPT_E_NO_MEMORY));
    const dpti_rooted what = {.mine = c->residual,
                              .all = c->all_residuals,
                              .n_bytes = t->model->flat_gradients * sizeof *c->residual};
    if (dpti_processes_deal(t->processes, &what, &error) != DPT_OK)
        return dpti_context_fail(t->context, NULL, &error);
    free(c->all_residuals);
    c->all_residuals = NULL;
    return DPT_OK;
}

/* Does nothing if `residual` is NULL. */
static void apply_residuals(dpt_trainer *t, const float *residual)
{
    size_t count;
    float *mine = dpti_exchange_feedback(t, &count);
    if (residual && dpti_packs(t))
        memcpy(mine, residual, count * sizeof *residual);
    else
        dpti_exchange_clear_feedback(t);
}

static void apply_factors(dpt_trainer *t, const float *factors)
{
    float *mine = dpti_exchange_factors(t);
    if (mine && factors)
        memcpy(mine, factors, factor_bytes(t));
    else if (mine)
        memset(mine, 0, factor_bytes(t));
}

dpt_status dpti_checkpoint_apply(dpt_trainer *trainer, const dpti_checkpoint *checkpoint)
{
    dpt_trainer *t = trainer;
    const dpti_run_state *s = &checkpoint->state;
    if (t->model->lora) { /* all replicas, since only adapters are written */
        DPT_TRY(dpti_trainer_refresh(t));
        DPT_TRY(dpti_trainer_catch_up(t));
    }
    dpti_standby_end(t);
    dpti_trainer_forget_unsubmitted(t);
    dpti_steps_move_to(t, s->done);
    dpti_state_set_origin(
        t, (dpti_state_origin){.optimizer = s->optimizer_origin, .batches = s->batches_before});
    t->lr = (float)s->lr;
    const bool same = apply_balance(t, s);
    apply_residuals(t, checkpoint->residual);
    apply_factors(t, checkpoint->factors);
    dpti_rounds_restart(t);
    if (checkpoint->outer) memcpy(dpti_rounds_velocity(t), checkpoint->outer, outer_bytes(t));
    DPT_TRY(dpti_trainer_adopt_saved(t, (const float *const *)checkpoint->flats));
    if (same) apply_rest(t, s);
    return DPT_OK;
}

/* ---- In C programs --------------------------------------------------------------------------- */

/* If sums over processes are compressed, process 0 has the snapshot and the file. */
static bool writes(const dpt_trainer *t)
{
    return !dpti_packs(t) || dpti_processes_rank(t->processes) == 0;
}

static dpt_status together(dpt_trainer *t, dpt_status mine)
{
    return dpti_packs(t) ? dpti_peers_agree(t, mine) : mine;
}

static dpt_status save_state(dpt_trainer *t, dpti_snapshot *snapshot, const char *path)
{
    dpt_error error = {0};
    if (!writes(t)) return dpti_snapshot_send(t);
    DPT_TRY(dpti_snapshot_take(t, NULL, snapshot));
    if (dpti_snapshot_write(snapshot, path, &error) == DPT_OK) return DPT_OK;
    return dpti_context_fail(t->context, NULL, &error);
}

dpt_status dpt_trainer_save_state(dpt_trainer *trainer, const char *path)
{
    dpt_trainer *t = trainer;
    dpti_snapshot snapshot = {.n_kinds = 0};
    DPT_TRY(dpti_trainer_check_idle(t, "dpt_trainer_save_state"));
    DPT_TRY(dpti_rounds_check_closed(t, "dpt_trainer_save_state"));
    dpt_status status = together(t, writes(t) ? dpti_snapshot_create(t, &snapshot) : DPT_OK);
    if (status == DPT_OK) status = together(t, save_state(t, &snapshot, path));
    dpti_snapshot_free(&snapshot);
    return status;
}

dpt_status dpt_trainer_load_state(dpt_trainer *trainer, const char *path)
{
    dpti_checkpoint checkpoint = {.path = NULL};
    DPT_TRY(dpti_trainer_check_idle(trainer, "dpt_trainer_load_state"));
    DPT_TRY(dpti_rounds_check_closed(trainer, "dpt_trainer_load_state"));
    dpt_status status = together(trainer, dpti_checkpoint_open(trainer, path, &checkpoint));
    if (status == DPT_OK) status = dpti_checkpoint_deal(trainer, &checkpoint);
    if (status == DPT_OK) status = dpti_checkpoint_apply(trainer, &checkpoint);
    /* One of several processes may load a state alone.  The next step reports that; this call must
       not wait for the others. */
    if (status == DPT_OK && !trainer->processes)
        status = dpti_algorithms_resume(trainer, DPT_OK, &checkpoint.state.algorithms);
    dpti_checkpoint_close(&checkpoint);
    return status;
}
