/* Blocks in a list, each with a record in front of it; and the failures of this folder. */
#include "onnx/arena.h"

#include "base/size.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

struct dpti_onnx_block {
    dpti_onnx_block *previous, *next;
    size_t n_bytes; /* of the whole block */
    size_t unused;  /* keeps the memory behind aligned to 16 bytes */
};

void *dpti_onnx_take(dpti_onnx_arena *arena, size_t count, size_t n_bytes)
{
    size_t n = 0;
    if (!dpti_multiply(count, n_bytes, &n) || !dpti_add(n, sizeof(dpti_onnx_block) + 1, &n))
        return NULL;
    if (n > arena->limit || arena->used > arena->limit - n) return NULL;
    dpti_onnx_block *block = calloc(1, n);
    if (!block) return NULL;
    block->n_bytes = n;
    block->next = arena->blocks;
    if (block->next) block->next->previous = block;
    arena->blocks = block;
    arena->used += n;
    return block + 1;
}

char *dpti_onnx_take_text(dpti_onnx_arena *arena, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, format, args);
    char *text = length < 0 ? NULL : dpti_onnx_take(arena, (size_t)length + 1, 1);
    if (text) vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

void dpti_onnx_give_back(dpti_onnx_arena *arena, void *memory)
{
    if (!memory) return;
    dpti_onnx_block *block = (dpti_onnx_block *)memory - 1;
    if (block->next) block->next->previous = block->previous;
    if (block->previous)
        block->previous->next = block->next;
    else
        arena->blocks = block->next;
    arena->used -= block->n_bytes;
    free(block);
}

void dpti_onnx_arena_clear(dpti_onnx_arena *arena)
{
    while (arena->blocks) {
        dpti_onnx_block *block = arena->blocks;
        arena->blocks = block->next;
        free(block);
    }
    arena->used = 0;
}

dpt_status dpti_onnx_fail(dpt_error *error, dpt_status status, const char *format, ...)
{
    if (!error) return status;
    va_list args;
    va_start(args, format);
    dpt_error_print(error, format, args);
    va_end(args);
    error->status = status;
    error->native = 0;
    error->file = __FILE__;
    error->line = __LINE__;
    for (char *at = error->message; *(at += dpti_plain_bytes(at));)
        *at = '?';
    return status;
}

dpt_status dpti_onnx_no_memory(dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_NO_MEMORY,
                    "no memory for the ONNX model: it needs more than this process may use");
}
