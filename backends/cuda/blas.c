/* cuBLASLt: opening the library, plans, and calls.  The library's matrices are column-major.  A
   row-major product C = op(A) op(B) is therefore given to it as C^T = op(B)^T op(A)^T. */
#include "blas.h"
#include "library.h"

#include <cublasLt.h>
#include <pthread.h>
#include <stdlib.h>

#define STRING_(x)   #x
#define STRING(x)    STRING_(x)
#define LIBRARY_NAME "libcublasLt.so." STRING(CUBLAS_VER_MAJOR)

/* ---- The library ----------------------------------------------------------------------------- */

#define FUNCTIONS(X)                                                                               \
    X(cublasLtCreate)                                                                              \
    X(cublasLtDestroy)                                                                             \
    X(cublasLtGetStatusString)                                                                     \
    X(cublasLtGetVersion)                                                                          \
    X(cublasLtMatmul)                                                                              \
    X(cublasLtMatmulAlgoGetHeuristic)                                                              \
    X(cublasLtMatmulDescCreate)                                                                    \
    X(cublasLtMatmulDescDestroy)                                                                   \
    X(cublasLtMatmulDescSetAttribute)                                                              \
    X(cublasLtMatmulPreferenceCreate)                                                              \
    X(cublasLtMatmulPreferenceDestroy)                                                             \
    X(cublasLtMatmulPreferenceSetAttribute)                                                        \
    X(cublasLtMatrixLayoutCreate)                                                                  \
    X(cublasLtMatrixLayoutDestroy)

/* Constant after the first call of load(). */
static struct {
    bool tried;
    void *library;
    char without[96]; /* part of a device's detail if the library is missing */
#define MEMBER(name) __typeof__(&name) name;
    FUNCTIONS(MEMBER)
#undef MEMBER
} lt = {.without = "no cuBLASLt"};

static void load(void)
{
#define SYMBOL(name) {#name, &lt.name},
    static const dpt_cuda_symbol symbols[] = {FUNCTIONS(SYMBOL)};
#undef SYMBOL
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    char problem[128] = "";
    pthread_mutex_lock(&lock);
    if (!lt.tried)
        lt.library = dpt_cuda_library_open(
            LIBRARY_NAME, (dpt_cuda_symbols){symbols, sizeof symbols / sizeof *symbols}, problem,
            sizeof problem);
    if (!lt.tried && !lt.library)
        snprintf(lt.without, sizeof lt.without, "no cuBLASLt (%.80s)", problem);
    lt.tried = true;
    pthread_mutex_unlock(&lock);
}

static dpt_status status_of(cublasStatus_t code)
{
    switch (code) {
    case CUBLAS_STATUS_SUCCESS: return DPT_OK;
    case CUBLAS_STATUS_ALLOC_FAILED: return DPT_E_NO_MEMORY;
    case CUBLAS_STATUS_NOT_SUPPORTED:
    case CUBLAS_STATUS_INVALID_VALUE: /* an algorithm refuses the product that it was named for */
    case CUBLAS_STATUS_ARCH_MISMATCH: return DPT_E_UNSUPPORTED;
    default: return DPT_E_DEVICE;
    }
}

/* Records a failed call.  If earlier work has broken the context, that failure is recorded. */
static dpt_status fail(dpt_device *device, cublasStatus_t code, const char *what, int line)
{
    const cudaError_t behind = dpt_cuda_context_failure_of(device);
    if (behind != cudaSuccess) return dpt_cuda_fail(&device->error, behind, what, __FILE__, line);
    return dpt_error_set(&device->error, status_of(code), (long)code, __FILE__, line, "%s: %s (%d)",
                         what, lt.cublasLtGetStatusString(code), (int)code);
}

