/* Tests the tree of grains: the same bits for every division of a batch. */
#include "base/grains.h"
#include "harness.h"

#include <string.h>

static size_t below(test_random *random, size_t n)
{
    return test_random_below(random, n);
}

/* ---- What is right --------------------------------------------------------------------------- */

static float right_sum(const float *grains, size_t n, size_t begin, size_t size)
{
    if (size == 1) return grains[begin];
    const float left = right_sum(grains, n, begin, size / 2);
    if (begin + size / 2 >= n) return left;
    return left + right_sum(grains, n, begin + size / 2, size / 2);
}

/* ---- A device -------------------------------------------------------------------------------- */

typedef struct held {
    dpti_grain_list list;
    float nodes[DPTI_GRAIN_HELD], scratch[DPTI_GRAIN_SCRATCH];
} held;

static float *place(test *t, held *h, dpti_grain_place p)
{
    static float nowhere;
    const size_t most = p.is_scratch ? DPTI_GRAIN_SCRATCH : DPTI_GRAIN_HELD;
    if (!CHECK(p.index < most)) return &nowhere;
    return p.is_scratch ? &h->scratch[p.index] : &h->nodes[p.index];
}

/* A batch, whose grains have one value each. */
typedef struct batch {
    size_t n;
    float grains[DPTI_GRAINS];
} batch;

/* The sum of a node, which must be a node of the tree. */
static float node_sum(test *t, const batch *b, const dpti_grain_node *node)
{
    size_t size = 1;
    while (node->begin + size < node->end)
        size *= 2;
    const size_t end = node->begin + size < b->n ? node->begin + size : b->n;
    CHECK(node->begin % size == 0 && node->end == end);
    return right_sum(b->grains, node->end, node->begin, size);
}

/* Computes grains one by one, or whole nodes. */
static void take(test *t, held *h, dpti_grain_node range, const batch *b, bool whole_nodes)
{
    dpti_grain_work work;
    dpti_grain_list list = h->list;
    dpti_grains_plan(&h->list, range, b->n, &work);
    if (whole_nodes) {
        dpti_grains_plan_nodes(&list, range, b->n, &work);
        CHECK(memcmp(&list, &h->list, sizeof list) == 0);
    }
    for (size_t i = 0; i < work.n_steps; i++) {
        const dpti_grain_step *s = &work.steps[i];
        float *to = place(t, h, s->to);
        CHECK(!whole_nodes || !s->to.is_scratch);
        CHECK(s->is_sum || whole_nodes || s->grains.end == s->grains.begin + 1);
        if (s->is_sum)
            *to += *place(t, h, s->from);
        else
            *to = s->adds ? *to + node_sum(t, b, &s->grains) : node_sum(t, b, &s->grains);
    }
}

/* ---- All devices ----------------------------------------------------------------------------- */

/* Adds up the nodes of all devices, which follow each other. */
typedef struct joined {
    size_t n;
    dpti_grain_node nodes[4 * DPTI_GRAINS];
    float sums[4 * DPTI_GRAINS];
} joined;

static void join(joined *j, const held *h, size_t n_grains)
{
    for (size_t i = 0; i < h->list.n; i++) {
        j->nodes[j->n] = h->list.nodes[i];
        j->sums[j->n++] = h->nodes[i];
        for (;
             j->n > 1 && dpti_grains_are_halves(&j->nodes[j->n - 2], &j->nodes[j->n - 1], n_grains);
             j->n--) {
            j->sums[j->n - 2] += j->sums[j->n - 1];
            j->nodes[j->n - 2].end = j->nodes[j->n - 1].end;
        }
    }
}

