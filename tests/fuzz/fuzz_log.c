/* Feeds any text to the reader of run logs and checks what must hold of every log that is accepted:
   each step's shares fit into the batch, and memory is bounded by the text. */
#include "fuzz.h"
#include "io/log.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dpt_error error = {.status = DPT_OK};
    dpti_replay replay = {0};
    const dpt_status status = dpti_replay_parse("input", (const char *)data, size, &replay, &error);
    if (status == DPT_OK) {
        check_replay(&replay, size);
    } else {
        require(status == DPT_E_FORMAT || status == DPT_E_NO_MEMORY);
        require(!replay.shards && error.message[0]);
        for (const char *c = error.message; *c; c++)
            require(*c >= ' ' && *c <= '~');
    }
    dpti_replay_free(&replay);
    return 0;
}
