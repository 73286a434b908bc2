/* Parameters of attention.cl. */
#ifndef DPT_KERNELS_ATTENTION_H
#define DPT_KERNELS_ATTENTION_H

#include "dialect.h"

/* The sizes of a tile of scores, and of a chunk of channels.  A work item has four rows and four
   columns of the tile, and eight channels of these rows. */
#define ATTENTION_ROWS    64
#define ATTENTION_COLUMNS 32
#define ATTENTION_CHUNK   64
#define ATTENTION_ITEMS   128

/* Where the queries, or the keys or values, of a sample lie, in elements. */
typedef struct attention_place {
    u64 sample; /* from one sample to the next */
    u32 offset; /* of head 0 */
    u32 pitch;  /* from one row to the next */
} attention_place;

typedef struct attention_params {
    u64 n_pairs; /* samples times heads, or times heads of keys */
    attention_place q, k, v, y;
    u32 heads, group; /* group: heads that share a head of keys */
    u32 width, chunks;
    u32 queries, keys;
    u32 causal, accumulate;
    u32 saves; /* FORWARD: lse is written */
    float scale;
} attention_params;

#endif
