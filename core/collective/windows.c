/* Ranks that show their data of a bucket until it is summed, and take a part of the sums
   (allreduce.h); clipping of these sums, which no rank has all of.

   With several processes each of them gets all sums of a bucket, in the data of its first rank, and
   its ranks take their parts from there. */
#include "collective/allreduce.h"
#include "collective/allreduce_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The order of the sum of squares, as of a deterministic DPT_OP_CLIP_NORM (core/backend/op_list.h).
 */
enum { BLOCK = DPTI_CLIP_BLOCK, LANES = 16 };

dpt_status dpti_allreduce_join_window(dpti_allreduce *allreduce, size_t rank,
                                      const dpti_buffer *data, const dpti_window *window)
{
    dpti_member *m = &allreduce->members[rank];
    m->windowed = true;
    m->places = window->places;
    m->own = window->own;
    m->shared = window->shared;
    const size_t n = dpti_window_count(allreduce, m);
    DPT_TRY(dpti_view_open(data, window->places->n_elements, &m->view));
    return n > 0 ? dpti_view_open(window->sums, n, &m->sums) : DPT_OK;
}

float *dpti_member_data(const dpti_member *member, size_t element)
{
    const dpti_member *m = member;
    return m->view.host + (m->windowed ? dpti_node_place(m->places, element) : element);
}

size_t dpti_window_count(const dpti_allreduce *allreduce, const dpti_member *member)
{
    return dpti_range_size(member->own) + allreduce->count - member->shared;
}

void dpti_window_write(const dpti_allreduce *allreduce, const dpti_member *member, size_t begin,
                       dpti_sums what)
{
    const dpti_member *m = member;
    const dpti_range all = {begin, begin + what.n};
    const dpti_range own = dpti_range_common(all, m->own);
    const dpti_range shared = dpti_range_common(all, (dpti_range){m->shared, allreduce->count});
    const size_t n_own = dpti_range_size(m->own);
    if (own.begin < own.end)
        memcpy(m->sums.host + own.begin - m->own.begin, what.values + own.begin - begin,
               dpti_range_size(own) * sizeof *what.values);
    if (shared.begin < shared.end)
        memcpy(m->sums.host + n_own + shared.begin - m->shared, what.values + shared.begin - begin,
               dpti_range_size(shared) * sizeof *what.values);
}

/* The elements behind this process's part that are in its last block. */
static dpti_range behind_own(const dpti_clipping *c)
{
    const size_t end = c->blocks.end * BLOCK;
    return (dpti_range){c->tail, c->blocks.begin == c->blocks.end ? c->tail
                                 : end < c->count                 ? end
                                                                  : c->count};
}

void dpti_windows_take(dpti_allreduce *allreduce, dpti_range what, const float *sums)
{
    dpti_clipping *c = &allreduce->clipping;
    for (size_t r = 0; r < allreduce->n_ranks; r++)
        if (!allreduce->members[r].absent)
            dpti_window_write(allreduce, &allreduce->members[r], what.begin,
                              (dpti_sums){sums, dpti_range_size(what)});
    if (!(c->max_norm > 0)) return;
    const dpti_range behind = dpti_range_common(what, behind_own(c));
    if (behind.begin < behind.end)
        memcpy(c->behind + (behind.begin - c->tail), sums + (behind.begin - what.begin),
               dpti_range_size(behind) * sizeof *sums);
}

/* ---- Clipping -------------------------------------------------------------------------------- */

static size_t count_blocks(size_t count)
{
    return count / BLOCK + (count % BLOCK != 0);
}

dpt_status dpti_allreduce_clip(dpti_allreduce *allreduce, size_t count, float max_norm)
{
    dpti_allreduce *a = allreduce;
    const size_t n_processes = a->processes ? dpti_processes_count(a->processes) : 1;
    double *squares = calloc(count_blocks(count) + 1, sizeof *squares);
    size_t *begins = calloc(n_processes + 1, sizeof *begins);
    if (!squares || !begins) {
        free(begins);
        free(squares);
        return DPT_E_NO_MEMORY;
    }
    free(a->clipping.begins);
    free(a->clipping.squares);
    a->clipping = (dpti_clipping){.count = count,
                                  .max_norm = max_norm,
                                  .squares = squares,
                                  .begins = begins,
                                  .blocks = {0, count_blocks(count)},
                                  .tail = count};
    return DPT_OK;
}

