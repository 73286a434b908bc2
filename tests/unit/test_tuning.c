/* Tests the timing of candidates (backends/common/tuning.h) on a device that only counts: short
   candidates are timed several at once, as a recording if the device can record; and failures
   meanwhile. */
#include "common/launch.h"
#include "common/tuning.h"
#include "harness.h"

#include <math.h>
#include <string.h>
#include <time.h>

struct dpt_stream {
    dpt_device *device;
};

struct dpt_recording {
    size_t n_enqueued;
};

/* The device: what it is told to be, and what it was called for. */
static struct {
    dpt_traits traits;
    dpt_tuner tuner;
    dpt_device device;
    dpt_stream stream;
    double seconds;         /* of one run, */
    double disturbed_until; /* and four times as much until then */
    double now;
    bool recording;
    struct dpt_recording recorded;
    size_t n_enqueued, n_recorded, n_replayed, n_released, n_finished, n_pending;
    size_t fails_at; /* the enqueuing that fails; 0: none */
    dpt_status begins, ends, replays;
} it;

const dpt_traits *dpt_traits_of(const dpt_device *device)
{
    (void)device;
    return &it.traits;
}

dpt_tuner *dpt_tuner_of(const dpt_device *device)
{
    (void)device;
    return &it.tuner;
}

static dpt_status enqueue(void *argument, dpt_stream *stream)
{
    (void)argument;
    if (++it.n_enqueued == it.fails_at)
        return DPT_FAIL(&stream->device->error, DPT_E_DEVICE, "planted");
    if (it.recording)
        it.recorded.n_enqueued++;
    else
        it.n_pending++;
    return DPT_OK;
}

static dpt_status finish(dpt_stream *stream)
{
    (void)stream;
    it.n_finished++;
    it.now += (double)it.n_pending * it.seconds * (it.now < it.disturbed_until ? 4 : 1);
    it.n_pending = 0;
    return DPT_OK;
}

/* The clock that tuning.c reads: compiled under another name. */
int clock_gettime(clockid_t clock, struct timespec *out)
{
    (void)clock;
    *out = (struct timespec){.tv_sec = (time_t)it.now,
                             .tv_nsec = (long)(1e9 * (it.now - floor(it.now)))};
    return 0;
}

static dpt_status begin(dpt_stream *stream)
{
    if (it.begins != DPT_OK) return DPT_FAIL(&stream->device->error, it.begins, "no recording");
    it.recording = true;
    it.recorded.n_enqueued = 0;
    return DPT_OK;
}

static dpt_status end(dpt_stream *stream, dpt_recording **out)
{
    it.recording = false;
    it.n_recorded++;
    if (it.ends != DPT_OK) return DPT_FAIL(&stream->device->error, it.ends, "not recorded");
    *out = &it.recorded;
    return DPT_OK;
}

static dpt_status replay(dpt_stream *stream, dpt_recording *recording)
{
    if (it.replays != DPT_OK) return DPT_FAIL(&stream->device->error, it.replays, "not replayed");
    it.n_replayed++;
    it.n_pending += recording->n_enqueued;
    return DPT_OK;
}

static void release(dpt_device *device, dpt_recording *recording)
{
    (void)device;
    it.n_released += recording != NULL;
}

static const dpt_capture_ops capture = {
    .begin = begin, .end = end, .replay = replay, .release = release};

static void set_up(bool is_cpu, double seconds)
{
    memset(&it, 0, sizeof it);
    it.traits.is_cpu = is_cpu;
    it.seconds = seconds;
    it.stream.device = &it.device;
    it.now = 1.0;
    it.tuner = (dpt_tuner){.stream = &it.stream, .capture = &capture, .finish = finish};
}

static const dpt_timed_work work = {.enqueue = enqueue};

