/* Grains: how deterministic training divides a batch, and in which order sums over samples are
   added up (docs/reproducibility.md).

   A batch of n samples is cut into at most DPTI_GRAINS runs of consecutive samples, the grains.
   The cut depends on n alone.  Each device computes the sum over each of its grains.  The sums of
   grains are added up along one binary tree: the node of level L with the number i holds the grains
   [i * 2^L, (i + 1) * 2^L), as far as they exist, and its sum is the sum of its left half plus the
   sum of its right half.  A half without grains is left out.  The result therefore does not depend
   on which device computes which grains.

   A device with a run of grains hands over the sums of the largest nodes that the run holds.  This
   file finds these nodes and the order of the work.  It uses no device. */
#ifndef DPTI_GRAINS_H
#define DPTI_GRAINS_H

#include <stdbool.h>
#include <stddef.h>

enum {
    DPTI_GRAINS = 16,       /* the most grains of a batch; a power of two */
    DPTI_GRAIN_NODES = 7,   /* the most nodes of a list, while one is appended */
    DPTI_GRAIN_HELD = 6,    /* the most that a device holds at once, */
    DPTI_GRAIN_LEADING = 4, /* and if its grains begin with the first one */
    DPTI_GRAIN_SCRATCH = 3, /* the most sums beside those of the nodes */
    DPTI_GRAIN_STEPS = 2 * DPTI_GRAINS,
};

/* How a batch is cut. */
typedef struct dpti_grains {
    size_t n_samples; /* of the batch */
    size_t size;      /* samples of each grain but the last, which may have fewer */
    size_t n;         /* number of grains; 0 without samples */
} dpti_grains;

dpti_grains dpti_grains_of(size_t n_samples);
/* The first sample of a grain, or n_samples for the number of grains. */
size_t dpti_grain_begin(const dpti_grains *grains, size_t grain);
/* Moves the borders between shards (n_shards), which together have the grains' samples, to the
   nearest borders of grains. */
void dpti_grains_round(const dpti_grains *grains, size_t n_shards, size_t *shards);

/* The grains [begin, end): a node of the tree. */
typedef struct dpti_grain_node {
    size_t begin, end;
} dpti_grain_node;

/* Nodes that follow each other.  No two neighbours are the halves of a node.  Entries behind the n
   nodes are zero. */
typedef struct dpti_grain_list {
    size_t n;
    dpti_grain_node nodes[DPTI_GRAIN_NODES];
} dpti_grain_list;

/* Whether two nodes of the tree over n_grains grains are the halves of a node. */
bool dpti_grains_are_halves(const dpti_grain_node *left, const dpti_grain_node *right,
                            size_t n_grains);

/* Where a sum is stored: in the sum of node number `index` of the list, or in scratch memory. */
typedef struct dpti_grain_place {
    bool is_scratch;
    size_t index;
} dpti_grain_place;

/* One step of the work. */
typedef struct dpti_grain_step {
    bool is_sum;            /* to += from; otherwise the sum over a node is computed: */
    dpti_grain_node grains; /* the node */
    bool adds;              /* and added to what `to` has */
    dpti_grain_place to, from;
} dpti_grain_step;

typedef struct dpti_grain_work {
    size_t n_steps;
    dpti_grain_step steps[DPTI_GRAIN_STEPS];
} dpti_grain_work;

/* Finds the work for the grains [begin, end), which follow the nodes of the list.  Updates the list
   to the nodes behind the work.  Each step computes the sum over one grain, or adds two sums.
   `out` may be NULL.  Returns the most nodes that the list has at once. */
size_t dpti_grains_plan(dpti_grain_list *list, dpti_grain_node range, size_t n_grains,
                        dpti_grain_work *out);
/* The same where one step can compute the sum of any node.  `out` is not NULL.  It uses no scratch
   memory. */
void dpti_grains_plan_nodes(dpti_grain_list *list, dpti_grain_node range, size_t n_grains,
                            dpti_grain_work *out);

#endif
