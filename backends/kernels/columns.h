/* The division of a matrix of rows of channels among work items, for operators that treat every
   channel by itself.

   A period is some whole consecutive rows, so that there are many neighbouring elements even with
   few channels.  A place is the index of an element in its period, and belongs to one channel.  A
   tile is a run of places of the period.  A chunk is a run of periods.  One work item treats one
   tile of one chunk.
   - On a GPU a tile is one place, or WIDTH places of a row that one access moves (piece.h).
     Neighbouring items access neighbouring elements.
   - On a CPU a tile has up to TILE places.  The inner loops run over them, so that a vector's lanes
     are places. */
#ifndef DPT_KERNELS_COLUMNS_H
#define DPT_KERNELS_COLUMNS_H

#include "dialect.h"

#define TILE_OF_CPU 256u

typedef struct columns {
    u64 n_periods; /* whole periods */
    u64 each;      /* periods of a chunk; the last chunk may have fewer */
    u32 n_chunks;
    u32 channels;
    u32 period;  /* elements of a period */
    u32 rest;    /* elements behind the last whole period, which belong to the last chunk */
    u32 width;   /* places of a tile, at most TILE; on a CPU the last tile may have fewer */
    u32 n_tiles; /* of a period */
    u32 entries; /* places for which a chunk leaves entries: all places of the period; or, if a
                    group treats a chunk and joins the values of its items, one for each channel */
    u32 reach; /* if groups join: the distance in rows of the first step, a power of two; else 0 */
} columns;

/* The parameters of the second kernel of a reduction.  The first kernel leaves entries, which are
   some floats for places of every chunk.  The second one adds them up, with one group for `across`
   channels; `across` is a power of two that divides GROUP. */
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

/* A loop over the first n places of a tile.  On a GPU n is TILE or 0.  The number of iterations is
   a constant there, because otherwise the compiler would put the places' values into memory. */
#if DEVICE_IS_CPU
#define FOR_PLACES(i, n) for (u32 i = 0; i < (n); i++)
#else
#define FOR_PLACES(i, n) UNROLL for (u32 i = 0; i < TILE; i++) if ((n) > 0)
#endif

typedef struct tile {
    u64 begin;     /* the first element */
    u64 n_periods; /* whole periods */
    u64 chunk;
    u32 place; /* the first place */
    u32 n;     /* the number of places */
    u32 rest;  /* how many places exist in the incomplete period behind the whole ones */
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

/* The number of rows that an entry stands for: the entry of a chunk, in a row of the chunk's
 * entries.
 */
DEVICE u64 rows_of_entry(const columns p, u32 chunk, u32 row)
{
    const u64 left = p.n_periods - (u64)chunk * p.each;
    const u64 whole = (left < p.each ? left : p.each) * (p.period / p.entries);
    if (chunk + 1 < p.n_chunks) return whole;
    return whole + (p.reach > 0 ? p.rest / p.channels : row * p.channels < p.rest ? 1 : 0);
}

/* ---- The second kernel ----------------------------------------------------------------------- */

/* The part of a work item: the entries index, index + count, ... of a channel. */
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

/* The sum of a lane's entries of a channel. */
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

/* Returns the sums over n lanes to all of these lanes, adding halves to halves.  `index` is the
   lane's number, and lane i is `stride` items behind lane i - 1.  n, a power of two, and stride are
   the same in the whole group, and every item of the group calls it.  shared: 4 * GROUP floats. */
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
    BARRIER(); /* before `shared` is written again */
    return own;
}

#endif
#endif
