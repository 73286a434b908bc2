/* Tests measured shards: the solver against exhaustive search, the model and the controller on
   simulated devices. */
#include "balance/balance.h"
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SIMULATED = 64, MAX_SEARCHED = 4 };

/* ---- The solver ------------------------------------------------------------------------------ */

static double time_of(const dpti_balance_problem *p, const size_t *shards)
{
    double seconds = 0.0;
    for (size_t i = 0; i < p->n_devices; i++)
        seconds = fmax(seconds, dpti_time_model_seconds(&p->models[i], shards[i]));
    return seconds;
}

/* The least time of every division, whatever the order of search; INFINITY if there is none. */
static double search(const dpti_balance_problem *p, size_t device, size_t left, bool odd_used,
                     size_t *shards)
{
    double best = INFINITY;
    for (size_t n = 0; n <= left && n <= p->bounds[device]; n++) {
        const bool odd = n % p->quantum != 0;
        if (odd && (odd_used || n % p->quantum != p->n_samples % p->quantum)) continue;
        shards[device] = n;
        if (device + 1 < p->n_devices && device + 1 < MAX_SEARCHED)
            best = fmin(best, search(p, device + 1, left - n, odd_used || odd, shards));
        else if (n == left)
            best = fmin(best, time_of(p, shards));
    }
    return best;
}

static dpti_time_model random_model(test_random *random)
{
    dpti_time_model model = dpti_time_model_new();
    model.n_seen = 1;
    model.a = test_random_below(random, 3) == 0 ? 0.0 : test_random_uniform(random);
    model.b = test_random_uniform(random) * (test_random_below(random, 4) == 0 ? 5.0 : 0.3);
    model.idle = test_random_below(random, 2) ? 0.0 : 0.1 * test_random_uniform(random);
    return model;
}

static void one_problem(test *t, test_random *random)
{
    dpti_time_model models[MAX_SEARCHED];
    size_t bounds[MAX_SEARCHED], shards[MAX_SEARCHED], scratch[MAX_SEARCHED];
    const size_t n = 1 + test_random_below(random, MAX_SEARCHED);
    const dpti_balance_problem p = {.n_devices = n,
                                    .n_samples = test_random_below(random, n > 3 ? 14 : 24),
                                    .quantum = 1 + test_random_below(random, 4),
                                    .models = models,
                                    .bounds = bounds};
    for (size_t i = 0; i < n; i++) {
        models[i] = random_model(random);
        bounds[i] = test_random_below(random, 3) == 0 ? test_random_below(random, 20) : 24;
    }
    double seconds = -1.0;
    const double best = search(&p, 0, p.n_samples, false, scratch);
    const bool found = dpti_balance_solve(&p, shards, &seconds);
    if (!CHECK(found == (best < INFINITY)) || !found) return;
    CHECK_NEAR(seconds, best, 1e-12);
    CHECK_NEAR(time_of(&p, shards), best, 1e-12);
    size_t sum = 0, n_odd = 0;
    for (size_t i = 0; i < n; i++) {
        sum += shards[i];
        n_odd += shards[i] % p.quantum != 0;
        CHECK(shards[i] <= bounds[i]);
    }
    CHECK_SIZE(sum, p.n_samples);
    CHECK(n_odd <= 1);
}

static void the_solver_finds_the_optimum(test *t)
{
    test_random random = {1};
    for (int i = 0; i < 3000 && t->n_failures < 5; i++)
        one_problem(t, &random);
}

/* One unit after the other, each to the device that ends first with it: slow, and plainly right. */
static void give_one_by_one(const dpti_balance_problem *p, size_t *shards)
{
    memset(shards, 0, p->n_devices * sizeof *shards);
    for (size_t left = p->n_samples; left >= p->quantum; left -= p->quantum) {
        size_t best = p->n_devices;
        double least = INFINITY;
        for (size_t i = 0; i < p->n_devices; i++) {
            const double seconds = dpti_time_model_seconds(&p->models[i], shards[i] + p->quantum);
            if (shards[i] + p->quantum > p->bounds[i] || !(seconds < least)) continue;
            best = i;
            least = seconds;
        }
        if (best == p->n_devices) return;
        shards[best] += p->quantum;
    }
}

/* 64 devices, of which some hold nothing or little: the shares are those of the plain way, and what
   they cost to find does not grow with the batch. */
