/* Adds up the sums of grains that operators leave in parts. */
#include "tree_params.h"

/* parts (n_parts, part), of which each row has p.count elements -> to (p.count) */
KERNEL void dpt_tree(OUT(float, to), IN(float, parts), const tree_params p)
{
    TENSOR_OUT(float, to);
    TENSOR_IN(float, parts);
    const u64 i = GLOBAL_ID;
    if (i >= p.count) return;
    float waiting[TREE_LEVELS], sum = 0.0f;
    for (u32 part = 0; part < p.n_parts; part++)
        sum = tree_add(waiting, parts[part * p.part + i], part, part + 1 == p.n_parts);
    to[i] = p.accumulate ? to[i] + sum : sum;
}
