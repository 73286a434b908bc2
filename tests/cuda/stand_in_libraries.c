/* Implements what blas.h and dnn.h promise, by the reference: the requested types, sums that are
   rounded once, and workspaces with undefined content afterwards.  Work is enqueued on the
   emulated stream, and reads and writes memory when its turn comes (stand_in.h). */
#include "stand_in.h"

#include "blas.h"
#include "dnn.h"
#include "emulator/control.h"
#include "reference/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Numbers --------------------------------------------------------------------------------- */

static float widened(uint16_t half_word)
{
    const uint32_t bits = (uint32_t)half_word << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Nearest, ties to even. */
static uint16_t narrowed(double value)
{
    const float rounded = (float)value;
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    if (isnan(value)) return 0x7fc0;
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static float cut_off(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits &= ~0x1fffu;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double *read_tensor(const void *from, dpt_dtype type, size_t n, bool cut)
{
    double *out = malloc((n + 1) * sizeof *out);
    for (size_t i = 0; out && i < n; i++) {
        const float value =
            type == DPT_BF16 ? widened(((const uint16_t *)from)[i]) : ((const float *)from)[i];
        out[i] = (double)(cut ? cut_off(value) : value);
    }
    return out;
}

static void write_tensor(void *to, dpt_dtype type, const double *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (type == DPT_BF16)
            ((uint16_t *)to)[i] = narrowed(from[i]);
        else
            ((float *)to)[i] = (float)from[i];
    }
}

static void scribble(void *to, size_t n_bytes)
{
    if (n_bytes > 0) memset(to, 0xff, n_bytes); /* NaN in every type */
}

static dpt_status no_memory(dpt_device *device)
{
    return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for a stand-in's tensor");
}

/* ---- Which are there ------------------------------------------------------------------------- */

struct dpt_cuda_blas {
    dpt_device *device;
};

struct dpt_cuda_dnn {
    dpt_device *device;
};

static bool is_there(const char *library)
{
    const char *list = getenv("CUDA_EMULATED_LIBRARIES");
    return list && strstr(list, library);
}

dpt_status dpt_cuda_blas_open(dpt_device *device, dpt_cuda_blas **out)
{
    *out = NULL;
    if (!is_there("cublaslt")) return DPT_OK;
    *out = malloc(sizeof **out);
    return *out ? DPT_OK : no_memory(device);
}

void dpt_cuda_blas_close(dpt_cuda_blas *blas)
{
    free(blas);
}

const char *dpt_cuda_blas_description(const dpt_cuda_blas *blas)
{
    return blas ? "no true cuBLASLt" : "no cuBLASLt";
}

dpt_status dpt_cuda_dnn_open(dpt_device *device, dpt_cuda_dnn **out)
{
    *out = NULL;
    if (!is_there("cudnn")) return DPT_OK;
    *out = malloc(sizeof **out);
    return *out ? DPT_OK : no_memory(device);
}

void dpt_cuda_dnn_close(dpt_cuda_dnn *dnn)
{
    free(dnn);
}

const char *dpt_cuda_dnn_description(const dpt_cuda_dnn *dnn)
{
    return dnn ? "no true cuDNN" : "no cuDNN";
}

/* Whether products of float32 lose bits on this device. */
static bool cuts(const dpt_device *device)
{
    return dpt_cuda_device_of(device)->precision != DPT_PRECISION_FP32;
}

static dpt_status enqueue(dpt_stream *stream, void (*work)(void *), const void *argument,
                          size_t n_bytes)
{
    DPT_CUDA_TRY(stream->device, emulated_enqueue(stream->queue, work, argument, n_bytes));
    return DPT_OK;
}

/* Work has no way to say that there is no memory. */
static void need(bool memory)
{
    if (!memory) abort();
}

/* ---- Products -------------------------------------------------------------------------------- */

enum { PRODUCT_BYTES = 1000 };

struct dpt_cuda_products {
    dpt_device *device;
    dpt_product first; /* that was planned for; m 0: none */
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
    *products = (struct dpt_cuda_products){.device = device};
    *out = products;
    return DPT_OK;
}

void dpt_cuda_products_destroy(dpt_cuda_products *products)
{
    free(products);
}

bool dpt_cuda_product_is_whole(const dpt_product *product)
{
    return product->mask_activation == DPT_ACT_NONE && product->activation == DPT_ACT_NONE;
}

static size_t samples_of(const dpt_product *p)
{
    return p->a_transposed ? p->k : p->m;
}

/* Plans are found by their sizes. */
static bool is_of_form(const dpt_product *p, const dpt_product *form)
{
    return p->a_transposed == form->a_transposed && p->b_transposed == form->b_transposed &&
           p->a_type == form->a_type && p->b_type == form->b_type && p->c_type == form->c_type &&
           p->has_bias == form->has_bias;
}

/* What cuBLASLt's table of types has, with a bias behind it at most.  Three samples are refused,
   unless they are the first. */
dpt_status dpt_cuda_product_plan(dpt_cuda_products *products, const dpt_product *p)
{
    if (products->first.m == 0) products->first = *p;
    if (!is_of_form(p, &products->first))
        return DPT_FAIL(&products->device->error, DPT_E_INTERNAL, "products of another form");
    if (!dpt_cuda_product_is_whole(p))
        return DPT_FAIL(&products->device->error, DPT_E_INTERNAL, "a product with an activation");
    if (samples_of(p) == 3 && samples_of(&products->first) != 3)
        return DPT_FAIL(&products->device->error, DPT_E_UNSUPPORTED, "not three samples");
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
            if (bias) sum += bias[j];
            c[i * p->ldc + j] = sum;
        }
    }
}

