/* Sums over rows.  The rows are divided into pieces that fill the device.  One launch sums each
   piece, and a second one adds up the pieces.  A single piece needs no second launch. */
#include "column_sums.h"
#include "column_sums_params.h"

enum {
    LEAST_ROWS = 32,  /* the fewest rows of a work item */
    ROWS_AT_ONCE = 4, /* rows that an item reads at once */
    PIECES_PER_CORE = 4,
    FEWEST_PIECES = 3, /* on a GPU: two pieces take as long as one, and need another launch */
    MOST_PIECES = 256,
    MOST_WIDTH = 32, /* columns that a group reads together */
};

dpt_status dpt_column_sums_prepare(dpt_device *device, dpt_dtype type, dpt_column_sums *out)
{
    const dpt_traits *traits = dpt_traits_of(device);
    dpt_program_key key = {.file = "column_sums.cl"};
    const unsigned lanes = !traits->is_cpu              ? 1
                           : traits->vector_width >= 16 ? 16
                           : traits->vector_width >= 8  ? 8
                                                        : 4;
    snprintf(key.options, sizeof key.options, "-DLANES=%u", lanes);
    DPT_TRY(dpt_kernel_get(device, &key, "column_sums", &out->merge));
    dpt_program_key_store(&key, type);
    DPT_TRY(dpt_kernel_get(device, &key, "column_sums", &out->kernel));
    out->type = type;
    out->lanes = lanes;
    return DPT_OK;
}

/* How a group of a GPU is divided into items. */
typedef struct tile {
    u32 width, height, half_height;
} tile;

/* With few rows, the tile becomes wider, so that every item still has ROWS_AT_ONCE rows. */
static tile tile_of(const dpt_device *device, size_t rows, size_t columns)
{
    const u32 group = (u32)dpt_traits_of(device)->group_size;
    u32 most = group < MOST_WIDTH ? group : MOST_WIDTH;
    while (most < group && (size_t)(group / most) * ROWS_AT_ONCE > rows)
        most *= 2;
    tile t = {.width = columns < most ? (u32)columns : most};
    if (t.width == 0) t.width = 1;
    t.height = group / t.width;
    while (2 * t.half_height < t.height)
        t.half_height += t.half_height > 0 ? t.half_height : 1;
    return t;
}

static size_t count_pieces(const dpt_device *device, size_t rows, size_t columns)
{
    const dpt_traits *traits = dpt_traits_of(device);
    const size_t most = traits->is_cpu ? (size_t)PIECES_PER_CORE * traits->n_units : MOST_PIECES;
    const size_t side_by_side = traits->is_cpu ? 1 : tile_of(device, rows, columns).height;
    const size_t n = dpt_ceil_div(rows, LEAST_ROWS * side_by_side);
    if (!traits->is_cpu && n < FEWEST_PIECES) return 1;
    return n > most ? most : n > 0 ? n : 1;
}

size_t dpt_column_sums_workspace(const dpt_device *device, size_t rows, size_t columns)
{
    const size_t n_pieces = count_pieces(device, rows, columns);
    return n_pieces > 1 ? dpt_size_mul(dpt_size_mul(n_pieces, columns), sizeof(float)) : 0;
}

static dpt_status enqueue(dpt_launch *l, unsigned lanes, const column_sums_params *p)
{
    const size_t group = dpt_traits_of(dpt_stream_device(l->stream))->group_size;
    dpt_launch_value(l, p, sizeof *p);
    if (lanes > 1) return dpt_launch_items(l, dpt_ceil_div(p->columns, lanes) * p->n_pieces);
    return dpt_launch_groups(l,
                             (const size_t[3]){dpt_ceil_div(p->columns, p->width), p->n_pieces, 1},
                             (const size_t[3]){group, 1, 1});
}

/* x -> y */
typedef struct tensors {
    dpt_location x, y;
} tensors;

/* x -> y: the sums of each piece */
static dpt_status sum_rows(const dpt_column_sums *sums, dpt_stream *stream, tensors t,
                           const column_sums_params *p)
{
    dpt_launch l = dpt_launch_begin(stream, sums->kernel);
    dpt_launch_tensor(&l, t.y, DPT_F32);
    dpt_launch_tensor(&l, t.x, sums->type);
    return enqueue(&l, sums->lanes, p);
}

/* sums of pieces, as x -> y */
static dpt_status sum_pieces(const dpt_column_sums *sums, dpt_stream *stream, tensors t,
                             const column_sums_params *p)
{
    dpt_launch l = dpt_launch_begin(stream, sums->merge);
    dpt_launch_tensor(&l, t.y, DPT_F32);
    dpt_launch_tensor(&l, t.x, DPT_F32);
    return enqueue(&l, sums->lanes, p);
}

static column_sums_params params_of(const dpt_device *device, size_t rows, size_t columns)
{
    const tile t = tile_of(device, rows, columns);
    return (column_sums_params){.rows = rows,
                                .piece_rows = rows,
                                .n_pieces = 1,
                                .columns = (u32)columns,
                                .row = (u32)columns,
                                .width = t.width,
                                .height = t.height,
                                .half_height = t.half_height};
}

dpt_status dpt_column_sums_run(const dpt_column_sums *sums, dpt_stream *stream,
                               const dpt_column_sums_args *args)
{
    const dpt_device *device = dpt_stream_device(stream);
    const size_t most = count_pieces(device, args->rows, args->columns);
    const size_t piece_rows = dpt_ceil_div(args->rows, most);
    const size_t n_pieces = piece_rows > 0 ? dpt_ceil_div(args->rows, piece_rows) : 1;
    column_sums_params p = params_of(device, args->rows, args->columns);
    p.row = (u32)args->row;
    if (n_pieces == 1) {
        p.accumulate = args->accumulate;
        return sum_rows(sums, stream, (tensors){args->x, args->y}, &p);
    }
    p.piece_rows = piece_rows;
    p.n_pieces = (u32)n_pieces;
    DPT_TRY(sum_rows(sums, stream, (tensors){args->x, args->workspace}, &p));
    p = params_of(device, n_pieces, args->columns);
    p.accumulate = args->accumulate;
    return sum_pieces(sums, stream, (tensors){args->workspace, args->y}, &p);
}
