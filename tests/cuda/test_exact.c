/* Tests that the functions of backends/kernels/exact.h have the bits of the CPU on a card.  The
   program is linked twice: with the kernel of nvcc and CUDA's runtime, and with the kernel of the
   host's compiler and the runtime of emulated cards. */
#include "exact/compare.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>

const void *exact_kernel(void); /* exact/evaluate.cu */

enum { GROUP_SIZE = 64 };

static cudaError_t launch(const exact_call *call, uint32_t *const memory[3], cudaStream_t stream)
{
    unsigned long long place = 0;
    uint32_t function = (uint32_t)call->function, n = call->n;
    uint32_t *y = memory[0], *a = memory[1], *b = memory[2];
    void *arguments[] = {&y, &place, &a, &place, &b, &place, &function, &n};
    const dim3 groups = {(n + GROUP_SIZE - 1) / GROUP_SIZE, 1, 1}, items = {GROUP_SIZE, 1, 1};
    return cudaLaunchKernel(exact_kernel(), groups, items, arguments, 0, stream);
}

/* y, a and b -> y */
static cudaError_t call_on(const exact_call *call, uint32_t *const memory[3], cudaStream_t stream)
{
    const size_t n_bytes = call->n * sizeof *call->y;
    const void *const host[3] = {call->y, call->a, call->b};
    cudaError_t code = cudaSuccess;
    for (int i = 0; i < 3 && code == cudaSuccess; i++)
        code = cudaMemcpyAsync(memory[i], host[i], n_bytes, cudaMemcpyHostToDevice, stream);
    if (code == cudaSuccess) code = launch(call, memory, stream);
    if (code == cudaSuccess)
        code = cudaMemcpyAsync(call->y, memory[0], n_bytes, cudaMemcpyDeviceToHost, stream);
    return code == cudaSuccess ? cudaStreamSynchronize(stream) : code;
}

static bool evaluate(test *t, void *device, const exact_call *call)
{
    uint32_t *memory[3] = {NULL};
    cudaStream_t *stream = device;
    cudaError_t code = cudaSuccess;
    for (int i = 0; i < 3 && code == cudaSuccess; i++)
        code = cudaMalloc((void **)&memory[i], call->n * sizeof *call->y);
    if (code == cudaSuccess) code = call_on(call, memory, *stream);
    for (int i = 0; i < 3; i++)
        (void)cudaFree(memory[i]);
    if (code != cudaSuccess) FAIL("CUDA: %d", (int)code);
    return code == cudaSuccess;
}

static void cards_are_equal(test *t)
{
    int n_cards = 0;
    cudaStream_t stream;
    const char *required = getenv("DPTRAIN_TEST_REQUIRE");
    if (cudaGetDeviceCount(&n_cards) != cudaSuccess) n_cards = 0;
    if (n_cards == 0 && !test_list_has(required ? required : "", "cuda")) SKIP("no card");
    REQUIRE(n_cards > 0);
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    exact_compare(t, evaluate, &stream);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {{"cards are equal", cards_are_equal}};
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
