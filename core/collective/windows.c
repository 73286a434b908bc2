/* Ranks that show their data of a bucket until it is summed, and take a part of the sums
   (allreduce.h); clipping of these sums, which no rank has all of. */
#include "collective/allreduce.h"
#include "collective/allreduce_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The order of the sum of squares, as of a deterministic DPT_OP_CLIP_NORM (core/backend/op_list.h).
 */
enum { BLOCK = 4096, LANES = 16 };

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

/* ---- Clipping -------------------------------------------------------------------------------- */

static size_t count_blocks(size_t count)
{
    return count / BLOCK + (count % BLOCK != 0);
}

dpt_status dpti_allreduce_clip(dpti_allreduce *allreduce, size_t count, float max_norm)
{
    double *squares = calloc(count_blocks(count) + 1, sizeof *squares);
    if (!squares) return DPT_E_NO_MEMORY;
    free(allreduce->clipping.squares);
    allreduce->clipping = (dpti_clipping){count, max_norm, squares};
    return DPT_OK;
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
}

/* Each present rank does its part of the blocks. */
static void sum_own_blocks(const dpti_allreduce *a, size_t rank)
{
    const dpti_clipping *c = &a->clipping;
    const size_t place = dpti_allreduce_count_present(a, rank);
    const size_t n_places = dpti_allreduce_count_present(a, a->n_ranks);
    const size_t n_blocks = count_blocks(c->count);
    for (size_t i = n_blocks * place / n_places; i < n_blocks * (place + 1) / n_places; i++) {
        const size_t begin = i * BLOCK, left = c->count - begin, n = left < BLOCK ? left : BLOCK;
        float values[BLOCK] = {0};
        copy_sums(a, (dpti_range){begin, begin + n}, values);
        c->squares[i] = sum_of_squares(values, n);
    }
}

dpt_status dpti_windows_clip(const dpti_allreduce *allreduce, dpti_exchange_context *exchange)
{
    const dpti_clipping *c = &allreduce->clipping;
    const dpti_member *m = &allreduce->members[exchange->who->rank];
    double total = 0.0;
    if (!(c->max_norm > 0) || c->count == 0) return DPT_OK;
    sum_own_blocks(allreduce, exchange->who->rank);
    DPT_TRY(dpti_allreduce_meet(allreduce, exchange, DPT_OK));
    for (size_t i = 0; i < count_blocks(c->count); i++)
        total += c->squares[i];
    const double factor = (double)c->max_norm / (sqrt(total) + 1e-6);
    for (size_t i = 0; !(factor >= 1.0) && i < dpti_range_size(m->own); i++)
        m->sums.host[i] *= (float)factor;
    return DPT_OK;
}
