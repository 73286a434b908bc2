/* Sums of which factors of low rank travel. */
#include "collective/low_rank_sum.h"

#include "base/floats.h"

#include <string.h>

/* Writes M of all matrices to `owes`, and what travels as it is to `values`. */
static void take_part(const dpti_low_rank_sum *what, bool contributes)
{
    const dpti_feedback *f = what->feedback;
    const dpti_low_rank *l = f->low_rank;
    float *values = l->values;
    memcpy(f->owes, f->residual, f->count * sizeof *f->owes);
    if (!contributes) return;
    for (size_t i = 0; i < l->n_matrices; i++) {
        const dpti_matrix *m = &l->matrices[i];
        const size_t end = m->begin + m->rows * m->columns;
        for (size_t e = m->begin; e < end; e++)
            f->owes[e] += what->data[e];
    }
    for (size_t i = 0; i < l->n_whole; i++)
        for (size_t e = l->whole[i].begin; e < l->whole[i].end; e++)
            *values++ = what->data[e] + f->residual[e];
}

/* Elements that travel as they are owe nothing.  They owe something if a training was resumed that
   had another compression. */
static void pay_whole(const dpti_feedback *f)
{
    const dpti_low_rank *l = f->low_rank;
    for (size_t i = 0; i < l->n_whole; i++)
        memset(f->owes + l->whole[i].begin, 0, dpti_range_size(l->whole[i]) * sizeof *f->owes);
}

static dpti_collective all_reduce(const dpti_low_rank_sum *what, float *data, size_t count)
{
    return (dpti_collective){.kind = DPTI_ALL_REDUCE,
                             .data = data,
                             .count = count,
                             .contributes = what->contributes,
                             .finite = what->finite};
}

void dpti_low_rank_sum_start(dpti_processes *processes, const dpti_low_rank_sum *what)
{
    dpti_low_rank *l = what->feedback->low_rank;
    const bool contributes = what->contributes[dpti_processes_rank(processes)];
    take_part(what, contributes);
    if (contributes) {
        dpti_low_rank_project(l, what->feedback->owes);
        pay_whole(what->feedback);
    }
    dpti_collective p = all_reduce(what, l->p, l->n_p),
                    values = all_reduce(what, l->values, l->n_values);
    p.packing = &dpti_packing_bf16;
    if (p.count > 0) dpti_processes_start_collective(processes, &p);
    if (values.count > 0) dpti_processes_start_collective(processes, &values);
}

dpt_status dpti_low_rank_sum_finish(dpti_processes *processes, const dpti_low_rank_sum *what,
                                    dpt_error *error)
{
    const dpti_feedback *f = what->feedback;
    dpti_low_rank *l = f->low_rank;
    dpti_collective q = all_reduce(what, l->q, l->n_q);
    q.packing = &dpti_packing_bf16;
    q.owes = l->dropped;
    dpti_low_rank_factor(l, f->owes);
    if (what->contributes[dpti_processes_rank(processes)]) dpti_low_rank_subtract(l, f->owes);
    if (q.count > 0) dpti_processes_start_collective(processes, &q);
    DPT_TRY(dpti_processes_finish_collectives(processes, error));
    dpti_low_rank_add_dropped(l, f->owes);
    dpti_low_rank_expand(l, what->data);
    if (!dpti_all_finite(what->data, f->count)) *what->finite = false;
    return DPT_OK;
}