/* Elements of a stored matrix of which a part may be multiplied. */
static size_t extent(size_t rows, size_t columns, size_t row)
{
    return rows > 0 ? (rows - 1) * row + columns : 0;
}

/* A product with its tensors as pointers, whose buffers may be gone when it is done. */
typedef struct product_work {
    dpt_product product;
    void *a, *b, *c, *bias, *workspace;
    bool cut;
} product_work;

static void do_product(void *argument)
{
    const product_work *w = argument;
    const dpt_product *p = &w->product;
    const size_t n_a = p->a_transposed ? extent(p->k, p->m, p->lda) : extent(p->m, p->k, p->lda);
    const size_t n_b = p->b_transposed ? extent(p->n, p->k, p->ldb) : extent(p->k, p->n, p->ldb);
    scribble(w->workspace, PRODUCT_BYTES);
    double *a = read_tensor(w->a, p->a_type, n_a, w->cut);
    double *b = read_tensor(w->b, p->b_type, n_b, w->cut);
    double *c = read_tensor(w->c, p->c_type, p->m * p->ldc, false);
    double *bias = w->bias ? read_tensor(w->bias, p->c_type, p->n, false) : NULL;
    need(a && b && c && (bias || !w->bias));
    multiply(p, a, b, bias, c);
    write_tensor(w->c, p->c_type, c, p->m * p->ldc);
    free(a);
    free(b);
    free(c);
    free(bias);
}

dpt_status dpt_cuda_product_run(dpt_cuda_products *products, dpt_stream *stream,
                                const dpt_product *p, dpt_location workspace)
{
    const product_work work = {
        .product = *p,
        .a = dpt_cuda_pointer(p->a),
        .b = dpt_cuda_pointer(p->b),
        .c = dpt_cuda_pointer(p->c),
        .bias = p->has_bias ? dpt_cuda_pointer(p->bias) : NULL,
        .workspace = dpt_cuda_pointer(workspace),
        .cut = cuts(stream->device),
    };
    DPT_TRY(dpt_cuda_product_plan(products, p));
    return enqueue(stream, do_product, &work, sizeof work);
}

/* ---- Convolutions ---------------------------------------------------------------------------- */

struct dpt_cuda_recipe {
    size_t rank;
    bool has_plan;
};

dpt_status dpt_cuda_recipe_create(dpt_device *device, const dpt_cuda_convolution *c,
                                  dpt_cuda_algorithm way, dpt_cuda_recipe **out)
{
    if (way.rank >= STAND_IN_WAYS)
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED, "there are %d ways", STAND_IN_WAYS);
    if (c->has_relu && !c->has_bias)
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED, "a ReLU without a bias");
    dpt_cuda_recipe *recipe = malloc(sizeof *recipe);
    if (!recipe) return no_memory(device);
    *recipe = (dpt_cuda_recipe){.rank = way.rank};
    *out = recipe;
    return DPT_OK;
}

void dpt_cuda_recipe_destroy(dpt_cuda_recipe *recipe)
{
    free(recipe);
}

bool dpt_cuda_recipe_is(const dpt_cuda_recipe *a, const dpt_cuda_recipe *b)
{
    return a->rank == b->rank;
}

