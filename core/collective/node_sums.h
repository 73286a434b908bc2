/* Adding up the sums of nodes of grains along the tree (base/grains.h), in host memory. */
#ifndef DPTI_NODE_SUMS_H
#define DPTI_NODE_SUMS_H

#include "base/grains.h"

/* Nodes that follow each other, and where their sums are. */
typedef struct dpti_node_sums {
    dpti_grain_list list;
    float *sums[DPTI_GRAIN_NODES];
} dpti_node_sums;

/* A node of the tree over n_grains grains, whose sum has n elements; 0: only places are wanted. */
typedef struct dpti_node_sum {
    dpti_grain_node node;
    size_t n_grains;
    float *sum;
    size_t n;
} dpti_node_sum;

/* Appends a node that follows the others.  As long as the last two nodes are the halves of one, the
   sum of the right half is added to that of the left half, where the sum of both then is. */
void dpti_node_sums_append(dpti_node_sums *sums, const dpti_node_sum *added);

#endif
