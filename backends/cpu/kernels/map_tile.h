/* The program of a MAP over a tile: up to MAP_TILE indices that differ in their last axis. */
#ifndef DPT_CPU_MAP_TILE_H
#define DPT_CPU_MAP_TILE_H

#include "common/map_plan.h"
#include "kinds.h"

enum { MAP_TILE = 256 };

/* The values of a tile: value[place] has MAP_TILE numbers.  A place whose number is the input's
   memory is a pointer to that memory. */
typedef struct map_values {
    const float *value[DPT_MAP_LENGTH];
    float own[DPT_MAP_LENGTH][MAP_TILE];
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

size_t KERNEL(map_extent)(const map_tile *tile, size_t axis);
/* The cursor at the linear index `i` of the whole space. */
map_cursor KERNEL(map_cursor_at)(const map_tile *tile, size_t i);
/* Moves along the last axis by n, at most to its end, and then on to the next axis. */
void KERNEL(map_advance)(const map_tile *tile, map_cursor *cursor, size_t n);
/* Computes the values of n indices, at most MAP_TILE, from the cursor on. */
void KERNEL(map_compute)(const map_tile *tile, const map_cursor *cursor, size_t n, map_values *out);
/* Writes a number to an output. */
void KERNEL(map_put)(void *base, dpt_dtype type, int64_t element, double value);
/* The number that an output has; outputs that are added to are float32. */
static inline float map_old(const void *base, int64_t element)
{
    return ((const float *)base)[element];
}

#endif
