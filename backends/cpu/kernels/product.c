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
    PIECES_A_THREAD = 8, /* the fewest pieces of a thread, if the product is large enough */
    TREE_ROWS = 512,     /* the most rows of a block whose sums are stored for each grain */
    SLACK = LANES + 16,  /* floats that packing writes behind a chunk, up to a cache line */
};

/* Columns in whole vectors. */
static size_t padded(size_t n_columns)
{
    return dpt_cpu_ceil_div(n_columns, LANES) * LANES;
}

/* The most columns of a shared block of n_terms terms. */
static size_t most_columns_of(size_t n_terms)
{
    return PRODUCT_SHARED_FLOATS / n_terms / PRODUCT_LANES * PRODUCT_LANES;
}

/* The terms of a grain: all, where there is no tree. */
static size_t grain_of(const gemm *g)
{
    return g->grain > 0 ? g->grain : g->k;
}

/* Whether sums of grains may be stored between blocks of terms.  A block holds a part of a grain,
   or as many grains as a power of two, or all that are left.  The first one therefore has all
   terms, or more than half of the most, and even fewer terms than the most may be several blocks.
 */
static bool may_store_grains(const gemm *g)
{
    return g->grain > 0 && g->k > PRODUCT_TERMS / 2;
}

/* Whether threads share packed A, and pack B for themselves; otherwise the other way round. */
static bool shares_a(const gemm *g)
{
    return g->m < g->n;
}

/* Floats of the matrix that threads share. */
static size_t shared_floats(const gemm *g)
{
    const size_t side = dpt_cpu_add(least(g->m, g->n), LANES);
    const size_t all = dpt_cpu_mul(side, least(g->k, PRODUCT_TERMS));
    const size_t n_chunks = g->m / PRODUCT_ROWS + 2;
    return dpt_cpu_round(least(all, PRODUCT_SHARED_FLOATS) + dpt_cpu_mul(n_chunks, SLACK));
}

/* Floats of what a thread packs for itself: a chunk of A or a group of B. */
static size_t own_floats(const gemm *g)
{
    enum { MOST = PRODUCT_A_FLOATS + PRODUCT_ROWS * PRODUCT_TERMS };
    const size_t rows = dpt_cpu_ceil_div(g->m, PRODUCT_ROWS) * PRODUCT_ROWS;
    const size_t n_terms = least(g->k, PRODUCT_TERMS);
    const size_t chunk = least(dpt_cpu_mul(rows, n_terms), MOST);
    const size_t group = least(padded(g->n), PRODUCT_GROUP * PRODUCT_LANES) * n_terms;
    return dpt_cpu_round((chunk > group ? chunk : group) + SLACK);
}

/* Floats of sums of grains. */
static size_t stored_floats(const gemm *g)
{
    if (!may_store_grains(g)) return 0;
    const size_t columns = least(padded(g->n), most_columns_of(PRODUCT_TERMS / 2));
    return least(g->m, TREE_ROWS) * columns * (1 + TREE_LEVELS);
}

size_t KERNEL(product_scratch)(const gemm *g, unsigned n_threads)
{
    const size_t own = dpt_cpu_mul(n_threads, own_floats(g));
    return dpt_cpu_add(dpt_cpu_add(shared_floats(g), own), stored_floats(g));
}

/* The part of a product for which the shared matrix is packed at once. */
typedef struct block {
    dpt_cpu_range rows, columns, terms;
    tree_block tree;
    size_t chunk;        /* rows of a chunk */
    size_t chunk_floats; /* from one packed chunk to the next, if A is shared */
    size_t group;        /* columns of a group */
    size_t n_chunks, n_groups;
    float *shared; /* packed: the chunks of A, or B panel by panel */
    float *own;    /* packed by this thread: a group of B, or a chunk of A */
    float *stored; /* by a product with a tree, between blocks of terms */
} block;

static size_t length(dpt_cpu_range range)
{
    return range.end - range.begin;
}

static void count_pieces(block *b)
{
    b->n_chunks = dpt_cpu_ceil_div(length(b->rows), b->chunk);
    b->n_groups = dpt_cpu_ceil_div(length(b->columns), b->group);
}

/* Cuts a block into pieces: so large that caches hold their parts, and so many that threads end
   together. */
