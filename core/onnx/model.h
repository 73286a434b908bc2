/* A network as an ONNX file describes it: values, and nodes that compute them.  Everything belongs
   to the model, which never changes after it was read. */
#ifndef DPTI_ONNX_MODEL_H
#define DPTI_ONNX_MODEL_H

#include "io/kept_file.h"
#include "onnx/arena.h"

enum {
    DPTI_ONNX_MAX_RANK = 8,
    DPTI_ONNX_MOST_FILES = 16, /* that a model keeps open: tensors of others are in memory only */
    DPTI_ONNX_LEAST_PART = 1 << 16, /* bytes of a tensor that has a part */
};
#define DPTI_ONNX_NONE SIZE_MAX /* no value, no node */

/* The element types, with ONNX's numbers. */
typedef enum dpti_onnx_type {
    DPTI_ONNX_UNKNOWN = 0,
    DPTI_ONNX_FLOAT = 1,
    DPTI_ONNX_UINT8 = 2,
    DPTI_ONNX_INT8 = 3,
    DPTI_ONNX_UINT16 = 4,
    DPTI_ONNX_INT16 = 5,
    DPTI_ONNX_INT32 = 6,
    DPTI_ONNX_INT64 = 7,
    DPTI_ONNX_BOOL = 9,
    DPTI_ONNX_FLOAT16 = 10,
    DPTI_ONNX_DOUBLE = 11,
    DPTI_ONNX_UINT32 = 12,
    DPTI_ONNX_UINT64 = 13,
    DPTI_ONNX_BFLOAT16 = 16,
} dpti_onnx_type;

/* The bytes of an element; 0 for a type that is not in the list above. */
size_t dpti_onnx_type_bytes(int64_t type);
/* "float32", "int64", ...; "type N" is "unknown type". */
const char *dpti_onnx_type_name(int64_t type);
/* float32, float64, float16 or bfloat16. */
bool dpti_onnx_type_is_real(dpti_onnx_type type);

/* A tensor whose content is known. */
typedef struct dpti_onnx_tensor {
    const char *name;
    dpti_onnx_type type;
    size_t rank;
    int64_t extents[DPTI_ONNX_MAX_RANK]; /* 0 .. */
    size_t n;                            /* elements */
    const void *data; /* little-endian, at any alignment; bool: one byte each, 0 or 1 */
    size_t n_bytes;
    dpti_file_part part; /* where the bytes of `data` are, in a file of the model; or none.  Of an
                            initialiser with at least DPTI_ONNX_LEAST_PART bytes */
    bool is_buffer;      /* it is no parameter of the module; frozen where it must be a tensor */
    bool is_folded;      /* a parameter under the name of a constant */
    bool is_noted;       /* the exporter says that it is a parameter of the module */
    bool is_number; /* numbers of the code: the exporter says so, or its notes do not have it, and
                       it has one element */
} dpti_onnx_tensor;

typedef enum dpti_onnx_attribute_kind {
    DPTI_ONNX_ATTRIBUTE_FLOAT = 1,
    DPTI_ONNX_ATTRIBUTE_INT = 2,
    DPTI_ONNX_ATTRIBUTE_STRING = 3,
    DPTI_ONNX_ATTRIBUTE_TENSOR = 4,
    DPTI_ONNX_ATTRIBUTE_FLOATS = 6,
    DPTI_ONNX_ATTRIBUTE_INTS = 7,
    DPTI_ONNX_ATTRIBUTE_STRINGS = 8,
} dpti_onnx_attribute_kind;

typedef struct dpti_onnx_attribute {
    const char *name;
    dpti_onnx_attribute_kind kind;
    float f;
    int64_t i;
    const char *s;                  /* NUL-terminated; bytes behind a NUL of the file are cut off */
    const dpti_onnx_tensor *tensor; /* its name is the attribute's */
    size_t n;                       /* of the list */
    const float *floats;
    const int64_t *ints;
    const char *const *strings;
} dpti_onnx_attribute;

typedef struct dpti_onnx_node {
    const char *op;    /* "Conv" */
    const char *label; /* for messages: the name in quotes and the operator, or the number */
    size_t n_inputs, n_outputs;
    const size_t *inputs;  /* values; DPTI_ONNX_NONE for an input that is left out */
    const size_t *outputs; /* values; DPTI_ONNX_NONE for an output that nobody wants */
    size_t n_attributes;
    const dpti_onnx_attribute *attributes;
    const char *origin; /* the call in PyTorch, as its default exporter notes it; NULL: not noted */
    bool in_branch;     /* in a branch of an If, which may not be taken */
} dpti_onnx_node;

typedef struct dpti_onnx_value {
    const char *name;
    size_t producer;                /* a node; DPTI_ONNX_NONE: an input of the graph, or a tensor */
    const dpti_onnx_tensor *tensor; /* an initialiser; NULL: an input, or computed */
} dpti_onnx_value;

/* One extent of an input or output of the graph, as declared. */
typedef struct dpti_onnx_extent {
    int64_t size;     /* -1: not fixed */
    const char *name; /* of an extent that is not fixed; NULL if the file gives none */
} dpti_onnx_extent;

typedef struct dpti_onnx_port {
    size_t value;
    dpti_onnx_type type;
    bool has_shape;
    size_t rank;
    dpti_onnx_extent extents[DPTI_ONNX_MAX_RANK];
} dpti_onnx_port;

/* Tensors that an exporter had merged because they were equal, and that were split again. */
typedef struct dpti_onnx_merges {
    size_t n_tensors, n_copies; /* tensors of the file, and copies that were made of them */
    const char *tensor, *copy;  /* an example */
    const char *weight;         /* one with unequal elements; NULL: there is none */
    size_t n_biases;            /* of zeros, which the exporter had dropped */
} dpti_onnx_merges;

typedef struct dpti_onnx_model {
    dpti_onnx_arena arena;
    void *content;                               /* of its own file, as long as it is open */
    const char *path;                            /* for messages */
    dpti_kept_file *files[DPTI_ONNX_MOST_FILES]; /* files[0]: the model's own, if there is one */
    const char *locations[DPTI_ONNX_MOST_FILES]; /* of the others, as the model has them */
    size_t n_files;
    const char *producer; /* "pytorch 2.15.0"; "" if the file does not say */
    int64_t ir_version, opset;
    size_t n_values, n_nodes, n_inputs, n_outputs;
    dpti_onnx_value *values;
    dpti_onnx_node *nodes;   /* each behind the nodes whose results it takes */
    dpti_onnx_port *inputs;  /* without those that have an initialiser */
    dpti_onnx_port *outputs; /* their type and shape are hints, or missing */
    dpti_onnx_merges merges;
} dpti_onnx_model;

/* The attribute of this name; NULL if the node has none. */
const dpti_onnx_attribute *dpti_onnx_find(const dpti_onnx_node *node, const char *name);
/* The value of an attribute, or `otherwise` if the node has none of this name and kind. */
int64_t dpti_onnx_int(const dpti_onnx_node *node, const char *name, int64_t otherwise);
float dpti_onnx_float(const dpti_onnx_node *node, const char *name, float otherwise);
const char *dpti_onnx_string(const dpti_onnx_node *node, const char *name, const char *otherwise);
/* The list of integers of this name, with its length; NULL and 0 if there is none. */
const int64_t *dpti_onnx_ints(const dpti_onnx_node *node, const char *name, size_t *n);

#endif