#define LT_TRY(device, name, ...)                                                                  \
    do {                                                                                           \
        const cublasStatus_t lt_code = lt.name(__VA_ARGS__);                                       \
        if (lt_code != CUBLAS_STATUS_SUCCESS) return fail((device), lt_code, #name, __LINE__);     \
    } while (0)

/* ---- Opening --------------------------------------------------------------------------------- */

struct dpt_cuda_blas {
    dpt_device *device;
    cublasLtHandle_t handle;
    cublasComputeType_t compute;
    char description[40];
};

dpt_status dpt_cuda_blas_open(dpt_device *device, dpt_cuda_blas **out)
{
    load();
    if (!lt.library) return DPT_OK;
    dpt_cuda_blas *blas = calloc(1, sizeof *blas);
    if (!blas) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory to open cuBLASLt");
    blas->device = device;
    blas->compute = dpt_cuda_device_of(device)->precision == DPT_PRECISION_FP32
                        ? CUBLAS_COMPUTE_32F
                        : CUBLAS_COMPUTE_32F_FAST_TF32;
    const size_t version = lt.cublasLtGetVersion();
    snprintf(blas->description, sizeof blas->description, "cuBLASLt %zu.%zu.%zu", version / 10000,
             version / 100 % 100, version % 100);
    const cublasStatus_t code = lt.cublasLtCreate(&blas->handle);
    if (code != CUBLAS_STATUS_SUCCESS) {
        free(blas);
        const dpt_status status = fail(device, code, "cublasLtCreate", __LINE__);
        /* The library does not support this card: our own kernels do its work. */
        return status == DPT_E_DEVICE_LOST || status == DPT_E_NO_MEMORY ? status : DPT_OK;
    }
    *out = blas;
    return DPT_OK;
}

void dpt_cuda_blas_close(dpt_cuda_blas *blas)
{
    if (!blas) return;
    (void)lt.cublasLtDestroy(blas->handle);
    free(blas);
}

const char *dpt_cuda_blas_description(const dpt_cuda_blas *blas)
{
    return blas ? blas->description : lt.without;
}

/* ---- Plans ----------------------------------------------------------------------------------- */

enum { N_KEPT = 8 };

typedef struct plan {
    size_t m, n, k; /* m 0: unused */
    unsigned long last_use;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, c; /* in cuBLASLt's order: its a is our B */
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace_bytes;
} plan;

struct dpt_cuda_products {
    dpt_device *device;
    unsigned long n_uses;
    plan plans[N_KEPT];
};

/* The default of cuBLAS. */
size_t dpt_cuda_products_workspace(const dpt_device *device)
{
    return dpt_cuda_device_of(device)->properties.major >= 9 ? (size_t)32 << 20 : (size_t)4 << 20;
}

dpt_status dpt_cuda_products_create(dpt_device *device, dpt_cuda_products **out)
{
    dpt_cuda_products *products = calloc(1, sizeof *products);
    if (!products) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for a product");
    products->device = device;
    *out = products;
    return DPT_OK;
}

static void forget(plan *p)
{
    if (p->a) (void)lt.cublasLtMatrixLayoutDestroy(p->a);
    if (p->b) (void)lt.cublasLtMatrixLayoutDestroy(p->b);
    if (p->c) (void)lt.cublasLtMatrixLayoutDestroy(p->c);
    if (p->product) (void)lt.cublasLtMatmulDescDestroy(p->product);
    *p = (plan){.m = 0};
}

void dpt_cuda_products_destroy(dpt_cuda_products *products)
{
    if (!products) return;
    for (size_t i = 0; i < N_KEPT; i++)
        forget(&products->plans[i]);
    free(products);
}

bool dpt_cuda_product_is_whole(const dpt_product *product)
{
    return product->mask_activation == DPT_ACT_NONE && product->activation == DPT_ACT_NONE;
}

/* Whether the library adds the bias.  If something else follows the product, the kernel that does
   it also adds the bias. */
static bool fuses_bias(const dpt_product *product)
{
    return product->has_bias && dpt_cuda_product_is_whole(product);
}

static cudaDataType_t type_of(dpt_dtype type)
{
    return type == DPT_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* The type of sums.  Products of bfloat16 are summed in float32 in every precision. */
static cublasComputeType_t compute_of(const dpt_device *device, const dpt_product *p)
{
    return p->a_type == DPT_BF16 ? CUBLAS_COMPUTE_32F : dpt_cuda_device_of(device)->blas->compute;
}

static dpt_status describe(dpt_device *device, const dpt_product *p, plan *out)
{
    const int32_t op_a = p->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int32_t op_b = p->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const uint32_t epilogue = fuses_bias(p) ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    /* Only the pointer's alignment matters.  If the bias is not known yet, any aligned address
       serves. */
    const void *const bias =
        p->bias.buffer ? dpt_cuda_pointer(p->bias) : (const void *)(uintptr_t)DPT_ALIGNMENT_BYTES;
    LT_TRY(device, cublasLtMatmulDescCreate, &out->product, compute_of(device, p), CUDA_R_32F);
    LT_TRY(device, cublasLtMatmulDescSetAttribute, out->product, CUBLASLT_MATMUL_DESC_TRANSA, &op_a,
           sizeof op_a);
    LT_TRY(device, cublasLtMatmulDescSetAttribute, out->product, CUBLASLT_MATMUL_DESC_TRANSB, &op_b,
           sizeof op_b);
    LT_TRY(device, cublasLtMatmulDescSetAttribute, out->product, CUBLASLT_MATMUL_DESC_EPILOGUE,
           &epilogue, sizeof epilogue);
    if (fuses_bias(p))
        LT_TRY(device, cublasLtMatmulDescSetAttribute, out->product,
               CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    LT_TRY(device, cublasLtMatrixLayoutCreate, &out->a, type_of(p->b_type),
           p->b_transposed ? p->k : p->n, p->b_transposed ? p->n : p->k, (int64_t)p->ldb);
    LT_TRY(device, cublasLtMatrixLayoutCreate, &out->b, type_of(p->a_type),
           p->a_transposed ? p->m : p->k, p->a_transposed ? p->k : p->m, (int64_t)p->lda);
    LT_TRY(device, cublasLtMatrixLayoutCreate, &out->c, type_of(p->c_type), p->n, p->m,
           (int64_t)p->ldc);
    return DPT_OK;
}

/* The alignment of a location in bytes, by its offset.  Core aligns the buffer itself. */
static uint32_t alignment_of(dpt_location location)
{
    uint32_t n_bytes = DPT_ALIGNMENT_BYTES;
    while (location.offset_bytes % n_bytes != 0)
        n_bytes /= 2;
    return n_bytes;
}

static dpt_status choose(dpt_device *device, cublasLtMatmulPreference_t preference,
                         const dpt_product *product, plan *out)
{
    const dpt_cuda_blas *blas = dpt_cuda_device_of(device)->blas;
    const uint64_t most = dpt_cuda_products_workspace(device);
    const uint32_t alignment = alignment_of(product->a); /* which is its b */
    /* Sums that are cut into pieces must not be put together in bfloat16. */
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    cublasLtMatmulHeuristicResult_t best;
    int n_found = 0;
    LT_TRY(device, cublasLtMatmulPreferenceSetAttribute, preference,
           CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
    LT_TRY(device, cublasLtMatmulPreferenceSetAttribute, preference,
           CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &alignment, sizeof alignment);
    if (product->c_type == DPT_BF16)
        LT_TRY(device, cublasLtMatmulPreferenceSetAttribute, preference,
               CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions);
    const cublasStatus_t code = lt.cublasLtMatmulAlgoGetHeuristic(
        blas->handle, out->product, out->a, out->b, out->c, out->c, preference, 1, &best, &n_found);
    /* Three codes mean that there is no algorithm: NOT_SUPPORTED; INVALID_VALUE, for a row length
       that the library refuses; and INTERNAL_ERROR, which newer versions return if they cannot find
       an algorithm while a stream is captured. */
    if (code != CUBLAS_STATUS_SUCCESS && code != CUBLAS_STATUS_NOT_SUPPORTED &&
        code != CUBLAS_STATUS_INVALID_VALUE && code != CUBLAS_STATUS_INTERNAL_ERROR)
        return fail(device, code, "cublasLtMatmulAlgoGetHeuristic", __LINE__);
    if (code != CUBLAS_STATUS_SUCCESS || n_found < 1 || best.state != CUBLAS_STATUS_SUCCESS)
        return DPT_FAIL_NATIVE(&device->error, DPT_E_UNSUPPORTED, (long)code,
                               "cuBLASLt has no algorithm for a product of %zux%zux%zu (%s)",
                               out->m, out->n, out->k, lt.cublasLtGetStatusString(code));
    out->algorithm = best.algo;
    out->workspace_bytes = best.workspaceSize;
    return DPT_OK;
}

static dpt_status make_plan(dpt_device *device, const dpt_product *product, plan *out)
{
    cublasLtMatmulPreference_t preference = NULL;
    *out = (plan){.m = product->m, .n = product->n, .k = product->k};
    dpt_status status = describe(device, product, out);
    if (status == DPT_OK) {
        const cublasStatus_t code = lt.cublasLtMatmulPreferenceCreate(&preference);
        if (code != CUBLAS_STATUS_SUCCESS)
            status = fail(device, code, "cublasLtMatmulPreferenceCreate", __LINE__);
    }
    if (status == DPT_OK) status = choose(device, preference, product, out);
    if (preference) (void)lt.cublasLtMatmulPreferenceDestroy(preference);
    if (status != DPT_OK) forget(out);
    return status;
}

static dpt_status find_plan(dpt_cuda_products *products, const dpt_product *product, plan **out)
{
    plan *oldest = &products->plans[0];
    products->n_uses++;
    for (plan *p = products->plans; p < products->plans + N_KEPT; p++) {
        if (p->m == product->m && p->n == product->n && p->k == product->k) {
            p->last_use = products->n_uses;
            *out = p;
            return DPT_OK;
        }
        if (p->last_use < oldest->last_use) oldest = p;
    }
    forget(oldest);
    DPT_TRY(make_plan(products->device, product, oldest));
    oldest->last_use = products->n_uses;
    *out = oldest;
    return DPT_OK;
}

dpt_status dpt_cuda_product_plan(dpt_cuda_products *products, const dpt_product *product)
{
    plan *p;
    return find_plan(products, product, &p);
}

/* ---- Running --------------------------------------------------------------------------------- */

dpt_status dpt_cuda_product_run(dpt_cuda_products *products, dpt_stream *stream,
                                const dpt_product *product, dpt_location workspace)
{
    dpt_device *device = products->device;
    const dpt_cuda_blas *blas = dpt_cuda_device_of(device)->blas;
    const float one = 1.0f, before = product->accumulate ? 1.0f : 0.0f;
    const void *const bias = dpt_cuda_pointer(product->bias);
    void *const c = dpt_cuda_pointer(product->c);
    plan *p;
    DPT_TRY(find_plan(products, product, &p));
    if (fuses_bias(product))
        LT_TRY(device, cublasLtMatmulDescSetAttribute, p->product,
               CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    LT_TRY(device, cublasLtMatmul, blas->handle, p->product, &one, dpt_cuda_pointer(product->b),
           p->a, dpt_cuda_pointer(product->a), p->b, &before, c, p->c, c, p->c, &p->algorithm,
           dpt_cuda_pointer(workspace), p->workspace_bytes, stream->queue);
    return DPT_OK;
}
