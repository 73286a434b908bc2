/* What is known of the values of a graph: extents that may contain the batch's, elements, and
   arithmetic with both. */
#ifndef DPTI_ONNX_FACTS_H
#define DPTI_ONNX_FACTS_H

#include "onnx/model.h"

/* An extent: size, or size * N. */
typedef struct dpti_onnx_dim {
    int64_t size;
    bool batch;
} dpti_onnx_dim;

/* At most one extent of a shape contains N. */
typedef struct dpti_onnx_shape {
    size_t rank;
    dpti_onnx_dim dims[DPTI_ONNX_MAX_RANK];
} dpti_onnx_shape;

/* One known element.  An integer or bool is fixed + times * N; a real number is `real`. */
typedef struct dpti_onnx_cell {
    int64_t fixed, times;
    double real;
} dpti_onnx_cell;

/* Integers: element (i0, i1, ...) is offset + i0 * step[0] + i1 * step[1] + ... */
typedef struct dpti_onnx_progression {
    int64_t offset, step[DPTI_ONNX_MAX_RANK];
    bool unknown; /* only among columns: these elements are not known */
} dpti_onnx_progression;

/* What is known of a value. */
typedef struct dpti_onnx_fact {
    dpti_onnx_type type;
    dpti_onnx_shape shape;
    size_t n_cells;              /* elements, if cells is not NULL */
    const dpti_onnx_cell *cells; /* (n_cells) in row-major order; NULL: not known, or not small */
    bool parameter; /* the cells depend on an initialiser of real numbers, which may be trained: the
                       node stays in the graph */
    /* NULL: none is known.  Such elements are known where there are no cells, because their number
       contains N. */
    const dpti_onnx_progression *progression;
    /* (the last extent) progressions over the other axes, which were put side by side, at least one
       of them with an axis that contains N; NULL: as above. */
    const dpti_onnx_progression *columns;
    /* The elements are a progression, with numbers added that are not known; NULL: as above. */
    const dpti_onnx_progression *shifted;
    /* Integers, or what is added to `shifted`, are from 0 to bound - 1; 0: that is not known. */
    int64_t bound;
    /* Why nothing is known: the value is computed in a branch of an If, and fits only if the branch
       is taken.  NULL: it is known. */
    const dpt_error *failure;
} dpti_onnx_fact;

typedef struct dpti_onnx_graph {
    dpti_onnx_arena arena;
    const dpti_onnx_model *model; /* must stay valid */
    dpti_onnx_fact *facts;        /* (model->n_values); zeros for a value that nothing needs */
    size_t n_nodes;
    const dpti_onnx_node *
        *nodes;      /* those that an output needs and that are not constant, in order */
    bool gives_loss; /* set by dpti_onnx_prove: the trained output is a mean over the batch */
} dpti_onnx_graph;

/* Whether a node is a ScatterND or a GatherND whose rows of indices count the samples: the first
   index is that of the row's own sample, and the others do not depend on its number.  Those of
   ScatterND are the same for all samples.  The node then writes into each sample, or reads of each
   sample, alone. */
bool dpti_onnx_counts_samples(const dpti_onnx_graph *graph, const dpti_onnx_node *node);
/* Whether a node is a Gather from samples that lie one after another, whose indices name elements
   of the own sample: the number of the sample times its elements, and less than these elements. */
bool dpti_onnx_reads_own(const dpti_onnx_graph *graph, const dpti_onnx_node *node);
/* Element i, in row-major order, of indices of a ScatterND that count samples, in a batch of 1. */
int64_t dpti_onnx_counted_index(const dpti_onnx_fact *indices, size_t i);
/* Whether known elements depend on the number of their sample. */
bool dpti_onnx_is_counting(const dpti_onnx_fact *fact);
/* Element i of a progression in a batch of 1. */
int64_t dpti_onnx_element(const dpti_onnx_fact *fact, size_t i);
/* The place of the output that is trained and predicted: the first one of real numbers; without
   one, the first one. */
size_t dpti_onnx_trained_output(const dpti_onnx_graph *graph);

/* The axis whose extent contains N; rank if there is none. */
size_t dpti_onnx_batch_axis(const dpti_onnx_shape *shape);
/* Writes a shape as "[2*N, 3]".  Cuts it off where the memory ends. */
void dpti_onnx_print_shape(const dpti_onnx_shape *shape, char *out, size_t n_bytes);

/* *to = the shape to which both can be broadcast.  false if there is none. */
DPT_CHECK_RESULT bool dpti_onnx_broadcast(const dpti_onnx_shape *with, dpti_onnx_shape *to);
/* The number of elements, size * N^power.  false on overflow. */
typedef struct dpti_onnx_product {
    int64_t size;
    size_t power;
} dpti_onnx_product;
DPT_CHECK_RESULT bool dpti_onnx_elements(const dpti_onnx_shape *shape, dpti_onnx_product *out);
/* An extent as an element, and back; false if it is neither fixed nor a multiple of N. */
dpti_onnx_cell dpti_onnx_cell_of(dpti_onnx_dim dim);
DPT_CHECK_RESULT bool dpti_onnx_dim_of(dpti_onnx_cell cell, dpti_onnx_dim *out);
/* Whether a - b is less than, equal to or greater than 0 for every N: -1, 0, 1; 2 if that depends
   on N. */
int dpti_onnx_compare(dpti_onnx_cell a, dpti_onnx_cell b);
bool dpti_onnx_same_dim(dpti_onnx_dim a, dpti_onnx_dim b);

#endif
