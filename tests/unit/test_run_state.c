/* Tests that the state of a run in a checkpoint is read by the names of this release and by those
   of the release before. */
#include "checkpoint/run_state.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The smallest state with a device: what stands before the key of its shard, and behind the key. */
static const char before[] =
    "{\"version\":1,\"done\":{\"step\":3,\"epoch\":1,\"position\":48},\"optimizer_origin\":0,"
    "\"batches_before\":\"0\",\"lr\":0.125,\"settings\":{},\"balance\":{\"calibrated\":true,"
    "\"devices\":[{\"id\":\"cpu\",\"";
static const char behind[] =
    "\":16,\"a\":0.25,\"b\":0.5,\"p00\":1.0,\"p01\":0.0,"
    "\"p11\":1.0,\"idle\":0.0,\"noise\":0.25,\"lean\":0.0,\"wandering\":0.0,\"seen\":4}]}}";

static bool decode(const char *key, dpti_run_state *out, dpt_error *error)
{
    char text[sizeof before + sizeof behind + 16];
    snprintf(text, sizeof text, "%s%s%s", before, key, behind);
    *out = (dpti_run_state){.n_devices = 0};
    return dpti_run_state_decode("state", text, out, error) == DPT_OK;
}

static void reads_both_keys_of_a_shard(test *t)
{
    static const char *const keys[] = {"shard", "share"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        dpti_run_state state;
        dpt_error error = {.status = DPT_OK};
        const bool read = decode(keys[i], &state, &error);
        CHECK(read);
        if (!read)
            FAIL("%s: %s", keys[i], error.message);
        else if (state.n_devices == 1)
            CHECK_SIZE(state.devices[0].shard, 16);
        else
            FAIL("%zu devices", state.n_devices);
        dpti_run_state_free(&state);
    }
}

static void writes_the_key_of_now(test *t)
{
    dpti_run_state state;
    dpt_error error = {.status = DPT_OK};
    REQUIRE(decode("share", &state, &error));
    char *again = dpti_run_state_encode(&state);
    dpti_run_state_free(&state);
    REQUIRE(again);
    CHECK(strstr(again, "\"shard\":16"));
    CHECK(!strstr(again, "\"share\""));
    free(again);
}

static void refuses_another_key(test *t)
{
    dpti_run_state state;
    dpt_error error = {.status = DPT_OK};
    CHECK(!decode("shape", &state, &error));
    CHECK_STATUS(error.status, DPT_E_FORMAT);
    dpti_run_state_free(&state);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"reads both keys of a shard", reads_both_keys_of_a_shard},
        {"writes the key of now", writes_the_key_of_now},
        {"refuses another key", refuses_another_key},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
