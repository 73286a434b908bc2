/* What blas.h, dnn.h and nested.h promise, by the reference: types as they were asked for, sums
   that are rounded once, and workspaces that hold nothing afterwards. */
#include "stand_in.h"

#include "blas.h"
#include "dnn.h"
#include "nested.h"
#include "reference/reference.h"

#include <stdlib.h>
#include <string.h>

static dpt_status no_memory(dpt_device *device)
{
    return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for a stand-in's tensor");
}

/* ---- Products -------------------------------------------------------------------------------- */

enum { PRODUCT_BYTES = 1000 };

struct dpt_cuda_products {
    dpt_device *device;
};

size_t dpt_cuda_products_workspace(const dpt_device *device)
{
    (void)device;
    return PRODUCT_BYTES;
}

dpt_status dpt_cuda_products_create(dpt_device *device, dpt_cuda_products **out)
{
    dpt_cuda_products *products = malloc(sizeof *products);
    if (!products) return no_memory(device);
    products->device = device;
    *out = products;
    return DPT_OK;
}

void dpt_cuda_products_destroy(dpt_cuda_products *products)
{
    free(products);
}

bool dpt_cuda_product_is_whole(const dpt_product *product)
{
    return product->mask_activation == DPT_ACT_NONE &&
           (product->activation == DPT_ACT_NONE || product->activation == DPT_ACT_RELU);
}

/* What cuBLASLt's table of types has. */
dpt_status dpt_cuda_product_plan(dpt_cuda_products *products, const dpt_product *p)
{
    if (p->a_type == p->b_type && (p->c_type == p->a_type || p->c_type == DPT_F32)) return DPT_OK;
    return DPT_FAIL(&products->device->error, DPT_E_INTERNAL, "a product of mixed types");
}

static double term(const dpt_product *p, const double *a, const double *b, size_t i, size_t j,
                   size_t k)
{
    return (p->a_transposed ? a[k * p->lda + i] : a[i * p->lda + k]) *
           (p->b_transposed ? b[j * p->ldb + k] : b[k * p->ldb + j]);
}

static void multiply(const dpt_product *p, const double *a, const double *b, const double *bias,
                     double *c)
{
    for (size_t i = 0; i < p->m; i++) {
        for (size_t j = 0; j < p->n; j++) {
            double sum = p->accumulate ? c[i * p->ldc + j] : 0.0;
            for (size_t k = 0; k < p->k; k++)
                sum += term(p, a, b, i, j, k);
            if (bias) sum = reference_activate(p->activation, sum + bias[j]);
            if (!bias && dpt_cuda_product_is_whole(p)) sum = reference_activate(p->activation, sum);
            c[i * p->ldc + j] = sum;
        }
    }
}

/* Elements of a stored matrix of which a part may be multiplied. */
static size_t extent(size_t rows, size_t columns, size_t row)
{
    return rows > 0 ? (rows - 1) * row + columns : 0;
}

dpt_status dpt_cuda_product_run(dpt_cuda_products *products, dpt_stream *stream,
                                const dpt_product *p, dpt_location workspace)
{
    const bool cut = stand_in_cuts(stream->device), fuses = dpt_cuda_product_is_whole(p);
    const size_t n_a = p->a_transposed ? extent(p->k, p->m, p->lda) : extent(p->m, p->k, p->lda);
    const size_t n_b = p->b_transposed ? extent(p->n, p->k, p->ldb) : extent(p->k, p->n, p->ldb);
    DPT_TRY(dpt_cuda_product_plan(products, p));
    stand_in_scribble(dpt_cuda_pointer(workspace), PRODUCT_BYTES);
    double *a = stand_in_read(dpt_cuda_pointer(p->a), p->a_type, n_a, cut);
    double *b = stand_in_read(dpt_cuda_pointer(p->b), p->b_type, n_b, cut);
    double *c = stand_in_read(dpt_cuda_pointer(p->c), p->c_type, p->m * p->ldc, false);
    double *bias = fuses && p->has_bias
                       ? stand_in_read(dpt_cuda_pointer(p->bias), p->c_type, p->n, false)
                       : NULL;
    if (a && b && c) {
        multiply(p, a, b, bias, c);
        stand_in_write(dpt_cuda_pointer(p->c), p->c_type, c, p->m * p->ldc);
    }
    const bool done = a && b && c;
    free(a);
    free(b);
    free(c);
    free(bias);
    return done ? DPT_OK : no_memory(stream->device);
}

