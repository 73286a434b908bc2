/* Tests the places of nodes' sums: no bucket takes a place that another one still needs. */
#include "base/node_places.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { LINE = 4, MOST_LINES = 9 };

/* A flat buffer whose buckets have random sizes, and are written up to `most_early` buckets too
   early.  Returns its size. */
static size_t make(test_random *random, size_t n_buckets, size_t most_early, dpti_node_places *p)
{
    const size_t low = test_random_below(random, 5) * LINE, behind = test_random_below(random, 5);
    size_t end = low;
    *p = (dpti_node_places){.n_buckets = n_buckets};
    for (size_t k = n_buckets; k-- > 0;) {
        const size_t early = test_random_below(random, most_early + 1);
        p->buckets[k].begin = end;
        end += test_random_below(random, MOST_LINES) * LINE;
        p->buckets[k].end = end;
        p->buckets[k].n_before = k > early ? k - early : 0;
    }
    return end + behind * LINE;
}

static bool overlap(const dpti_node_bucket *a, const dpti_node_bucket *b)
{
    return a->at < b->at + (b->end - b->begin) && b->at < a->at + (a->end - a->begin);
}

static void check_ring(test *t, const dpti_node_places *p)
{
    for (size_t k = 0; k < p->n_buckets; k++) {
        const dpti_node_bucket *b = &p->buckets[k];
        CHECK(b->at + (b->end - b->begin) <= p->ring);
        CHECK(b->after <= b->n_before);
        for (size_t j = b->after; j < k; j++)
            CHECK(!overlap(b, &p->buckets[j]));
    }
}

/* Every element has a place.  Two that are in no bucket, or in one bucket, have not the same. */
static void check_places(test *t, const dpti_node_places *p, size_t count)
{
    size_t *owner = calloc(p->n_elements + 1, sizeof *owner);
    for (size_t e = 0; CHECK(owner) && e < count && t->n_failures == 0; e++) {
        const size_t place = dpti_node_place(p, e), bucket = dpti_node_bucket_of(p, e);
        if (!CHECK(place < p->n_elements)) break;
        CHECK((place < p->ring) == (bucket < p->n_buckets));
        CHECK(owner[place] != bucket + 1);
        owner[place] = bucket + 1;
    }
    free(owner);
}

static void any_buckets(test *t)
{
    test_random random = {5};
    for (size_t i = 0; i < 1000 && t->n_failures == 0; i++) {
        dpti_node_places p;
        const size_t n = test_random_below(&random, DPTI_NODE_BUCKETS + 1);
        const size_t count = make(&random, n, i % 3, &p);
        dpti_place_nodes(&p, count);
        check_ring(t, &p);
        check_places(t, &p, count);
    }
}

/* If buckets are written in their order, the ring is as large as the largest of them. */
static void in_order(test *t)
{
    test_random random = {6};
    for (size_t i = 0; i < 500 && t->n_failures == 0; i++) {
        dpti_node_places p;
        size_t most = 0;
        dpti_place_nodes(&p, make(&random, 20, 0, &p));
        for (size_t k = 0; k < p.n_buckets; k++)
            if (p.buckets[k].end - p.buckets[k].begin > most)
                most = p.buckets[k].end - p.buckets[k].begin;
        CHECK_SIZE(p.ring, most);
    }
}

/* Without buckets nothing moves. */
static void whole(test *t)
{
    dpti_node_places p = {.n_buckets = 0};
    dpti_place_nodes(&p, 100);
    CHECK_SIZE(p.n_elements, 100);
    for (size_t e = 0; e < 100; e++)
        CHECK_SIZE(dpti_node_place(&p, e), e);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"any buckets", any_buckets}, {"in order", in_order}, {"whole", whole}};
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
