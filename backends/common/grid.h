/* The host's side of backends/kernels/columns.h: dividing a matrix of rows of channels among a
   device's work items. */
#ifndef DPT_COMMON_GRID_H
#define DPT_COMMON_GRID_H

#include "columns.h"
#include "operators.h"

/* What a division is for, which says how many work items it should have.  Those that are WIDE are
   for kernels with WIDTH places an item on GPUs (kernels/piece.h). */
typedef enum dpt_grid_use {
    DPT_GRID_MAP,    /* every element for itself */
    DPT_GRID_REDUCE, /* some floats from every place and chunk: its entries */
    DPT_GRID_TOTAL,  /* likewise, of one channel */
    DPT_GRID_WIDE_MAP,
    /* As REDUCE, but groups join what their items have of a channel.  For kernels that read so many
       bytes for an element, or fewer: the more, the more registers an item takes. */
    DPT_GRID_WIDE_JOIN_2,
    DPT_GRID_WIDE_JOIN_4,
    DPT_GRID_WIDE_JOIN_8,
} dpt_grid_use;

/* Divides n_rows rows.  It depends on the device and the matrix alone, so that sums do too.
   most_rows: of a period; SIZE_MAX for as many as are good. */
columns dpt_grid(const dpt_device *device, dpt_grid_use use, size_t n_rows, size_t channels,
                 size_t most_rows);

/* Bytes of the entries that up to n_rows rows leave, n_floats for each. */
size_t dpt_grid_bytes(const dpt_device *device, dpt_grid_use use, size_t n_rows, size_t channels,
                      size_t most_rows, size_t n_floats);

/* Adds to a key's options the WIDTH that divisions of so many channels for WIDE kernels have:
   nothing for 1, and on CPUs. */
void dpt_grid_key(dpt_program_key *key, const dpt_device *device, size_t channels);

/* Enqueues a kernel with one work item for every tile of every chunk, in groups of a chunk each
   where they join. */
DPT_CHECK_RESULT dpt_status dpt_grid_launch(dpt_launch *launch, const columns *grid);

/* The parameters of the kernel that adds up entries, and its launch: whole groups. */
columns_merge dpt_grid_merge(const dpt_device *device, const columns *grid, bool accumulate);
DPT_CHECK_RESULT dpt_status dpt_grid_launch_merge(dpt_launch *launch, const columns_merge *merge);

#endif