/* ---- Convolutions ---------------------------------------------------------------------------- */

struct dpt_cuda_recipe {
    size_t rank;
    bool has_plan;
};

dpt_status dpt_cuda_recipe_create(dpt_device *device, const dpt_cuda_convolution *c, size_t rank,
                                  dpt_cuda_recipe **out)
{
    if (rank >= STAND_IN_WAYS)
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED, "there are %d ways", STAND_IN_WAYS);
    if (c->has_relu && !c->has_bias)
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED, "a ReLU without a bias");
    dpt_cuda_recipe *recipe = malloc(sizeof *recipe);
    if (!recipe) return no_memory(device);
    *recipe = (dpt_cuda_recipe){.rank = rank};
    *out = recipe;
    return DPT_OK;
}

void dpt_cuda_recipe_destroy(dpt_cuda_recipe *recipe)
{
    free(recipe);
}

/* Two samples are refused by every way but the first, unless they are the most. */
dpt_status dpt_cuda_plan_create(dpt_device *device, const dpt_cuda_convolution *convolution,
                                const dpt_cuda_recipe *recipe, size_t n_samples, dpt_cuda_plan *out)
{
    if (n_samples == 2 && recipe->rank > 0 && recipe->has_plan)
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED, "not two samples");
    dpt_cuda_convolution *copy = malloc(sizeof *copy);
    if (!copy) return no_memory(device);
    *copy = *convolution;
    ((dpt_cuda_recipe *)recipe)->has_plan = true;
    *out = (dpt_cuda_plan){.n_samples = n_samples,
                           .descriptor = copy,
                           .workspace_bytes = 100 * n_samples * recipe->rank + 3,
                           .has_bias = convolution->has_bias};
    return DPT_OK;
}

void dpt_cuda_plan_destroy(dpt_cuda_plan *plan)
{
    free(plan->descriptor);
    *plan = (dpt_cuda_plan){.n_samples = 0};
}

/* The convolution alone, with what the graph has behind it. */
static dpt_op_desc described(const dpt_cuda_convolution *c)
{
    dpt_op_desc desc = *c->desc;
    desc.u.conv2d.has_bias = c->has_bias;
    desc.u.conv2d.activation = c->has_relu ? DPT_ACT_RELU : DPT_ACT_NONE;
    desc.u.conv2d.input_activation = DPT_ACT_NONE;
    return desc;
}

dpt_status dpt_cuda_plan_run(const dpt_cuda_plan *plan, dpt_stream *stream,
                             const dpt_cuda_plan_tensors *tensors)
{
    const dpt_cuda_convolution *c = plan->descriptor;
    const dpt_op_desc desc = described(c);
    const dpt_conv2d_desc *d = &desc.u.conv2d;
    const size_t n = plan->n_samples;
    const size_t sizes[] = {
        n * d->in_h * d->in_w * d->in_channels,
        d->kernel_h * d->kernel_w * (d->in_channels / d->groups) * d->out_channels,
        n * d->out_h * d->out_w * d->out_channels,
        c->has_bias ? d->out_channels : 0,
    };
    void *const places[] = {tensors->x, tensors->w, tensors->y, tensors->bias};
    double *values[4];
    bool done = true;
    stand_in_scribble(tensors->workspace, plan->workspace_bytes);
    for (size_t i = 0; i < 4; i++) {
        values[i] =
            stand_in_read(places[i], c->type, sizes[i], i < 3 && stand_in_cuts(stream->device));
        done = done && values[i];
    }
    const size_t result = desc.kind == DPT_OP_CONV2D_FORWARD         ? 2
                          : desc.kind == DPT_OP_CONV2D_BACKWARD_DATA ? 0
                                                                     : 1;
    const reference_args args =
        result == 2 ? (reference_args){.in = {values[0], values[1], values[3]}, .out = {values[2]}}
        : result == 0 ? (reference_args){.in = {values[2], values[1]}, .out = {values[0]}}
                      : (reference_args){.in = {values[2], values[0]}, .out = {values[1]}};
    if (done) {
        reference_run(&desc, n, &args);
        stand_in_write(places[result], c->type, values[result], sizes[result]);
    }
    for (size_t i = 0; i < 4; i++)
        free(values[i]);
    return done ? DPT_OK : no_memory(stream->device);
}

