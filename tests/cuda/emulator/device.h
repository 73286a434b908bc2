/* The CUDA dialect in which kernels are written (backends/kernels/dialect.h), for a C++ compiler
   of the host.  It is included before every .cu file.

   Kernels run one at a time, and their threads one after the other (blocks.c), so that shared
   memory is static.  The shared memory of a file's kernels is in a section of its own, which is
   filled with NaNs before each block. */
#ifndef DPT_TEST_EMULATOR_DEVICE_H
#define DPT_TEST_EMULATOR_DEVICE_H

#include "kernel.h"

#include <math.h>
#include <string.h>

#include <type_traits>
#include <utility>

#define EMULATED_JOIN_(a, b) a##b
#define EMULATED_JOIN(a, b)  EMULATED_JOIN_(a, b)
#define EMULATED_TEXT_(x)    #x
#define EMULATED_TEXT(x)     EMULATED_TEXT_(x)
#define EMULATED_SHARED      EMULATED_JOIN(EMULATED_FILE, _shared)

/* Where the linker puts the bounds of a section; none if the file shares nothing. */
#define EMULATED_BEGIN EMULATED_JOIN(__start_, EMULATED_SHARED)
#define EMULATED_END   EMULATED_JOIN(__stop_, EMULATED_SHARED)
extern "C" {
extern char EMULATED_BEGIN[] __attribute__((weak, visibility("hidden")));
extern char EMULATED_END[] __attribute__((weak, visibility("hidden")));
}

/* ---- A kernel's entry from its signature ----------------------------------------------------- */

template <auto function> struct emulated_entry;

template <typename... types, void (*function)(types...)> struct emulated_entry<function> {
    template <size_t... i> static void call_with(void *const *arguments, std::index_sequence<i...>)
    {
        function(*static_cast<std::remove_cv_t<types> *>(arguments[i])...);
    }
    static void call(void *const *arguments)
    {
        call_with(arguments, std::index_sequence_for<types...>());
    }
    static constexpr size_t bytes[] = {sizeof(types)...};
    static const emulated_kernel value;
};

template <typename... types, void (*function)(types...)>
const emulated_kernel emulated_entry<function>::value = {
    EMULATED_MAGIC, call, sizeof...(types), bytes, EMULATED_BEGIN, EMULATED_END};

#define KERNEL_FUNCTION(name) (&emulated_entry<name>::value)

/* ---- Words ----------------------------------------------------------------------------------- */

#define __CUDACC__ 1
#define __global__
#define __device__
#define __constant__         static
#define __forceinline__      inline __attribute__((always_inline))
#define __launch_bounds__(n) /* blocks.c sees to the card's bounds alone */
#define __shared__           static __attribute__((section(EMULATED_TEXT(EMULATED_SHARED))))
#define threadIdx            emulated_thread
#define blockIdx             emulated_block
#define blockDim             emulated_threads
#define gridDim              emulated_blocks
#define __syncthreads()      emulated_barrier()

struct alignas(16) float4 {
    float x, y, z, w;
};

struct alignas(8) uint2 {
    unsigned x, y;
};

static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}

template <typename type> static inline type min(type a, type b)
{
    return b < a ? b : a;
}

template <typename type> static inline type max(type a, type b)
{
    return a < b ? b : a;
}

static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((unsigned long long)a * b >> 32);
}

static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}

/* The threads of a block run one after the other. */
static inline unsigned atomicAdd(unsigned *at, unsigned value)
{
    const unsigned old = *at;
    *at += value;
    return old;
}

static inline float __uint_as_float(unsigned bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline unsigned __float_as_uint(float value)
{
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

#endif
