/* The program of a MAP over a tile: up to MAP_TILE indices that differ in their last axis. */
#ifndef DPT_CPU_MAP_TILE_H
#define DPT_CPU_MAP_TILE_H

#include "common/map_plan.h"
#include "kinds.h"

enum {
    MAP_TILE = 256, /* of MAP_REDUCE, whose lanes decide the order of sums */
    MAP_FLOATS = DPT_MAP_LENGTH * MAP_TILE,
};

/* The values of a tile.  `size` indices are the most that a tile has: MAP_TILE, or another number
   so that all places have room in `own`.  value[place] is a part of `own`, the memory of an input
   that is read in place, or the memory of an output that is written in place. */
typedef struct map_values {
    size_t size;
    unsigned n_calls, n_ahead;            /* instructions that compute; entries of `ahead` */
    const float *ahead[DPT_MAP_OPERANDS]; /* what the next tile will read or write in place */
    const float *value[DPT_MAP_LENGTH];
    float *target[DPT_MAP_LENGTH]; /* where the steps write, for each place */
    _Alignas(64) float own[MAP_FLOATS];
} map_values;

/* An index of the space, and the element of every operand there. */
typedef struct map_cursor {
    size_t at[DPT_MAP_AXES];
    int64_t element[DPT_MAP_OPERANDS];
} map_cursor;

/* Runs the program for n indices from the cursor on, along the last axis, or over several axes if
   the tile ends behind it.  n_rows is the extent of axis 0 for all samples. */
typedef struct map_tile {
    const dpt_map_plan *plan;
    const dpt_cpu_call *call;
    size_t n_rows;
} map_tile;

/* Makes a plan that of this file.  Every constant of the program gets a place that no other value
   takes, so that one call of map_begin writes it for all tiles.  Pairs of instructions become one
   (map_pairs.h). */
void KERNEL(map_adapt)(dpt_map_plan *plan);
/* Prepares the places for tiles of `size` indices: at most MAP_FLOATS / n_places. */
void KERNEL(map_begin)(const dpt_map_plan *plan, size_t size, map_values *out);

size_t KERNEL(map_extent)(const map_tile *tile, size_t axis);
/* The cursor at the linear index `i` of the whole space. */
map_cursor KERNEL(map_cursor_at)(const map_tile *tile, size_t i);
/* Moves along the last axis by n, at most to its end, and then on to the next axis. */
void KERNEL(map_advance)(const map_tile *tile, map_cursor *cursor, size_t n);
/* The memory of n indices of an operand from the cursor on, if they are float32 and side by side;
   else NULL. */
float *KERNEL(map_in_place)(const map_tile *tile, const map_cursor *cursor, unsigned operand,
                            size_t n);
/* Computes the values of n indices, at most out->size, from the cursor on. */
void KERNEL(map_compute)(const map_tile *tile, const map_cursor *cursor, size_t n, map_values *out);
/* Writes a number to an output. */
void KERNEL(map_put)(void *base, dpt_dtype type, int64_t element, double value);
/* The number that an output has; outputs that are added to are float32. */
static inline float map_old(const void *base, int64_t element)
{
    return ((const float *)base)[element];
}

#endif