static void many_devices_cost_little(test *t)
{
    enum { DEVICES = 64, BATCH = 4096 };
    test_random random = {11};
    dpti_time_model models[DEVICES];
    size_t bounds[DEVICES], shards[DEVICES], plain[DEVICES];
    size_t most_looks = 0;
    for (int round = 0; round < 60 && t->n_failures == 0; round++) {
        size_t n_looks = 0, room = 0;
        const dpti_balance_problem p = {.n_devices = DEVICES,
                                        .n_samples = BATCH * (round % 3 == 2 ? 8 : 1),
                                        .quantum = round % 2 ? 1 : 16,
                                        .models = models,
                                        .bounds = bounds,
                                        .n_looks = &n_looks};
        for (size_t i = 0; i < DEVICES; i++) {
            models[i] = random_model(&random);
            bounds[i] = p.n_samples >> test_random_below(&random, 16);
            if (test_random_below(&random, 8) == 0) bounds[i] = 0;
            room += bounds[i] / p.quantum * p.quantum;
        }
        double seconds = -1.0;
        const bool found = dpti_balance_solve(&p, shards, &seconds);
        if (!CHECK(found == (room >= p.n_samples)) || !found) continue;
        give_one_by_one(&p, plain);
        CHECK(memcmp(shards, plain, sizeof shards) == 0);
        CHECK_NEAR(seconds, time_of(&p, shards), 0.0);
        if (n_looks > most_looks) most_looks = n_looks;
    }
    printf("  at most %zu looks at a device's time\n", most_looks);
    CHECK(most_looks > 0 && most_looks < DEVICES * 80);
}

/* ---- The model ------------------------------------------------------------------------------- */

static void two_sizes_make_a_line(test *t)
{
    dpti_time_model m = dpti_time_model_new();
    for (int i = 0; i < 6; i++)
        dpti_time_model_observe(&m, i % 2 ? 64 : 32, 0.010 + 0.001 * (i % 2 ? 64 : 32));
    CHECK_NEAR(dpti_time_model_seconds(&m, 32), 0.042, 0.0005);
    CHECK_NEAR(dpti_time_model_seconds(&m, 128), 0.138, 0.004);
    dpti_time_model_observe(&m, 0, 0.002);
    CHECK_NEAR(dpti_time_model_seconds(&m, 0), 0.002, 1e-12);
}

/* A thousand steps at one share must not wear out what is known of the slope. */
static void one_size_keeps_the_slope(test *t)
{
    test_random random = {7};
    dpti_time_model m = dpti_time_model_new();
    for (int i = 0; i < 40; i++) {
        const size_t n = 20 + 10 * (size_t)(i % 5);
        const double noise = 1.0 + 0.01 * test_random_normal(&random);
        dpti_time_model_observe(&m, n, (0.020 + 0.001 * (double)n) * noise);
    }
    for (int i = 0; i < 1000; i++)
        dpti_time_model_observe(&m, 40, 0.060 * (1.0 + 0.01 * test_random_normal(&random)));
    CHECK_NEAR(dpti_time_model_seconds(&m, 40) / 0.060, 1.0, 0.01);
    CHECK_NEAR(dpti_time_model_seconds(&m, 80) / 0.100, 1.0, 0.05);
    CHECK_NEAR(dpti_time_model_seconds(&m, 10) / 0.030, 1.0, 0.05);
    CHECK(m.a >= 0.0 && m.b >= 0.0);
}

static void an_outlier_changes_nothing_and_two_scale(test *t)
{
    dpti_time_model m = dpti_time_model_new();
    for (int i = 0; i < 10; i++)
        dpti_time_model_observe(&m, i % 2 ? 64 : 32, 0.001 * (i % 2 ? 64 : 32));
    dpti_time_model_observe(&m, 64, 1.0);
    CHECK(!m.stepped);
    CHECK_NEAR(dpti_time_model_seconds(&m, 64), 0.064, 0.001);
    dpti_time_model_observe(&m, 64, 0.064);
    dpti_time_model_observe(&m, 64, 1.0);
    CHECK_NEAR(dpti_time_model_seconds(&m, 64), 0.064, 0.001);
    dpti_time_model_observe(&m, 64, 0.064);
    dpti_time_model_observe(&m, 64, 0.128);
    dpti_time_model_observe(&m, 64, 0.130);
    CHECK(m.stepped);
    CHECK_NEAR(dpti_time_model_seconds(&m, 64), 0.129, 0.003);
    CHECK_NEAR(dpti_time_model_seconds(&m, 32), 0.065, 0.003);
}

static void nonsense_is_passed_over(test *t)
{
    dpti_time_model m = dpti_time_model_new();
    const double times[] = {0.0, -1.0, NAN, INFINITY, -INFINITY, 5e-324, 1e300};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        dpti_time_model_observe(&m, 8, times[i]);
        dpti_time_model_observe(&m, 0, times[i]);
    }
    CHECK_SIZE(m.n_seen, 0);
    dpti_time_model_observe(&m, 8, 0.5);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        dpti_time_model_observe(&m, 8, times[i]);
    CHECK_NEAR(dpti_time_model_seconds(&m, 8), 0.5, 1e-12);
}

/* ---- Recent steps ---------------------------------------------------------------------------- */

