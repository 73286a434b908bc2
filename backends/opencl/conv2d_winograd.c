/* The products of Winograd convolutions: in registers on CPUs, by gemm.h on GPUs, or together with
   the transforms in one kernel. */
#include "conv2d_winograd.h"
#include "families.h"
#include "gemm.h"

#include <string.h>

/* Transformed tiles of a block: on a CPU part of a third-level cache, on a GPU enough work. */
static const size_t block_bytes_cpu = (size_t)12 << 20, block_bytes_gpu = (size_t)256 << 20;
/* The data of a work item of the products, which stay in a second-level cache. */
static const size_t item_bytes = (size_t)256 << 10;
/* Transformed tiles of a fused work item, in a second-level cache beside filters. */
static const size_t fused_bytes = (size_t)384 << 10;
/* A larger scratch of fused work items is refused. */
static const size_t most_bytes = (size_t)512 << 20;
/* With fewer channels, vectors are partly empty and transforms cost more than products. */
static const size_t least_channels = 16;

/* The parameters of an alternative. */
typedef struct method {
    size_t tile;         /* a tile has tile x tile results */
    const char *product; /* the name of a tile of gemm.h; NULL: the product in registers */
    bool fused;          /* transforms and product are one kernel */
} method;

typedef struct state {
    dpt_winograd w;       /* comes first */
    dpt_kernel *multiply; /* the product in registers, or everything if fused */
    dpt_cl_gemm gemm;
    size_t scratch_bytes;
    winograd_fusion fusion; /* if fused: complete except for what depends on the samples */
    size_t most_groups;
    dpt_kernel *sum_grains; /* of deterministic backward-weights in registers */
    winograd_weights_fusion
        of_grains; /* the same: complete except for what depends on the grains */
} state;

/* ---- In registers ---------------------------------------------------------------------------- */

static dpt_status multiply_rows(const dpt_winograd_block *b)
{
    const state *s = b->call->op->plan.state;
    const dpt_winograd_form *f = &s->w.form;
    const size_t block_bytes = f->rows * s->w.source_c * sizeof(float);
    const size_t n_blocks = b->source.n_rows / f->rows;
    const size_t item_blocks = item_bytes / block_bytes > 0 ? item_bytes / block_bytes : 1;
    const winograd_product p = {
        .a_stride = b->source.layout.point_stride,
        .b_stride = s->w.matrix_stride,
        .c_stride = b->results.layout.point_stride,
        .blocks = (u32)n_blocks,
        .item_blocks = (u32)item_blocks,
        .depth_chunks = b->source.layout.chunks,
        .panels = (u32)(b->results.layout.chunks / f->panel),
    };
    dpt_launch l = dpt_launch_begin(b->call->stream, s->multiply);
    dpt_launch_tensor(&l, dpt_winograd_results(b->call), DPT_F32);
    dpt_launch_tensor(&l, dpt_winograd_source(b->call), DPT_F32);
    dpt_launch_tensor(&l, dpt_winograd_matrices(b->call), DPT_F32);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_groups(&l,
                             (const size_t[3]){dpt_ceil_div(n_blocks, item_blocks), s->w.points, 1},
                             (const size_t[3]){1, 1, 1});
}

static winograd_sum sum_of(const dpt_winograd_block *b, bool accumulate)
{
    const state *s = b->call->op->plan.state;
    return (winograd_sum){
        .a_stride = b->results.layout.point_stride,
        .b_stride = b->source.layout.point_stride,
        .c_stride = s->w.matrix_stride,
        .n_rows = b->source.n_rows,
        .a_chunks = b->results.layout.chunks,
        .b_chunks = b->source.layout.chunks,
        .accumulate = accumulate,
    };
}

/* The sums of backward-weights, of a whole block. */
static dpt_status launch_sum(const dpt_winograd_block *b, bool accumulate)
{
    const state *s = b->call->op->plan.state;
    const winograd_sum p = sum_of(b, accumulate);
    dpt_launch l = dpt_launch_begin(b->call->stream, s->multiply);
    dpt_launch_tensor(&l, dpt_winograd_matrices(b->call), DPT_F32);
    dpt_launch_tensor(&l, dpt_winograd_results(b->call), DPT_F32);
    dpt_launch_tensor(&l, dpt_winograd_source(b->call), DPT_F32);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_groups(&l, (const size_t[3]){p.a_chunks, s->w.points, 1},
                             (const size_t[3]){1, 1, 1});
}