void dpti_allreduce_divide(dpti_allreduce *allreduce, const size_t *borders)
{
    dpti_clipping *c = &allreduce->clipping;
    allreduce->divided = true;
    if (!c->begins || !allreduce->processes) return;
    const size_t rank = dpti_processes_rank(allreduce->processes);
    for (size_t p = 0; p <= dpti_processes_count(allreduce->processes); p++)
        c->begins[p] = count_blocks(borders[p]) * sizeof *c->squares;
    c->blocks = (dpti_range){count_blocks(borders[rank]), count_blocks(borders[rank + 1])};
    c->tail = borders[rank + 1];
}

static double sum_of_squares(const float *values, size_t n)
{
    double sums[LANES] = {0.0}, total = 0.0;
    for (size_t i = 0; i < n; i++)
        sums[i % LANES] += (double)values[i] * (double)values[i];
    for (size_t k = 0; k < LANES; k++)
        total += sums[k];
    return total;
}

/* Copies the sums of a range from the ranks that have them. */
static void copy_sums(const dpti_allreduce *a, dpti_range what, float *out)
{
    for (size_t r = 0; r < a->n_ranks; r++) {
        const dpti_member *m = &a->members[r];
        const dpti_range here = dpti_range_common(what, m->own);
        if (!m->absent && here.begin < here.end)
            memcpy(out + here.begin - what.begin, m->sums.host + here.begin - m->own.begin,
                   dpti_range_size(here) * sizeof *out);
    }
    const dpti_range behind = dpti_range_common(what, behind_own(&a->clipping));
    if (behind.begin < behind.end)
        memcpy(out + (behind.begin - what.begin),
               a->clipping.behind + (behind.begin - a->clipping.tail),
               dpti_range_size(behind) * sizeof *out);
}

/* Each present rank does its part of the blocks. */
static void sum_own_blocks(const dpti_allreduce *a, size_t rank)
{
    const dpti_clipping *c = &a->clipping;
    const size_t place = dpti_allreduce_count_present(a, rank);
    const size_t n_places = dpti_allreduce_count_present(a, a->n_ranks);
    const size_t first = c->blocks.begin, n_blocks = dpti_range_size(c->blocks);
    const size_t last = first + n_blocks * (place + 1) / n_places;
    for (size_t i = first + n_blocks * place / n_places; i < last; i++) {
        const size_t begin = i * BLOCK, left = c->count - begin, n = left < BLOCK ? left : BLOCK;
        float values[BLOCK] = {0};
        copy_sums(a, (dpti_range){begin, begin + n}, values);
        c->squares[i] = sum_of_squares(values, n);
    }
}

/* The processes tell each other the squares of their blocks. */
static dpt_status tell_squares(const dpti_allreduce *a, dpti_exchange_context *x)
{
    const dpti_clipping *c = &a->clipping;
    dpt_status verdict = DPT_OK, status = DPT_OK;
    dpt_error error = {.status = DPT_OK}; /* told by the next call that fails */
    const dpti_table table = {.data = c->squares, .begins = c->begins};
    if (!a->processes) return DPT_OK;
    if (x->who->rank == 0) status = dpti_processes_share(a->processes, &table, &verdict, &error);
    return dpti_allreduce_meet(a, x, status);
}

dpt_status dpti_windows_clip(const dpti_allreduce *allreduce, dpti_exchange_context *exchange)
{
    const dpti_clipping *c = &allreduce->clipping;
    const dpti_member *m = &allreduce->members[exchange->who->rank];
    double total = 0.0;
    if (!(c->max_norm > 0) || c->count == 0) return DPT_OK;
    sum_own_blocks(allreduce, exchange->who->rank);
    DPT_TRY(dpti_allreduce_meet(allreduce, exchange, DPT_OK));
    DPT_TRY(tell_squares(allreduce, exchange));
    for (size_t i = 0; i < count_blocks(c->count); i++)
        total += c->squares[i];
    const double factor = (double)c->max_norm / (sqrt(total) + 1e-6);
    for (size_t i = 0; !(factor >= 1.0) && i < dpti_range_size(m->own); i++)
        m->sums.host[i] *= (float)factor;
    return DPT_OK;
}
