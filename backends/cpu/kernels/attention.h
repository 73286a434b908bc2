/* Attention in blocks of queries: what forward (attention.c) and backward (attention_backward.c)
   share.

   A block has so few queries that its scores, for all keys, stay in the cache of a core.  The keys,
   the values and their transposes are packed once for a head of a sample.  Products are those of
   tile.h.  An element of a product is one chain of fused multiply-adds, whatever the block is, so
   that results depend neither on threads nor on the other samples of a call. */
#ifndef DPT_CPU_ATTENTION_H
#define DPT_CPU_ATTENTION_H

#include "../operators.h"
#include "tile.h"

/* op->plan.state.  Counts of floats are in whole cache lines. */
typedef struct attention {
    dpt_attention_desc d;
    size_t group;                     /* heads that share a head of keys */
    size_t block, n_blocks;           /* queries of a block; blocks of a head */
    size_t q_pitch, k_pitch, y_pitch; /* floats between rows in memory */
    size_t lanes;                     /* the width of all panels of a head's channels together */
    size_t score_pitch;               /* floats between the rows of scores */
    size_t turned;                    /* floats of packed keys or values whose lanes are keys */
    size_t straight;                  /* the same, whose lanes are channels */
    size_t scores;                    /* floats of a block's scores */
    size_t rows;                      /* floats of a packed block of queries, or of its results */
    size_t thread_floats;             /* of scratch memory for each thread */
} attention;

/* The queries first .. end-1 of a head of a sample. */
typedef struct attention_block {
    size_t first, end;
    size_t n_keys; /* those that any of the queries reads */
} attention_block;

/* Rows of channels in memory. */
typedef struct attention_rows {
    const float *data;
    size_t pitch;
} attention_rows;

attention_block KERNEL(attention_block_at)(const attention *a, size_t index);
/* The number of keys that a query reads. */
static inline size_t attention_keys(const attention *a, size_t query)
{
    return a->d.causal ? query + a->d.keys - a->d.queries + 1 : a->d.keys;
}
/* The first query of a block that reads the key j, counted from the block's begin. */
static inline size_t attention_first(const attention *a, const attention_block *b, size_t j)
{
    const size_t before = a->d.keys - a->d.queries;
    if (!a->d.causal || j <= b->first + before) return 0;
    return j - before - b->first;
}

/* Packs n rows of channels in panels of channels (a->straight floats for all keys). */
void KERNEL(attention_pack)(const attention *a, attention_rows from, size_t n, float *to);
/* Packs the rows of all keys in panels of keys (a->turned floats). */
void KERNEL(attention_turn)(const attention *a, attention_rows from, float *to);

/* scores (queries of the block, a->score_pitch) = rows times turned keys or values.  Only what the
   block reads is defined. */
void KERNEL(attention_scores)(const attention *a, const attention_block *b, attention_rows rows,
                              const float *turned, float *scores);
/* to (queries of the block, a->lanes) = scores times packed keys or values.  Scores of keys that a
   query does not read are 0, up to b->n_keys. */
void KERNEL(attention_combine)(const attention *a, const attention_block *b, const float *scores,
                               const float *packed, float *to);
/* to (keys, a->lanes) += transposed scores times a packed block of rows of channels. */
void KERNEL(attention_spread)(const attention *a, const attention_block *b, const float *scores,
                              const float *packed, float *to);

/* A row of channels that is stored: the sums, times a factor, which replace what is there or are
   added to it. */
typedef struct attention_row {
    const float *sums;
    float factor;
    bool accumulate;
} attention_row;

void KERNEL(attention_store)(const attention *a, const attention_row *row, float *to);

/* Finds the sizes of *a, whose d is set, but for thread_floats. */
void KERNEL(attention_plan)(attention *a);
dpt_cpu_kernel KERNEL(attention_backward);

#endif