static void cut(unsigned n_threads, block *b)
{
    const size_t n_terms = length(b->terms);
    const size_t enough = n_threads > 1 ? PIECES_A_THREAD * (size_t)n_threads : 1;
    const size_t most_rows = least(PRODUCT_A_FLOATS / n_terms, PRODUCT_CHUNK);
    const size_t even = block_of(length(b->rows), most_rows);
    b->chunk = dpt_cpu_ceil_div(even, PRODUCT_ROWS) * PRODUCT_ROWS;
    b->group = PRODUCT_GROUP * PRODUCT_LANES;
    count_pieces(b);
    while (b->n_chunks * b->n_groups < enough && b->group > PRODUCT_LANES) {
        b->group /= 2;
        count_pieces(b);
    }
    while (b->n_chunks * b->n_groups < enough && b->chunk > PRODUCT_ROWS) {
        b->chunk = dpt_cpu_ceil_div(b->chunk / 2, PRODUCT_ROWS) * PRODUCT_ROWS;
        count_pieces(b);
    }
    b->chunk_floats = dpt_cpu_round(b->chunk * n_terms + LANES);
}

static dpt_cpu_range chunk_rows(const block *b, size_t chunk)
{
    const size_t begin = b->rows.begin + chunk * b->chunk;
    return (dpt_cpu_range){begin, least(begin + b->chunk, b->rows.end)};
}

static dpt_cpu_range group_columns(const block *b, size_t group)
{
    const size_t begin = b->columns.begin + group * b->group;
    return (dpt_cpu_range){begin, least(begin + b->group, b->columns.end)};
}

/* A chunk and a group, and where they are packed. */
typedef struct piece {
    dpt_cpu_range rows, columns;
    const float *a, *b;
} piece;

static void multiply_piece(const gemm *g, const block *b, const piece *p)
{
    const dpt_cpu_range rows = p->rows, columns = p->columns;
    const bool last = b->terms.end == g->k;
    const size_t n_rows = length(b->rows);
    product_tree tree = {.block = b->tree,
                         .distance = n_rows * padded(length(b->columns)),
                         .zero = g->no_negative_zero ? 0.0f : -0.0f};
    product_tile t = {.a = p->a,
                      .n_terms = length(b->terms),
                      .ldc = g->ldc,
                      .continues = g->continues || (g->unbroken && b->terms.begin > 0),
                      .accumulate = g->accumulate || (!g->unbroken && b->terms.begin > 0),
                      .factor = last ? g->factor : NULL,
                      .relu = last && g->relu};
    if (g->grain > 0) {
        t.tree = &tree;
        t.accumulate = g->accumulate;
    }
    for (size_t row = rows.begin; row < rows.end; row += t.n_rows) {
        t.n_rows = tile_rows(rows.end - row, PRODUCT_ROWS);
        for (size_t start = columns.begin; start < columns.end; start += PRODUCT_LANES) {
            const size_t at = row * g->ldc + start;
            t.lanes = least(columns.end - start, PRODUCT_LANES);
            t.units = (t.lanes + LANES - 1) / LANES;
            t.b = p->b + (start - columns.begin) * t.n_terms;
            t.c = g->c + at;
            t.bias = last && g->bias ? g->bias + start : NULL;
            t.mask = last && g->mask ? g->mask + at : NULL;
            tree.stored = b->stored + (start - b->columns.begin) * n_rows +
                          (row - b->rows.begin) * t.units * LANES;
            KERNEL(product_tile_run)(&t);
        }
        t.a += t.n_rows * t.n_terms;
    }
}

static void pack_rows(const gemm *g, const block *b, dpt_cpu_range rows, float *to)
{
    KERNEL(product_pack_a)(g, rows, b->terms.begin, length(b->terms), to);
}

static void pack_columns(const gemm *g, const block *b, dpt_cpu_range columns, float *to)
{
    if (g->pack)
        g->pack(g, columns, b->terms, to);
    else
        KERNEL(product_pack_b)(g, columns, b->terms.begin, length(b->terms), to);
}

static float *shared_chunk(const block *b, size_t chunk)
{
    return b->shared + chunk * b->chunk_floats;
}

static float *shared_columns(const block *b, size_t column)
{
    return b->shared + (column - b->columns.begin) * length(b->terms);
}