/* ---- Our own convolutions -------------------------------------------------------------------- */

enum { OWN_BYTES = 700 };

/* A tensor of the operator table in backend.h. */
typedef struct slot {
    dpt_location place;
    dpt_dtype type;
    size_t n;
} slot;

static void slots_of(const dpt_call *call, slot in[3], slot out[2])
{
    const dpt_conv2d_desc *d = &call->op->desc.u.conv2d;
    const dpt_dtype type = call->op->desc.type;
    const dpt_op_args *args = call->args;
    const size_t n = call->n_samples, x = n * d->in_h * d->in_w * d->in_channels;
    const size_t y = n * d->out_h * d->out_w * d->out_channels;
    const size_t w = d->kernel_h * d->kernel_w * (d->in_channels / d->groups) * d->out_channels;
    const size_t bias = d->has_bias ? d->out_channels : 0;
    const bool forward = call->op->desc.kind == DPT_OP_CONV2D_FORWARD;
    const bool masks = d->input_activation != DPT_ACT_NONE;
    out[1] = (slot){.type = DPT_F32};
    in[2] = (slot){.type = DPT_F32};
    if (call->op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS) {
        in[0] = (slot){args->in[0], type, y};
        in[1] = (slot){args->in[1], type, x};
        out[0] = (slot){args->out[0], DPT_F32, w};
        out[1] = (slot){args->out[1], DPT_F32, bias};
        return;
    }
    in[0] = (slot){args->in[0], type, forward ? x : y};
    in[1] = (slot){args->in[1], DPT_F32, w};
    in[2] = forward ? (slot){args->in[2], DPT_F32, bias} : (slot){args->in[2], type, masks ? x : 0};
    out[0] = (slot){args->out[0], type, forward ? y : x};
}

static double *read_slot(const slot *s)
{
    return stand_in_read(dpt_cuda_pointer(s->place), s->type, s->n, false);
}

static dpt_status run_own(const dpt_call *call)
{
    slot in[3], out[2];
    reference_args args = {.accumulate = call->accumulate};
    double *values[5];
    bool done = true;
    slots_of(call, in, out);
    stand_in_scribble(dpt_cuda_pointer(call->args->workspace), OWN_BYTES);
    for (size_t i = 0; i < 5; i++) {
        values[i] = read_slot(i < 3 ? &in[i] : &out[i - 3]);
        done = done && values[i];
    }
    for (size_t i = 0; i < 3; i++)
        args.in[i] = values[i];
    for (size_t i = 0; i < 2; i++)
        args.out[i] = values[3 + i];
    if (done) {
        reference_run(&call->op->desc, call->n_samples, &args);
        for (size_t i = 0; i < 2; i++)
            stand_in_write(dpt_cuda_pointer(out[i].place), out[i].type, values[3 + i], out[i].n);
    }
    for (size_t i = 0; i < 5; i++)
        free(values[i]);
    return done ? DPT_OK : no_memory(call->stream->device);
}

dpt_status dpt_cuda_nested_prepare(const dpt_op *outer, const dpt_op_desc *conv2d, dpt_op *out)
{
    *out = (dpt_op){.device = outer->device, .desc = *conv2d, .max_samples = outer->max_samples};
    out->plan = (dpt_op_plan){
        .run = run_own, .workspace_bytes = OWN_BYTES, .exact = true, .algorithm = "stand-in"};
    return DPT_OK;
}

dpt_status dpt_cuda_nested_run(const dpt_op *nested, const dpt_call *outer)
{
    dpt_call call = *outer;
    call.op = nested;
    return nested->plan.run(&call);
}
