/* Tests the account of steps: sums of times, rates, balance and scaling. */
#include "balance/account.h"
#include "base/clock.h"
#include "harness.h"

#include <math.h>

/* ---- Times ----------------------------------------------------------------------------------- */

static void times_are_summed_by_kind(test *t)
{
    dpti_times times = {.keeps = false};
    dpti_times_begin(&times, false);
    dpti_times_add(&times, DPTI_SPAN_COMPUTE, 10.0, 0.5);
    dpti_times_add(&times, DPTI_SPAN_WAITING, 10.5, 0.25);
    dpti_times_add(&times, DPTI_SPAN_COMPUTE, 11.0, 1.0);
    CHECK_NEAR(times.seconds[DPTI_SPAN_COMPUTE], 1.5, 0);
    CHECK_NEAR(times.seconds[DPTI_SPAN_WAITING], 0.25, 0);
    CHECK_NEAR(times.seconds[DPTI_SPAN_UPLOAD] + times.seconds[DPTI_SPAN_EXCHANGE], 0, 0);
    CHECK_SIZE(times.n_spans, 0);
    CHECK(times.spans == NULL);
    dpti_times_add(NULL, DPTI_SPAN_COMPUTE, 0, 1);
    const double began = dpti_seconds();
    const double now = dpti_times_add_since(&times, DPTI_SPAN_UPLOAD, began);
    CHECK(now >= began && now <= dpti_seconds());
    CHECK_NEAR(times.seconds[DPTI_SPAN_UPLOAD], now - began, 0);
    dpti_times_free(&times);
}

static void spans_are_kept_if_wanted(test *t)
{
    enum { MANY = 100 };
    dpti_times times = {.keeps = false};
    for (int round = 0; round < 2; round++) {
        dpti_times_begin(&times, true);
        CHECK_NEAR(times.seconds[DPTI_SPAN_EXCHANGE], 0, 0);
        for (int i = 0; i < MANY; i++)
            dpti_times_add(&times, i % 2 ? DPTI_SPAN_EXCHANGE : DPTI_SPAN_WAITING, i, 0.5);
        REQUIRE(times.n_spans == MANY && !times.lost);
        bool right = true;
        for (int i = 0; i < MANY; i++)
            right = right && times.spans[i].began == i && times.spans[i].seconds == 0.5 &&
                    times.spans[i].kind == (i % 2 ? DPTI_SPAN_EXCHANGE : DPTI_SPAN_WAITING);
        CHECK(right);
        CHECK_NEAR(times.seconds[DPTI_SPAN_EXCHANGE], MANY / 4.0, 0);
    }
    dpti_times_begin(&times, false);
    dpti_times_add(&times, DPTI_SPAN_COMPUTE, 0, 1);
    CHECK_SIZE(times.n_spans, 0);
    dpti_times_free(&times);
    CHECK(times.spans == NULL);
}

/* ---- The account ----------------------------------------------------------------------------- */

enum { BATCH = 64 };

/* A device that computes n samples in a + b n, uploads each in u, and exchanges and waits. */
typedef struct device {
    double a, b, u, exchange, waiting;
} device;

static double add_run(dpti_account *account, size_t i, const device *d, size_t n, bool fresh)
{
    dpti_times times = {.keeps = false};
    dpti_times_add(&times, DPTI_SPAN_COMPUTE, 0, n > 0 ? d->a + d->b * (double)n : 0.0);
    dpti_times_add(&times, DPTI_SPAN_UPLOAD, 0, d->u * (double)n);
    dpti_times_add(&times, DPTI_SPAN_EXCHANGE, 0, d->exchange);
    dpti_times_add(&times, DPTI_SPAN_WAITING, 0, d->waiting);
    dpti_account_add(account, i, &(dpti_device_step){n, times.seconds, fresh});
    return times.seconds[DPTI_SPAN_COMPUTE] + times.seconds[DPTI_SPAN_UPLOAD] + d->exchange;
}

static double add(dpti_account *account, size_t i, const device *d, size_t n)
{
    return add_run(account, i, d, n, false);
}

static const device fast = {
    .a = 0.01, .b = 0.001, .u = 0.0005, .exchange = 0.002, .waiting = 0.004};