static void pack_shared(const gemm *g, const gemm_crew *crew, const block *b)
{
    enum { AT_ONCE = 64 / PRODUCT_LANES * PRODUCT_LANES /* columns */ };
    const bool is_a = shares_a(g);
    const size_t n = is_a ? b->n_chunks : dpt_cpu_ceil_div(length(b->columns), AT_ONCE);
    dpt_cpu_pieces parts = dpt_cpu_pieces_of(crew->team, n, crew->thread, crew->n_threads);
    for (size_t i; dpt_cpu_take(&parts, &i);) {
        const size_t begin = b->columns.begin + i * AT_ONCE;
        const dpt_cpu_range columns = {begin, least(begin + AT_ONCE, b->columns.end)};
        if (is_a)
            pack_rows(g, b, chunk_rows(b, i), shared_chunk(b, i));
        else
            pack_columns(g, b, columns, shared_columns(b, begin));
    }
}

/* Pieces that have the same part of the other matrix follow each other. */
static void multiply_block(const gemm *g, const gemm_crew *crew, const block *b)
{
    const bool is_a = shares_a(g);
    const size_t n_shared = is_a ? b->n_chunks : b->n_groups;
    size_t packed = SIZE_MAX;
    dpt_cpu_pieces pieces =
        dpt_cpu_pieces_of(crew->team, b->n_chunks * b->n_groups, crew->thread, crew->n_threads);
    for (size_t i; dpt_cpu_take(&pieces, &i);) {
        const size_t own = i / n_shared, shared = i % n_shared;
        piece p = {.rows = chunk_rows(b, is_a ? shared : own),
                   .columns = group_columns(b, is_a ? own : shared),
                   .a = b->own,
                   .b = b->own};
        if (is_a)
            p.a = shared_chunk(b, shared);
        else
            p.b = shared_columns(b, p.columns.begin);
        if (own != packed && is_a)
            pack_columns(g, b, p.columns, b->own);
        else if (own != packed)
            pack_rows(g, b, p.rows, b->own);
        packed = own;
        multiply_piece(g, b, &p);
    }
}

/* Multiplies the rows and columns of *b, block by block of terms. */
static void multiply_terms(const gemm *g, const gemm_crew *crew, block *b)
{
    for (size_t k = 0; k < g->k; k = b->terms.end) {
        const bool is_first = k == 0 && b->columns.begin == 0 && b->rows.begin == 0;
        if (!is_first) /* until no thread reads the block before this one */
            dpt_cpu_barrier(crew->team, crew->thread, crew->n_threads);
        b->tree = tree_block_at(k, g->k, grain_of(g), PRODUCT_TERMS);
        b->terms = (dpt_cpu_range){k, k + b->tree.n};
        cut(crew->n_threads, b);
        pack_shared(g, crew, b);
        dpt_cpu_barrier(crew->team, crew->thread, crew->n_threads);
        multiply_block(g, crew, b);
    }
}

/* Sets the most rows and columns of a block. */
static void limit(const gemm *g, size_t *rows, size_t *columns)
{
    /* The first block of terms is the largest. */
    const size_t n_terms = tree_block_at(0, g->k, grain_of(g), PRODUCT_TERMS).n;
    const bool stores_grains = g->grain > 0 && n_terms < g->k;
    *rows = *columns = SIZE_MAX;
    if (shares_a(g)) *rows = PRODUCT_SHARED_FLOATS / n_terms;
    if (stores_grains) *rows = least(*rows, TREE_ROWS);
    if (!shares_a(g) || stores_grains) *columns = most_columns_of(n_terms);
}

void KERNEL(product_run)(const gemm *g, const gemm_crew *crew)
{
    float *const own = crew->scratch + shared_floats(g);
    block b = {.shared = crew->scratch,
               .own = own + crew->thread * own_floats(g),
               .stored = own + crew->n_threads * own_floats(g)};
    size_t most_rows, most_columns;
    limit(g, &most_rows, &most_columns);
    const size_t n_rows = block_of(g->m, least(most_rows, g->m));
    const size_t even = block_of(g->n, least(most_columns, g->n));
    const size_t n_columns = dpt_cpu_ceil_div(even, PRODUCT_LANES) * PRODUCT_LANES;
    for (size_t row = 0; row < g->m; row = b.rows.end) {
        b.rows = (dpt_cpu_range){row, least(row + n_rows, g->m)};
        for (size_t column = 0; column < g->n; column = b.columns.end) {
            b.columns = (dpt_cpu_range){column, least(column + n_columns, g->n)};
            multiply_terms(g, crew, &b);
        }
    }
}
