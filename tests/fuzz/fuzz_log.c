/* Feeds arbitrary text to the reader of run logs and checks every accepted log: the shards of each
   step fit into the batch, and the memory is bounded by the length of the text. */
#include "fuzz.h"
#include "io/compare.h"
#include "io/log.h"

#include <math.h>

static void check_replay(const dpti_replay *replay, size_t size)
{
    require(replay->n_steps >= 1 && replay->n_devices >= 1 && replay->batch_size >= 1);
    require(replay->n_steps * replay->n_devices <= size);
    for (size_t i = 0; i < replay->n_steps; i++) {
        size_t samples = 0;
        for (size_t d = 0; d < replay->n_devices; d++)
            samples += replay->shards[i * replay->n_devices + d];
        require(samples >= 1 && samples <= replay->batch_size);
    }
}

/* Where a resumed run goes on: what is kept ends with a line, and has no later step. */
static void check_cut(const uint8_t *data, size_t size)
{
    static const dpti_log_position at = {.step = 2, .epoch = 1, .batch_size = 32, .seed = 0};
    dpt_error error = {.status = DPT_OK};
    dpti_log_cut cut = {0}, again = {0};
    const dpt_status status =
        dpti_log_find_in(&(dpti_file_bytes){"input", data, size}, &at, &cut, &error);
    require(status == DPT_OK || status == DPT_E_INVALID);
    if (status != DPT_OK) return;
    require(cut.n_kept <= size && cut.last_step <= at.step);
    require(cut.n_kept == 0 || data[cut.n_kept - 1] == '\n');
    require(dpti_log_find_in(&(dpti_file_bytes){"input", data, cut.n_kept}, &at, &again, &error) ==
            DPT_OK);
    require(again.n_kept == cut.n_kept);
}

static bool hear_step(void *user, const dpt_step_metrics *step)
{
    size_t *last = user;
    require(step->n_devices == 2 && step->step > 0);
    *last += step->shards[0] > step->shards[1];
    return true;
}

static bool hear_epoch(void *user, const dpt_epoch_metrics *epoch)
{
    (void)user;
    require(epoch->epoch > 0 && epoch->tested == !isnan(epoch->test_accuracy));
    return true;
}

/* What a picture is drawn from. */
static void check_recall(const uint8_t *data, size_t size)
{
    size_t heard = 0;
    const dpti_log_listener listener = {
        .n_devices = 2, .step = hear_step, .epoch = hear_epoch, .user = &heard};
    require(dpti_log_recall_in((const char *)data, size, &listener));
    require(heard <= size);
}

/* A log has no difference from itself; compared with another one, no more is found than is there.
 */
static void check_compare(const uint8_t *data, size_t size)
{
    static const char other[] =
        "{\"event\":\"run\"}\n{\"event\":\"step\",\"step\":1,\"loss\":2.5}\n"
        "{\"event\":\"epoch\",\"epoch\":1,\"weights_sha256\":\"a\"}\n";
    const dpti_file_bytes input = {"input", data, size};
    dpt_error error = {.status = DPT_OK};
    dpt_log_comparison found;
    if (dpti_compare_logs((const dpti_file_bytes[]){input, input}, &found, &error) == DPT_OK) {
        require(!found.differs && found.common_steps == found.steps[0]);
        require(found.steps[0] == found.steps[1] && found.epochs[0] == found.epochs[1]);
    }
    if (dpti_compare_logs(
            (const dpti_file_bytes[]){input, {"other", (const uint8_t *)other, sizeof other - 1}},
            &found, &error) == DPT_OK)
        require(found.common_steps <= 1 && found.common_epochs <= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dpt_error error = {.status = DPT_OK};
    dpti_replay replay = {0};
    const dpt_status status =
        dpti_replay_parse(&(dpti_file_bytes){"input", data, size}, &replay, &error);
    if (status == DPT_OK) {
        check_replay(&replay, size);
    } else {
        require(status == DPT_E_FORMAT || status == DPT_E_NO_MEMORY);
        require(!replay.shards && error.message[0]);
        for (const char *c = error.message; *c; c++)
            require(*c >= ' ' && *c <= '~');
    }
    dpti_replay_free(&replay);
    check_cut(data, size);
    check_recall(data, size);
    check_compare(data, size);
    return 0;
}
