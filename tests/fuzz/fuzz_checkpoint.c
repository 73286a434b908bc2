/* Feeds arbitrary text to the reader of a checkpoint's run state.  An accepted state must be
   unchanged after writing and reading it again, and a balance that resumes from it must divide
   every batch. */
#include "checkpoint/run_state.h"
#include "fuzz.h"

#include <math.h>

enum { MAX_BATCH = 4096, STEPS = 12 };

static void check_bounds(const dpti_run_state *s)
{
    const size_t most = (size_t)1 << 48;
    require(s->done.epoch >= 1 && s->done.epoch <= most && s->done.step <= most);
    require(s->optimizer_origin <= s->done.step && isfinite(s->lr));
    require(s->settings.n <= DPTI_SETTINGS);
    require(s->n_owing <= DPTI_BALANCE_MAX_DEVICES);
    for (size_t i = 0; i < s->settings.n; i++) {
        require(memchr(s->settings.list[i].key, 0, DPTI_SETTING_KEY_BYTES));
        require(memchr(s->settings.list[i].text, 0, DPTI_SETTING_BYTES));
    }
    if (!s->in_course) return;
    require(s->course.first.step + s->course.result.steps == s->done.step);
    require(s->course.hits <= s->course.samples && isfinite(s->course.loss));
}

/* Written and read again it is the same text. */
static void check_again(const dpti_run_state *s)
{
    dpt_error error = {.status = DPT_OK};
    dpti_run_state *again = calloc(1, sizeof *again);
    char *first = dpti_run_state_encode(s), *second = NULL;
    require(again && first);
    require(dpti_run_state_decode("input", first, again, &error) == DPT_OK);
    second = dpti_run_state_encode(again);
    require(second && strcmp(first, second) == 0);
    free(second);
    free(first);
    dpti_run_state_free(again);
    free(again);
}

static void check_balance(const dpti_run_state *s)
{
    enum { MOST = DPTI_BALANCE_MAX_DEVICES };
    static dpti_time_model models[MOST];
    static size_t shards[MOST], capacities[MOST];
    static double seconds[MOST];
    size_t batch = 0;
    for (size_t i = 0; i < s->n_devices; i++) {
        models[i] = s->devices[i].model;
        shards[i] = s->devices[i].shard;
        batch += shards[i];
        capacities[i] = MAX_BATCH;
    }
    if (s->n_devices == 0 || batch == 0 || batch > MAX_BATCH) return;
    const dpti_balance_options options = {
        .n_devices = s->n_devices, .batch_size = batch, .quantum = 1, .capacities = capacities};
    dpti_balance *balance = dpti_balance_create(&options);
    require(balance);
    const bool resumed = dpti_balance_resume(balance, models, shards, s->calibrated);
    for (size_t i = 0; resumed && i < s->n_devices; i++)
        if (s->devices[i].rests) (void)dpti_balance_exclude(balance, i);
    for (size_t step = 0; resumed && step < STEPS; step++) {
        size_t sum = 0;
        (void)dpti_balance_next(balance, step % 4 == 3 ? (batch + 1) / 2 : batch, shards);
        for (size_t i = 0; i < s->n_devices; i++) {
            sum += shards[i];
            seconds[i] = 0.01 * (double)(shards[i] + i);
        }
        require(sum == (step % 4 == 3 ? (batch + 1) / 2 : batch));
        dpti_balance_observe(balance, shards, seconds);
    }
    dpti_balance_destroy(balance);
}

static void check_rest(const dpti_run_state *s)
{
    const size_t most = (size_t)1 << 48;
    const dpti_standby_policy r = dpti_standby_policy_resume(&s->rest, true);
    require(s->rest.with.seconds >= 0 && s->rest.without.seconds >= 0);
    require(r.learnt.present_for > 0 && r.learnt.present_for < most);
    require(r.learnt.standby_for > 0 && r.learnt.standby_for < most);
    for (size_t i = 0; i < s->n_devices; i++)
        require(s->devices[i].exchange >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dpt_error error = {.status = DPT_OK};
    char *text = malloc(size + 1);
    dpti_run_state *state = calloc(1, sizeof *state);
    require(text && state);
    if (size > 0) memcpy(text, data, size);
    text[size] = '\0';
    const dpt_status status = dpti_run_state_decode("input", text, state, &error);
    if (status == DPT_OK) {
        check_bounds(state);
        check_again(state);
        check_balance(state);
        check_rest(state);
    } else {
        require_refusal(status, &error);
        require(!state->devices);
    }
    dpti_run_state_free(state);
    free(state);
    free(text);
    return 0;
}