/* The third device has no share; what slows the others at once is no error of theirs. */
static void recent_steps_tell_who_is_ahead(test *t)
{
    test_random random = {5};
    static dpti_recent recent;
    const size_t shards[] = {40, 30, 0, 10};
    double parts[4];
    memset(&recent, 0, sizeof recent);
    for (size_t k = 0; k < 3 * DPTI_RECENT_STEPS; k++) {
        CHECK(dpti_recent_compare(&recent, 4, shards, parts) == (k >= DPTI_RECENT_LEAST));
        const double mood = exp(0.5 * test_random_normal(&random));
        const double far = 1.0 + 0.2 * test_random_normal(&random);
        const double seconds[] = {0.8 * mood, mood * (1.0 + 0.02 * test_random_normal(&random)),
                                  0.0, 0.94 * mood * fmax(far, 0.5)};
        dpti_recent_add(&recent, 4, shards, seconds);
    }
    REQUIRE(dpti_recent_compare(&recent, 4, shards, parts));
    CHECK(parts[0] > 0.8 && parts[0] < 0.84);
    CHECK(parts[1] == 1.0 && parts[2] == 0.0);
    CHECK(parts[3] == 1.0); /* ahead, and not for certain */
    /* Steps that are too old do not count, nor those without a time. */
    for (size_t k = 0; k < DPTI_RECENT_STEPS; k++)
        dpti_recent_add(&recent, 4, shards, (double[]){2.0, 1.0, 0.0, 1.0});
    dpti_recent_add(&recent, 4, shards, (double[]){0.0, 1.0, 1.0, 1.0});
    dpti_recent_add(&recent, 4, shards, (double[]){1.0, 1.0, 1.0, NAN});
    dpti_recent_add(&recent, 4, shards, (double[]){5e-324, 1.0, 1.0, 1.0});
    REQUIRE(dpti_recent_compare(&recent, 4, shards, parts));
    CHECK(parts[0] == 1.0);
    CHECK_NEAR(parts[1], 0.504, 0.001);
    CHECK_NEAR(parts[3], 0.504, 0.001);
    CHECK(!dpti_recent_compare(&recent, 4, (size_t[]){0, 0, 0, 0}, parts));
}

/* ---- Simulated devices ----------------------------------------------------------------------- */

typedef struct simulated {
    size_t n;
    double a[MAX_SIMULATED], b[MAX_SIMULATED];
    double factor[MAX_SIMULATED]; /* of all its times: a throttle */
    double cold[MAX_SIMULATED];   /* factor of the first step with samples */
    double noise;                 /* standard deviation, relative */
    size_t delay;                 /* steps that are chosen before the first is observed */
    size_t capacity[MAX_SIMULATED];
    bool warm[MAX_SIMULATED];
    double touch;               /* what a sample more than ever costs, in samples */
    size_t most[MAX_SIMULATED]; /* samples that it has had in a step */
    double mood, mood_noise;    /* what slows all devices at once: a logarithm, and its deviation */
    size_t n_steps;
    size_t n_spell;           /* steps in which every device is slower still: */
    const double (*spell)[2]; /* factors of the first two devices */
    size_t n_waiting;         /* chosen and not observed */
    size_t waiting[4][MAX_SIMULATED];
    double seconds[4][MAX_SIMULATED];
    size_t last[MAX_SIMULATED]; /* shares of the last step */
    size_t n_changes;           /* other than for a probe */
    test_random random;
} simulated;

enum { SPELL = 20 };

/* A start of ResNet-18 on two cores, one throttled, on a busy host: what its steps took over what
   they take in a quiet hour. */
static const double busy_start[SPELL][2] = {{1.40, 1.30}, {1.31, 1.17}, {1.18, 1.05}, {1.56, 1.43},
                                            {1.29, 1.16}, {1.39, 1.22}, {1.43, 1.28}, {1.18, 1.23},
                                            {1.06, 1.11}, {1.20, 1.20}, {1.12, 1.12}, {1.10, 1.10},
                                            {1.04, 1.04}, {1.05, 1.04}, {1.06, 1.04}, {1.07, 1.14},
                                            {1.19, 1.11}, {1.13, 1.15}, {1.10, 1.06}, {1.06, 1.11}};

/* Without noise. */
static double true_seconds(const simulated *s, size_t device, size_t n)
{
    return n > 0 ? s->factor[device] * (s->a[device] + s->b[device] * (double)n) : 0.0;
}

static double true_slowest(const simulated *s, const size_t *shards)
{
    double seconds = 0.0;
    for (size_t i = 0; i < s->n; i++)
        seconds = fmax(seconds, true_seconds(s, i, shards[i]));
    return seconds;
}

static double true_optimum(const simulated *s, size_t n_samples)
{
    dpti_time_model models[MAX_SIMULATED];
    size_t shards[MAX_SIMULATED];
    double seconds = 0.0;
    for (size_t i = 0; i < s->n; i++) {
        models[i] = dpti_time_model_new();
        models[i].a = s->factor[i] * s->a[i];
        models[i].b = s->factor[i] * s->b[i];
    }
    const dpti_balance_problem p = {.n_devices = s->n,
                                    .n_samples = n_samples,
                                    .quantum = 1,
                                    .models = models,
                                    .bounds = s->capacity};
    return dpti_balance_solve(&p, shards, &seconds) ? seconds : INFINITY;
}

static void observe_first(simulated *s, dpti_balance *balance)
{
    dpti_balance_observe(balance, s->waiting[0], s->seconds[0]);
    s->n_waiting--;
    memmove(s->waiting[0], s->waiting[1], sizeof s->waiting - sizeof s->waiting[0]);
    memmove(s->seconds[0], s->seconds[1], sizeof s->seconds - sizeof s->seconds[0]);
}

