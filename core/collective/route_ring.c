/* The route along the ring of processes.  Messages go to neighbours only, except for the slices of
   a reduce-scatter.

   Sums are made in the order of ranks, as on every route.  A chunk begins at process 0 and goes up
   to the last process; each process adds its part on the way.  The last process has the sum.  The
   sum of an all-reduce goes back the same way; the slices of a reduce-scatter go from the last
   process to their owners.

   Slices that are gathered go round the ring, each from its owner on: in phase k every process
   passes on the slice whose owner is k processes behind. */
#include "base/floats.h"
#include "collective/route.h"

#include <string.h>

/* One chunk: the sum that arrives from the process below, to which this process adds its part. */
static size_t n_staged(size_t n)
{
    (void)n;
    return 1;
}

static size_t n_chunks(const dpti_link *link, const dpti_collective *what)
{
    return what->kind == DPTI_ALL_GATHER ? dpti_count_slice_chunks(link, what, DPTI_CHUNK)
                                         : dpti_count_chunks(what->count, DPTI_CHUNK);
}

/* Returns whether any of processes [0, end) contributes. */
static bool any_below(const dpti_unit *u, size_t end)
{
    for (size_t r = 0; r < end; r++)
        if (u->what->contributes[r]) return true;
    return false;
}

/* Adds this process's part to the sum of the processes below it, in the staging memory. */
static void add_own(const dpti_unit *u, dpti_range elements)
{
    const size_t rank = u->link->rank;
    dpti_prepare_part(u, elements);
    if (u->what->contributes[rank])
        dpti_add_up(u->staging, u->what->data + elements.begin, dpti_range_size(elements),
                    !any_below(u, rank));
}

/* Passes the sum on to the process above.  The complete sum may come back while this message is
   still being sent, so the message is not sent from the memory of the complete sum. */
static void pass_up(dpti_unit *u, dpti_range elements)
{
    const size_t rank = u->link->rank, last = u->link->n - 1;
    float *data = u->what->data;
    if (any_below(u, rank + 1)) dpti_unit_send(u, rank + 1, u->staging, dpti_range_size(elements));
    const bool scatters = u->what->kind == DPTI_REDUCE_SCATTER;
    if (scatters) elements = dpti_range_common(elements, dpti_slice_of(u->link, u->what, rank));
    dpti_unit_receive(u, scatters ? last : rank + 1, data + elements.begin,
                      dpti_range_size(elements));
}

/* The last process takes the complete sum. */
static void turn(dpti_unit *u, dpti_range elements)
{
    float *sum = u->what->data + elements.begin;
    const size_t n = dpti_range_size(elements), last = u->link->rank;
    if (n == 0) return;
    if (any_below(u, last + 1))
        memcpy(sum, u->staging, n * sizeof *sum);
    else
        memset(sum, 0, n * sizeof *sum);
}

/* Sends the complete sum to the process below, or to the owners of slices. */
static void bring_back(dpti_unit *u, dpti_range elements)
{
    const size_t rank = u->link->rank;
    float *data = u->what->data;
    if (u->what->kind == DPTI_ALL_REDUCE) {
        if (rank > 0) dpti_unit_send(u, rank - 1, data + elements.begin, dpti_range_size(elements));
        return;
    }
    for (size_t r = 0; r < rank; r++) {
        const dpti_range his = dpti_range_common(elements, dpti_slice_of(u->link, u->what, r));
        dpti_unit_send(u, r, data + his.begin, dpti_range_size(his));
    }
}

static bool begin_sum(dpti_unit *u, unsigned k)
{
    const dpti_range all = {0, u->what->count}, elements = dpti_chunk_of(all, u->chunk, DPTI_CHUNK);
    const size_t rank = u->link->rank;
    const bool is_last = rank + 1 == u->link->n;
    switch (k) {
    case 0:
        if (any_below(u, rank))
            dpti_unit_receive(u, rank - 1, u->staging, dpti_range_size(elements));
        return true;
    case 1:
        add_own(u, elements);
        if (!is_last) pass_up(u, elements);
        return true;
    case 2:
        if (is_last) turn(u, elements);
        if (is_last || u->what->kind == DPTI_ALL_REDUCE) bring_back(u, elements);
        return true;
    default:
        if (u->what->kind == DPTI_ALL_REDUCE) dpti_look_at_sum(u, elements);
        return false;
    }
}

static bool begin_gather(dpti_unit *u, unsigned k)
{
    const size_t n = u->link->n, rank = u->link->rank;
    if (k + 1 >= n) return false;
    const dpti_range there =
        dpti_chunk_of(dpti_slice_of(u->link, u->what, (rank + n - k) % n), u->chunk, DPTI_CHUNK);
    const dpti_range here = dpti_chunk_of(dpti_slice_of(u->link, u->what, (rank + n - k - 1) % n),
                                          u->chunk, DPTI_CHUNK);
    dpti_unit_send(u, (rank + 1) % n, u->what->data + there.begin, dpti_range_size(there));
    dpti_unit_receive(u, (rank + n - 1) % n, u->what->data + here.begin, dpti_range_size(here));
    return true;
}

static bool begin(dpti_unit *u, unsigned k)
{
    return u->what->kind == DPTI_ALL_GATHER ? begin_gather(u, k) : begin_sum(u, k);
}

const dpti_route_steps dpti_route_ring = {
    .n_staged = n_staged,
    .n_chunks = n_chunks,
    .begin = begin,
};