static dpt_status add_rows(const dpt_winograd_block *b)
{
    return launch_sum(b, b->first > 0);
}

/* A part of a grain, which is a whole block. */
static dpt_status add_grain_rows(const dpt_winograd_block *b, const dpt_winograd_grains *grains)
{
    return launch_sum(b, grains->resumes);
}

static dpt_status get_product(const dpt_op *op, state *s)
{
    const dpt_winograd_form *f = &s->w.form;
    const bool weights = op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    dpt_program_key key = {.file = "winograd_product.cl"};
    snprintf(key.options, sizeof key.options, "-DWIDTH=%zu -DROWS=%zu -DPANEL=%zu", f->width,
             f->rows, f->panel);
    if (op->deterministic) dpt_program_key_deterministic(&key);
    return dpt_kernel_get(op->device, &key, weights ? "winograd_add" : "winograd_multiply",
                          &s->multiply);
}

/* ---- Grains in registers --------------------------------------------------------------------- */

/* Plans the scratch of the work items, and divides filters and channels among them. */
static void set_grains(const dpt_op *op, state *s)
{
    dpt_winograd *w = &s->w;
    winograd_weights_fusion *p = &s->of_grains;
    const size_t width = w->form.width, panel = w->form.panel,
                 n_units = dpt_traits_of(op->device)->n_units;
    const size_t a_chunks = w->result_c / width, b_chunks = w->source_c / width;
    const size_t most = fused_bytes / (w->points * width * width * sizeof(float));
    const size_t n_spans = dpt_ceil_div(b_chunks, most > panel ? most : panel);
    const size_t span = dpt_ceil_div(dpt_ceil_div(b_chunks, n_spans), panel) * panel;
    s->most_groups = 4 * n_units;
    const size_t strip = a_chunks * n_spans / s->most_groups;
    p->span = (u32)span;
    p->strip = strip < 1 ? 1 : strip > 4 ? 4 : (u32)strip;
    p->weights.point_stride = dpt_winograd_stride(width * width * span);
    p->group_stride = w->points * p->weights.point_stride;
    s->scratch_bytes = s->most_groups * (size_t)p->group_stride * sizeof(float);
}

static dpt_status sum_grains(const dpt_winograd_block *b, const dpt_winograd_grains *grains,
                             const winograd_weights *weights)
{
    const dpt_call *call = b->call;
    const state *s = call->op->plan.state;
    const dpt_location none = {NULL, 0};
    winograd_weights_fusion p = s->of_grains;
    const u64 point_stride = p.weights.point_stride;
    p.sum = sum_of(b, false);
    p.weights = *weights;
    p.weights.point_stride = point_stride;
    p.first_row = (u32)grains->first;
    p.grain_rows = (u32)grains->each;
    const size_t n_items =
        dpt_ceil_div(p.sum.a_chunks, p.strip) * dpt_ceil_div(p.sum.b_chunks, p.span);
    const size_t n_groups = n_items < s->most_groups ? n_items : s->most_groups;
    dpt_launch l = dpt_launch_begin(call->stream, s->sum_grains);
    dpt_launch_tensor(&l, call->args->out[0], DPT_F32);
    dpt_launch_tensor(&l, weights->is_tree ? dpt_winograd_gradients(call) : none, DPT_F32);
    dpt_launch_tensor(&l, dpt_at(call->args->workspace, s->w.scratch_at), DPT_F32);
    dpt_launch_tensor(&l, dpt_winograd_results(call), DPT_F32);
    dpt_launch_tensor(&l, dpt_winograd_source(call), DPT_F32);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_groups(&l, (const size_t[3]){n_groups, 1, 1}, (const size_t[3]){1, 1, 1});
}