/* One step; the time that its shares would take without noise. */
static double step(simulated *s, dpti_balance *balance, size_t n_samples)
{
    if (s->n_waiting > s->delay) observe_first(s, balance);
    size_t *shards = s->waiting[s->n_waiting];
    double *seconds = s->seconds[s->n_waiting++];
    const dpti_balance_reason reason = dpti_balance_next(balance, n_samples, shards);
    s->n_changes += reason != DPTI_BALANCE_SAME && reason != DPTI_BALANCE_PROBE &&
                    reason != DPTI_BALANCE_PROBE_END;
    const double keeps = 0.8, turn = sqrt(1.0 - keeps * keeps) * s->mood_noise;
    if (turn > 0.0) s->mood = keeps * s->mood + turn * test_random_normal(&s->random);
    for (size_t i = 0; i < s->n; i++) {
        seconds[i] = true_seconds(s, i, shards[i]) * exp(s->mood) *
                     fmax(0.1, 1.0 + s->noise * test_random_normal(&s->random));
        if (i < 2 && s->n_steps < s->n_spell) seconds[i] *= s->spell[s->n_steps][i];
        if (shards[i] == 0) continue;
        if (!s->warm[i])
            seconds[i] *= s->cold[i];
        else if (shards[i] > s->most[i])
            seconds[i] += s->touch * s->factor[i] * s->b[i] * (double)(shards[i] - s->most[i]);
        if (shards[i] > s->most[i]) s->most[i] = shards[i];
        s->warm[i] = true;
    }
    s->n_steps++;
    memcpy(s->last, shards, sizeof s->last);
    const double slowest = true_slowest(s, shards);
    if (s->delay == 0) observe_first(s, balance);
    return slowest;
}

static double run(simulated *s, dpti_balance *balance, size_t n_steps, size_t n_samples)
{
    double seconds = 0.0;
    for (size_t i = 0; i < n_steps; i++)
        seconds = step(s, balance, n_samples);
    return seconds;
}

static dpti_balance *controller(const simulated *s, size_t batch_size)
{
    const dpti_balance_options options = {
        .n_devices = s->n, .batch_size = batch_size, .quantum = 1, .capacities = s->capacity};
    return dpti_balance_create(&options);
}

static simulated random_devices(uint64_t seed, size_t most, size_t batch_size)
{
    simulated s = {.random = {seed}, .noise = 0.01};
    s.n = 2 + test_random_below(&s.random, most - 1);
    for (size_t i = 0; i < s.n; i++) {
        const double speed = pow(8.0, test_random_uniform(&s.random));
        s.a[i] = 0.01 * test_random_uniform(&s.random);
        s.b[i] = 0.0002 * speed;
        s.factor[i] = 1.0;
        s.cold[i] = 1.0 + 9.0 * test_random_uniform(&s.random);
        s.capacity[i] = batch_size;
    }
    return s;
}

/* ---- The controller -------------------------------------------------------------------------- */

static void five_steps_from_cold(test *t)
{
    enum { BATCH = 512 };
    for (uint64_t seed = 1; seed <= 200 && t->n_failures < 5; seed++) {
        simulated s = random_devices(seed, 4, BATCH);
        dpti_balance *balance = controller(&s, BATCH);
        REQUIRE(balance);
        (void)run(&s, balance, 5, BATCH);
        const double seconds = step(&s, balance, BATCH), best = true_optimum(&s, BATCH);
        if (!CHECK(seconds <= 1.03 * best))
            FAIL("seed %llu: %g s, best %g s", (unsigned long long)seed, seconds, best);
        dpti_balance_destroy(balance);
    }
}

/* The mean over starts of step `at` of two devices like two cores, one of which is throttled, over
   the least that such a step can take. */
static double mean_excess(test *t, const simulated *like, size_t at, double *worst)
{
    enum { BATCH = 128, STARTS = 100 };
    double sum = 0.0;
    *worst = 0.0;
    for (uint64_t seed = 1; seed <= STARTS; seed++) {
        simulated s = *like;
        s.random = (test_random){seed};
        s.n = 2;
        s.noise = 0.03;
        for (size_t i = 0; i < s.n; i++) {
            s.a[i] = i == 0 ? 0.09 : 0.27;
            s.b[i] = i == 0 ? 0.010 : 0.031;
            s.factor[i] = 1.0;
            s.cold[i] = 1.4;
            s.capacity[i] = BATCH;
        }
        dpti_balance *balance = controller(&s, BATCH);
        if (!CHECK(balance)) return INFINITY;
        const double excess = run(&s, balance, at, BATCH) / true_optimum(&s, BATCH);
        sum += excess;
        *worst = fmax(*worst, excess);
        dpti_balance_destroy(balance);
    }
    return sum / STARTS;
}

/* Steps behind the first change of shares that are slow for another reason teach a wrong slope: it
   must not last. */