static const device cold = {.a = 50, .b = 0.1, .u = 0.1, .exchange = 1, .waiting = 10};
static const device slow = {.a = 0.02, .b = 0.004, .u = 0.001, .exchange = 0.003, .waiting = 0.0};

static void nothing_yet_is_zero(test *t)
{
    dpti_account account;
    REQUIRE(dpti_account_create(2, BATCH, &account));
    const dpt_device_report d = dpti_account_device(&account, 1);
    const dpt_mix_report m = dpti_account_mix(&account);
    CHECK(d.samples == 0 && d.steps == 0 && d.busy_seconds == 0);
    CHECK(d.throughput == 0 && d.alone_throughput == 0);
    CHECK(m.samples == 0 && m.throughput == 0 && m.balance == 0 && m.scaling == 0);
    dpti_account_free(&account);
}

/* Both devices for the first time, which is left out. */
static void start(dpti_account *account, size_t n)
{
    (void)add(account, 0, &cold, n);
    (void)add(account, 1, &cold, BATCH - n);
    dpti_account_add_step(account, BATCH, 100);
}

/* Ten steps of 48 and 16 samples, then ten of 40 and 24: two sizes tell a line. */
static void sums_and_rates(test *t)
{
    dpti_account account;
    double busy[2] = {0, 0}, seconds = 0;
    REQUIRE(dpti_account_create(2, BATCH, &account));
    start(&account, BATCH / 2);
    for (int step = 0; step < 20; step++) {
        const size_t n = step < 10 ? 48 : 40;
        const double f = add(&account, 0, &fast, n), s = add(&account, 1, &slow, BATCH - n);
        busy[0] += f;
        busy[1] += s;
        seconds += fmax(f, s) + 0.001;
        dpti_account_add_step(&account, BATCH, fmax(f, s) + 0.001);
    }
    const dpt_device_report f = dpti_account_device(&account, 0);
    const dpt_device_report s = dpti_account_device(&account, 1);
    CHECK_SIZE(f.samples, 880);
    CHECK_SIZE(s.samples, 400);
    CHECK(f.steps == 20 && s.steps == 20);
    CHECK_NEAR(f.busy_seconds, busy[0], 1e-12);
    CHECK_NEAR(f.exchange_seconds, 880 * fast.u + 20 * fast.exchange, 1e-12);
    CHECK_NEAR(f.waiting_seconds, 20 * fast.waiting, 1e-12);
    CHECK_NEAR(f.throughput, 880 / busy[0], 1e-9);
    CHECK_NEAR(s.throughput, 400 / busy[1], 1e-9);
    /* Alone: without what is exchanged, with uploads. */
    const double fast_alone = BATCH / (fast.a + (fast.b + fast.u) * BATCH);
    const double slow_alone = BATCH / (slow.a + (slow.b + slow.u) * BATCH);
    CHECK_NEAR(f.alone_throughput, fast_alone, 0.02 * fast_alone);
    CHECK_NEAR(s.alone_throughput, slow_alone, 0.02 * slow_alone);
    const dpt_mix_report m = dpti_account_mix(&account);
    CHECK_SIZE(m.steps, 20);
    CHECK_SIZE(m.samples, 20 * BATCH);
    CHECK_NEAR(m.seconds, seconds, 1e-12);
    CHECK_NEAR(m.throughput, 20 * BATCH / seconds, 1e-9);
    CHECK_NEAR(m.balance, m.throughput / (880 / busy[0] + 400 / busy[1]), 1e-12);
    CHECK_NEAR(m.scaling, m.throughput / (f.alone_throughput + s.alone_throughput), 1e-12);
    CHECK(m.scaling < m.balance);
    dpti_account_free(&account);
}

/* Devices that never wait are in balance, whatever their share. */
static void balance_of_no_waiting_is_one(test *t)
{
    dpti_account account;
    const device even = {.a = 0.01, .b = 0.0015}, half = {.a = 0.01, .b = 0.0025};
    REQUIRE(dpti_account_create(2, BATCH, &account));
    start(&account, 40);
    for (int step = 0; step < 5; step++) {
        const double seconds = add(&account, 0, &even, 40);
        CHECK_NEAR(add(&account, 1, &half, 24), seconds, 1e-12);
        dpti_account_add_step(&account, BATCH, seconds);
    }
    CHECK_NEAR(dpti_account_mix(&account).balance, 1, 1e-12);
    dpti_account_free(&account);
}

