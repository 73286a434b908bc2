/* Tests permutations that are computed element by element. */
#include "base/permutation.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>

static void has_every_element_once(test *t)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 100, 255, 256, 257, 65537, 100003};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const dpti_permutation p = {7, 3, DPTI_RANDOM_PLACE, sizes[s]};
        bool *seen = calloc(p.n, sizeof *seen), whole = true;
        REQUIRE(seen);
        for (uint32_t i = 0; i < p.n; i++) {
            const uint32_t element = dpti_permutation_at(&p, i);
            whole = whole && element < p.n && !seen[element];
            if (element < p.n) seen[element] = true;
        }
        free(seen);
        if (!CHECK(whole)) FAIL("of %u", p.n);
    }
}

/* The largest number of elements: results are in range, and those of neighbours differ. */
static void reaches_the_largest(test *t)
{
    const dpti_permutation p = {1, 1, DPTI_RANDOM_PLACE, UINT32_MAX};
    CHECK(dpti_permutation_at(&p, 0) != dpti_permutation_at(&p, UINT32_MAX - 1));
    CHECK(dpti_permutation_at(&p, UINT32_MAX - 1) < UINT32_MAX);
}

/* Seed and index change about all elements: at most a few of 1000 stay by chance. */
static void depends_on_seed_and_index(test *t)
{
    enum { N = 1000, MOST = 10 };
    const dpti_permutation one = {5, 1, DPTI_RANDOM_PLACE, N};
    const dpti_permutation others[] = {{6, 1, DPTI_RANDOM_PLACE, N},
                                       {5, 2, DPTI_RANDOM_PLACE, N},
                                       {5 + (UINT64_C(1) << 40), 1, DPTI_RANDOM_PLACE, N},
                                       {5, 1 + (UINT64_C(1) << 40), DPTI_RANDOM_PLACE, N}};
    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
        int same = 0;
        for (uint32_t i = 0; i < N; i++)
            same += dpti_permutation_at(&one, i) == dpti_permutation_at(&others[k], i);
        CHECK(same <= MOST);
    }
}

/* Over many indices each element comes first, and each follows another, about equally often: chi
   square over the 48 elements and over the 47 distances of the first two.  47 degrees of freedom
   exceed 100 with a probability of 1e-5. */
static void is_even(test *t)
{
    enum { N = 48, INDICES = 9600 };
    int first[N] = {0}, distance[N] = {0};
    for (uint64_t index = 0; index < INDICES; index++) {
        const dpti_permutation p = {11, index, DPTI_RANDOM_PLACE, N};
        const uint32_t a = dpti_permutation_at(&p, 0), b = dpti_permutation_at(&p, 1);
        first[a]++;
        distance[(b + N - a) % N]++;
    }
    double of_first = 0, of_distance = 0;
    const double wanted = (double)INDICES / N, wanted_distance = (double)INDICES / (N - 1);
    for (size_t i = 0; i < N; i++)
        of_first += (first[i] - wanted) * (first[i] - wanted) / wanted;
    for (size_t i = 1; i < N; i++)
        of_distance +=
            (distance[i] - wanted_distance) * (distance[i] - wanted_distance) / wanted_distance;
    CHECK(distance[0] == 0);
    if (!CHECK(of_first < 100 && of_distance < 100)) FAIL("%f and %f", of_first, of_distance);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"has every element once", has_every_element_once},
        {"reaches the largest", reaches_the_largest},
        {"depends on seed and index", depends_on_seed_and_index},
        {"is even", is_even},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
