/* Our own matrix products: the tiles, their programs, and the division of a product into groups. */
#include "gemm.h"
#include "kernels/gemm_params.h"

#include <string.h>

enum {
    FLOAT_BYTES = sizeof(float),
    BLOCK_ROWS = 128,   /* of registers tiles: rows of A that share a panel of B in local memory */
    MOST_COLUMNS = 512, /* of registers tiles: the most columns of a block, which share its rows */
    MOST_TERMS = 256,   /* the most terms of a panel */
    LEAST_TERMS = 16,   /* a multiple of every number of lanes */
    SPLIT_TERMS = 256,  /* the fewest terms that are worth a partial product */
    MOST_SPLITS = 64,
    LOCAL_ALIGNMENT = 16 /* the terms of a split are a multiple of the terms of a slice */
};

struct dpt_cl_gemm_tile {
    const char *name;
    bool local;
    unsigned rows, columns;
    /* Of registers tiles: elements of a vector. */
    unsigned lanes;
    /* Of local tiles: terms of a slice, and the rows and columns that one item computes. */
    unsigned terms, item_rows, item_columns;
};

#define REGISTERS(ROWS, COLUMNS, LANES)                                                            \
    &(const dpt_cl_gemm_tile)                                                                      \
    {                                                                                              \
        .name = "registers-" #ROWS "x" #COLUMNS, .rows = (ROWS), .columns = (COLUMNS),             \
        .lanes = (LANES)                                                                           \
    }
#define IN_LOCAL(ROWS, COLUMNS, TERMS, ITEM_ROWS, ITEM_COLUMNS)                                    \
    &(const dpt_cl_gemm_tile)                                                                      \
    {                                                                                              \
        .name = "local-" #ROWS "x" #COLUMNS, .local = true, .rows = (ROWS), .columns = (COLUMNS),  \
        .terms = (TERMS), .item_rows = (ITEM_ROWS), .item_columns = (ITEM_COLUMNS)                 \
    }

/* In a registers tile, the sums, a row of B and an element of A fill the 32 registers of AVX-512
   and NEON, or the 16 of AVX2 and SSE. */
const dpt_cl_gemm_tile *const dpt_cl_gemm_tiles[] = {
    REGISTERS(6, 64, 16),        REGISTERS(8, 32, 16),        REGISTERS(16, 16, 16),
    REGISTERS(6, 16, 8),         REGISTERS(4, 24, 8),         REGISTERS(6, 8, 4),
    IN_LOCAL(64, 64, 16, 8, 4),  IN_LOCAL(128, 128, 8, 8, 8), IN_LOCAL(32, 32, 16, 4, 4),
    IN_LOCAL(128, 32, 16, 8, 4), IN_LOCAL(32, 128, 16, 4, 8), NULL,
};

const char *dpt_cl_gemm_tile_name(const dpt_cl_gemm_tile *tile)
{
    return tile->name;
}

/* ---- Preparing ------------------------------------------------------------------------------- */

static unsigned lanes_of(const dpt_cl_found *found)
{
    return found->vector_width >= 16 ? 16 : found->vector_width >= 8 ? 8 : 4;
}

/* Bytes of local memory with panels of `terms` terms. */
static size_t registers_local_bytes(const dpt_cl_gemm_tile *tile, bool a_transposed, size_t terms)
{
    const size_t block = a_transposed ? BLOCK_ROWS + 16 : 0; /* BLOCK_STRIDE of the kernel */
    return terms * (tile->columns + block) * FLOAT_BYTES;
}