static dpt_status get_grains(const dpt_op *op, state *s)
{
    const dpt_winograd_form *f = &s->w.form;
    dpt_program_key key = {.file = "winograd_fused_weights.cl"};
    snprintf(key.options, sizeof key.options, "-DTILE=%zu -DTAPS=%zu -DWIDTH=%zu -DPANEL=%zu",
             f->tile, s->w.taps, f->width, f->panel);
    dpt_program_key_deterministic(&key);
    return dpt_kernel_get(op->device, &key, "winograd_fused_weights", &s->sum_grains);
}

/* ---- By gemm.h ------------------------------------------------------------------------------- */

/* The products of n_samples, without the locations of the matrices. */
static dpt_cl_gemm_args shape_of(const dpt_op *op, size_t n_samples)
{
    const dpt_winograd *w = op->plan.state;
    const bool weights = op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    const size_t n_tiles = w->tiles_h * w->tiles_w * n_samples;
    const size_t source_stride = dpt_winograd_stride(n_tiles * w->source_c);
    const size_t result_stride = dpt_winograd_stride(n_tiles * w->result_c);
    return (dpt_cl_gemm_args){
        .m = weights ? w->result_c : n_tiles,
        .n = weights ? w->source_c : w->result_c,
        .k = weights ? n_tiles : w->source_c,
        .n_batches = w->points,
        .lda = weights ? w->result_c : w->source_c,
        .ldb = weights ? w->source_c : w->result_c,
        .ldc = weights ? w->source_c : w->result_c,
        .a_stride = weights ? result_stride : source_stride,
        .b_stride = weights ? source_stride : w->matrix_stride,
        .c_stride = weights ? w->matrix_stride : result_stride,
    };
}

static dpt_status multiply_gemm(const dpt_winograd_block *b)
{
    const dpt_call *call = b->call;
    const state *s = call->op->plan.state;
    const bool weights = call->op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    dpt_cl_gemm_args args = shape_of(call->op, b->n_samples);
    args.a = weights ? dpt_winograd_results(call) : dpt_winograd_source(call);
    args.b = weights ? dpt_winograd_source(call) : dpt_winograd_matrices(call);
    args.c = weights ? dpt_winograd_matrices(call) : dpt_winograd_results(call);
    args.accumulate = weights && b->first > 0;
    args.workspace = dpt_at(call->args->workspace, s->w.scratch_at);
    args.workspace_bytes = s->scratch_bytes;
    return dpt_cl_gemm_run(&s->gemm, call->stream, &args);
}

static dpt_status get_gemm(const dpt_op *op, state *s, const char *name)
{
    const dpt_cl_gemm_tile *const *item = dpt_cl_gemm_tiles;
    while (*item && strcmp(dpt_cl_gemm_tile_name(*item), name) != 0)
        item++;
    if (!*item) return DPT_FAIL(&op->device->error, DPT_E_INTERNAL, "no product %s", name);
    const dpt_cl_gemm_form form = {.a_transposed = op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS};
    DPT_TRY(dpt_cl_gemm_prepare(op->device, form, *item, &s->gemm));
    const dpt_cl_gemm_args shape = shape_of(op, s->w.block_samples);
    return dpt_cl_gemm_divide(op->device, &s->gemm, &shape, &s->scratch_bytes);
}

/* ---- Fused ----------------------------------------------------------------------------------- */

/* Plans the scratch of fused work items.  An item computes everything for several blocks of rows at
   once: at least two, because each time it reads the filters again. */
