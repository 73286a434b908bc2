/* dptrain bench allreduce: measures how long an all-reduce, or another collective, takes over the
   devices, with mpirun over those of all processes.  It also measures the memory bandwidth of the
   machine, which limits the collective. */
#include "bench.h"
#include "new_file.h"

#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_REPETITIONS = 400,
    LEAST_REPETITIONS = 9,
    FEWEST_REPETITIONS = 3, /* if LEAST_REPETITIONS would take too long */
    WARM_REPETITIONS = 2,
    MOST_THREADS = 256,
    PASSES = 9, /* over memory; the median counts */
};

/* Bytes of the array.  The gradients of ResNet-18 have 45 MB. */
static const size_t sizes[] = {4096,    16384,    65536,    262144,  1048576,
                               4194304, 16777216, 45000000, 67108864};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

/* The bytes that all repetitions of a size sum together, and the bytes of each thread when memory
   is measured: far more than caches hold. */
static const size_t worked_bytes = (size_t)1 << 28, thread_bytes = (size_t)1 << 27;
static const double worked_seconds = 2; /* the limit of a size, for slow links */

/* The arrays on the devices of this process. */
typedef struct operands {
    size_t n;
    dpt_array **arrays, **parts;
} operands;

/* A collective, and the least that it reads and writes: a_device arrays for each device, and
   `besides` more.  (All parts together are one array.) */
typedef struct collective {
    const char *name, *benchmark;
    dpt_status (*call)(const operands *what);
    size_t a_device, besides;
    bool has_parts;
} collective;

typedef struct allreduce_bench {
    const cli_options *options;
    const collective *collective;
    cli_session session;
    size_t n_devices; /* of all processes */
    size_t n_threads; /* with which memory was measured */
    dpt_link link;    /* between processes */
    double memory;    /* bytes a second; bytes read and bytes written both count */
    double seconds[N_SIZES];
} allreduce_bench;

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, compare);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

typedef struct walker {
    pthread_t thread;
    pthread_barrier_t *barrier;
    float *data;
    double began[PASSES], ended[PASSES];
} walker;

/* The least that an all-reduce does to memory: it reads every element and writes it back. */
static void *walk(void *argument)
{
    walker *w = argument;
    const size_t n = thread_bytes / sizeof(float);
    for (size_t p = 0; p < PASSES; p++) {
        pthread_barrier_wait(w->barrier);
        w->began[p] = bench_clock();
        for (size_t i = 0; i < n; i++)
            w->data[i] += 1.0f;
        w->ended[p] = bench_clock();
    }
    return NULL;
}

static size_t count_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    const int n = CPU_COUNT(&set);
    return n < MOST_THREADS ? (size_t)n : MOST_THREADS;
}

static double rate_of(const walker *walkers, size_t n)
{
    double seconds[PASSES];
    for (size_t p = 0; p < PASSES; p++) {
        double began = walkers[0].began[p], ended = walkers[0].ended[p];
        for (size_t i = 1; i < n; i++) {
            began = fmin(began, walkers[i].began[p]);
            ended = fmax(ended, walkers[i].ended[p]);
        }
        seconds[p] = ended - began;
    }
    return 2 * (double)thread_bytes * (double)n / median(seconds, PASSES);
}

/* Measures the bytes a second of all cores that this process may use; 0 without memory. */
static double measure_memory(size_t n_threads)
{
    walker *walkers = calloc(n_threads, sizeof *walkers);
    pthread_barrier_t barrier;
    double rate = 0;
    size_t n = 0;
    if (!walkers || pthread_barrier_init(&barrier, NULL, (unsigned)n_threads) != 0) {
        free(walkers);
        return 0;
    }
    bool complete = true;
    for (size_t i = 0; i < n_threads; i++) {
        walkers[i].barrier = &barrier;
        walkers[i].data = malloc(thread_bytes);
        if (walkers[i].data) memset(walkers[i].data, 0, thread_bytes);
        complete = complete && walkers[i].data;
    }
    while (complete && n < n_threads &&
           pthread_create(&walkers[n].thread, NULL, walk, &walkers[n]) == 0)
        n++;
    /* Fewer threads than the barrier expects would wait for ever. */
    if (complete && n < n_threads)
        exit(cli_error(CLI_FAILURE, "cannot start a thread for each core"));
    for (size_t i = 0; i < n; i++)
        pthread_join(walkers[i].thread, NULL);
    if (n == n_threads) rate = rate_of(walkers, n);
    for (size_t i = 0; i < n_threads; i++)
        free(walkers[i].data);
    pthread_barrier_destroy(&barrier);
    free(walkers);
    return rate;
}

