/* Measured peaks.  Only this file is compiled for the machine that it runs on (-march=native). */
#include "peak.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif

typedef float vector __attribute__((vector_size(LANES * sizeof(float))));

/* Enough independent chains to hide the latency of a multiply-add on two units. */
enum { CHAINS = 12, ROUNDS = 20000000, REPEATS = 5, MAX_THREADS = 1024 };
enum { TRIAD_BYTES = 256 << 20 };

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

typedef struct worker {
    pthread_t thread;
    pthread_barrier_t *start;
    float *x, *y;
    size_t n;
    float sink;
} worker;

static void *multiply_add(void *argument)
{
    worker *w = argument;
    vector a[CHAINS];
    const vector b = (vector){0} + 0.9999f, c = (vector){0} + 1e-4f;
    for (int i = 0; i < CHAINS; i++)
        a[i] = (vector){0} + (float)i;
    pthread_barrier_wait(w->start);
    for (int r = 0; r < ROUNDS; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            a[i] = a[i] * b + c;
    }
    pthread_barrier_wait(w->start);
    for (int i = 0; i < CHAINS; i++)
        w->sink += a[i][0];
    return NULL;
}

static void *stream(void *argument)
{
    worker *w = argument;
    for (size_t i = 0; i < w->n; i++)
        w->x[i] = w->y[i] = (float)i; /* touch the pages */
    pthread_barrier_wait(w->start);
    for (size_t i = 0; i < w->n; i++)
        w->y[i] = 0.5f * w->x[i];
    pthread_barrier_wait(w->start);
    w->sink = w->y[w->n / 2];
    return NULL;
}

static double time_threads(void *(*work)(void *), unsigned n_threads, worker *workers)
{
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, n_threads + 1);
    for (unsigned i = 0; i < n_threads; i++) {
        workers[i].start = &start;
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) abort();
    }
    pthread_barrier_wait(&start);
    const double began = seconds();
    pthread_barrier_wait(&start);
    const double took = seconds() - began;
    for (unsigned i = 0; i < n_threads; i++)
        pthread_join(workers[i].thread, NULL);
    pthread_barrier_destroy(&start);
    return took;
}

static double best(void *(*work)(void *), unsigned n_threads, worker *workers)
{
    double least = 1e30;
    for (int i = 0; i < REPEATS; i++) {
        const double took = time_threads(work, n_threads, workers);
        if (took < least) least = took;
    }
    return least;
}

double peak_flops(unsigned n_threads)
{
    static worker workers[MAX_THREADS];
    if (n_threads < 1 || n_threads > MAX_THREADS) return 0;
    const double work = 2.0 * LANES * CHAINS * ROUNDS * n_threads;
    return work / best(multiply_add, n_threads, workers);
}

double peak_bandwidth(unsigned n_threads)
{
    static worker workers[MAX_THREADS];
    if (n_threads < 1 || n_threads > MAX_THREADS) return 0;
    const size_t n = TRIAD_BYTES / sizeof(float) / n_threads;
    for (unsigned i = 0; i < n_threads; i++) {
        workers[i].n = n;
        workers[i].x = malloc(n * sizeof(float));
        workers[i].y = malloc(n * sizeof(float));
        if (!workers[i].x || !workers[i].y) abort();
    }
    const double took = best(stream, n_threads, workers);
    for (unsigned i = 0; i < n_threads; i++) {
        free(workers[i].x);
        free(workers[i].y);
    }
    return 2.0 * (double)(n * sizeof(float) * n_threads) / took;
}
