/* An ONNX graph in memory, before it is written: values, nodes, initialisers.  This header knows no
   model and no file format.

   Everything is in the arena of the draft.  After the first failure (memory) the draft keeps its
   status, and later calls return objects that are never written. */
#ifndef DPTI_EXPORT_DRAFT_H
#define DPTI_EXPORT_DRAFT_H

#include "backend.h"
#include "onnx/model.h"

enum {
    DPTI_DRAFT_RANK = DPT_MAX_RANK + 1, /* the batch comes in front of the axes of a sample */
    DPTI_DRAFT_ATTRIBUTES = 8,          /* of a node */
    DPTI_DRAFT_INPUTS = 16,             /* of the graph */
    DPTI_DRAFT_OUTPUTS = 3,             /* of a node */
    DPTI_DRAFT_WORDS = 4,               /* of a list of texts */
};

typedef struct dpti_draft_value {
    const char *name;
    dpti_onnx_type type;
    bool needed; /* an output of the graph depends on it (dpti_draft_prune) */
} dpti_draft_value;

typedef struct dpti_draft_attribute {
    const char *name;
    dpti_onnx_attribute_kind kind; /* FLOAT, INT, STRING, INTS or STRINGS */
    int64_t i;
    float f;
    const char *s;
    size_t n;
    const int64_t *ints;        /* (n) */
    const char *const *strings; /* (n) */
} dpti_draft_attribute;

typedef struct dpti_draft_node {
    const char *op, *name;
    size_t n_inputs, n_attributes;
    dpti_draft_value **inputs; /* (n_inputs) */
    dpti_draft_value *output;
    /* The outputs behind the first, from 1 on.  NULL: the output has no name, and cannot be read.
     */
    dpti_draft_value *more[DPTI_DRAFT_OUTPUTS];
    dpti_draft_attribute attributes[DPTI_DRAFT_ATTRIBUTES];
} dpti_draft_node;

/* An initialiser.  The data are not copied. */
typedef struct dpti_draft_tensor {
    dpti_draft_value *value;
    size_t rank;
    int64_t extents[DPTI_DRAFT_RANK];
    const void *data; /* little-endian, at any alignment */
    size_t n_bytes;
} dpti_draft_tensor;

/* An input or the output of the graph. */
typedef struct dpti_draft_port {
    dpti_draft_value *value;
    size_t rank;
    int64_t extents[DPTI_DRAFT_RANK]; /* -1: the batch */
} dpti_draft_port;

typedef struct dpti_draft_list {
    size_t n, capacity;
    void **items;
} dpti_draft_list;

typedef struct dpti_draft {
    dpti_onnx_arena arena;
    dpt_status status;
    int64_t opset;
    const char *layer; /* names of new nodes begin with it */
    dpti_draft_list nodes, tensors;
    dpti_draft_list names; /* a hash table of all names */
    size_t n_names;
    dpti_draft_port inputs[DPTI_DRAFT_INPUTS], output;
    size_t n_inputs;
    dpti_draft_value absent;    /* stands for an input that an operator does not get */
    dpti_draft_node spare_node; /* what calls return after a failure */
    dpti_draft_value spare_value;
    dpti_draft_tensor spare_tensor;
    dpti_draft_value *spare_inputs[1];
} dpti_draft;

/* Begins a draft, which dpti_draft_clear ends. */
void dpti_draft_begin(dpti_draft *draft, int64_t opset);
void dpti_draft_clear(dpti_draft *draft);
static inline dpti_draft_node *dpti_draft_node_at(const dpti_draft *draft, size_t i)
{
    return draft->nodes.items[i];
}
static inline dpti_draft_tensor *dpti_draft_tensor_at(const dpti_draft *draft, size_t i)
{
    return draft->tensors.items[i];
}

/* A new value.  If the name is taken already, a number is put behind it. */
dpti_draft_value *dpti_draft_name(dpti_draft *draft, const char *name, dpti_onnx_type type);
/* A new node over n values, whose output has the type of the first one, or float32 without one. */
dpti_draft_node *dpti_draft_call(dpti_draft *draft, const char *op, dpti_draft_value *const *inputs,
                                 size_t n);
/* The same, where the type and the attributes are not of interest. */
dpti_draft_value *dpti_draft_unary(dpti_draft *draft, const char *op, dpti_draft_value *x);
dpti_draft_value *dpti_draft_binary(dpti_draft *draft, const char *op, dpti_draft_value *a,
                                    dpti_draft_value *b);
/* Output i of a node, from 1 on, as a new value of float32. */
dpti_draft_value *dpti_draft_output(dpti_draft *draft, dpti_draft_node *node, size_t i);
/* Attributes.  Integers and lists are copied; texts must stay valid until the draft is written. */
void dpti_draft_int(dpti_draft_node *node, const char *name, int64_t value);
void dpti_draft_float(dpti_draft_node *node, const char *name, float value);
typedef struct dpti_draft_integers {
    size_t n;
    int64_t items[2 * DPTI_DRAFT_RANK];
} dpti_draft_integers;
void dpti_draft_ints(dpti_draft *draft, dpti_draft_node *node, const char *name,
                     const dpti_draft_integers *values);
void dpti_draft_text(dpti_draft_node *node, const char *name, const char *value);
typedef struct dpti_draft_words {
    size_t n;
    const char *items[DPTI_DRAFT_WORDS];
} dpti_draft_words;
void dpti_draft_texts(dpti_draft *draft, dpti_draft_node *node, const char *name,
                      const dpti_draft_words *values);

/* A new initialiser over `data`, which must stay valid until the draft is written. */
dpti_draft_tensor *dpti_draft_initialiser(dpti_draft *draft, dpti_draft_value *value,
                                          const void *data, size_t n_bytes);
/* Constants.  Equal integers and equal numbers are one initialiser.  Their names begin with "val_",
   so that a reader takes them for constants (docs/onnx.md). */
dpti_draft_value *dpti_draft_axes(dpti_draft *draft, const dpti_draft_integers *values);
dpti_draft_value *dpti_draft_number(dpti_draft *draft, float value);

/* Drops the nodes and initialisers that the output does not need. */
void dpti_draft_prune(dpti_draft *draft);

#endif
