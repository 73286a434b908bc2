/* Tests exact sums: in any order, of any parts, and of numbers whose sum in double precision would
   be rounded. */
#include "base/exact_sum.h"
#include "harness.h"

#include <float.h>
#include <math.h>

enum { COUNT = 3000 };

static void any_order(test *t)
{
    test_random random = {5};
    float numbers[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        numbers[i] = (float)ldexp(test_random_normal(&random), test_random_int(&random, -120, 100));
    double first = 0;
    for (size_t k = 0; k < 50; k++) {
        dpti_exact_sum parts[3] = {{.n_not_finite = 0}};
        for (size_t i = COUNT; i > 1; i--) {
            const size_t other = test_random_below(&random, i);
            const float kept = numbers[other];
            numbers[other] = numbers[i - 1];
            numbers[i - 1] = kept;
        }
        for (size_t i = 0; i < COUNT; i++)
            dpti_exact_add(&parts[test_random_below(&random, 3)], numbers[i]);
        dpti_exact_join(&parts[1], &parts[2]);
        dpti_exact_join(&parts[0], &parts[1]);
        const double sum = dpti_exact_value(&parts[0]);
        if (k == 0) first = sum;
        CHECK(sum == first);
    }
}

static double sum_of(const float *numbers, size_t n)
{
    dpti_exact_sum sum = {.n_not_finite = 0};
    for (size_t i = 0; i < n; i++)
        dpti_exact_add(&sum, numbers[i]);
    return dpti_exact_value(&sum);
}

static void values(test *t)
{
    const float least = 0x1p-149f, largest = FLT_MAX;
    CHECK(sum_of(NULL, 0) == 0);
    CHECK(sum_of((const float[]){0.5f, -0.25f, 3}, 3) == 3.25);
    CHECK(sum_of((const float[]){least, least, FLT_MIN}, 3) == 0x1p-148 + (double)FLT_MIN);
    CHECK(sum_of((const float[]){largest, 1, -largest}, 3) == 1);
    CHECK(sum_of((const float[]){largest, largest}, 2) == 2 * (double)largest);
    CHECK(sum_of((const float[]){0.0f, -0.0f}, 2) == 0);
    CHECK(isnan(sum_of((const float[]){1, INFINITY}, 2)));
    CHECK(isnan(sum_of((const float[]){NAN}, 1)));
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {{"any order", any_order}, {"values", values}};
    return test_run((size_t)argc - 1, argv + 1, cases, sizeof cases / sizeof *cases, NULL);
}
