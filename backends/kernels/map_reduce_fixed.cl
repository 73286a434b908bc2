/* Deterministic MAP_REDUCE: the values of a program, combined along axes in double precision.  If
   the last axis of the plan is kept, the reduced indices are combined in their order.  If it is
   reduced, its index i goes to lane i % REDUCE_LANES, and the lanes are combined in their order.

   If the last axis is kept, or on a CPU, a work item has a tile of outputs, or one output with all
   lanes.  Otherwise a team of work items has an output and shares the lanes. */
#include "map_program.h"

#define REDUCE_LANES 256u

#if DEVICE_IS_CPU
#define LANE_VALUES REDUCE_LANES /* of an item: its lanes, or the outputs of a tile */
#else
#define LANE_VALUES 1u
#endif

DEVICE double map_neutral(u32 how)
{
    if (how == REDUCE_PRODUCT) return 1.0;
    if (how == REDUCE_MAXIMUM) return -INFINITY;
    return how == REDUCE_MINIMUM ? INFINITY : 0.0;
}

DEVICE double map_combine(u32 how, double all, double one)
{
    if (how == REDUCE_SUM) return all + one;
    if (how == REDUCE_PRODUCT) return all * one;
    if (how == REDUCE_MAXIMUM) return one != one || one > all ? one : all;
    return one != one || one < all ? one : all;
}

/* Goes to the next index of the reduced axes in front of the last one.  0, at their first index,
   behind the last one. */
DEVICE u32 map_next(const map_params *p, map_cursor *c)
{
    for (u32 axis = p->rank - 1; axis-- > 0;) {
        if (p->kept >> axis & 1u) continue;
        if (c->at[axis] + 1 < map_extent(p, axis)) {
            map_move(p, c, axis, c->at[axis] + 1);
            return 1;
        }
        map_move(p, c, axis, 0);
    }
    return 0;
}

/* Combines the values of the n indices from the cursor on with `all`. */
DEVICE void map_join(const map_params *p, const map_memory *memory, const map_cursor *c, u32 n,
                     double *all)
{
    map_values values;
    map_compute(p, memory, c, n, &values);
    if (p->how == REDUCE_SUM) {
        FOR_LANES(k, n) all[k] += (double)values.place[p->result[0]][k];
    } else {
        FOR_LANES(k, n)
        all[k] = map_combine(p->how, all[k], (double)values.place[p->result[0]][k]);
    }
}

/* Combines all reduced indices for the n outputs from the cursor on.  There is an index. */
DEVICE void map_reduce_outputs(const map_params *p, const map_memory *memory, map_cursor *c, u32 n,
                               double *all)
{
    for (u32 i = 0; i < n; i++)
        all[i] = map_neutral(p->how);
    do
        map_join(p, memory, c, n, all);
    while (map_next(p, c));
}

/* Combines the reduced indices of the lanes from `first` on for the output at the cursor: on a CPU
   all lanes, else one. */
DEVICE void map_reduce_lanes(const map_params *p, const map_memory *memory, map_cursor *c,
                             u32 first, double *all)
{
    const u32 last = p->rank - 1, extent = map_extent(p, last);
    for (u32 i = 0; i < LANE_VALUES; i++)
        all[i] = map_neutral(p->how);
    do {
#if DEVICE_IS_CPU
        for (u32 i = first; i < extent; i += MAP_TILE) {
            const u32 n = extent - i < MAP_TILE ? extent - i : MAP_TILE;
            map_move(p, c, last, i);
            map_join(p, memory, c, n, all + i % REDUCE_LANES);
        }
#else
        for (u32 i = first; i < extent; i += REDUCE_LANES) {
            map_move(p, c, last, i);
            map_join(p, memory, c, 1, all);
        }
#endif
    } while (map_next(p, c));
    map_move(p, c, last, 0);
}

/* Writes the value of an output. */
DEVICE void map_put(GLOBAL u8 *base, u32 type, i64 element, double value, u32 accumulate)
{
    if (type == MAP_I32)
        ((GLOBAL i32 *)base)[element] = (i32)value;
    else if (type == MAP_U8)
        base[element] = (u8)(i32)value;
    else
        map_store(base, type, element, (float)value, accumulate);
}

