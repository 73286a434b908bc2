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

/* The part of a product for which A is packed at once: some rows and terms, and all columns. */
typedef struct block {
    dpt_cpu_range rows, terms;
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
    for (size_t row = rows.begin; row < rows.end; row += t.n_rows) {
        t.n_rows = tile_rows(rows.end - row, PRODUCT_ROWS);
        t.c = g->c + row * g->ldc + start;
        t.mask = last && g->mask ? g->mask + row * g->ldc + start : NULL;
        KERNEL(product_tile_run)(&t);
        t.a += t.n_rows * t.n_terms;
    }
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
        if (group != packed_group)
            KERNEL(product_pack_b)(g, columns, b->terms.begin, n_terms, packed);
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
    block b = {.a = crew->scratch + crew->n_threads * (size_t)GROUP_FLOATS};
    for (size_t k = 0; k < g->k; k = b.terms.end) {
        b.terms = (dpt_cpu_range){k, k + block_of(g->k - k, PRODUCT_TERMS)};
        const size_t most_rows =
            least(PRODUCT_BLOCK_FLOATS / (b.terms.end - k), PRODUCT_BLOCK_ROWS);
        for (size_t row = 0; row < g->m; row = b.rows.end) {
            if (k > 0 || row > 0) /* until no thread reads the block before this one */
                dpt_cpu_barrier(crew->team, crew->thread, crew->n_threads);
            b.rows = (dpt_cpu_range){row, row + block_of(g->m - row, most_rows)};
            cut(g, crew->n_threads, &b);
            pack_block(g, crew, &b);
            dpt_cpu_barrier(crew->team, crew->thread, crew->n_threads);
            multiply_block(g, crew, &b, packed);
        }
    }
}
