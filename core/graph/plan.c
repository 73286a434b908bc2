/* The static memory plan: greedy by size (Pisarchyk and Lee, "Efficient Memory Management for Deep
   Neural Net Inference", 2020).  The largest tensor is placed first.  Each tensor is placed at the
   lowest offset at which it overlaps no tensor that is alive at the same time. */
#include "graph/program.h"

#include "base/size.h"

#include <stdlib.h>

enum { PLAN_ALIGNMENT = 256 };

typedef struct block {
    size_t bytes, first, last; /* the block is alive in instructions [first, last] */
    size_t offset;
    size_t *out; /* where the offset is written */
    size_t rank; /* index in the program, so that the order is total */
} block;

static int by_size(const void *a, const void *b)
{
    const block *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->rank < y->rank ? -1 : 1;
}

static int by_offset(const void *a, const void *b)
{
    const block *x = *(const block *const *)a, *y = *(const block *const *)b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return x->rank < y->rank ? -1 : 1;
}

/* Places blocks[i] after all blocks before it are placed.  `alive` has room for i entries. */
static bool place(block *blocks, size_t i, const block **alive)
{
    size_t n_alive = 0;
    for (size_t j = 0; j < i; j++)
        if (blocks[j].first <= blocks[i].last && blocks[i].first <= blocks[j].last)
            alive[n_alive++] = &blocks[j];
    qsort(alive, n_alive, sizeof *alive, by_offset);
    size_t offset = 0, end;
    for (size_t j = 0; j < n_alive; j++) {
        if (!dpti_add(offset, blocks[i].bytes, &end)) return false;
        if (end <= alive[j]->offset) break;
        const size_t behind = alive[j]->offset + alive[j]->bytes;
        if (behind > offset) offset = behind;
    }
    if (!dpti_add(offset, blocks[i].bytes, &end)) return false;
    blocks[i].offset = offset;
    return true;
}

typedef struct block_list {
    size_t n;
    block *items; /* has room for all blocks of the program */
} block_list;

/* Appends a block whose size is rounded up, unless the size is 0. */
static bool add_block(block_list *list, block added)
{
    size_t padded;
    *added.out = 0;
    if (added.bytes == 0) return true;
    if (!dpti_add(added.bytes, PLAN_ALIGNMENT, &padded)) return false;
    added.bytes = dpti_round_up(added.bytes, PLAN_ALIGNMENT);
    added.rank = list->n;
    list->items[list->n++] = added;
    return true;
}

static bool collect(const dpti_plan_request *request, block_list *blocks, dpti_plan *plan)
{
    const dpti_program *program = request->program;
    const size_t chunk_rows = dpti_rows_of_chunk(program, request->max_samples);
    for (size_t i = 0; i < program->n_tensors; i++) {
        const dpti_program_tensor *t = &program->tensors[i];
        size_t bytes = 0, of_chunk = 0;
        if (t->home == DPTI_HOME_ARENA && t->first != SIZE_MAX &&
            (!dpti_multiply(t->per_sample_bytes, request->max_samples, &bytes) ||
             !dpti_multiply(t->chunk_row_bytes, chunk_rows, &of_chunk) ||
             !dpti_add(bytes, of_chunk, &bytes) || !dpti_add(bytes, t->fixed_bytes, &bytes)))
            return false;
        if (!add_block(blocks, (block){.bytes = bytes,
                                       .first = t->first,
                                       .last = t->last,
                                       .out = &plan->tensor_offsets[i]}))
            return false;
    }
    for (size_t i = 0; i < program->n_instructions; i++)
        if (!add_block(blocks, (block){.bytes = request->workspace_bytes[i],
                                       .first = i,
                                       .last = i,
                                       .out = &plan->workspace_offsets[i]}))
            return false;
    return true;
}

dpt_status dpti_plan_memory(const dpti_plan_request *request, dpti_plan *out, dpt_error *error)
{
    const dpti_program *program = request->program;
    const size_t n_most = program->n_tensors + program->n_instructions;
    dpti_plan plan = {
        .tensor_offsets = calloc(program->n_tensors + 1, sizeof *plan.tensor_offsets),
        .workspace_offsets = calloc(program->n_instructions + 1, sizeof *plan.workspace_offsets),
    };
    block_list list = {.items = calloc(n_most + 1, sizeof *list.items)};
    block *blocks = list.items;
    const block **alive = calloc(n_most + 1, sizeof *alive);
    dpt_status status = DPT_OK;
    if (!plan.tensor_offsets || !plan.workspace_offsets || !blocks || !alive)
        status = DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the memory plan");
    else if (!collect(request, &list, &plan))
        status = DPT_FAIL(error, DPT_E_NO_MEMORY, "%zu samples at once are too many",
                          request->max_samples);
    if (status == DPT_OK) qsort(blocks, list.n, sizeof *blocks, by_size);
    for (size_t i = 0; status == DPT_OK && i < list.n; i++) {
        if (!place(blocks, i, alive)) {
            status = DPT_FAIL(error, DPT_E_NO_MEMORY, "%zu samples at once are too many",
                              request->max_samples);
            break;
        }
        *blocks[i].out = blocks[i].offset;
        const size_t end = blocks[i].offset + blocks[i].bytes;
        if (end > plan.arena_bytes) plan.arena_bytes = end;
    }
    free(alive);
    free(blocks);
    if (status == DPT_OK)
        *out = plan;
    else
        dpti_plan_free(&plan);
    return status;
}

void dpti_plan_free(dpti_plan *plan)
{
    free(plan->tensor_offsets);
    free(plan->workspace_offsets);
    *plan = (dpti_plan){0};
}