/* ---- Collectives ----------------------------------------------------------------------------- */

static dpt_status all_reduce(const operands *what)
{
    return dpt_all_reduce(what->arrays, what->n);
}

static dpt_status reduce_scatter(const operands *what)
{
    return dpt_reduce_scatter(what->arrays, what->parts, what->n);
}

static dpt_status all_gather(const operands *what)
{
    return dpt_all_gather(what->parts, what->arrays, what->n);
}

static dpt_status broadcast(const operands *what)
{
    return dpt_broadcast(what->arrays, what->n, 0);
}

/* The collectives, with the names of the options table.  The first is the default. */
static const collective collectives[] = {
    {.name = "all-reduce", .benchmark = "allreduce", .call = all_reduce, .a_device = 2},
    {.name = "reduce-scatter",
     .benchmark = "reduce-scatter",
     .call = reduce_scatter,
     .a_device = 1, /* read; the parts are written */
     .besides = 1,
     .has_parts = true},
    {.name = "all-gather",
     .benchmark = "all-gather",
     .call = all_gather,
     .a_device = 1, /* written; the parts are read */
     .besides = 1,
     .has_parts = true},
    /* The root's array is read, the others are written. */
    {.name = "broadcast", .benchmark = "broadcast", .call = broadcast, .a_device = 1},
};

static const collective *find_collective(const char *name)
{
    const collective *c = collectives;
    while (name && strcmp(c->name, name) != 0)
        c++;
    return c;
}

/* Sums a number over processes.  *sum has the same bits in all. */
static dpt_status sum_over_processes(const allreduce_bench *b, float own, float *sum)
{
    const size_t shape[] = {1};
    dpt_array *array;
    *sum = own;
    if (dpt_process_count(b->session.context) == 1) return DPT_OK;
    DPT_TRY(dpt_array_create(dpt_device_set_get(b->session.devices, 0), shape, 1, &array));
    dpt_status status = dpt_array_set(array, &own);
    if (status == DPT_OK) status = dpt_all_reduce(&array, 1);
    if (status == DPT_OK) status = dpt_array_get(array, sum);
    dpt_array_destroy(array);
    return status;
}

/* Sets *out to the number of repetitions: worked_bytes over n_bytes, within LEAST_REPETITIONS and
   MOST_REPETITIONS; fewer if they would exceed worked_seconds, one having taken `seconds`.  All
   processes get the same number. */
static dpt_status repetitions_of(const allreduce_bench *b, size_t n_bytes, double seconds,
                                 size_t *out)
{
    float sum;
    DPT_TRY(sum_over_processes(b, (float)seconds, &sum));
    const double mean = (double)sum / (double)dpt_process_count(b->session.context);
    size_t n = worked_bytes / n_bytes;
    if (n < LEAST_REPETITIONS) n = LEAST_REPETITIONS;
    if (n > MOST_REPETITIONS) n = MOST_REPETITIONS;
    if ((double)n * mean > worked_seconds) n = (size_t)(worked_seconds / mean);
    *out = n < FEWEST_REPETITIONS ? FEWEST_REPETITIONS : n;
    return DPT_OK;
}