static void a_wrong_slope_is_mended(test *t)
{
    double worst;
    for (size_t delay = 0; delay <= 2; delay++) {
        const simulated busy = {.delay = delay, .spell = busy_start, .n_spell = SPELL};
        const double at_20 = mean_excess(t, &busy, 20, &worst);
        const double at_40 = mean_excess(t, &busy, 40, &worst);
        printf("  busy host, delay %zu: %.3f and %.3f of the optimum\n", delay, at_20, at_40);
        CHECK(at_20 <= 1.06);
        CHECK(at_40 <= 1.025 && worst <= 1.06);
        const simulated touching = {.delay = delay, .touch = 2.0};
        CHECK(mean_excess(t, &touching, 20, &worst) <= 1.04);
        CHECK(mean_excess(t, &touching, 40, &worst) <= 1.02 && worst <= 1.06);
    }
}

/* What slows all devices at once is no reason for other shares, nor for keeping wrong ones. */
static void moods_of_a_host(test *t)
{
    double worst;
    for (size_t delay = 0; delay <= 2; delay++) {
        const simulated moody = {.delay = delay, .mood_noise = 0.2};
        CHECK(mean_excess(t, &moody, 40, &worst) <= 1.012 && worst <= 1.04);
    }
}

/* A lag that comes and goes, faster than moves can follow it, soon is followed no more. */
static void a_lag_that_turns_round_is_left_alone(test *t)
{
    enum { BATCH = 256, STEPS = 1000 };
    simulated s = random_devices(3, 2, BATCH);
    double seconds = 0.0;
    s.n = 2;
    s.delay = 2;
    s.b[0] = 0.0002;
    s.b[1] = 0.0005;
    dpti_balance *balance = controller(&s, BATCH);
    REQUIRE(balance);
    (void)run(&s, balance, 20, BATCH);
    const double best = true_optimum(&s, BATCH);
    const size_t fixed[] = {s.last[0], s.last[1]};
    double without = 0.0;
    s.n_changes = 0;
    for (int i = 0; i < STEPS; i++) {
        const double wave = 0.15 * sin(2.0 * 3.14159265358979 * i / 30.0);
        s.factor[0] = 1.0 + wave;
        s.factor[1] = 1.0 - wave;
        seconds += step(&s, balance, BATCH);
        without += true_slowest(&s, fixed);
    }
    printf("  %zu changes, %.3f of the time without any\n", s.n_changes, seconds / without);
    CHECK(without < 1.2 * STEPS * best);
    CHECK(seconds < 1.02 * without);
    CHECK(s.n_changes <= 90);
    dpti_balance_destroy(balance);
}

static void sixty_four_devices(test *t)
{
    enum { BATCH = 4096 };
    for (uint64_t seed = 1; seed <= 5 && t->n_failures < 5; seed++) {
        simulated s = random_devices(seed, 16, BATCH);
        s.n = MAX_SIMULATED;
        for (size_t i = 0; i < s.n; i++) {
            const size_t from = i % 16;
            s.a[i] = s.a[from] > 0.0 ? s.a[from] : 0.001;
            s.b[i] = s.b[from] > 0.0 ? s.b[from] : 0.0005;
            s.factor[i] = 1.0 + 0.1 * (double)(i / 16);
            s.cold[i] = 3.0;
            s.capacity[i] = i % 16 == 5 ? 0 : BATCH;
        }
        s.delay = 2;
        dpti_balance *balance = controller(&s, BATCH);
        REQUIRE(balance);
        const double seconds = run(&s, balance, 40, BATCH), best = true_optimum(&s, BATCH);
        size_t sum = 0;
        for (size_t i = 0; i < s.n; i++) {
            sum += s.last[i];
            CHECK(s.last[i] <= s.capacity[i]);
        }
        CHECK_SIZE(sum, BATCH);
        if (!CHECK(seconds <= 1.06 * best))
            FAIL("seed %llu: %g s, best %g s", (unsigned long long)seed, seconds, best);
        dpti_balance_destroy(balance);
    }
}

/* Devices that get nothing at first are tried, each in its turn, and the fast ones are found. */
static void fewer_samples_than_devices(test *t)
{
    for (size_t batch = 1; batch <= 4; batch++) {
        simulated s = {.n = 8, .noise = 0.01, .delay = 2, .random = {batch}};
        for (size_t i = 0; i < s.n; i++) {
            s.a[i] = 0.001;
            s.b[i] = i < 4 ? 0.010 : 0.002; /* the first ones, which begin, are the slow ones */
            s.factor[i] = s.cold[i] = 1.0;
            s.capacity[i] = i == 6 ? 0 : batch;
        }
        dpti_balance *balance = controller(&s, batch);
        REQUIRE(balance);
        size_t sum = 0;
        for (int i = 0; i < 3000; i++)
            (void)step(&s, balance, batch);
        for (size_t i = 0; i < s.n; i++)
            sum += s.last[i];
        CHECK_SIZE(sum, batch);
        CHECK_SIZE(s.last[6], 0);
        double best_of = INFINITY;
        for (int i = 0; i < 40; i++) /* a probe may be under way */
            best_of = fmin(best_of, step(&s, balance, batch));
        const double best = true_optimum(&s, batch);
        if (!CHECK(best_of <= 1.03 * best))
            FAIL("batch %zu: %g s, best %g s", batch, best_of, best);
        dpti_balance_destroy(balance);
    }
}

