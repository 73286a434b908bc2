/* The sums that the host computes: pieces of complete buckets, each by a driver thread that would
   otherwise wait, in the order of ranks. */
#include "base/floats.h"
#include "collective/allreduce_state.h"
#include "device/communicator.h"

#include <string.h>

enum {
    BLOCK = 4096,           /* elements that are summed at a time: 16 KiB, which stays in L1 */
    MOST_PIECE = 64 * 1024, /* elements that a rank takes upon itself at a time */
};

/* Called when a sum is not finite.  Marks the members whose contributions are not finite, and
   returns how many are newly marked.  Members of an island are left out: they have checked their
   own contributions, so only their sum can be the reason. */
static size_t blame(dpti_allreduce *a, size_t begin, size_t n)
{
    size_t n_more = 0;
    for (size_t r = 0; r < a->n_ranks; r++) {
        dpti_member *m = &a->members[r];
        if (dpti_shows(m) && m->contributes && !m->island_slot.island &&
            !dpti_all_finite(m->view.host + begin, n))
            n_more += !atomic_exchange(&m->flawed, true);
    }
    return n_more;
}

bool dpti_allreduce_reduce(dpti_allreduce *allreduce, dpti_range what, size_t *n_flawed)
{
    dpti_allreduce *a = allreduce;
    const size_t n_written = a->processes ? 1 : a->n_ranks;
    const bool looks = a->wants_finite && !a->processes; /* else each rank has */
    bool finite = true;
    float sum[BLOCK];
    *n_flawed = 0;
    for (size_t begin = what.begin; begin < what.end; begin += BLOCK) {
        const size_t n = what.end - begin < BLOCK ? what.end - begin : BLOCK;
        bool empty = true;
        /* Fixed order: float addition is not associative, and replicas must agree to the bit. */
        for (size_t r = 0; r < a->n_ranks; r++) {
            if (!dpti_shows(&a->members[r]) || !a->members[r].contributes) continue;
            dpti_add_up(sum, a->members[r].view.host + begin, n, empty);
            empty = false;
        }
        if (empty) memset(sum, 0, n * sizeof *sum);
        if (looks && !dpti_all_finite(sum, n)) {
            finite = false;
            *n_flawed += blame(a, begin, n);
        }
        for (size_t r = 0; r < n_written; r++)
            if (dpti_shows(&a->members[r]))
                memcpy(a->members[r].view.host + begin, sum, n * sizeof *sum);
    }
    return finite;
}

static size_t round_up_to_lines(size_t n)
{
    return (n + DPTI_LINE - 1) / DPTI_LINE * DPTI_LINE;
}

bool dpti_allreduce_sum_piece(dpti_allreduce *allreduce, dpti_round *round)
{
    dpti_allreduce *a = allreduce;
    dpti_round *r = round;
    const dpti_range *bucket;
    for (;; r->bucket++) {
        if (r->bucket == r->n_complete) return false;
        bucket = &r->buckets[r->bucket];
        if (r->next < bucket->begin) r->next = bucket->begin;
        if (r->next < bucket->end) break;
        r->next = 0;
    }
    size_t n = round_up_to_lines(
        (bucket->end - bucket->begin) / dpti_allreduce_count_present(a, a->n_ranks) + 1);
    if (n > MOST_PIECE) n = MOST_PIECE;
    const size_t begin = r->next, end = bucket->end - begin < n ? bucket->end : begin + n;
    r->next = end;
    r->n_summing++;
    pthread_mutex_unlock(&a->mutex);
    size_t n_flawed;
    const bool finite = dpti_allreduce_reduce(a, (dpti_range){begin, end}, &n_flawed);
    pthread_mutex_lock(&a->mutex);
    r->not_finite = r->not_finite || !finite;
    r->n_flawed += n_flawed;
    if (--r->n_summing == 0) pthread_cond_broadcast(&a->changed);
    return true;
}