static dpt_status time_operands(const allreduce_bench *b, const operands *what, size_t n_bytes,
                                double *out)
{
    double seconds[MOST_REPETITIONS], began = 0;
    size_t n_repetitions;
    for (size_t i = 0; i < WARM_REPETITIONS; i++) {
        began = bench_clock();
        DPT_TRY(b->collective->call(what));
    }
    DPT_TRY(repetitions_of(b, n_bytes, bench_clock() - began, &n_repetitions));
    for (size_t i = 0; i < n_repetitions; i++) {
        began = bench_clock();
        DPT_TRY(b->collective->call(what));
        seconds[i] = bench_clock() - began;
    }
    *out = median(seconds, n_repetitions);
    return DPT_OK;
}

/* Creates an array on every device.  If the collective has parts, it also creates a part on every
   device: the array is divided among processes, and then among the devices of each.  A part without
   elements is NULL. */
static dpt_status make_operands(const allreduce_bench *b, size_t count, operands *out)
{
    const size_t n_processes = dpt_process_count(b->session.context);
    const size_t rank = dpt_process_rank(b->session.context), n = out->n;
    const size_t first = count * rank / n_processes, last = count * (rank + 1) / n_processes;
    for (size_t i = 0; i < n; i++) {
        dpt_device *device = dpt_device_set_get(b->session.devices, i);
        const size_t part = (last - first) * (i + 1) / n - (last - first) * i / n;
        DPT_TRY(dpt_array_create(device, &count, 1, &out->arrays[i]));
        if (b->collective->has_parts && part > 0)
            DPT_TRY(dpt_array_create(device, &part, 1, &out->parts[i]));
    }
    return DPT_OK;
}

static dpt_status time_size(const allreduce_bench *b, size_t n_bytes, double *out)
{
    const size_t n = dpt_device_set_count(b->session.devices);
    dpt_array **arrays = calloc(2 * n, sizeof(dpt_array *));
    if (!arrays) return dpt_fail(b->session.context, DPT_E_NO_MEMORY, "no memory for arrays");
    operands what = {.n = n, .arrays = arrays, .parts = arrays + n};
    dpt_status status = make_operands(b, n_bytes / sizeof(float), &what);
    if (status == DPT_OK) status = time_operands(b, &what, n_bytes, out);
    for (size_t i = 0; i < 2 * n; i++)
        dpt_array_destroy(arrays[i]);
    free(arrays);
    return status;
}

/* ---- Results --------------------------------------------------------------------------------- */

static double traffic(const allreduce_bench *b, size_t n_bytes)
{
    return (double)n_bytes *
           (double)(b->collective->a_device * b->n_devices + b->collective->besides);
}

static void print_row(const allreduce_bench *b, size_t i)
{
    const double rate = traffic(b, sizes[i]) / b->seconds[i];
    printf("%12zu  %12.6f  %10.2f  %9.0f %%\n", sizes[i], b->seconds[i], rate / 1e9,
           100 * rate / b->memory);
    fflush(stdout);
}

static void print_header(const allreduce_bench *b)
{
    const dpt_context *context = b->session.context;
    char transport[128];
    printf("%s over %zu device%s", b->collective->name, b->n_devices, b->n_devices == 1 ? "" : "s");
    dpt_process_transport(context, transport, sizeof transport);
    if (dpt_process_count(context) > 1)
        printf(" of %zu processes through %s", dpt_process_count(context), transport);
    printf(": %s\n", b->options->devices ? b->options->devices : "all");
    if (dpt_process_count(context) > 1)
        printf("route: %s, %zu chunks in flight\n", b->link.route, b->link.window);
    printf("memory, read and written by %zu thread%s: %.2f GB/s\n", b->n_threads,
           b->n_threads == 1 ? "" : "s", b->memory / 1e9);
    printf("%12s  %12s  %10s  %11s\n", "bytes", "seconds", "GB/s", "of memory");
}