/* As the trainer works: two steps are chosen before the first is seen.  Up to eight devices, whose
   small errors add up. */
static void with_steps_in_flight(test *t)
{
    enum { BATCH = 512 };
    for (uint64_t seed = 1; seed <= 200 && t->n_failures < 5; seed++) {
        simulated s = random_devices(seed, 8, BATCH);
        s.delay = 2;
        dpti_balance *balance = controller(&s, BATCH);
        REQUIRE(balance);
        const double seconds = run(&s, balance, 25, BATCH), best = true_optimum(&s, BATCH);
        if (!CHECK(seconds <= 1.05 * best))
            FAIL("seed %llu: %g s, best %g s", (unsigned long long)seed, seconds, best);
        dpti_balance_destroy(balance);
    }
}

static void three_steps_after_a_change(test *t)
{
    enum { BATCH = 512 };
    for (uint64_t seed = 1; seed <= 200 && t->n_failures < 5; seed++) {
        simulated s = random_devices(seed, 4, BATCH);
        dpti_balance *balance = controller(&s, BATCH);
        REQUIRE(balance);
        (void)run(&s, balance, 30, BATCH);
        s.factor[test_random_below(&s.random, s.n)] *= seed % 2 ? 2.0 : 0.5;
        (void)run(&s, balance, 3, BATCH);
        const double seconds = step(&s, balance, BATCH), best = true_optimum(&s, BATCH);
        if (!CHECK(seconds <= 1.03 * best))
            FAIL("seed %llu: %g s, best %g s", (unsigned long long)seed, seconds, best);
        dpti_balance_destroy(balance);
    }
}

static void steady_under_noise(test *t)
{
    enum { BATCH = 256, SPANS = 5 };
    size_t worst = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        simulated s = random_devices(seed, 4, BATCH);
        s.noise = 0.05;
        dpti_balance *balance = controller(&s, BATCH);
        REQUIRE(balance);
        (void)run(&s, balance, 50, BATCH);
        for (int span = 0; span < SPANS; span++) {
            s.n_changes = 0;
            const double seconds = run(&s, balance, 100, BATCH);
            if (s.n_changes > worst) worst = s.n_changes;
            if (!CHECK(seconds <= 1.06 * true_optimum(&s, BATCH)))
                FAIL("seed %llu: %g s, best %g s", (unsigned long long)seed, seconds,
                     true_optimum(&s, BATCH));
        }
        dpti_balance_destroy(balance);
    }
    if (!CHECK(worst <= 1)) FAIL("%zu changes in 100 steady steps", worst);
}

static void drift_is_followed(test *t)
{
    enum { BATCH = 256 };
    for (uint64_t seed = 1; seed <= 20; seed++) {
        simulated s = random_devices(seed, 3, BATCH);
        dpti_balance *balance = controller(&s, BATCH);
        REQUIRE(balance);
        (void)run(&s, balance, 20, BATCH);
        for (int i = 0; i < 300; i++) {
            s.factor[0] *= 1.005; /* 4.5 times slower in the end */
            const double seconds = step(&s, balance, BATCH), best = true_optimum(&s, BATCH);
            if (i > 10 && !CHECK(seconds <= 1.10 * best))
                FAIL("seed %llu, step %d: %g s, best %g s", (unsigned long long)seed, i, seconds,
                     best);
        }
        dpti_balance_destroy(balance);
    }
}

/* A device whose fixed cost alone is more than a step gets nothing, probes cost little, and when it
   has become fast it comes back. */
static void a_brake_gets_nothing_and_may_come_back(test *t)
{
    enum { BATCH = 256, STEPS = 4000 };
    simulated s = {.n = 2,
                   .a = {0.001, 0.4},
                   .b = {0.0001, 0.002},
                   .factor = {1.0, 1.0},
                   .cold = {2.0, 2.0},
                   .capacity = {BATCH, BATCH},
                   .noise = 0.02,
                   .delay = 2,
                   .random = {3}};
    dpti_balance *balance = controller(&s, BATCH);
    REQUIRE(balance);
    (void)run(&s, balance, 12, BATCH);
    double seconds = 0.0;
    for (int i = 0; i < STEPS; i++)
        seconds += step(&s, balance, BATCH);
    const double alone = STEPS * true_seconds(&s, 0, BATCH);
    if (!CHECK(seconds <= 1.01 * alone)) FAIL("%g s, alone %g s", seconds, alone);
    CHECK(seconds > 1.0001 * alone); /* it was probed */
    s.factor[1] = 0.002;
    (void)run(&s, balance, 4000, BATCH);
    const double best = true_optimum(&s, BATCH);
    CHECK(best < 0.9 * alone / STEPS);
    CHECK(run(&s, balance, 20, BATCH) <= 1.03 * best);
    dpti_balance_destroy(balance);
}