/* The number of outputs of a tile that begins at the output of the cursor. */
DEVICE u32 map_tile_width(const map_params *p, const map_cursor *c)
{
    const u32 last = p->rank - 1, n = map_extent(p, last) - c->at[last];
    return n > MAP_TILE ? MAP_TILE : n;
}

/* The first output of tile `i`.  Tiles end with the last axis. */
DEVICE u64 map_first_output(const map_params *p, u32 i)
{
    const u32 extent = map_extent(p, p->rank - 1), tiles = (extent + MAP_TILE - 1) / MAP_TILE;
    return (u64)(i / tiles) * extent + (u64)(i % tiles) * MAP_TILE;
}

/* The inputs -> y.  The last axis is kept: a work item for every tile of outputs.  y's place is in
   bytes. */
KERNEL void dpt_map_reduce_fixed_kept(OUT(u8, y), MAP_MEMORY_ARGUMENTS, const map_params given)
{
    const map_params *const p = &given;
    MAP_MEMORY(memory);
    double all[MAP_TILE];
    map_cursor c;
    if (GLOBAL_ID >= p->n_tiles) return;
    map_origin(p, &c);
    map_seek(p, &c, p->kept, map_first_output(p, (u32)GLOBAL_ID));
    const u32 n = map_tile_width(p, &c);
    const i64 element = c.element[MAP_INPUTS], stride = p->stride[MAP_INPUTS][p->rank - 1];
    if (p->count > 0) {
        map_reduce_outputs(p, &memory, &c, n, all);
    } else {
        for (u32 i = 0; i < n; i++)
            all[i] = map_neutral(p->how);
    }
    for (u32 i = 0; i < n; i++)
        map_put(y_base + y_place, p->type[MAP_INPUTS], element + (i64)i * stride, all[i],
                p->accumulate);
}

/* The inputs -> y.  The last axis is reduced.  On a CPU a work item for every output, else a team of
   n_pieces items, which divides GROUP. */
KERNEL void dpt_map_reduce_fixed_lanes(OUT(u8, y), MAP_MEMORY_ARGUMENTS, const map_params given)
{
    const map_params *const p = &given;
    MAP_MEMORY(memory);
    double own[LANE_VALUES];
    map_cursor c;
    map_origin(p, &c);
#if DEVICE_IS_CPU
    const u64 output = GLOBAL_ID;
    const double *const lanes = own;
    const u32 n_lanes = REDUCE_LANES, lane = 0;
    if (output >= p->n_kept) return;
    map_seek(p, &c, p->kept, output);
    if (p->count > 0) {
        map_reduce_lanes(p, &memory, &c, 0, own);
    } else {
        for (u32 i = 0; i < LANE_VALUES; i++)
            own[i] = map_neutral(p->how);
    }
#else
    SHARED double shared[GROUP > REDUCE_LANES ? GROUP : REDUCE_LANES];
    const u32 team = p->n_pieces, lane = LOCAL_ID % team, last = p->rank - 1;
    const u32 n_lanes = map_extent(p, last) < REDUCE_LANES ? map_extent(p, last) : REDUCE_LANES;
    const u64 output = GLOBAL_ID / team;
    LOCAL double *const lanes = shared + (LOCAL_ID - lane);
    if (output < p->n_kept) {
        map_seek(p, &c, p->kept, output);
        for (u32 i = lane; i < n_lanes && p->count > 0; i += team) {
            map_reduce_lanes(p, &memory, &c, i, own);
            lanes[i] = own[0];
        }
    }
    BARRIER();
#endif
    if (output < p->n_kept && lane == 0) {
        double all = map_neutral(p->how);
        for (u32 i = 0; i < n_lanes && p->count > 0; i++)
            all = map_combine(p->how, all, lanes[i]);
        map_put(y_base + y_place, p->type[MAP_INPUTS], c.element[MAP_INPUTS], all, p->accumulate);
    }
}