static void any_division(test *t)
{
    test_random random = {7};
    for (size_t k = 0; k < 20000 && t->n_failures == 0; k++) {
        const size_t n = 1 + below(&random, DPTI_GRAINS);
        batch b = {.n = n};
        joined j = {.n = 0};
        for (size_t i = 0; i < n; i++)
            b.grains[i] = (float)((double)below(&random, 1u << 30) / 3e7 - 15.0);
        for (size_t at = 0; at < n;) {
            const size_t first = at;
            const size_t end = at + 1 + below(&random, n - at);
            held h = {.list = {.n = 0}};
            for (size_t begin = at; begin < end;) { /* in micro-batches */
                const size_t next = begin + 1 + below(&random, end - begin);
                take(t, &h, (dpti_grain_node){begin, next}, &b, k % 2 == 0);
                begin = next;
                CHECK(h.list.n <= (first == 0 ? DPTI_GRAIN_LEADING : DPTI_GRAIN_HELD));
            }
            join(&j, &h, n);
            at = end;
        }
        CHECK_SIZE(j.n, 1);
        const float right = right_sum(b.grains, n, 0, DPTI_GRAINS);
        if (!CHECK(memcmp(&right, &j.sums[0], sizeof right) == 0))
            FAIL("%zu grains: %.9g, not %.9g", n, (double)j.sums[0], (double)right);
    }
}

/* A device with all grains holds one node, and computes every grain once, or the node in one
   step. */
static void alone(test *t)
{
    for (size_t n = 1; n <= DPTI_GRAINS; n++) {
        dpti_grain_list list = {.n = 0};
        dpti_grain_work work;
        size_t next = 0;
        dpti_grains_plan(&list, (dpti_grain_node){0, n}, n, &work);
        CHECK_SIZE(list.n, 1);
        for (size_t i = 0; i < work.n_steps; i++)
            if (!work.steps[i].is_sum) CHECK_SIZE(work.steps[i].grains.begin, next++);
        CHECK_SIZE(next, n);
        list = (dpti_grain_list){.n = 0};
        dpti_grains_plan_nodes(&list, (dpti_grain_node){0, n}, n, &work);
        CHECK(work.n_steps == 1 && work.steps[0].grains.begin == 0 &&
              work.steps[0].grains.end == n);
    }
}

static void cut(test *t)
{
    for (size_t n = 0; n < 600; n++) {
        const dpti_grains g = dpti_grains_of(n);
        CHECK(g.n <= DPTI_GRAINS && g.n_samples == n);
        CHECK_SIZE(dpti_grain_begin(&g, g.n), n);
        CHECK_SIZE(dpti_grain_begin(&g, g.n + 3), n);
        for (size_t i = 0; i < g.n; i++)
            CHECK(dpti_grain_begin(&g, i) < dpti_grain_begin(&g, i + 1));
    }
    CHECK_SIZE(dpti_grains_of(16).size, 1);
    CHECK_SIZE(dpti_grains_of(17).size, 2);
    CHECK_SIZE(dpti_grains_of(17).n, 9);
    CHECK_SIZE(dpti_grains_of(256).size, 16);
}

static void rounded(test *t)
{
    test_random random = {11};
    for (size_t k = 0; k < 2000; k++) {
        const size_t n = below(&random, 300), n_shards = 1 + below(&random, 5);
        const dpti_grains g = dpti_grains_of(n);
        size_t shards[5] = {0}, left = n, sum = 0, end = 0;
        for (size_t i = 0; i + 1 < n_shards; i++)
            left -= shards[i] = below(&random, left + 1);
        shards[n_shards - 1] = left;
        dpti_grains_round(&g, n_shards, shards);
        for (size_t i = 0; i < n_shards; i++) {
            sum += shards[i];
            end += shards[i];
            CHECK(end == n || end % g.size == 0);
        }
        CHECK_SIZE(sum, n);
    }
    size_t shards[] = {19, 3, 2};
    const dpti_grains g = dpti_grains_of(24); /* grains of two */
    dpti_grains_round(&g, 3, shards);
    CHECK(shards[0] == 20 && shards[1] == 2 && shards[2] == 2);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"any division", any_division}, {"alone", alone}, {"cut", cut}, {"rounded", rounded}};
    return test_run((size_t)argc - 1, argv + 1, cases, sizeof cases / sizeof *cases, NULL);
}