static dpt_status set_fusion(const dpt_op *op, state *s)
{
    dpt_winograd *w = &s->w;
    winograd_fusion *f = &s->fusion;
    const size_t panel_c = w->form.panel * w->form.width;
    const size_t block_bytes = w->form.rows * w->points * (w->source_c + panel_c) * sizeof(float);
    const size_t blocks = fused_bytes / block_bytes > 2 ? fused_bytes / block_bytes : 2;
    const size_t n_rows = blocks * w->form.rows;
    f->product = (winograd_product){
        .a_stride = dpt_winograd_stride(n_rows * w->source_c),
        .b_stride = w->matrix_stride,
        .c_stride = dpt_winograd_stride(n_rows * panel_c),
        .blocks = (u32)blocks,
        .depth_chunks = (u32)(w->source_c / w->form.width),
        .panels = (u32)(w->result_c / panel_c),
    };
    f->source = w->source;
    f->source.layout.block_rows = (u32)w->form.rows;
    f->source.layout.point_stride = f->product.a_stride;
    f->results = w->results;
    f->results.layout = (winograd_layout){.point_stride = f->product.c_stride,
                                          .block_rows = (u32)w->form.rows,
                                          .chunks = (u32)w->form.panel};
    f->group_stride = w->points * (f->product.a_stride + f->product.c_stride);
    /* More groups than cores, because cores are not equally fast. */
    s->most_groups = 4 * (size_t)dpt_traits_of(op->device)->n_units;
    s->scratch_bytes = s->most_groups * (size_t)f->group_stride * sizeof(float);
    const size_t most_tiles = (size_t)1 << 30;
    w->block_samples = most_tiles / (w->tiles_h * w->tiles_w);
    if (w->block_samples > 0 && s->scratch_bytes <= most_bytes) return DPT_OK;
    return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                    "Winograd's tiles would take more than %zu MiB", most_bytes >> 20);
}

static dpt_status get_fused(const dpt_op *op, state *s)
{
    const dpt_winograd_form *f = &s->w.form;
    dpt_program_key key = {.file = "winograd_fused.cl"};
    snprintf(key.options, sizeof key.options,
             "-DTILE=%zu -DTAPS=%zu -DWIDTH=%zu -DROWS=%zu -DPANEL=%zu", f->tile, s->w.taps,
             f->width, f->rows, f->panel);
    if (op->deterministic) dpt_program_key_deterministic(&key);
    return dpt_kernel_get(op->device, &key, "winograd_fused", &s->multiply);
}

/* Some samples as one kernel, whose transformed tensors exist in the scratch of its groups only. */
static dpt_status run_samples(const dpt_call *call, size_t first, size_t n_samples)
{
    const state *s = call->op->plan.state;
    const dpt_winograd *w = &s->w;
    const dpt_location none = {NULL, 0}, third = call->args->in[2];
    winograd_fusion p = s->fusion;
    p.source.n_tiles = p.results.n_tiles = (u32)(w->tiles_h * w->tiles_w * n_samples);
    p.results.accumulate = call->accumulate;
    const size_t n_turns = dpt_ceil_div(p.source.n_tiles, p.product.blocks * w->form.rows);
    const size_t n_groups = n_turns < s->most_groups ? n_turns : s->most_groups;
    dpt_launch l = dpt_launch_begin(call->stream, s->multiply);
    dpt_launch_tensor(&l, dpt_winograd_images_at(call->args->out[0], &p.results, first), DPT_F32);
    dpt_launch_tensor(&l, dpt_at(call->args->workspace, w->scratch_at), DPT_F32);
    dpt_launch_tensor(&l, dpt_winograd_images_at(call->args->in[0], &p.source, first), DPT_F32);
    dpt_launch_tensor(&l, dpt_winograd_matrices(call), DPT_F32);
    dpt_launch_tensor(&l, p.results.has_bias ? third : none, DPT_F32);
    dpt_launch_tensor(&l, p.results.mask ? dpt_winograd_images_at(third, &p.results, first) : none,
                      DPT_F32);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_groups(&l, (const size_t[3]){n_groups, 1, 1}, (const size_t[3]){1, 1, 1});
}

static dpt_status run_fused(const dpt_call *call)
{
    const dpt_winograd *w = call->op->plan.state;
    if (call->n_samples == 0) return DPT_OK;
    DPT_TRY(dpt_winograd_transform_filters(call));
    for (size_t first = 0; first < call->n_samples; first += w->block_samples) {
        const size_t left = call->n_samples - first;
        DPT_TRY(run_samples(call, first, left < w->block_samples ? left : w->block_samples));
    }
    return DPT_OK;
}

/* ---- Preparing ------------------------------------------------------------------------------- */