enum { FIRST_BYTES = 3 }; /* of the first way's workspace: the others' is larger */

/* Two samples are refused by every way but the first, unless they are the most; and three when they
   run. */
dpt_status dpt_cuda_plan_create(dpt_device *device, const dpt_cuda_plan_request *request,
                                dpt_cuda_plan *out)
{
    const dpt_cuda_convolution *convolution = request->convolution;
    const dpt_cuda_recipe *recipe = request->recipe;
    const size_t n_samples = request->n_samples;
    if (n_samples == 2 && recipe->rank > 0 && recipe->has_plan)
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED, "not two samples");
    dpt_cuda_convolution *copy = malloc(sizeof *copy);
    if (!copy) return no_memory(device);
    *copy = *convolution;
    ((dpt_cuda_recipe *)recipe)->has_plan = true;
    *out = (dpt_cuda_plan){.n_samples = n_samples,
                           .descriptor = copy,
                           .workspace_bytes = 100 * n_samples * recipe->rank + FIRST_BYTES,
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

/* A pass with all that describes it, which may be gone when it is done.  Of a workspace that has
   room for it the first word is set to 0 in front of it, as the library does with such as its
   kernels count in. */
typedef struct plan_work {
    dpt_op_desc desc; /* of the convolution alone */
    dpt_dtype type;
    dpt_cuda_plan_tensors tensors;
    size_t n_samples, workspace_bytes;
    bool cut;
} plan_work;

static size_t result_of(dpt_op_kind kind)
{
    return kind == DPT_OP_CONV2D_FORWARD ? 2 : kind == DPT_OP_CONV2D_BACKWARD_DATA ? 0 : 1;
}

static bool has_word(const plan_work *w)
{
    return w->workspace_bytes >= sizeof(uint32_t);
}

static void do_plan(void *argument)
{
    const plan_work *w = argument;
    const bool is_set = !has_word(w) || *(const uint32_t *)w->tensors.workspace == 0;
    const dpt_conv2d_desc *d = &w->desc.u.conv2d;
    const size_t n = w->n_samples, result = result_of(w->desc.kind);
    const size_t sizes[] = {
        n * d->in_h * d->in_w * d->in_channels,
        d->kernel_h * d->kernel_w * (d->in_channels / d->groups) * d->out_channels,
        n * d->out_h * d->out_w * d->out_channels,
        d->has_bias ? d->out_channels : 0,
    };
    void *const places[] = {w->tensors.x, w->tensors.w, w->tensors.y, w->tensors.bias};
    double *values[4];
    scribble(w->tensors.workspace, w->workspace_bytes);
    for (size_t i = 0; i < 4; i++) {
        values[i] = read_tensor(places[i], w->type, sizes[i], i < 3 && w->cut);
        need(values[i]);
    }
    const reference_args args =
        result == 2 ? (reference_args){.in = {values[0], values[1], values[3]}, .out = {values[2]}}
        : result == 0 ? (reference_args){.in = {values[2], values[1]}, .out = {values[0]}}
                      : (reference_args){.in = {values[2], values[0]}, .out = {values[1]}};
    reference_run(&w->desc, n, &args);
    for (size_t i = 0; !is_set && i < sizes[result]; i++)
        values[result][i] = NAN;
    write_tensor(places[result], w->type, values[result], sizes[result]);
    for (size_t i = 0; i < 4; i++)
        free(values[i]);
}

dpt_status dpt_cuda_plan_run(const dpt_cuda_plan *plan, dpt_stream *stream,
                             const dpt_cuda_plan_tensors *tensors)
{
    const dpt_cuda_convolution *c = plan->descriptor;
    if (plan->n_samples == 3 && plan->workspace_bytes > FIRST_BYTES)
        return DPT_FAIL(&stream->device->error, DPT_E_UNSUPPORTED, "three samples after all");
    const plan_work work = {
        .desc = described(c),
        .type = c->type,
        .tensors = *tensors,
        .n_samples = plan->n_samples,
        .workspace_bytes = plan->workspace_bytes,
        .cut = cuts(stream->device),
    };
    if (has_word(&work))
        DPT_CUDA_TRY(stream->device,
                     cudaMemsetAsync(tensors->workspace, 0, sizeof(uint32_t), stream->queue));
    return enqueue(stream, do_plan, &work, sizeof work);
}
