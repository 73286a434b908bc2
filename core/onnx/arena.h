/* Memory of a model that was read from a file.  Every block counts against a limit, so that a
   hostile file cannot ask for more memory than it was granted, and all blocks are released at once.
   One thread uses an arena at a time. */
#ifndef DPTI_ONNX_ARENA_H
#define DPTI_ONNX_ARENA_H

#include "dpt_error.h"

typedef struct dpti_onnx_block dpti_onnx_block;

typedef struct dpti_onnx_arena {
    size_t used, limit; /* bytes, the blocks' own records included */
    dpti_onnx_block *blocks;
} dpti_onnx_arena;

/* Allocates count * n_bytes bytes that are zero and aligned to 16 bytes; at least one byte.  NULL
   if the product overflows, if the limit would be exceeded, or if memory is short. */
DPT_CHECK_RESULT void *dpti_onnx_take(dpti_onnx_arena *arena, size_t count, size_t n_bytes);
/* Allocates a string and prints into it.  NULL as dpti_onnx_take. */
DPT_CHECK_RESULT DPT_PRINTF(2, 3) char *dpti_onnx_take_text(dpti_onnx_arena *arena,
                                                            const char *format, ...);
/* Releases one block before the others.  NULL is allowed. */
void dpti_onnx_give_back(dpti_onnx_arena *arena, void *memory);
/* Releases all blocks. */
void dpti_onnx_arena_clear(dpti_onnx_arena *arena);

/* Fills an error record as DPT_FAIL does, and replaces what is not valid UTF-8 by question marks:
   names in a file may hold any bytes.  Returns `status`. */
DPT_PRINTF(3, 4)
dpt_status dpti_onnx_fail(dpt_error *error, dpt_status status, const char *format, ...);
/* The failure of an allocation from an arena: DPT_E_NO_MEMORY. */
dpt_status dpti_onnx_no_memory(dpt_error *error);

#endif
