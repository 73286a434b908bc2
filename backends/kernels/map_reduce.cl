/* MAP_REDUCE: the values of a program, combined along axes (core/backend/op_list.h).

   A work item has a tile of outputs and a piece of the reduced indices.  If the last axis is kept,
   the lanes of a tile are outputs; otherwise a tile has one output, and the lanes lie along the
   reduced axis.  With several pieces, each leaves its sums, and dpt_map_merge combines them in
   order. */
#include "map_program.h"
#include "pair.h"

typedef struct map_lanes {
    pair lane[MAP_TILE];
} map_lanes;

DEVICE float map_neutral(u32 how)
{
    if (how == REDUCE_PRODUCT) return 1.0f;
    if (how == REDUCE_MAXIMUM) return -INFINITY;
    return how == REDUCE_MINIMUM ? INFINITY : 0.0f;
}

DEVICE pair map_combine(u32 how, pair all, pair one)
{
    const float a = all.high, b = one.high;
    if (how == REDUCE_SUM) return pair_add(all, one);
    if (how == REDUCE_PRODUCT) return pair_of(a * b, 0.0f);
    if (how == REDUCE_MAXIMUM) return pair_of(b != b || b > a ? b : a, 0.0f);
    return pair_of(b != b || b < a ? b : a, 0.0f);
}

/* A term of a sum, which may be infinite or NaN. */
DEVICE pair map_add_term(u32 how, pair all, float value)
{
    if (how == REDUCE_SUM) return pair_accumulate(all, value);
    return map_combine(how, all, pair_of(value, 0.0f));
}

/* Combines the reduced indices [begin, end) in the lanes of a tile at the cursor, whose kept axes
   stand at the outputs. */
DEVICE void map_reduce_piece(const map_params *p, const map_memory *memory, map_cursor *c, u32 n,
                             u64 begin, u64 end, map_lanes *lanes)
{
    const u32 last = p->rank - 1, keeps_last = p->kept >> last & 1u;
    map_values values;
    for (u32 i = 0; i < MAP_TILE; i++)
        lanes->lane[i] = pair_of(map_neutral(p->how), 0.0f);
    for (u64 i = begin; i < end;) {
        u32 width = n;
        map_seek(p, c, ~p->kept, i);
        if (!keeps_last) {
            width = map_extent(p, last) - c->at[last];
            if (width > end - i) width = (u32)(end - i);
            if (width > MAP_TILE) width = MAP_TILE;
        }
        map_compute(p, memory, c, width, &values);
        FOR_LANES(k, width)
        lanes->lane[k] = map_add_term(p->how, lanes->lane[k], values.place[p->result[0]][k]);
        i += keeps_last ? 1 : width;
    }
    for (u32 i = 1; i < MAP_TILE && !keeps_last; i++)
        lanes->lane[0] = map_combine(p->how, lanes->lane[0], lanes->lane[i]);
}

/* The number of outputs of a tile that begins at the output of the cursor. */
DEVICE u32 map_tile_width(const map_params *p, const map_cursor *c)
{
    const u32 last = p->rank - 1;
    u32 n = map_extent(p, last) - c->at[last];
    if (!(p->kept >> last & 1u)) return 1;
    return n > MAP_TILE ? MAP_TILE : n;
}

/* The first output of tile `i`.  Tiles end with the last axis, if it is kept. */
DEVICE u64 map_first_output(const map_params *p, u32 i)
{
    const u32 last = p->rank - 1, extent = map_extent(p, last);
    const u32 tiles = (extent + MAP_TILE - 1) / MAP_TILE;
    if (!(p->kept >> last & 1u)) return i;
    return (u64)(i / tiles) * extent + (u64)(i % tiles) * MAP_TILE;
}

/* The inputs -> y; or, with several pieces, sums (n_pieces,n_kept).  A work item for every tile of
   every piece: items of a piece are neighbours.  y's place is in bytes. */
KERNEL void dpt_map_reduce(OUT(u8, y), OUT(float, sums), MAP_MEMORY_ARGUMENTS,
                           const map_params given)
{
    const map_params *const p = &given;
    MAP_MEMORY(memory);
    const u64 item = GLOBAL_ID;
    const u32 piece = (u32)(item / p->n_tiles), tile = (u32)(item % p->n_tiles);
    const u32 operand = MAP_INPUTS;
    if (piece < p->n_pieces) {
        const u64 output = map_first_output(p, tile), begin = (u64)piece * p->piece_length;
        const u64 end = begin + p->piece_length < p->count ? begin + p->piece_length : p->count;
        map_lanes lanes;
        map_cursor c;
        u32 n;
        map_origin(p, &c);
        map_seek(p, &c, p->kept, output);
        n = map_tile_width(p, &c);
        const i64 element = c.element[operand], stride = p->stride[operand][p->rank - 1];
        map_reduce_piece(p, &memory, &c, n, begin, end, &lanes);
        FOR_LANES(k, n)
        {
            const float value = pair_value(lanes.lane[k]);
            if (p->n_pieces > 1)
                sums_base[sums_place + (u64)piece * p->n_kept + output + k] = value;
            else
                map_store(y_base + y_place, p->type[operand], element + (i64)k * stride, value,
                          p->accumulate);
        }
    }
}

/* sums (n_pieces,n_kept) -> y, an item an output */
KERNEL void dpt_map_merge(OUT(u8, y), IN(float, sums), const map_params given)
{
    const map_params *const p = &given;
    TENSOR_IN(float, sums);
    const u64 output = GLOBAL_ID;
    if (output < p->n_kept) {
        map_cursor c;
        pair all = pair_of(map_neutral(p->how), 0.0f);
        map_origin(p, &c);
        map_seek(p, &c, p->kept, output);
        for (u32 piece = 0; piece < p->n_pieces; piece++)
            all = map_add_term(p->how, all, sums[(u64)piece * p->n_kept + output]);
        map_store(y_base + y_place, p->type[MAP_INPUTS], c.element[MAP_INPUTS], pair_value(all),
                  p->accumulate);
    }
}
