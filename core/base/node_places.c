/* The places of nodes' sums (node_places.h). */
#include "base/node_places.h"

#include <stdbool.h>
#include <stdint.h>

static size_t size_of(const dpti_node_bucket *bucket)
{
    return bucket->end - bucket->begin;
}

static bool overlap(const dpti_node_bucket *bucket, size_t at, const dpti_node_bucket *other)
{
    return at < other->at + size_of(other) && other->at < at + size_of(bucket);
}

/* How many buckets must be summed before bucket k can be written at this place of the ring. */
static size_t wait_at(const dpti_node_places *p, size_t k, size_t at)
{
    size_t n = k;
    while (n > 0 && !overlap(&p->buckets[k], at, &p->buckets[n - 1]))
        n--;
    return n;
}

/* Puts bucket k where it waits for the fewest buckets.  It cannot wait for those that are
   contributed after it is written; if need be, the ring grows. */
static void put(dpti_node_places *p, size_t k)
{
    dpti_node_bucket *b = &p->buckets[k];
    size_t behind = 0;
    b->after = SIZE_MAX;
    for (size_t i = 0; i <= k; i++) {
        const size_t at = i > 0 ? p->buckets[i - 1].at + size_of(&p->buckets[i - 1]) : 0;
        const size_t after = wait_at(p, k, at);
        if (i > b->n_before && at > behind) behind = at;
        if (at + size_of(b) > p->ring || after >= b->after) continue;
        b->at = at;
        b->after = after;
    }
    if (b->after > b->n_before) {
        b->at = behind;
        b->after = wait_at(p, k, behind);
        p->ring = behind + size_of(b);
    }
}

void dpti_place_nodes(dpti_node_places *places, size_t count)
{
    dpti_node_places *p = places;
    size_t in_buckets = 0;
    p->ring = 0;
    for (size_t k = 0; k < p->n_buckets; k++) {
        const size_t size = size_of(&p->buckets[k]);
        if (size > p->ring) p->ring = size;
        in_buckets += size;
    }
    for (size_t k = 0; k < p->n_buckets; k++)
        put(p, k);
    p->n_elements = p->ring + count - in_buckets;
}

size_t dpti_node_bucket_of(const dpti_node_places *places, size_t element)
{
    size_t k = 0;
    while (k < places->n_buckets &&
           (element < places->buckets[k].begin || element >= places->buckets[k].end))
        k++;
    return k;
}

size_t dpti_node_place(const dpti_node_places *places, size_t element)
{
    const dpti_node_places *p = places;
    const size_t k = dpti_node_bucket_of(p, element);
    if (k < p->n_buckets) return p->buckets[k].at + element - p->buckets[k].begin;
    const size_t high = p->n_buckets > 0 ? p->buckets[0].end : 0;
    const size_t low = p->n_buckets > 0 ? p->buckets[p->n_buckets - 1].begin : 0;
    return p->ring + (element < low ? element : element - (high - low));
}
