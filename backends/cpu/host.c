/* Examining the host, once in a process. */
#include "host.h"
#include "algorithm.h"
#include "operators.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void find_cores(dpt_cpu_host *host)
{
    /* The set is larger than the C library's default, for machines with more cores than it holds.
     */
    cpu_set_t *set = CPU_ALLOC(DPT_CPU_MAX_CORES);
    const size_t n_bytes = CPU_ALLOC_SIZE(DPT_CPU_MAX_CORES);
    if (set && sched_getaffinity(0, n_bytes, set) == 0) {
        for (unsigned core = 0; core < DPT_CPU_MAX_CORES; core++)
            if (CPU_ISSET_S(core, n_bytes, set)) host->cores[host->n_cores++] = core;
    }
    if (set) CPU_FREE(set);
    if (host->n_cores == 0) host->n_cores = 1; /* cores[0] is 0 */
}

static void find_name(dpt_cpu_host *host)
{
    snprintf(host->name, sizeof host->name, "CPU");
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file) return;
    char line[512];
    while (fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        char *text = colon + 1 + strspn(colon + 1, " \t");
        text[strcspn(text, "\n")] = '\0';
        if (*text) snprintf(host->name, sizeof host->name, "%.*s", DPT_NAME_BYTES - 1, text);
        break;
    }
    fclose(file);
}

static void find_memory(dpt_cpu_host *host)
{
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page_bytes = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page_bytes > 0) host->memory_bytes = (size_t)pages * (size_t)page_bytes;
}

static void find_kernels(dpt_cpu_host *host)
{
    const char *forced = secure_getenv("DPTRAIN_CPU_ISA");
    if (forced && !*forced) forced = NULL;
    for (const dpt_cpu_kernel_set *const *set = dpt_cpu_kernel_sets; *set; set++) {
        if (forced && strcmp(forced, (*set)->name) != 0) continue;
        if ((*set)->usable()) {
            host->kernels = *set;
            return;
        }
        if (forced) break;
    }
    DPT_FAIL(&host->problem, DPT_E_INVALID,
             "DPTRAIN_CPU_ISA=%s: this processor or build cannot run it; unset it, or set it to "
             "portable, avx2, avx512 or neon",
             forced ? forced : "");
}

static void find_algorithm(dpt_cpu_host *host)
{
    const char *asked = secure_getenv("DPTRAIN_CPU_ALGORITHM");
    if (!asked || !*asked) return;
    if (dpt_cpu_check_algorithm("DPTRAIN_CPU_ALGORITHM=", asked, &host->problem) == DPT_OK)
        snprintf(host->algorithm, sizeof host->algorithm, "%s", asked);
}

/* The second-level cache of a core, plus the core's part of the third-level cache.  Some virtual
   machines report more than they have, so the value is limited to what processors have for a core.
   Some systems report nothing. */
static void find_caches(dpt_cpu_host *host)
{
    enum { MOST = 4 << 20, UNTOLD = 2 << 20 };
#if defined _SC_LEVEL2_CACHE_SIZE && defined _SC_LEVEL3_CACHE_SIZE
    const long own = sysconf(_SC_LEVEL2_CACHE_SIZE), shared = sysconf(_SC_LEVEL3_CACHE_SIZE);
#else
    const long own = 0, shared = 0;
#endif
    const long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    const long n_bytes = (own > 0 ? own : 0) + (shared > 0 && n_cores > 0 ? shared / n_cores : 0);
    host->cache_bytes = n_bytes <= 0 ? UNTOLD : n_bytes < MOST ? (size_t)n_bytes : MOST;
}

static dpt_cpu_host the_host;

static void find_host(void)
{
    find_cores(&the_host);
    find_name(&the_host);
    find_memory(&the_host);
    find_caches(&the_host);
    find_kernels(&the_host);
    if (the_host.problem.status == DPT_OK) find_algorithm(&the_host);
    dpt_cpu_blas_open(&the_host.blas, the_host.problem.status == DPT_OK ? &the_host.problem : NULL);
}

const dpt_cpu_host *dpt_cpu_host_get(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_host);
    return &the_host;
}