static dpt_status registers_options(dpt_device *device, dpt_cl_gemm_form form,
                                    const dpt_cl_gemm_tile *tile, char out[DPT_MAX_OPTIONS])
{
    const dpt_cl_device *d = dpt_cl_device_of(device);
    const bool meant = d->params.algorithm && strcmp(d->params.algorithm, tile->name) == 0;
    if (tile->lanes != lanes_of(d->found) && !meant)
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED,
                        "%s is for vectors of %u elements, the device's have %u", tile->name,
                        tile->lanes, d->found->vector_width);
    unsigned terms = MOST_TERMS;
    while (terms > LEAST_TERMS &&
           registers_local_bytes(tile, form.a_transposed, terms) > d->found->local_bytes)
        terms /= 2;
    if (registers_local_bytes(tile, form.a_transposed, terms) > d->found->local_bytes)
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED,
                        "%s does not fit %zu bytes of local memory", tile->name,
                        d->found->local_bytes);
    snprintf(out, DPT_MAX_OPTIONS,
             "-DROWS=%u -DUNITS=%u -DLANES=%u -DTERMS=%u -DBLOCK_ROWS=%d -DA_TRANSPOSED=%d "
             "-DB_TRANSPOSED=%d -DFINISH=%d",
             tile->rows, tile->columns / tile->lanes, tile->lanes, terms, BLOCK_ROWS,
             form.a_transposed, form.b_transposed, form.finished);
    return DPT_OK;
}

static size_t local_items(const dpt_cl_gemm_tile *tile)
{
    return (size_t)(tile->rows / tile->item_rows) * (tile->columns / tile->item_columns);
}

static dpt_status local_options(dpt_device *device, dpt_cl_gemm_form form,
                                const dpt_cl_gemm_tile *tile, char out[DPT_MAX_OPTIONS])
{
    const dpt_cl_found *found = dpt_cl_device_of(device)->found;
    const size_t n_bytes =
        (size_t)2 * tile->terms * (tile->rows + 4 + tile->columns + 4) * FLOAT_BYTES;
    if (local_items(tile) > found->max_group || n_bytes > found->local_bytes)
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED,
                        "%s needs groups of %zu items and %zu bytes of local memory, the device "
                        "allows %zu and %zu",
                        tile->name, local_items(tile), n_bytes, found->max_group,
                        found->local_bytes);
    snprintf(out, DPT_MAX_OPTIONS,
             "-DTILE_M=%u -DTILE_N=%u -DTILE_K=%u -DITEM_M=%u -DITEM_N=%u -DA_TRANSPOSED=%d "
             "-DB_TRANSPOSED=%d -DFINISH=%d",
             tile->rows, tile->columns, tile->terms, tile->item_rows, tile->item_columns,
             form.a_transposed, form.b_transposed, form.finished);
    return DPT_OK;
}

dpt_status dpt_cl_gemm_prepare(dpt_device *device, dpt_cl_gemm_form form,
                               const dpt_cl_gemm_tile *tile, dpt_cl_gemm *out)
{
    dpt_program_key key = {.file = tile->local ? "gemm_local.cl" : "gemm_registers.cl"};
    DPT_TRY(tile->local ? local_options(device, form, tile, key.options)
                        : registers_options(device, form, tile, key.options));
    dpt_kernel *kernel;
    DPT_TRY(dpt_kernel_get(device, &key, tile->local ? "gemm_local" : "gemm_registers", &kernel));
    *out = (dpt_cl_gemm){.tile = tile, .kernel = kernel};
    return DPT_OK;
}

/* ---- Dividing -------------------------------------------------------------------------------- */

/* The division of a product into groups. */
typedef struct division {
    size_t tile_rows, tile_columns; /* of C, for one group */
    size_t n_row_tiles, n_column_tiles, n_splits, split_terms;
} division;

