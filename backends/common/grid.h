/* The host code of backends/kernels/columns.h: divides a matrix of rows of channels among the work
   items of a device. */
#ifndef DPT_COMMON_GRID_H
#define DPT_COMMON_GRID_H

#include "columns.h"
#include "operators.h"

/* What a division is for.  The use decides how many work items the division has.  The WIDE uses are
   for kernels whose work items have WIDTH places on GPUs (kernels/piece.h). */
typedef enum dpt_grid_use {
    DPT_GRID_MAP,    /* a result for every element */
    DPT_GRID_REDUCE, /* some floats for every place of every chunk: the entries */
    DPT_GRID_TOTAL,  /* entries of one channel */
    DPT_GRID_WIDE_MAP,
    /* Entries, where a group first joins what its items have of a channel.  The number is the most
       bytes that the kernel reads for an element.  With more bytes an item takes more registers, so
       fewer items run at once. */
    DPT_GRID_WIDE_JOIN_2,
    DPT_GRID_WIDE_JOIN_4,
    DPT_GRID_WIDE_JOIN_8,
} dpt_grid_use;

/* A matrix that is to be divided. */
typedef struct dpt_grid_matrix {
    dpt_grid_use use;
    size_t n_rows, channels;
    size_t most_rows; /* the most rows of a period; SIZE_MAX: no limit */
} dpt_grid_matrix;

/* Divides a matrix.  The division depends on the device and the matrix alone, so the order of a sum
   does, too. */
columns dpt_grid(const dpt_device *device, const dpt_grid_matrix *matrix);

/* Bytes of all entries of up to matrix->n_rows rows, with n_floats for an entry. */
size_t dpt_grid_bytes(const dpt_device *device, const dpt_grid_matrix *matrix, size_t n_floats);

/* Adds WIDTH to a key's options: the width of WIDE divisions of this number of channels.  Adds
   nothing if the width is 1, and nothing on CPUs. */
void dpt_grid_key(dpt_program_key *key, const dpt_device *device, size_t channels);

/* Enqueues a kernel with one work item for every tile of every chunk.  If groups join their
   entries, a group is a chunk. */
DPT_CHECK_RESULT dpt_status dpt_grid_launch(dpt_launch *launch, const columns *grid);

/* The parameters of the kernel that adds up entries, and its launch, which has whole groups. */
columns_merge dpt_grid_merge(const dpt_device *device, const columns *grid, bool accumulate);
DPT_CHECK_RESULT dpt_status dpt_grid_launch_merge(dpt_launch *launch, const columns_merge *merge);

#endif