static dpt_status measure(double *seconds)
{
    return dpt_measure(&it.device, &(const dpt_budget){.seconds = 0.01}, &work, seconds);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static void short_ones_are_recorded(test *t)
{
    double seconds = 0;
    set_up(false, 20e-6);
    REQUIRE_OK(measure(&seconds));
    CHECK_SIZE(it.n_recorded, 1);
    CHECK(it.recorded.n_enqueued > 1 && it.n_replayed >= 2);
    /* Two before, to warm up and to see how long it takes. */
    CHECK_SIZE(it.n_enqueued, 2 + it.recorded.n_enqueued);
    CHECK_NEAR(seconds, 20e-6, 1e-7);
    CHECK_SIZE(it.n_released, 1);
}

static void long_ones_and_a_processors_are_not(test *t)
{
    double seconds = 0;
    set_up(false, 2e-3);
    REQUIRE_OK(measure(&seconds));
    CHECK_NEAR(seconds, 2e-3, 1e-7);
    CHECK_SIZE(it.n_recorded + it.n_released, 0);
    CHECK_SIZE(it.n_finished, it.n_enqueued);
    set_up(true, 20e-6);
    REQUIRE_OK(measure(&seconds));
    CHECK_SIZE(it.n_recorded + it.n_released, 0);
    CHECK_SIZE(it.n_finished, it.n_enqueued);
}

/* What is far behind the best is not timed for long, but for longer than a disturbance lasts; what
   is not, for all the time there is. */
static void hopeless_ones_are_given_up(test *t)
{
    static const struct {
        double hopeless_seconds;
        size_t least, most; /* replays */
    } tries[] = {{0.0, 30, 33}, {21e-6, 30, 33}, {19e-6, 7, 10}};
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        double seconds = 0;
        const dpt_budget budget = {.seconds = 0.01, .hopeless_seconds = tries[i].hopeless_seconds};
        set_up(false, 20e-6);
        REQUIRE_OK(dpt_measure(&it.device, &budget, &work, &seconds));
        CHECK(it.n_replayed >= tries[i].least && it.n_replayed <= tries[i].most);
        CHECK_NEAR(seconds, 20e-6, 1e-7);
    }
    /* Long ones three times. */
    double seconds = 0;
    set_up(false, 3e-3);
    REQUIRE_OK(dpt_measure(&it.device,
                           &(const dpt_budget){.seconds = 0.1, .hopeless_seconds = 1e-3}, &work,
                           &seconds));
    CHECK(it.n_enqueued >= 2 + 3 && it.n_enqueued <= 2 + 10);
}

/* At first everything takes four times as long. */
static void a_disturbance_decides_nothing(test *t)
{
    double seconds = 0;
    const dpt_budget budget = {.seconds = 0.02, .hopeless_seconds = 150e-6};
    set_up(false, 50e-6);
    it.disturbed_until = it.now + 4e-3;
    REQUIRE_OK(dpt_measure(&it.device, &budget, &work, &seconds));
    CHECK_NEAR(seconds, 50e-6, 1e-7);
}

/* What cannot be recorded is enqueued several times for a wait; nobody hears of it. */
static void without_a_recording(test *t)
{
    for (int way = 0; way < 4; way++) {
        double seconds = 0;
        set_up(false, 20e-6);
        if (way == 0) it.tuner.capture = NULL;
        if (way == 1) it.begins = DPT_E_UNSUPPORTED;
        if (way == 2) it.ends = DPT_E_UNSUPPORTED;
        if (way == 3) it.fails_at = 4; /* while it is recorded */
        REQUIRE_OK(measure(&seconds));
        CHECK(it.n_enqueued >= 2 * it.n_finished);
        CHECK_NEAR(seconds, 20e-6, 1e-7);
        CHECK(it.device.error.status == DPT_OK && !it.recording);
        CHECK_SIZE(it.n_replayed, 0);
        CHECK_SIZE(it.n_released, way == 3);
    }
}

static void failures_are_told(test *t)
{
    double seconds = 0;
    set_up(false, 20e-6);
    it.fails_at = 1;
    CHECK_STATUS(measure(&seconds), DPT_E_DEVICE);
    CHECK_SIZE(it.n_recorded + it.n_released, 0);
    /* A recording is let go only when nothing of it may run. */
    set_up(false, 20e-6);
    it.replays = DPT_E_DEVICE;
    CHECK_STATUS(measure(&seconds), DPT_E_DEVICE);
    CHECK_CONTAINS(it.device.error.message, "not replayed");
    CHECK_SIZE(it.n_released, 1);
    CHECK_SIZE(it.n_finished, 3);
    set_up(false, 20e-6);
    it.begins = DPT_E_DEVICE_LOST;
    CHECK_STATUS(measure(&seconds), DPT_E_DEVICE_LOST);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"short ones are recorded", short_ones_are_recorded},
        {"long ones and a processor's are not", long_ones_and_a_processors_are_not},
        {"hopeless ones are given up", hopeless_ones_are_given_up},
        {"a disturbance decides nothing", a_disturbance_decides_nothing},
        {"without a recording", without_a_recording},
        {"failures are told", failures_are_told},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