/* A device that is half as fast for half of the time: what it reaches alone is a mean as well, and
   not what it reached last. */
static void alone_is_of_the_whole_run(test *t)
{
    dpti_account account;
    const device first = {.a = 0.01, .b = 0.001}, later = {.a = 0.02, .b = 0.002};
    double seconds = 0;
    REQUIRE(dpti_account_create(2, BATCH, &account));
    start(&account, 32);
    for (int step = 0; step < 100; step++) {
        const double busy = add(&account, 0, step < 50 ? &first : &later, BATCH / 2);
        (void)add(&account, 1, &first, BATCH / 2);
        dpti_account_add_step(&account, BATCH, busy);
        seconds += busy;
    }
    const dpt_device_report d = dpti_account_device(&account, 0);
    CHECK_NEAR(d.throughput, 100 * BATCH / 2 / seconds, 1e-9);
    const double alone = BATCH / (1.5 * (first.a + first.b * BATCH));
    CHECK_NEAR(d.alone_throughput, alone, 0.1 * alone); /* one size tells no slope */
    dpti_account_free(&account);
}

/* Of a device that comes later, too. */
static void a_cold_step_is_left_out(test *t)
{
    dpti_account account;
    const device warm = {.a = 0.01, .b = 0.001};
    REQUIRE(dpti_account_create(2, BATCH, &account));
    (void)add(&account, 0, &cold, BATCH);
    (void)add(&account, 1, &warm, 0); /* a step without samples is no start */
    dpti_account_add_step(&account, BATCH, 100);
    CHECK_SIZE(dpti_account_mix(&account).steps, 0);
    CHECK_NEAR(dpti_account_device(&account, 0).alone_throughput, 0, 0);
    const double seconds = add(&account, 0, &warm, BATCH);
    (void)add(&account, 1, &warm, 0);
    dpti_account_add_step(&account, BATCH, seconds);
    CHECK_NEAR(dpti_account_device(&account, 0).alone_throughput, BATCH / seconds, 1e-9);
    CHECK_NEAR(dpti_account_device(&account, 0).throughput, BATCH / seconds, 1e-9);
    CHECK_NEAR(dpti_account_mix(&account).throughput, BATCH / seconds, 1e-9);
    (void)add(&account, 0, &warm, BATCH / 2);
    (void)add(&account, 1, &cold, BATCH / 2);
    dpti_account_add_step(&account, BATCH, 100);
    CHECK_SIZE(dpti_account_mix(&account).samples, BATCH);
    CHECK_SIZE(dpti_account_device(&account, 0).steps, 1);
    CHECK_SIZE(dpti_account_device(&account, 1).steps, 0);
    (void)add(&account, 0, &warm, BATCH / 2);
    (void)add(&account, 1, &warm, BATCH / 2);
    dpti_account_add_step(&account, BATCH, 1);
    CHECK_SIZE(dpti_account_mix(&account).samples, 2 * BATCH);
    CHECK_SIZE(dpti_account_device(&account, 1).samples, BATCH / 2);
    /* Nor does one count in which libraries have loaded what another share takes. */
    const double alone = dpti_account_device(&account, 0).alone_throughput;
    (void)add_run(&account, 0, &cold, BATCH / 2 + 1, true);
    (void)add(&account, 1, &warm, BATCH / 2 - 1);
    dpti_account_add_step(&account, BATCH, 100);
    CHECK_SIZE(dpti_account_mix(&account).samples, 2 * BATCH);
    CHECK_NEAR(dpti_account_device(&account, 0).alone_throughput, alone, 1e-9);
    dpti_account_free(&account);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"times are summed by kind", times_are_summed_by_kind},
        {"spans are kept if wanted", spans_are_kept_if_wanted},
        {"nothing yet is zero", nothing_yet_is_zero},
        {"sums and rates", sums_and_rates},
        {"balance of no waiting is one", balance_of_no_waiting_is_one},
        {"alone is of the whole run", alone_is_of_the_whole_run},
        {"a cold step is left out", a_cold_step_is_left_out},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