static void bounds_hold(test *t)
{
    enum { BATCH = 64 };
    simulated s = random_devices(5, 2, BATCH);
    s.n = 2;
    s.b[0] = 0.0001;
    s.b[1] = 0.0010;
    s.capacity[0] = 40;
    dpti_balance *balance = controller(&s, BATCH);
    REQUIRE(balance);
    for (int i = 0; i < 20; i++) {
        (void)step(&s, balance, BATCH);
        CHECK(s.last[0] <= 40 && s.last[0] + s.last[1] == BATCH);
    }
    CHECK_SIZE(s.last[0], 40);
    CHECK(dpti_balance_bound(balance, 0, 20));
    (void)step(&s, balance, BATCH);
    CHECK_SIZE(s.last[0], 20);
    CHECK(!dpti_balance_bound(balance, 1, 40)); /* 60 for a batch of 64: nothing has changed */
    (void)step(&s, balance, BATCH);
    CHECK_SIZE(s.last[1], BATCH - 20);
    dpti_balance_destroy(balance);
}

/* A device that is bounded before anybody is measured, in a ragged batch, in a probe, to nothing:
   shares keep to it and add up. */
static void bounds_at_any_time(test *t)
{
    enum { BATCH = 64 };
    for (size_t when = 0; when < 12; when++) {
        simulated s = random_devices(3 + when, 3, BATCH);
        s.n = 3;
        s.delay = when % 3;
        dpti_balance *balance = controller(&s, BATCH);
        REQUIRE(balance);
        for (size_t most = BATCH / 4; most > 0; most /= 4) {
            (void)run(&s, balance, when, BATCH);
            CHECK(dpti_balance_bound(balance, 0, most - 1));
            for (int i = 0; i < 6; i++) {
                const size_t n_samples = i % 2 ? BATCH : 1 + 9 * (size_t)i;
                (void)step(&s, balance, n_samples);
                CHECK(s.last[0] < most);
                CHECK_SIZE(s.last[0] + s.last[1] + s.last[2], n_samples);
            }
        }
        dpti_balance_destroy(balance);
    }
}

/* Lost and back: the share that it had comes back at once where it is known, and it is measured
   where it is not. */
static void a_device_comes_back(test *t)
{
    enum { BATCH = 256 };
    for (size_t when = 0; when < 30; when += 5) {
        simulated s = random_devices(11 + when, 3, BATCH);
        s.n = 3;
        dpti_balance *balance = controller(&s, BATCH);
        REQUIRE(balance);
        (void)run(&s, balance, when, BATCH);
        CHECK(dpti_balance_lose(balance, 1));
        (void)run(&s, balance, 10, BATCH);
        CHECK_SIZE(s.last[1], 0);
        dpti_balance_readmit(balance, 1, s.capacity[1]);
        s.warm[1] = false; /* it is opened anew */
        const double seconds = run(&s, balance, 1, BATCH);
        if (when > 10) CHECK(seconds <= 1.02 * true_optimum(&s, BATCH));
        CHECK(run(&s, balance, 12, BATCH) <= 1.02 * true_optimum(&s, BATCH));
        CHECK_SIZE(s.last[0] + s.last[1] + s.last[2], BATCH);
        dpti_balance_destroy(balance);
    }
}

static void ragged_batches_change_nothing(test *t)
{
    enum { BATCH = 128 };
    simulated s = random_devices(9, 3, BATCH);
    dpti_balance *balance = controller(&s, BATCH);
    size_t shards[MAX_SIMULATED], sum;
    REQUIRE(balance);
    for (size_t n = 1; n < BATCH; n += 9) { /* before anything is known */
        sum = 0;
        CHECK(dpti_balance_next(balance, n, shards) == DPTI_BALANCE_SAME);
        for (size_t i = 0; i < s.n; i++)
            sum += shards[i];
        CHECK_SIZE(sum, n);
    }
    (void)run(&s, balance, 20, BATCH);
    s.n_changes = 0;
    for (size_t n = 1; n < BATCH; n += 9) {
        (void)step(&s, balance, n);
        sum = 0;
        for (size_t i = 0; i < s.n; i++)
            sum += s.last[i];
        CHECK_SIZE(sum, n);
    }
    CHECK_SIZE(s.n_changes, 0);
    dpti_balance_destroy(balance);
}

/* A device that other work slows for a while: its share falls and comes back. */
static void another_job_comes_and_goes(test *t)
{
    enum { BATCH = 256 };
    simulated s = random_devices(11, 2, BATCH);
    s.n = 2;
    s.delay = 2;
    s.b[0] = s.b[1] = 0.0004;
    dpti_balance *balance = controller(&s, BATCH);
    REQUIRE(balance);
    (void)run(&s, balance, 40, BATCH);
    const size_t before = s.last[0];
    s.factor[0] = 2.2;
    (void)run(&s, balance, 40, BATCH);
    const size_t during = s.last[0];
    s.factor[0] = 1.0;
    (void)run(&s, balance, 40, BATCH);
    CHECK(during < before * 3 / 4);
    CHECK_NEAR((double)s.last[0], (double)before, 0.05 * (double)before + 2.0);
    dpti_balance_destroy(balance);
}

/* Seconds of 1000 steps on two devices each of which is half as slow again every now and then; the
   share of the first is `fixed`, or the controller's if that is 0. */