/* Adds the delay of each process, if any process has one. */
static void set_delays(const allreduce_bench *b, json_t *object)
{
    json_t *delays = json_array();
    bool any = false;
    for (size_t r = 0; r < dpt_process_count(b->session.context); r++) {
        const double delay = dpt_process_delay(b->session.context, r);
        any = any || delay > 0;
        json_array_append_new(delays, json_real(delay));
    }
    if (any) json_object_set(object, "transport_delay_seconds", delays);
    json_decref(delays);
}

static int write_json(const allreduce_bench *b)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < N_SIZES; i++)
        json_array_append_new(rows, json_pack("{s:I,s:f,s:f}", "bytes", (json_int_t)sizes[i],
                                              "seconds", b->seconds[i], "bytes_per_second",
                                              traffic(b, sizes[i]) / b->seconds[i]));
    json_t *object = json_pack(
        "{s:s,s:s,s:s,s:I,s:I,s:I,s:f,s:o}", "benchmark", b->collective->benchmark, "version",
        DPT_VERSION, "devices", b->options->devices ? b->options->devices : "all", "n_devices",
        (json_int_t)b->n_devices, "processes", (json_int_t)dpt_process_count(b->session.context),
        "memory_threads", (json_int_t)b->n_threads, "memory_bytes_per_second", b->memory, "table",
        rows);
    if (object && dpt_process_count(b->session.context) > 1) {
        set_delays(b, object);
        json_object_set_new(object, "route", json_string(b->link.route));
        json_object_set_new(object, "window", json_integer((json_int_t)b->link.window));
    }
    char *text = object ? json_dumps(object, JSON_INDENT(1)) : NULL;
    json_decref(object);
    if (!text) return cli_error(CLI_FAILURE, "no memory to write %s", b->options->json);
    const int code = cli_new_file_write(b->options->json, text);
    free(text);
    return code;
}

static dpt_status measure(allreduce_bench *b)
{
    cli_session *s = &b->session;
    const bool speaks = dpt_process_rank(s->context) == 0;
    float n_devices;
    b->link.size = sizeof b->link;
    DPT_TRY(dpt_processes_measure(s->context, &b->link)); /* the link probe, as in training */
    DPT_TRY(sum_over_processes(b, (float)dpt_device_set_count(s->devices), &n_devices));
    b->n_devices = (size_t)n_devices;
    if (b->n_devices < 2)
        return dpt_fail(s->context, DPT_E_INVALID,
                        "bench allreduce measures exchanges between devices, and %s is one; name "
                        "several, such as --devices cpu:threads=1,cpu:threads=1",
                        b->options->devices ? b->options->devices : "all");
    b->n_threads = count_cores();
    /* The other processes wait in their next all-reduce. */
    if (speaks) b->memory = measure_memory(b->n_threads);
    if (speaks && !(b->memory > 0))
        return dpt_fail(s->context, DPT_E_NO_MEMORY, "no memory to measure the memory bandwidth");
    if (speaks) print_header(b);
    for (size_t i = 0; i < N_SIZES; i++) {
        DPT_TRY(time_size(b, sizes[i], &b->seconds[i]));
        if (speaks) print_row(b, i);
    }
    return DPT_OK;
}

int bench_allreduce(const cli_options *options)
{
    int code = CLI_OK;
    allreduce_bench b = {.options = options, .collective = find_collective(options->collective)};
    cli_session *s = &b.session;
    dpt_status status = cli_open_context(options, &s->context);
    if (status == DPT_OK) status = dpt_processes_join_for(s->context, "bench allreduce");
    const bool writes = options->json && status == DPT_OK && dpt_process_rank(s->context) == 0;
    if (writes) code = cli_new_file_check(options->json);
    if (code != CLI_OK)
        dpt_process_give_up(s->context); /* the others do not know of this failure */
    if (status == DPT_OK && code == CLI_OK) status = cli_open_devices(s, options);
    if (status == DPT_OK && code == CLI_OK) status = measure(&b);
    if (status != DPT_OK)
        code = cli_session_fail(s, status);
    else if (writes && code == CLI_OK)
        code = write_json(&b);
    return cli_session_close(s, code);
}
