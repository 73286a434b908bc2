/* Tests a communicator of one rank: sums and gathered arrays equal the input to the bit, and the
   library behind the communicator starts, answers queries, ends and is aborted on this device.
   More ranks need more devices, and are tested by training. */
#include "device_cases.h"

#include <stdlib.h>
#include <string.h>

enum { N = 1 << 20, GUARD = 64, FIRST = 3 };

typedef struct setting {
    dpti_device *device;
    dpti_side_stream side;
    dpti_buffer data; /* N floats, between guards */
    dpt_communicator *communicator;
    float expected[N + 2 * GUARD], found[N + 2 * GUARD];
} setting;

static dpt_status create(setting *s)
{
    const dpti_group group = {.devices = &s->device, .n = 1, .n_ranks = 1};
    dpt_invitation invitation;
    DPT_TRY(dpti_communicator_invite(&group, &invitation));
    return dpti_communicator_create(&group, &invitation, 20.0, &s->communicator);
}

static dpt_status set_up(setting *s, test_random *random)
{
    for (size_t i = 0; i < N + 2 * GUARD; i++)
        s->expected[i] = (float)test_random_normal(random);
    DPT_TRY(dpti_side_stream_create(s->device, &s->side));
    DPT_TRY(dpti_alloc(s->device, sizeof s->expected, &s->data));
    DPT_TRY(dpti_upload(&s->data, 0, s->expected, sizeof s->expected));
    DPT_TRY(dpti_sync(s->device));
    return create(s);
}

/* As many calls as a step makes, in all sizes. */
static dpt_status call_often(setting *s)
{
    static const size_t counts[] = {1, 2, 1000, 65537, N};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        DPT_TRY(dpti_side_stream_all_reduce(&s->side, s->communicator, 0, &s->data, GUARD + FIRST,
                                            counts[i] - (counts[i] == N ? FIRST : 0)));
        DPT_TRY(dpti_side_stream_broadcast(&s->side, s->communicator, 0, 0, &s->data, counts[i]));
        DPT_TRY(dpti_side_stream_query(&s->side, s->communicator, 0));
    }
    DPT_TRY(dpti_side_stream_download(&s->side, s->found, &s->data, 0, sizeof s->found));
    return dpti_side_stream_sync(&s->side);
}

static void check_calls(test *t, setting *s)
{
    for (int i = 0; i < 2; i++) {
        memset(s->found, 0, sizeof s->found);
        REQUIRE_OK(call_often(s));
        CHECK(memcmp(s->found, s->expected, sizeof s->found) == 0);
    }
}

/* Afterwards there may be another. */
static void check_abort(test *t, setting *s)
{
    dpti_communicator_abort(s->device, s->communicator);
    CHECK_STATUS(dpti_side_stream_all_reduce(&s->side, s->communicator, 0, &s->data, GUARD, 1),
                 DPT_E_CANCELLED);
    dpti_communicator_destroy(s->device, s->communicator);
    s->communicator = NULL;
    REQUIRE_OK(create(s));
    check_calls(t, s);
}

void conformance_communicator(test *t)
{
    dpti_device *device = suite_of(t)->device;
    const dpti_group group = {.devices = &device, .n = 1, .n_ranks = 1};
    test_random random = {700};
    if (!dpti_has_collectives(device)) SKIP("the backend has no collectives");
    const dpt_status status = dpti_communicator_check(&group);
    if (status == DPT_E_UNSUPPORTED) SKIP("%s", device->base.error.message);
    REQUIRE_OK(status);
    setting *s = calloc(1, sizeof *s);
    REQUIRE(s);
    s->device = device;
    if (CHECK_OK(set_up(s, &random))) {
        check_calls(t, s);
        check_abort(t, s);
    }
    dpti_communicator_destroy(device, s->communicator);
    dpti_side_stream_destroy(&s->side);
    dpti_free(&s->data);
    free(s);
}