static size_t round_up(size_t n, size_t unit)
{
    return dpt_ceil_div(n, unit) * unit;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Chooses the block of a CPU's group: as large as possible, because every block copies its panels
   of B, but so small that every core has several blocks. */
static void choose_block(const dpt_cl_gemm *gemm, size_t compute_units,
                         const dpt_cl_gemm_args *args, division *out)
{
    enum { GROUPS_PER_CORE = 4, LEAST_ROWS = 32 };
    const size_t rows = gemm->tile->rows, columns = gemm->tile->columns;
    const size_t least_rows = round_up(LEAST_ROWS, rows);
    out->tile_rows = least(BLOCK_ROWS / rows * rows, round_up(args->m, rows));
    out->tile_columns = least(round_up(MOST_COLUMNS, columns), round_up(args->n, columns));
    for (;;) {
        const size_t n_groups = dpt_ceil_div(args->m, out->tile_rows) *
                                dpt_ceil_div(args->n, out->tile_columns) * args->n_batches;
        if (n_groups >= GROUPS_PER_CORE * compute_units) return;
        if (out->tile_columns > columns)
            out->tile_columns = round_up(out->tile_columns / 2, columns);
        else if (out->tile_rows > least_rows)
            out->tile_rows = round_up(out->tile_rows / 2, rows);
        else
            return;
    }
}

/* The number of splits of k that fill the device.  It depends on the shape and the device alone, so
   the order of a sum does, too. */
static size_t choose_splits(size_t compute_units, const dpt_cl_gemm_args *args, size_t n_groups)
{
    if (n_groups == 0 || n_groups >= compute_units) return 1;
    const size_t wanted = dpt_ceil_div(2 * compute_units, n_groups);
    const size_t most = least(args->k / SPLIT_TERMS, MOST_SPLITS);
    return most < 2 ? 1 : least(wanted, most);
}

static bool is_empty(const dpt_cl_gemm_args *args)
{
    return args->m == 0 || args->n == 0 || args->n_batches == 0;
}

static size_t partial_bytes(const dpt_cl_gemm_args *args)
{
    return dpt_size_mul(dpt_size_mul(args->m, args->n), dpt_size_mul(args->n_batches, FLOAT_BYTES));
}

static division divide(const dpt_device *device, const dpt_cl_gemm *gemm,
                       const dpt_cl_gemm_args *args)
{
    const size_t compute_units = dpt_cl_device_of(device)->found->compute_units;
    division d = {.tile_rows = gemm->tile->rows, .tile_columns = gemm->tile->columns};
    if (!gemm->tile->local) choose_block(gemm, compute_units, args, &d);
    d.n_row_tiles = dpt_ceil_div(args->m, d.tile_rows);
    d.n_column_tiles = dpt_ceil_div(args->n, d.tile_columns);
    d.n_splits =
        choose_splits(compute_units, args, d.n_row_tiles * d.n_column_tiles * args->n_batches);
    return d;
}

static void split(division *d, const dpt_cl_gemm *gemm, const dpt_cl_gemm_args *args)
{
    const size_t n_bytes = partial_bytes(args);
    const size_t room = gemm->sum && n_bytes > 0 ? args->workspace_bytes / n_bytes : 0;
    if (room < d->n_splits) d->n_splits = room > 1 ? room : 1;
    d->split_terms = round_up(dpt_ceil_div(args->k, d->n_splits), LOCAL_ALIGNMENT);
    /* Because of the rounding, the last splits may have no terms. */
    if (args->k > 0) d->n_splits = dpt_ceil_div(args->k, d->split_terms);
}

dpt_status dpt_cl_gemm_divide(dpt_device *device, dpt_cl_gemm *gemm, const dpt_cl_gemm_args *shape,
                              size_t *n_bytes)
{
    *n_bytes = 0;
    if (is_empty(shape)) return DPT_OK;
    const division d = divide(device, gemm, shape);
    if (d.n_splits == 1) return DPT_OK;
    DPT_TRY(dpt_kernel_of(device, "gemm_sum.cl", "gemm_sum", &gemm->sum));
    *n_bytes = dpt_size_mul(partial_bytes(shape), d.n_splits);
    return DPT_OK;
}

/* ---- Running --------------------------------------------------------------------------------- */

/* Whether all rows of a stored matrix begin at multiples of 16 bytes. */
static bool is_aligned(dpt_location location, size_t ld, size_t stride)
{
    return location.offset_bytes % 16 == 0 && ld % 4 == 0 && stride % 4 == 0;
}

static gemm_params describe(const dpt_cl_gemm_args *args, const division *d)
{
    return (gemm_params){
        .a_stride = args->a_stride,
        .b_stride = args->b_stride,
        .c_stride = args->c_stride,
        .m = (u32)args->m,
        .n = (u32)args->n,
        .k = (u32)args->k,
        .lda = (u32)args->lda,
        .ldb = (u32)args->ldb,
        .ldc = (u32)args->ldc,
        .tile_rows = (u32)d->tile_rows,
        .tile_columns = (u32)d->tile_columns,
        .n_column_tiles = (u32)d->n_column_tiles,
        .n_splits = (u32)d->n_splits,
        .split_terms = (u32)d->split_terms,
        .accumulate = args->accumulate,
        .aligned = is_aligned(args->a, args->lda, args->a_stride) &&
                   is_aligned(args->b, args->ldb, args->b_stride),
        .has_bias = args->bias.buffer != NULL,
        .activation = (u32)args->activation,
        .mask_activation = args->mask.buffer ? (u32)args->mask_activation : DPT_ACT_NONE,
    };
}

/* A product that is put on a stream. */
typedef struct gemm_run {
    const dpt_cl_gemm *gemm;
    dpt_stream *stream;
    const dpt_cl_gemm_args *args;
    const division *d;
} gemm_run;

static dpt_status launch_tiles(const gemm_run *run, dpt_location c, const gemm_params *p)
{
    const dpt_cl_gemm *gemm = run->gemm;
    const dpt_cl_gemm_args *args = run->args;
    const division *d = run->d;
    const size_t n_groups[3] = {d->n_row_tiles * d->n_column_tiles, args->n_batches * d->n_splits,
                                1};
    const size_t group[3] = {gemm->tile->local ? local_items(gemm->tile) : 1, 1, 1};
    dpt_launch l = dpt_launch_begin(run->stream, gemm->kernel);
    dpt_launch_tensor(&l, c, DPT_F32);
    dpt_launch_tensor(&l, args->a, DPT_F32);
    dpt_launch_tensor(&l, args->b, DPT_F32);
    dpt_launch_tensor(&l, args->bias, DPT_F32);
    dpt_launch_tensor(&l, args->mask, DPT_F32);
    dpt_launch_value(&l, p, sizeof *p);
    return dpt_launch_groups(&l, n_groups, group);
}

static dpt_status launch_sum(const gemm_run *run, const gemm_params *p)
{
    const dpt_cl_gemm_args *args = run->args;
    const cl_ulong count = (cl_ulong)args->n_batches * args->m * args->n;
    dpt_launch l = dpt_launch_begin(run->stream, run->gemm->sum);
    dpt_launch_tensor(&l, args->c, DPT_F32);
    dpt_launch_tensor(&l, args->workspace, DPT_F32);
    dpt_launch_tensor(&l, args->bias, DPT_F32);
    dpt_launch_tensor(&l, args->mask, DPT_F32);
    dpt_launch_value(&l, p, sizeof *p);
    dpt_launch_value(&l, &count, sizeof count);
    return dpt_launch_items(&l, count);
}

/* Computes the partial products in the workspace, (n_batches, n_splits, m, n), and then their sum.
 */
static dpt_status run_split(const gemm_run *run, const gemm_params *p)
{
    const dpt_cl_gemm_args *args = run->args;
    gemm_params partial = *p;
    partial.ldc = p->n;
    partial.split_stride = (u64)args->m * args->n;
    partial.c_stride = run->d->n_splits * partial.split_stride;
    partial.accumulate = partial.has_bias = 0;
    partial.activation = partial.mask_activation = DPT_ACT_NONE;
    DPT_TRY(launch_tiles(run, args->workspace, &partial));
    return launch_sum(run, p);
}

dpt_status dpt_cl_gemm_run(const dpt_cl_gemm *gemm, dpt_stream *stream,
                           const dpt_cl_gemm_args *args)
{
    if (is_empty(args)) return DPT_OK;
    division d = divide(stream->device, gemm, args);
    split(&d, gemm, args);
    const gemm_params p = describe(args, &d);
    const gemm_run run = {.gemm = gemm, .stream = stream, .args = args, .d = &d};
    return d.n_splits > 1 ? run_split(&run, &p) : launch_tiles(&run, args->c, &p);
}