static double flicker(test *t, size_t fixed, double *changes)
{
    enum { BATCH = 256, STEPS = 1000 };
    simulated s = random_devices(12, 2, BATCH);
    double sum = 0.0;
    s.n = 2;
    s.delay = 2;
    s.a[0] = s.a[1] = 0.0003;
    s.b[0] = 0.0002;
    s.b[1] = 0.0006;
    s.noise = 0.02;
    test_random flips = {7};
    dpti_balance *balance = controller(&s, BATCH);
    if (!CHECK(balance)) return INFINITY;
    for (size_t i = 0; i < STEPS; i++) {
        const size_t shards[] = {fixed, BATCH - fixed};
        for (size_t d = 0; d < 2; d++)
            if (test_random_below(&flips, 4) == 0) s.factor[d] = s.factor[d] > 1.2 ? 1.0 : 1.5;
        sum += fixed > 0 ? true_slowest(&s, shards) : step(&s, balance, BATCH);
    }
    *changes = (double)s.n_changes;
    dpti_balance_destroy(balance);
    return sum;
}

/* What comes and goes faster than it can be followed is noise. */
static void speeds_that_flicker(test *t)
{
    double best = INFINITY, changes, ignored;
    for (size_t fixed = 128; fixed < 256; fixed += 4)
        best = fmin(best, flicker(t, fixed, &ignored));
    const double measured = flicker(t, 0, &changes);
    printf("  %.3f of the best fixed shares, %g changes\n", best / measured, changes);
    CHECK(measured <= 1.03 * best);
    CHECK(changes <= 100);
}

/* ---- Without some ---------------------------------------------------------------------------- */

static void others_without_a_device(test *t)
{
    enum { N = 3, BATCH = 30 };
    static const size_t capacities[N] = {BATCH, BATCH, 10};
    static const double exchange[N] = {0.4, 0.1, 0.1};
    const double a[N] = {0.5, 0.2, 9.0}, b[N] = {0.1, 0.1, 0.5};
    const dpti_balance_options options = {
        .n_devices = N, .batch_size = BATCH, .quantum = 1, .capacities = capacities};
    dpti_balance *balance = dpti_balance_create(&options);
    REQUIRE(balance);
    CHECK(isinf(dpti_balance_without(balance, (bool[N]){false}, exchange))); /* not measured */
    for (size_t step = 0; step < 60; step++) {
        double seconds[N];
        const size_t shards[N] = {10 + step % 3, 10 - step % 3, 10};
        for (size_t i = 0; i < N; i++)
            seconds[i] = a[i] + b[i] * (double)shards[i];
        dpti_balance_observe(balance, shards, seconds);
    }
    /* Alone, and without its exchange; two together; of one that does not hold a batch nothing. */
    CHECK_NEAR(dpti_balance_without(balance, (bool[N]){false, true, true}, exchange), 3.1, 0.1);
    CHECK_NEAR(dpti_balance_without(balance, (bool[N]){true, false, true}, exchange), 3.1, 0.1);
    CHECK_NEAR(dpti_balance_without(balance, (bool[N]){false, false, true}, exchange), 1.85, 0.1);
    CHECK(isinf(dpti_balance_without(balance, (bool[N]){true, true, false}, exchange)));
    CHECK(isinf(dpti_balance_without(balance, (bool[N]){true, true, true}, exchange)));
    dpti_balance_destroy(balance);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"the_solver_finds_the_optimum", the_solver_finds_the_optimum},
        {"many_devices_cost_little", many_devices_cost_little},
        {"two_sizes_make_a_line", two_sizes_make_a_line},
        {"one_size_keeps_the_slope", one_size_keeps_the_slope},
        {"an_outlier_changes_nothing_and_two_scale", an_outlier_changes_nothing_and_two_scale},
        {"nonsense_is_passed_over", nonsense_is_passed_over},
        {"recent_steps_tell_who_is_ahead", recent_steps_tell_who_is_ahead},
        {"five_steps_from_cold", five_steps_from_cold},
        {"a_wrong_slope_is_mended", a_wrong_slope_is_mended},
        {"moods_of_a_host", moods_of_a_host},
        {"a_lag_that_turns_round_is_left_alone", a_lag_that_turns_round_is_left_alone},
        {"sixty_four_devices", sixty_four_devices},
        {"fewer_samples_than_devices", fewer_samples_than_devices},
        {"with_steps_in_flight", with_steps_in_flight},
        {"three_steps_after_a_change", three_steps_after_a_change},
        {"steady_under_noise", steady_under_noise},
        {"drift_is_followed", drift_is_followed},
        {"a_brake_gets_nothing_and_may_come_back", a_brake_gets_nothing_and_may_come_back},
        {"bounds_hold", bounds_hold},
        {"bounds_at_any_time", bounds_at_any_time},
        {"a_device_comes_back", a_device_comes_back},
        {"ragged_batches_change_nothing", ragged_batches_change_nothing},
        {"another_job_comes_and_goes", another_job_comes_and_goes},
        {"speeds_that_flicker", speeds_that_flicker},
        {"others_without_a_device", others_without_a_device},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
