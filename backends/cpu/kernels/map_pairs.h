/* Pairs of instructions that a MAP computes in one loop, so that the value between the two is never
   stored.  An instruction of a pair is one of MAP_PAIR_LIST. */
#ifndef DPT_CPU_MAP_PAIRS_H
#define DPT_CPU_MAP_PAIRS_H

#include "common/map_plan.h"
#include "kinds.h"

/* The arithmetic that takes no longer than the loads and stores of its loop. */
#define MAP_PAIR_LIST(X) X(ADD) X(SUBTRACT) X(MULTIPLY) X(MINIMUM) X(MAXIMUM)
enum { MAP_PAIR_KINDS = 5 };

/* The codes of pairs, which only the plan of a CPU has: first FIRST, then SECOND, whose left
   operand is the value of the first one; in the second half its right operand is.  The operands of
   such a step are those of FIRST, then the other operand of SECOND. */
enum {
    MAP_PAIR_BEGIN = DPT_MAP_COUNT,
    MAP_PAIR_END = MAP_PAIR_BEGIN + 2 * MAP_PAIR_KINDS * MAP_PAIR_KINDS
};

/* Makes pairs of the plan's steps: of two neighbours, if nothing but the second reads the value of
   the first.  The results have the same bits. */
void KERNEL(map_pair_steps)(dpt_map_plan *plan);

#endif
