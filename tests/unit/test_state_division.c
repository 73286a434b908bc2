/* Tests the division of the optimizer's state (train/components/state_division.h): parts follow
   each other, hold all elements, and are in proportion to the memory that is left. */
#include "harness.h"
#include "train/components/state_division.h"

#include <stdint.h>
#include <stdlib.h>

enum { MOST = 12, RUNS = 20000 };

static const size_t unit = DPTI_STATE_PART_ALIGNMENT;

/* What holds of every division. */
static void check_parts(test *t, size_t n, size_t n_parts, const dpti_state_holder *holders,
                        dpti_state_part *parts)
{
    size_t at = 0;
    dpti_divide_state(n, n_parts, holders, parts);
    for (size_t i = 0; i < n_parts; i++) {
        CHECK_SIZE(parts[i].begin, at);
        CHECK(parts[i].end >= at);
        CHECK(parts[i].end % unit == 0 || parts[i].end == n);
        if (!holders[i].takes_part) CHECK_SIZE(parts[i].end, at);
        at = parts[i].end;
    }
    CHECK_SIZE(at, n);
}

static void proportions(test *t)
{
    const dpti_state_holder holders[] = {{true, 1300}, {true, 200}, {true, 100}};
    dpti_state_part parts[3];
    check_parts(t, 16 * 100 * unit, 3, holders, parts);
    CHECK_SIZE(parts[0].end, 13 * 100 * unit);
    CHECK_SIZE(parts[1].end, 15 * 100 * unit);
}

/* A device without memory, and one that takes no part, hold nothing. */
static void nothing_left(test *t)
{
    const dpti_state_holder holders[] = {{true, 0}, {true, 500}, {false, 500}, {true, 500}};
    const dpti_state_holder none[] = {{false, 7}, {true, 0}, {true, 0}};
    dpti_state_part parts[4];
    check_parts(t, 20 * unit, 4, holders, parts);
    CHECK_SIZE(parts[0].end, 0);
    CHECK_SIZE(parts[1].end, 10 * unit);
    CHECK_SIZE(parts[2].end, 10 * unit);
    check_parts(t, 20 * unit, 3, none, parts);
    CHECK_SIZE(parts[0].end, 0);
    CHECK_SIZE(parts[1].end, 20 * unit);
}

/* Some devices get no element then. */
static void more_devices_than_elements(test *t)
{
    dpti_state_holder holders[MOST];
    dpti_state_part parts[MOST];
    size_t n_holding = 0;
    for (size_t i = 0; i < MOST; i++)
        holders[i] = (dpti_state_holder){true, 1000};
    check_parts(t, 3 * unit - 1, MOST, holders, parts);
    for (size_t i = 0; i < MOST; i++)
        n_holding += parts[i].end > parts[i].begin;
    CHECK_SIZE(n_holding, 3);
    check_parts(t, 1, MOST, holders, parts);
    check_parts(t, 0, MOST, holders, parts);
}

/* The largest memories that a number can tell, and elements that only these hold. */
static void large_numbers(test *t)
{
    const dpti_state_holder holders[] = {{true, SIZE_MAX}, {true, SIZE_MAX}, {true, SIZE_MAX / 2}};
    dpti_state_part parts[3];
    const size_t n = ((size_t)1 << 40) * unit;
    check_parts(t, n, 3, holders, parts);
    CHECK_NEAR((double)parts[0].end / (double)n, 0.4, 1e-6);
    CHECK_NEAR((double)parts[1].end / (double)n, 0.8, 1e-6);
}

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Random devices, against the definition in floating-point numbers. */
static void random_divisions(test *t)
{
    uint64_t state = 41;
    for (size_t r = 0; r < RUNS && t->n_failures == 0; r++) {
        dpti_state_holder holders[MOST];
        dpti_state_part parts[MOST];
        const size_t n_parts = 1 + next(&state) % MOST, n = next(&state) % (1000 * unit);
        double sum = 0;
        for (size_t i = 0; i < n_parts; i++) {
            const size_t left = next(&state) % 3 ? next(&state) >> (next(&state) % 64) : 0;
            holders[i] = (dpti_state_holder){i == 0 || next(&state) % 4 > 0, left};
            sum += holders[i].takes_part ? (double)left : 0;
        }
        check_parts(t, n, n_parts, holders, parts);
        for (size_t i = 0; i < n_parts && sum > 0; i++) {
            const double right =
                holders[i].takes_part ? (double)n * ((double)holders[i].left / sum) : 0;
            /* Weights are rounded by a part in 2^22, and the number of elements and each end to a
               multiple of the unit. */
            CHECK_NEAR((double)(parts[i].end - parts[i].begin), right,
                       2 * (double)unit + (double)n * MOST / (1 << 22));
        }
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"proportions", proportions},
        {"nothing left", nothing_left},
        {"more devices than elements", more_devices_than_elements},
        {"large numbers", large_numbers},
        {"random divisions", random_divisions},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