static dpt_winograd_form form_of(const dpt_op *op, const method *m)
{
    const bool weights = op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    const unsigned width = dpt_traits_of(op->device)->vector_width;
    dpt_winograd_form f = {.tile = m->tile,
                           .width = 1,
                           .rows = 1,
                           .panel = 1,
                           .block_bytes = block_bytes_gpu,
                           .adjoint = op->deterministic,
                           .multiply = multiply_gemm};
    if (m->product) return f;
    f.width = width >= 16 ? 16 : width >= 8 ? 8 : 4;
    /* As many rows as the registers hold beside a row of the panel: 32 registers with AVX-512, else
       16. */
    f.rows = f.width == 16 ? 12 : 6;
    f.panel = 2;
    f.block_bytes = block_bytes_cpu;
    f.multiply = weights ? add_rows : multiply_rows;
    if (!weights || !op->deterministic) return f;
    f.multiply_grains = add_grain_rows;
    f.sum_grains = sum_grains;
    return f;
}

static dpt_status prepare_method(dpt_op *op, const method *m)
{
    const bool weights = op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    const dpt_winograd_form form = form_of(op, m);
    if (m->fused && weights)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "backward-weights is not fused: its sums do not fit a core's cache");
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    DPT_TRY(dpt_winograd_prepare(op, &form, &s->w));
    if (m->product) {
        DPT_TRY(get_gemm(op, s, m->product));
    } else if (m->fused) {
        DPT_TRY(set_fusion(op, s));
        DPT_TRY(get_fused(op, s));
        op->plan.run = run_fused;
    } else {
        DPT_TRY(get_product(op, s));
    }
    if (form.sum_grains) {
        set_grains(op, s);
        DPT_TRY(get_grains(op, s));
    }
    return dpt_winograd_complete(op, &s->w, s->scratch_bytes, m->fused);
}

/* Whether algorithm= of the device names Winograd.  Tests do so, with any shape. */
static bool is_asked_for(const dpt_op *op)
{
    const char *name = dpt_cl_device_of(op->device)->params.algorithm;
    return name && strncmp(name, "winograd", 8) == 0;
}

static dpt_status prepare(dpt_op *op, const void *parameters)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    if ((d->in_channels < least_channels || d->out_channels < least_channels) && !is_asked_for(op))
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "too few channels for a Winograd convolution");
    return prepare_method(op, parameters);
}

#define FUSED(TILE)                                                                                \
    &(const method)                                                                                \
    {                                                                                              \
        .tile = (TILE), .fused = true                                                              \
    }
#define METHOD(TILE, PRODUCT)                                                                      \
    &(const method)                                                                                \
    {                                                                                              \
        .tile = (TILE), .product = (PRODUCT)                                                       \
    }
const dpt_alternative dpt_cl_conv2d_winograd[] = {
    {.name = "winograd4-fused-registers", .parameters = FUSED(4), .prepare = prepare},
    {.name = "winograd4-registers", .parameters = METHOD(4, NULL), .prepare = prepare},
    {.name = "winograd2-fused-registers", .parameters = FUSED(2), .prepare = prepare},
    {.name = "winograd2-registers", .parameters = METHOD(2, NULL), .prepare = prepare},
    {.name = "winograd4-local-64x64", .parameters = METHOD(4, "local-64x64"), .prepare = prepare},
    {.name = "winograd4-local-128x128",
     .parameters = METHOD(4, "local-128x128"),
     .prepare = prepare},
    {.name = "winograd2-local-64x64", .parameters = METHOD(2, "local-64x64"), .prepare = prepare},
    {.name = NULL},
};

/* ---- Deterministic operators ----------------------------------------------------------------- */

dpt_status dpt_winograd_chains(dpt_op *op, size_t tile)
{
    const dpt_cl_device *cl = dpt_cl_device_of(op->device);
    if (!cl->found->is_cpu || cl->params.path == DPT_CL_PATH_LOCAL)
        return dpt_winograd_local_chains(op, tile);
    op->plan.algorithm = "register winograd chains";
    return prepare_method(
        op, &(const method){.tile = tile, .fused = op->desc.kind == DPT_OP_CONV2D_FORWARD});
}
