/* Finding, loading and describing OpenBLAS.

   Distributions ship OpenBLAS in three variants under one name.  The serial variant is refused.  It
   is built without locks, so two threads that call it at once can get the same scratch memory and
   wrong products (seen with Debian's 0.3.21).  The pthread and OpenMP variants are safe and are
   told to use one thread. */
#include "blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#ifndef DPT_CPU_LIBRARY_FOLDER
#define DPT_CPU_LIBRARY_FOLDER "/usr/lib"
#endif

static const char *const candidates[] = {
    DPT_CPU_LIBRARY_FOLDER "/openblas-pthread/libopenblas.so.0",
    DPT_CPU_LIBRARY_FOLDER "/openblas-openmp/libopenblas.so.0",
    "libopenblas.so.0",
    "libopenblas.so",
    NULL,
};

/* Variables that are changed while the library loads.  A core type may name a much older processor,
   whose kernels run at half the speed.  A number of threads would add OpenBLAS's threads to ours.
 */
static const char *const variables[] = {
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
    "OPENBLAS_NUM_THREADS",
    "GOTO_NUM_THREADS",
    "OPENBLAS_DEFAULT_NUM_THREADS",
};
enum { N_VARIABLES = sizeof variables / sizeof variables[0] };

typedef struct saved_environment {
    char *values[N_VARIABLES];
} saved_environment;

/* The core type by the instruction sets of this processor; NULL leaves the choice to the library.
   OpenBLAS chooses by the processor's model number.  For a processor that is newer than its release
   it takes the kernels of a Prescott of 2004 (seen with 0.3.21 on an Emerald Rapids). */
static const char *core_type(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
        return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
    return NULL;
}

static void prepare_environment(saved_environment *saved)
{
    const bool keep_core = getenv("DPTRAIN_KEEP_OPENBLAS_CORETYPE") != NULL;
    for (size_t i = 0; i < N_VARIABLES; i++) {
        const char *value = getenv(variables[i]);
        saved->values[i] = value ? strdup(value) : NULL;
        if (i < 2 && keep_core) continue;
        unsetenv(variables[i]);
    }
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    if (!keep_core && core_type()) setenv("OPENBLAS_CORETYPE", core_type(), 1);
}

static void restore_environment(saved_environment *saved)
{
    unsetenv("OPENBLAS_NUM_THREADS");
    unsetenv("OPENBLAS_CORETYPE");
    for (size_t i = 0; i < N_VARIABLES; i++) {
        if (saved->values[i]) setenv(variables[i], saved->values[i], 1);
        free(saved->values[i]);
    }
}

/* ISO C has no conversion from dlsym's object pointer to a function pointer; POSIX promises that
   their representations agree. */
static void symbol(void *library, const char *name, void *function_pointer)
{
    void *address = dlsym(library, name);
    memcpy(function_pointer, &address, sizeof address);
}

/* "OpenBLAS 0.3.21 pthread, Cooperlake kernels" */
static void describe(dpt_cpu_blas *blas, const char *config)
{
    char *(*get_core)(void) = NULL;
    int (*get_parallel)(void) = NULL;
    symbol(blas->library, "openblas_get_corename", &get_core);
    symbol(blas->library, "openblas_get_parallel", &get_parallel);
    static const char *const variant[] = {" serial", " pthread", " openmp"};
    const int parallel = get_parallel ? get_parallel() : -1;
    char version[24] = "";
    if (config) {
        /* "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..." */
        const char *number = strchr(config, ' ');
        if (number)
            snprintf(version, sizeof version, " %.*s", (int)strcspn(number + 1, " "), number + 1);
    }
    snprintf(blas->description, sizeof blas->description, "%s%s%s, %.24s kernels",
             config ? "OpenBLAS" : "BLAS", version,
             parallel >= 0 && parallel <= 2 ? variant[parallel] : "",
             get_core ? get_core() : "unknown");
}

/* Loads a library into *blas.  Returns NULL, or the reason why the library is refused. */
static const char *load(const char *path, dpt_cpu_blas *blas)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return dlerror();
    char *(*get_config)(void) = NULL;
    symbol(library, "openblas_get_config", &get_config);
    const char *config = get_config ? get_config() : NULL;
    const char *refusal = NULL;
    dpt_cpu_sgemm *sgemm = NULL;
    int (*get_parallel)(void) = NULL;
    symbol(library, "cblas_sgemm", &sgemm);
    symbol(library, "openblas_get_parallel", &get_parallel);
    if (!sgemm)
        refusal = "it has no cblas_sgemm";
    else if (get_parallel && get_parallel() == 0)
        refusal = "it is the serial variant, which is not safe to call from several threads";
    else if (config && strstr(config, "USE64BITINT"))
        refusal = "its integers have 64 bits, which this program does not use";
    if (refusal) {
        dlclose(library);
        return refusal;
    }
    blas->library = library;
    blas->sgemm = sgemm;
    symbol(library, "openblas_set_num_threads", &blas->set_n_threads);
    describe(blas, config);
    return NULL;
}

/* Whether there is enough address space.  If OpenBLAS cannot allocate a buffer, it tries again for
   ever.  Its buffers have up to 128 MiB, one for each thread that multiplies. */
static bool has_room(void)
{
    static const size_t room = (size_t)512 << 20;
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return true;
    void *place = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) return false;
    (void)munmap(place, room);
    return true;
}

void dpt_cpu_blas_open(dpt_cpu_blas *blas, dpt_error *problem)
{
    *blas = (dpt_cpu_blas){.description = "own matrix product"};
    const char *asked = secure_getenv("DPTRAIN_BLAS");
    if (asked && !*asked) asked = NULL;
    if (asked && strcmp(asked, "none") == 0) return;
    if (!has_room()) {
        snprintf(blas->description, sizeof blas->description,
                 "own matrix product (ulimit -v leaves OpenBLAS no room)");
        if (asked)
            DPT_FAIL(problem, DPT_E_INVALID,
                     "DPTRAIN_BLAS=%s cannot be used: the limit on address space (ulimit -v) "
                     "leaves less than 512 MiB; raise it, or set it to none to do without",
                     asked);
        return;
    }

    saved_environment saved;
    prepare_environment(&saved);
    if (asked) {
        const char *refusal = load(asked, blas);
        if (refusal)
            DPT_FAIL(problem, DPT_E_INVALID,
                     "DPTRAIN_BLAS=%s cannot be used: %s; unset it to search for OpenBLAS, or set "
                     "it to none to do without",
                     asked, refusal);
    } else {
        for (const char *const *path = candidates; *path && !blas->sgemm; path++) {
            if (load(*path, blas) != NULL) continue; /* not installed, or refused: try the next */
        }
    }
    restore_environment(&saved);
    if (blas->sgemm) dpt_cpu_blas_enter(blas);
}

void dpt_cpu_blas_enter(const dpt_cpu_blas *blas)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    if (!blas->set_n_threads) return;
    pthread_mutex_lock(&mutex); /* the library's setter is not thread-safe */
    blas->set_n_threads(1);
    pthread_mutex_unlock(&mutex);
}
