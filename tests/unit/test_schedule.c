/* Tests learning rates: those of the schedulers of PyTorch, `transformers` and nanoGPT
   (tests/golden/schedules.txt, made by tests/golden/make_schedules.py), warm-up, defaults, and
   refused values. */
#include "harness.h"
#include "train/components/schedule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Those that the warm-up multiplies, and all. */
enum { N_FACTORS = DPT_SCHEDULE_ONECYCLE + 1, N_KINDS = DPTI_SCHEDULES };

/* Reads the line that begins a case; false at the end of the file. */
static bool read_case(FILE *file, dpti_schedule *out, size_t *n_steps)
{
    char kind[32];
    dpti_schedule s = {0};
    if (fscanf(file, "%31s %lf %zu %f %zu %zu %zu %f %zu", kind, &s.lr, &s.options.every,
               &s.options.factor, &s.options.warmup_steps, &s.steps_per_epoch, &s.total_steps,
               &s.options.min_lr, n_steps) != 9)
        return false;
    for (int k = 0; k < N_KINDS; k++)
        if (strcmp(kind, dpti_schedule_names[k]) == 0) s.options.kind = (dpt_schedule_kind)k;
    *out = s;
    return true;
}

static void compare_case(test *t, FILE *file, dpti_schedule *s, size_t n_steps)
{
    dpt_error error = {0};
    REQUIRE_OK(dpti_schedule_check(s, &error));
    for (size_t step = 0; step < n_steps; step++) {
        double golden = NAN;
        CHECK(fscanf(file, "%lf", &golden) == 1);
        /* PyTorch multiplies from step to step where formulas are used here. */
        if (!CHECK_NEAR(dpti_schedule_lr(s, step), golden, 1e-13 * s->lr))
            FAIL("%s, %zu steps: step %zu", dpti_schedule_names[s->options.kind], s->total_steps,
                 step);
    }
}

static void gives_rates_of_others(test *t)
{
    bool seen[N_KINDS] = {false};
    size_t n_cases = 0, n_steps;
    dpti_schedule s;
    FILE *file = test_open("golden/schedules.txt");
    REQUIRE(file != NULL);
    CHECK(fscanf(file, "#%*[^\n]") == 0);
    while (read_case(file, &s, &n_steps)) {
        compare_case(t, file, &s, n_steps);
        seen[s.options.kind] = true;
        n_cases++;
    }
    CHECK(feof(file));
    CHECK(n_cases >= 28);
    for (int k = 0; k < N_KINDS; k++)
        CHECK(seen[k]);
    fclose(file);
}

/* min(1, (t + 1) / N) times the schedule that has run from the start. */
static void warm_up_is_a_factor(test *t)
{
    for (int k = 0; k < N_FACTORS; k++) {
        dpti_schedule cold = {.options = {.kind = (dpt_schedule_kind)k, .every = 2},
                              .lr = 0.3,
                              .steps_per_epoch = 4,
                              .total_steps = 30};
        REQUIRE_OK(dpti_schedule_check(&cold, NULL));
        dpti_schedule warm = cold;
        warm.options.warmup_steps = 10;
        for (size_t step = 0; step < 30; step++) {
            const double part = step < 9 ? (double)(step + 1) / 10 : 1;
            CHECK_NEAR(dpti_schedule_lr(&warm, step), part * dpti_schedule_lr(&cold, step), 1e-16);
        }
        warm.options.warmup_steps = 1;
        CHECK_NEAR(dpti_schedule_lr(&warm, 0), dpti_schedule_lr(&cold, 0), 0);
    }
}

static void step_has_pytorchs_defaults(test *t)
{
    dpti_schedule s = {.options = {.kind = DPT_SCHEDULE_STEP}, .lr = 0.5, .steps_per_epoch = 100};
    REQUIRE_OK(dpti_schedule_check(&s, NULL));
    CHECK_NEAR(dpti_schedule_lr(&s, 2999), 0.5, 0);
    CHECK_NEAR(dpti_schedule_lr(&s, 3000), 0.05, 1e-8);
    CHECK_NEAR(dpti_schedule_lr(&s, 6000), 0.005, 1e-8);
}

static void stays_finite_at_the_ends(test *t)
{
    for (int k = 0; k < N_KINDS; k++) {
        dpti_schedule s = {.options = {.kind = (dpt_schedule_kind)k, .warmup_steps = SIZE_MAX},
                           .lr = 1e6,
                           .steps_per_epoch = SIZE_MAX,
                           .total_steps = SIZE_MAX};
        REQUIRE_OK(dpti_schedule_check(&s, NULL));
        const double first = dpti_schedule_lr(&s, 0);
        const double last = dpti_schedule_lr(&s, SIZE_MAX - 1);
        CHECK(first >= 0 && first <= 1e6);
        CHECK(last >= 0 && last <= 1e6);
    }
}

static void refuses_what_cannot_be(test *t)
{
    static const struct {
        dpt_schedule options;
        size_t total_steps;
        const char *words;
    } cases[] = {
        {{.kind = DPT_SCHEDULE_COSINE_NANOGPT}, 0, "the cosine-nanogpt schedule must know"},
        {{.kind = DPT_SCHEDULE_COSINE_NANOGPT, .min_lr = 0.2f}, 9, "of 0.2 is not between 0 and"},
        {{.kind = DPT_SCHEDULE_LINEAR_TRANSFORMERS, .min_lr = -1}, 9, "of -1 is not between 0 and"},
        {{.kind = DPT_SCHEDULE_LINEAR_TRANSFORMERS, .min_lr = NAN}, 9, "is not between 0 and"},
        {{.kind = DPT_SCHEDULE_COSINE, .min_lr = 0.01f}, 9, "and not with cosine"},
        {{.kind = DPT_SCHEDULE_COSINE}, 0, "the cosine schedule must know how many steps"},
        {{.kind = DPT_SCHEDULE_ONECYCLE}, 0, "the onecycle schedule must know how many steps"},
        {{.kind = DPT_SCHEDULE_STEP, .factor = 1.5f}, 9, "a schedule's factor of 1.5"},
        {{.kind = DPT_SCHEDULE_STEP, .factor = -0.1f}, 9, "a schedule's factor of -0.1"},
        {{.kind = DPT_SCHEDULE_STEP, .factor = NAN}, 9, "a schedule's factor of"},
        {{.kind = (dpt_schedule_kind)7}, 9, "unknown schedule 7"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpti_schedule s = {.options = cases[i].options,
                           .lr = 0.1,
                           .steps_per_epoch = 5,
                           .total_steps = cases[i].total_steps};
        dpt_error error = {0};
        CHECK_STATUS(dpti_schedule_check(&s, &error), DPT_E_INVALID);
        CHECK_CONTAINS(error.message, cases[i].words);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"gives the rates of others", gives_rates_of_others},
        {"warm-up is a factor", warm_up_is_a_factor},
        {"step has PyTorch's defaults", step_has_pytorchs_defaults},
        {"stays finite at the ends", stays_finite_at_the_ends},
        {"refuses what cannot be", refuses_what_cannot_be},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
