/* Tests a communicator of one rank: sums and gathered arrays equal the input to the bit, and the
   library behind the communicator starts, answers queries, ends and is aborted on this device.
   More ranks need more devices, and are tested by training. */
#include "device/communicator.h"
#include "device/buffer.h"
#include "device/side_stream.h"
#include "device/stream.h"
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

static dpti_communicator_member member_of(setting *s)
{
    return (dpti_communicator_member){
        .communicator = s->communicator, .index = 0, .side = &s->side};
}

static dpti_slice floats(const setting *s, size_t first, size_t count)
{
    return (dpti_slice){.buffer = &s->data,
                        .offset_bytes = first * sizeof(float),
                        .n_bytes = count * sizeof(float)};
}

/* As many calls as a step makes, in all sizes. */
static dpt_status call_often(setting *s)
{
    static const size_t counts[] = {1, 2, 1000, 65537, N};
    const dpti_communicator_member member = member_of(s);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const size_t n_reduced = counts[i] - (counts[i] == N ? FIRST : 0);
        const dpti_slice reduced = floats(s, GUARD + FIRST, n_reduced),
                         sent = floats(s, 0, counts[i]);
        DPT_TRY(dpti_communicator_all_reduce(&member, &reduced));
        DPT_TRY(dpti_communicator_broadcast(&member, 0, &sent));
        DPT_TRY(dpti_communicator_query(&member));
    }
    const dpti_slice all = floats(s, 0, N + 2 * GUARD);
    DPT_TRY(dpti_side_stream_download(&s->side, s->found, &all));
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
    const dpti_communicator_member member = member_of(s);
    const dpti_slice one = floats(s, GUARD, 1);
    CHECK_STATUS(dpti_communicator_all_reduce(&member, &one), DPT_E_CANCELLED);
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
