/* Adding up the sums of nodes (node_sums.h). */
#include "collective/node_sums.h"

#include "base/floats.h"

void dpti_node_sums_append(dpti_node_sums *sums, const dpti_node_sum *added)
{
    dpti_grain_list *l = &sums->list;
    sums->sums[l->n] = added->sum;
    l->nodes[l->n++] = added->node;
    while (l->n > 1 &&
           dpti_grains_are_halves(&l->nodes[l->n - 2], &l->nodes[l->n - 1], added->n_grains)) {
        dpti_add_up(sums->sums[l->n - 2], sums->sums[l->n - 1], added->n, false);
        l->nodes[l->n - 2].end = l->nodes[l->n - 1].end;
        l->nodes[--l->n] = (dpti_grain_node){0, 0};
    }
}
