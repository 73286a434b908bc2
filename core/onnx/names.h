/* A table from names to numbers or pointers. */
#ifndef DPTI_ONNX_NAMES_H
#define DPTI_ONNX_NAMES_H

#include "onnx/arena.h"

typedef struct dpti_onnx_name dpti_onnx_name;

/* Zeros are an empty table.  Its memory belongs to the arena. */
typedef struct dpti_onnx_names {
    size_t n, capacity;
    dpti_onnx_name *entries; /* (capacity), open addressing */
} dpti_onnx_names;

/* What a name stands for. */
typedef struct dpti_onnx_meaning {
    size_t index;
    const void *pointer;
} dpti_onnx_meaning;

/* The entry of a name, or NULL.  It is valid until the next addition. */
dpti_onnx_meaning *dpti_onnx_names_find(const dpti_onnx_names *names, const char *name);
/* Adds a name that the table does not have.  The text must outlive the table.  false if memory is
   short. */
DPT_CHECK_RESULT bool dpti_onnx_names_add(dpti_onnx_names *names, dpti_onnx_arena *arena,
                                          const char *name, dpti_onnx_meaning meaning);

#endif
