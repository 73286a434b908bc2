/* Our own matrix product: the loops over blocks, pieces and tiles. */
#include "product.h"

#include "tile.h"

/* The size of the next block of `left`: blocks are as equal as possible. */
static size_t block_of(size_t left, size_t most)
{
    const size_t n_blocks = (left + most - 1) / most;
    return (left + n_blocks - 1) / n_blocks;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

enum {
    GROUP_FLOATS = PRODUCT_GROUP * PRODUCT_LANES * PRODUCT_TERMS,
    CHUNK_SLACK = LANES + 16, /* floats that packing writes behind a chunk, up to a cache line */
    PIECES_A_THREAD = 4,      /* the fewest pieces of a thread, if the product is large enough */
};

size_t KERNEL(product_scratch)(unsigned n_threads)
{
    const size_t most_chunks =
        2 * PRODUCT_BLOCK_ROWS / PRODUCT_CHUNK + 2 * PIECES_A_THREAD * n_threads;
    const size_t a =
        PRODUCT_BLOCK_FLOATS + PRODUCT_CHUNK * PRODUCT_TERMS + most_chunks * CHUNK_SLACK;
    return dpt_cpu_round(a) + n_threads * GROUP_FLOATS;
}

/* Rows of a block of n_terms terms. */
static size_t most_rows_of(size_t n_terms)
{
    return least(PRODUCT_BLOCK_FLOATS / n_terms, PRODUCT_BLOCK_ROWS);
}

/* The terms of a grain: all, where there is no tree. */
static size_t grain_of(const gemm *g)
{
    return g->grain > 0 ? g->grain : g->k;
}

/* The columns of all panels. */
static size_t padded_columns(const gemm *g)
{
    return dpt_cpu_ceil_div(g->n, LANES) * LANES;
}

static size_t packed_scratch(unsigned n_threads)
{
    return dpt_cpu_round(KERNEL(product_scratch)(n_threads));
}

size_t KERNEL(product_tree_scratch)(const gemm *g, unsigned n_threads)
{
    /* Where there are several blocks, the first one has more than half of the most terms. */
    const size_t rows = least(g->m, most_rows_of(PRODUCT_TERMS / 2));
    const size_t stored = dpt_cpu_mul(dpt_cpu_mul(rows, padded_columns(g)), 1 + TREE_LEVELS);
    return dpt_cpu_add(packed_scratch(n_threads), g->k > PRODUCT_TERMS ? stored : 0);
}

/* The part of a product for which A is packed at once: some rows and terms, and all columns. */
typedef struct block {
    dpt_cpu_range rows, terms;
    tree_block tree;
    float *stored;       /* by a product with a tree, between blocks of terms */
    size_t chunk;        /* rows of a chunk */
    size_t chunk_floats; /* floats from one packed chunk to the next */
    size_t group;        /* columns of a group */
    size_t n_chunks, n_groups;
    float *a; /* packed */
} block;

static void count_pieces(const gemm *g, block *b)
{
    b->n_chunks = dpt_cpu_ceil_div(b->rows.end - b->rows.begin, b->chunk);
    b->n_groups = dpt_cpu_ceil_div(g->n, b->group);
}

static void cut(const gemm *g, unsigned n_threads, block *b)
{
    const size_t n_rows = b->rows.end - b->rows.begin, n_terms = b->terms.end - b->terms.begin;
    const size_t enough = n_threads > 1 ? PIECES_A_THREAD * (size_t)n_threads : 1;
    const size_t even = block_of(n_rows, PRODUCT_CHUNK);
    b->chunk = dpt_cpu_ceil_div(even, PRODUCT_ROWS) * PRODUCT_ROWS;
    b->group = PRODUCT_GROUP * PRODUCT_LANES;
    count_pieces(g, b);
    while (b->n_chunks * b->n_groups < enough && b->group > PRODUCT_LANES) {
        b->group /= 2;
        count_pieces(g, b);
    }
    while (b->n_chunks * b->n_groups < enough && b->chunk > PRODUCT_ROWS) {
        b->chunk = dpt_cpu_ceil_div(b->chunk / 2, PRODUCT_ROWS) * PRODUCT_ROWS;
        count_pieces(g, b);
    }
    b->chunk_floats = dpt_cpu_round(b->chunk * n_terms + LANES);
}

static dpt_cpu_range chunk_rows(const block *b, size_t chunk)
{
    const size_t begin = b->rows.begin + chunk * b->chunk;
    return (dpt_cpu_range){begin, least(begin + b->chunk, b->rows.end)};
}

static dpt_cpu_range group_columns(const gemm *g, const block *b, size_t group)
{
    const size_t begin = group * b->group;
    return (dpt_cpu_range){begin, least(begin + b->group, g->n)};
}

/* Multiplies a chunk's rows with the packed panel that begins at column `start`. */
static void multiply_panel(const gemm *g, const block *b, size_t chunk, size_t start,
                           const float *packed)
{
    const dpt_cpu_range rows = chunk_rows(b, chunk);
    const bool last = b->terms.end == g->k;
    const size_t lanes = least(g->n - start, PRODUCT_LANES);
    product_tile t = {.a = b->a + chunk * b->chunk_floats,
                      .b = packed,
                      .n_terms = b->terms.end - b->terms.begin,
                      .lanes = lanes,
                      .units = (lanes + LANES - 1) / LANES,
                      .ldc = g->ldc,
                      .continues = g->continues || (g->unbroken && b->terms.begin > 0),
                      .accumulate = g->accumulate || (!g->unbroken && b->terms.begin > 0),
                      .factor = last ? g->factor : NULL,
                      .bias = last && g->bias ? g->bias + start : NULL,
                      .relu = last && g->relu};
    const size_t n_rows = b->rows.end - b->rows.begin;
    product_tree tree = {.block = b->tree,
                         .distance = n_rows * padded_columns(g),
                         .zero = g->no_negative_zero ? 0.0f : -0.0f};
    if (g->grain > 0) {
        t.tree = &tree;
        t.accumulate = g->accumulate;
    }
    for (size_t row = rows.begin; row < rows.end; row += t.n_rows) {
        t.n_rows = tile_rows(rows.end - row, PRODUCT_ROWS);
        t.c = g->c + row * g->ldc + start;
        t.mask = last && g->mask ? g->mask + row * g->ldc + start : NULL;
        tree.stored = b->stored + start * n_rows + (row - b->rows.begin) * t.units * LANES;
        KERNEL(product_tile_run)(&t);
        t.a += t.n_rows * t.n_terms;
    }
}

static void pack_b(const gemm *g, dpt_cpu_range columns, dpt_cpu_range terms, float *to)
{
    if (g->pack)
        g->pack(g, columns, terms, to);
    else
        KERNEL(product_pack_b)(g, columns, terms.begin, terms.end - terms.begin, to);
}

static void multiply_block(const gemm *g, const gemm_crew *crew, const block *b, float *packed)
{
    const size_t n_terms = b->terms.end - b->terms.begin;
    size_t packed_group = SIZE_MAX;
    dpt_cpu_pieces pieces =
        dpt_cpu_pieces_of(crew->team, b->n_groups * b->n_chunks, crew->thread, crew->n_threads);
    for (size_t piece; dpt_cpu_take(&pieces, &piece);) {
        const size_t group = piece / b->n_chunks, chunk = piece % b->n_chunks;
        const dpt_cpu_range columns = group_columns(g, b, group);
        if (group != packed_group) pack_b(g, columns, b->terms, packed);
        packed_group = group;
        for (size_t start = columns.begin; start < columns.end; start += PRODUCT_LANES)
            multiply_panel(g, b, chunk, start, packed + (start - columns.begin) * n_terms);
    }
}

static void pack_block(const gemm *g, const gemm_crew *crew, const block *b)
{
    dpt_cpu_pieces chunks =
        dpt_cpu_pieces_of(crew->team, b->n_chunks, crew->thread, crew->n_threads);
    for (size_t chunk; dpt_cpu_take(&chunks, &chunk);)
        KERNEL(product_pack_a)
    (g, chunk_rows(b, chunk), b->terms.begin, b->terms.end - b->terms.begin,
     b->a + chunk * b->chunk_floats);
}

void KERNEL(product_run)(const gemm *g, const gemm_crew *crew)
{
    float *packed = crew->scratch + crew->thread * (size_t)GROUP_FLOATS;
    block b = {.a = crew->scratch + crew->n_threads * (size_t)GROUP_FLOATS,
               .stored = crew->scratch + packed_scratch(crew->n_threads)};
    /* The first block of terms is the largest. */
    const size_t most_rows = most_rows_of(tree_block_at(0, g->k, grain_of(g), PRODUCT_TERMS).n);
    for (size_t row = 0; row < g->m; row = b.rows.end) {
        b.rows = (dpt_cpu_range){row, row + block_of(g->m - row, most_rows)};
        for (size_t k = 0; k < g->k; k = b.terms.end) {
            if (k > 0 || row > 0) /* until no thread reads the block before this one */
                dpt_cpu_barrier(crew->team, crew->thread, crew->n_threads);
            b.tree = tree_block_at(k, g->k, grain_of(g), PRODUCT_TERMS);
            b.terms = (dpt_cpu_range){k, k + b.tree.n};
            cut(g, crew->n_threads, &b);
            pack_block(g, crew, &b);
            dpt_cpu_barrier(crew->team, crew->thread, crew->n_threads);
            multiply_block(g, crew, &b, packed);
        }
    }
}
