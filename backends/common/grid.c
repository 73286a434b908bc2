/* Dividing a matrix of rows of channels among work items. */
#include "grid.h"

#include <string.h>

enum {
    CPU_ITEMS_PER_UNIT =
        8,               /* several for each thread, so that one late item delays the end little */
    CPU_LEAST = 1 << 14, /* the fewest elements of an item that are worth a group */
    CPU_LANES = 16,      /* of the widest vector */
    /* Several times the items that run at once, so that few units are idle at the end. */
    GPU_MAP_PER_UNIT = 8192,
    /* As few as keep the memory busy, because every item leaves entries, which must be added up. */
    GPU_REDUCE_PER_UNIT = 1024,
    /* Fewer than that, because one group adds up all entries. */
    GPU_TOTAL_PER_UNIT = 512,
    /* As many as run at once if an item takes 64, 80 or 128 registers, so that no unit is idle at
       the end. */
    GPU_JOIN_2_PER_UNIT = 1024,
    GPU_JOIN_4_PER_UNIT = 768,
    GPU_JOIN_8_PER_UNIT = 512,
    ROUND = 8, /* rows that kernels take at once */
    WIDE = 4,  /* places of a GPU's work item, if the channels are a multiple of four */
};

static size_t least_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t most_of(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t items_wanted(const dpt_traits *traits, dpt_grid_use use)
{
    static const size_t of_gpu[] = {
        [DPT_GRID_MAP] = GPU_MAP_PER_UNIT,
        [DPT_GRID_REDUCE] = GPU_REDUCE_PER_UNIT,
        [DPT_GRID_TOTAL] = GPU_TOTAL_PER_UNIT,
        [DPT_GRID_WIDE_MAP] = GPU_MAP_PER_UNIT,
        [DPT_GRID_WIDE_JOIN_2] = GPU_JOIN_2_PER_UNIT,
        [DPT_GRID_WIDE_JOIN_4] = GPU_JOIN_4_PER_UNIT,
        [DPT_GRID_WIDE_JOIN_8] = GPU_JOIN_8_PER_UNIT,
    };
    const size_t units = most_of(traits->n_units, 1);
    return units * (traits->is_cpu ? CPU_ITEMS_PER_UNIT : of_gpu[use]);
}

/* Places of a GPU's work item. */
static size_t gpu_width(size_t channels, bool is_wide)
{
    return is_wide && channels % WIDE == 0 ? WIDE : 1;
}

/* The largest power of two below n, 0 for 1. */
static size_t half_of(size_t n)
{
    size_t half = 1;
    while (2 * half < n)
        half *= 2;
    return n > 1 ? half : 0;
}

/* The division's periods and tiles, which do not depend on the number of rows. */
static columns period_of(const dpt_traits *traits, const dpt_grid_matrix *matrix)
{
    const size_t channels = matrix->channels;
    const bool joins = matrix->use >= DPT_GRID_WIDE_JOIN_2 && !traits->is_cpu;
    size_t width = gpu_width(channels, matrix->use >= DPT_GRID_WIDE_MAP);
    const size_t wanted = traits->is_cpu ? TILE_OF_CPU : traits->group_size * width;
    const size_t rows = most_of(least_of(wanted / channels, matrix->most_rows), 1);
    const size_t period = channels * rows;
    if (traits->is_cpu) {
        const size_t even = dpt_ceil_div(period, dpt_ceil_div(period, TILE_OF_CPU));
        width = dpt_ceil_div(even, CPU_LANES) * CPU_LANES;
    }
    return (columns){.channels = (u32)channels,
                     .period = (u32)period,
                     .width = (u32)width,
                     .n_tiles = (u32)dpt_ceil_div(period, width),
                     .entries = (u32)(joins ? channels : period),
                     .reach = (u32)(joins ? half_of(rows) : 0)};
}

static size_t most_chunks(const dpt_traits *traits, const columns *grid, dpt_grid_use use)
{
    return dpt_ceil_div(items_wanted(traits, use), grid->n_tiles);
}

/* The fewest periods of a chunk. */
static size_t least_each(const dpt_traits *traits, const columns *grid)
{
    return traits->is_cpu ? dpt_ceil_div(CPU_LEAST, grid->width) : ROUND;
}

columns dpt_grid(const dpt_device *device, const dpt_grid_matrix *matrix)
{
    const dpt_traits *traits = dpt_traits_of(device);
    columns grid = period_of(traits, matrix);
    const size_t n_elements = matrix->n_rows * matrix->channels;
    const size_t n_periods = n_elements / grid.period;
    const size_t even = dpt_ceil_div(n_periods, most_chunks(traits, &grid, matrix->use));
    const size_t each = most_of(even, least_each(traits, &grid));
    grid.n_periods = n_periods;
    grid.rest = (u32)(n_elements % grid.period);
    grid.each = dpt_ceil_div(each, ROUND) * ROUND;
    grid.n_chunks = (u32)most_of(dpt_ceil_div(n_periods, grid.each), matrix->n_rows > 0);
    return grid;
}

size_t dpt_grid_bytes(const dpt_device *device, const dpt_grid_matrix *matrix, size_t n_floats)
{
    const dpt_traits *traits = dpt_traits_of(device);
    const columns grid = period_of(traits, matrix);
    const size_t n_periods = dpt_size_mul(matrix->n_rows, matrix->channels) / grid.period;
    const size_t worth = dpt_ceil_div(n_periods, least_each(traits, &grid));
    const size_t n_chunks = least_of(most_chunks(traits, &grid, matrix->use), worth);
    return dpt_size_mul(dpt_size_mul(most_of(n_chunks, 1), grid.entries),
                        dpt_size_mul(n_floats, sizeof(float)));
}

void dpt_grid_key(dpt_program_key *key, const dpt_device *device, size_t channels)
{
    const size_t n = strlen(key->options);
    if (dpt_traits_of(device)->is_cpu || gpu_width(channels, true) == 1) return;
    snprintf(key->options + n, sizeof key->options - n, "%s-DWIDTH=%d", n > 0 ? " " : "", WIDE);
}

dpt_status dpt_grid_launch(dpt_launch *launch, const columns *grid)
{
    const size_t n_items = (size_t)grid->n_chunks * grid->n_tiles;
    /* On a CPU an item has enough work for a group.  Groups are what the driver divides among
       threads. */
    if (dpt_traits_of(dpt_stream_device(launch->stream))->is_cpu)
        return dpt_launch_groups(launch, (const size_t[3]){n_items, 1, 1},
                                 (const size_t[3]){1, 1, 1});
    if (grid->reach > 0)
        return dpt_launch_groups(launch, (const size_t[3]){grid->n_chunks, 1, 1},
                                 (const size_t[3]){grid->n_tiles, 1, 1});
    return dpt_launch_items(launch, n_items);
}

columns_merge dpt_grid_merge(const dpt_device *device, const columns *grid, bool accumulate)
{
    enum { MOST_ACROSS = 8 }; /* enough neighbouring channels to read memory at its full rate */
    const dpt_traits *traits = dpt_traits_of(device);
    const size_t most = least_of(traits->group_size, MOST_ACROSS);
    /* With fewer groups, few units would read all entries. */
    const size_t least_groups = dpt_ceil_div(traits->n_units, 4);
    columns_merge merge = {.grid = *grid, .across = 1, .accumulate = accumulate};
    while (merge.across < grid->channels && merge.across < most &&
           dpt_ceil_div(grid->channels, 2 * (size_t)merge.across) >= least_groups)
        merge.across *= 2;
    return merge;
}

dpt_status dpt_grid_launch_merge(dpt_launch *launch, const columns_merge *merge)
{
    const size_t group = dpt_traits_of(dpt_stream_device(launch->stream))->group_size;
    const size_t n_groups = dpt_ceil_div(merge->grid.channels, merge->across);
    return dpt_launch_groups(launch, (const size_t[3]){n_groups, 1, 1},
                             (const size_t[3]){group, 1, 1});
}
