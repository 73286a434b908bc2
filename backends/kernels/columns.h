/* Matrices of rows of channels, in which every channel is treated by itself: how their elements
   fall to work items.

   A period is a few whole rows that lie one behind the other, so that few channels, too, make many
   neighbours; a place in it belongs to one channel.  A tile is a run of places of the period, and a
   chunk a run of periods.  One work item has one tile of one chunk: on a GPU a single place, or
   WIDTH of one row that a program's accesses move at once (piece.h), so that neighbouring items
   touch neighbouring elements; on a CPU TILE places, which its inner loops run over, so that a
   vector's lanes are places. */
#ifndef DPT_KERNELS_COLUMNS_H
#define DPT_KERNELS_COLUMNS_H

#include "dialect.h"

#define TILE_OF_CPU 256u

typedef struct columns {
    u64 n_periods; /* whole ones */
    u64 each;      /* periods of a chunk; the last chunk may have fewer */
    u32 n_chunks;
    u32 channels;
    u32 period;  /* its elements */
    u32 rest;    /* elements behind the last whole period; they go to the last chunk */
    u32 width;   /* places of a tile, at most TILE; on a CPU the last tile may have fewer */
    u32 n_tiles; /* of a period */
    u32 entries; /* places for which a chunk leaves entries: the period's, or where a group has a
                    chunk, and joins what its items have of a channel, one for each channel */
    u32 reach;   /* the rows that such a group joins to others first, a power of two; else 0 */
} columns;

/* Where a first kernel leaves some floats for places of every chunk, its entries, a second one adds
   them up: one group for `across` channels, a power of two that divides GROUP. */
typedef struct columns_merge {
    columns grid;
    u32 across;
    u32 accumulate;
} columns_merge;

#if defined(__OPENCL_VERSION__) || defined(__CUDACC__)

#include "pair.h"

#if DEVICE_IS_CPU
#define TILE TILE_OF_CPU
#elif defined(WIDTH)
#define TILE WIDTH
#else
#define TILE 1u
#endif

/* A loop over the first n places of a tile.  On a GPU these are all or none, and its compiler has
   to see which there are, or what is kept for each lies in memory. */
#if DEVICE_IS_CPU
#define FOR_PLACES(i, n) for (u32 i = 0; i < (n); i++)
#else
#define FOR_PLACES(i, n) UNROLL for (u32 i = 0; i < TILE; i++) if ((n) > 0)
#endif

typedef struct tile {
    u64 begin;     /* its first element */
    u64 n_periods; /* whole ones */
    u64 chunk;
    u32 place; /* its first one */
    u32 n;     /* places */
    u32 rest;  /* of them in the cut period behind the whole ones */
} tile;

/* item: below n_chunks * n_tiles. */
DEVICE tile tile_of(const columns p, u64 item)
{
    tile t;
    t.chunk = item / p.n_tiles;
    t.place = (u32)(item - t.chunk * p.n_tiles) * p.width;
#if DEVICE_IS_CPU
    t.n = p.period - t.place < p.width ? p.period - t.place : p.width;
#else
    t.n = TILE;
#endif
    const u64 first = t.chunk * p.each, left = p.n_periods - first;
    t.begin = first * p.period + t.place;
    t.n_periods = left < p.each ? left : p.each;
    t.rest = 0;
    if (t.chunk + 1 == p.n_chunks && p.rest > t.place)
        t.rest = p.rest - t.place < t.n ? p.rest - t.place : t.n;
    return t;
}

DEVICE u32 channel_of(const columns p, u32 place)
{
    return place - place / p.channels * p.channels;
}

/* How many rows the entry (chunk, row of its entries) stands for. */
DEVICE u64 rows_of_entry(const columns p, u32 chunk, u32 row)
{
    const u64 left = p.n_periods - (u64)chunk * p.each;
    const u64 whole = (left < p.each ? left : p.each) * (p.period / p.entries);
    if (chunk + 1 < p.n_chunks) return whole;
    return whole + (p.reach > 0 ? p.rest / p.channels : row * p.channels < p.rest ? 1 : 0);
}

/* ---- The second kernel ----------------------------------------------------------------------- */

/* A work item's part: entries lane, lane + lanes, ... of a channel. */
typedef struct lane {
    u32 channel, index, count;
} lane;

DEVICE lane lane_of(const columns_merge p)
{
    lane l;
    l.index = LOCAL_ID / p.across;
    l.channel = GROUP_ID(0) * p.across + (LOCAL_ID - l.index * p.across);
    l.count = GROUP / p.across;
    return l;
}

DEVICE u32 entries_of_channel(const columns p)
{
    return p.n_chunks * (p.entries / p.channels);
}

/* The sum over a channel's entries, in a lane's order. */
DEVICE pair sum_entries(const columns p, const lane l, GLOBAL const float *entries)
{
    const u32 n = l.channel < p.channels ? entries_of_channel(p) : 0, together = 4;
    pair sum = pair_of(0.0f, 0.0f);
    float own[4];
    for (u32 i = l.index; i < n; i += together * l.count) {
        UNROLL for (u32 k = 0; k < together; k++)
        {
            const u32 at = i + k * l.count;
            own[k] = at < n ? entries[(u64)at * p.channels + l.channel] : 0.0f;
        }
        UNROLL for (u32 k = 0; k < together; k++) sum = pair_accumulate(sum, own[k]);
    }
    return sum;
}

typedef struct two_sums {
    pair first, second;
} two_sums;

DEVICE two_sums add_two_sums(two_sums a, two_sums b)
{
    a.first = pair_accumulate(pair_of(a.first.high, a.first.low + b.first.low), b.first.high);
    a.second = pair_accumulate(pair_of(a.second.high, a.second.low + b.second.low), b.second.high);
    return a;
}

DEVICE void put_two_sums(LOCAL float *shared, u32 at, two_sums value)
{
    shared[at] = value.first.high;
    shared[GROUP + at] = value.first.low;
    shared[2 * GROUP + at] = value.second.high;
    shared[3 * GROUP + at] = value.second.low;
}

DEVICE two_sums get_two_sums(LOCAL const float *shared, u32 at)
{
    two_sums value;
    value.first = pair_of(shared[at], shared[GROUP + at]);
    value.second = pair_of(shared[2 * GROUP + at], shared[3 * GROUP + at]);
    return value;
}

/* The sums of the lanes' numbers, the same in all of them; halves are added to halves.  Lane i of
   those that belong together is `stride` items behind lane i - 1; n, a power of two, and stride are
   the same in the whole group, and every item of it comes here.  shared: 4 * GROUP floats. */
DEVICE two_sums sum_lanes(LOCAL float *shared, two_sums own, u32 index, u32 n, u32 stride)
{
    const u32 at = LOCAL_ID;
    for (u32 reach = n / 2; reach > 0; reach /= 2) {
        put_two_sums(shared, at, own);
        BARRIER();
        if (index < reach) own = add_two_sums(own, get_two_sums(shared, at + reach * stride));
        BARRIER();
    }
    put_two_sums(shared, at, own);
    BARRIER();
    own = get_two_sums(shared, at - index * stride);
    BARRIER(); /* before others come here again */
    return own;
}

#endif
#endif
