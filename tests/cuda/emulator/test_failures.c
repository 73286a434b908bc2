/* Tests CUDA failures at every call (train/failing.h): in a training on one emulated card, in one
   beside the CPU, and with the card lost for good. */
#include "cuda/emulator/control.h"

#include "train/failing.h"

#include <stdlib.h>

static const failing_code codes[] = {
    {"cudaMallocFromPoolAsync", 2, "(2)", .cold = false},
    {"cudaHostAlloc", 2, "pinned", .cold = false},
    {"cudaStreamBeginCapture", 900, "cudaErrorStreamCaptureUnsupported (900", .cold = false},
    {"cudaStreamEndCapture", 901, "cudaErrorStreamCaptureInvalidated (901", .cold = false},
    {"kernel", 700, "cudaErrorIllegalAddress (700", .sticky = true},
};

/* What is left, and what was used after it was freed. */
static size_t count_objects(void)
{
    const emulated_counts c = emulated_left();
    return c.streams + c.events + c.graphs + c.pools + c.buffers + c.pinned + c.late;
}

static void alone(test *t)
{
    failing_in_turn(t, "cuda:0", false);
}

/* Whose small fills graphs have kernels for: that may fail, and they are fills then. */
static void with_a_library(test *t)
{
    REQUIRE(setenv("CUDA_EMULATED_LIBRARIES", "cudnn", 1) == 0);
    failing_in_turn(t, "cuda:0:algorithm=cudnn-2", false);
    (void)unsetenv("CUDA_EMULATED_LIBRARIES");
}

static void beside_the_cpu(test *t)
{
    failing_in_turn(t, "cuda:0,cpu:threads=1", true);
}

static void two_cards(test *t)
{
    failing_in_turn(t, "cuda:0,cuda:1", true);
}

static const failing_code gone = {"cudaMemcpyAsync", 700, "cudaErrorIllegalAddress (700",
                                  .sticky = true};

static void gone_for_good(test *t)
{
    failing_for_good(t, "cuda:0", &gone, false);
    failing_for_good(t, "cuda:0,cpu:threads=1", &gone, false);
}

static void failed_over(test *t)
{
    static const failing_code in_a_kernel = {"kernel", 700, "cudaErrorIllegalAddress (700",
                                             .sticky = true};
    failing_for_good(t, "cuda:0,cpu:threads=1", &gone, true);
    failing_for_good(t, "cuda:0,cpu:threads=1", &in_a_kernel, true);
    failing_for_good(t, "cuda:0,cuda:1", &in_a_kernel, true);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"alone", alone},
        {"with a library", with_a_library},
        {"beside the CPU", beside_the_cpu},
        {"two cards", two_cards},
        {"gone for good", gone_for_good},
        {"survived", failed_over},
    };
    static const failing_face face = {
        .backend = "cuda",
        .codes = codes,
        .n_codes = sizeof codes / sizeof *codes,
        .otherwise = {NULL, 701, "cudaErrorLaunchOutOfResources (701", .cold = false},
        .plant = emulated_plant,
        .fired = emulated_fired,
        .objects = count_objects,
        .function = emulated_function,
    };
    return failing_main(argc, argv, &face, cases, sizeof cases / sizeof *cases);
}
