/* Tests which divisions of a step count as already computed by the devices. */
#include "balance/settled.h"
#include "harness.h"

enum { N = 3 };

typedef struct step {
    size_t shards[N];
    bool settled;
} step;

static void check_steps(test *t, dpti_settled *s, const step *steps, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!CHECK(dpti_settled_step(s, steps[i].shards) == steps[i].settled)) FAIL("step %zu", i);
}

static void two_steps_settle(test *t)
{
    static const step steps[] = {
        {{4, 2, 0}, false}, {{4, 2, 0}, false}, {{4, 2, 0}, true},
        {{4, 2, 0}, true},  {{4, 1, 1}, false}, {{4, 2, 0}, true}, /* a ragged batch */
        {{4, 2, 0}, true},  {{4, 1, 1}, false}, {{4, 1, 1}, true},
        {{4, 2, 0}, true},  {{0, 2, 4}, false}, /* a third one takes the place of the older one */
        {{4, 2, 0}, true},  {{4, 1, 1}, false},
    };
    dpti_settled s;
    REQUIRE(dpti_settled_create(N, DPTI_SETTLED, &s));
    check_steps(t, &s, steps, sizeof steps / sizeof *steps);
    dpti_settled_destroy(&s);
}

static void forgetting_begins_anew(test *t)
{
    static const step steps[] = {{{1, 1, 1}, false}, {{1, 1, 1}, false}, {{1, 1, 1}, true}};
    dpti_settled s;
    REQUIRE(dpti_settled_create(N, 1, &s));
    for (size_t i = 0; i < 2; i++) {
        check_steps(t, &s, steps, sizeof steps / sizeof *steps);
        dpti_settled_forget(&s);
    }
    dpti_settled_destroy(&s);
}

static void one_place_keeps_one(test *t)
{
    static const step steps[] = {
        {{3, 3, 3}, false}, {{3, 3, 3}, false}, {{3, 3, 3}, true}, {{3, 3, 2}, false},
        {{3, 3, 3}, false}, {{3, 3, 3}, false}, {{3, 3, 3}, true},
    };
    dpti_settled s;
    REQUIRE(dpti_settled_create(N, 1, &s));
    check_steps(t, &s, steps, sizeof steps / sizeof *steps);
    dpti_settled_destroy(&s);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"two steps settle", two_steps_settle},
        {"forgetting begins anew", forgetting_begins_anew},
        {"one place keeps one", one_place_keeps_one},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
