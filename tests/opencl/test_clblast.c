/* Tests CLBlast from the threads of several devices at once.  CLBlast 1.5.3 fails if two threads
   set it up, or compile the same kernel, at the same moment.  So every round is a process of its
   own, in which all threads call CLBlast for the first time together.  The first round begins with
   an empty cache of PoCL.

   $DPTRAIN_TEST_ROUNDS: number of rounds. */
#include "device/buffer.h"
#include "device/driver.h"
#include "device/operator.h"
#include "device/set.h"
#include "device/stream.h"
#include "harness.h"

#include "base/parse.h"
#include "device/device.h"

#include <dlfcn.h>
#include <ftw.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 70, IN = 100, OUT = 60, CALLS = 5, N_DEVICES = 4 };

/* Two replicas each of two devices: one context each, and one name. */
static const char devices_list[] = "opencl:0:algorithm=clblast,opencl:0:algorithm=clblast,"
                                   "opencl:1:algorithm=clblast,opencl:1:algorithm=clblast";

static const char cache[] = "pocl-cache"; /* in the entry's scratch folder */

/* One device's part of a round. */
typedef struct part {
    dpti_device *device;
    pthread_barrier_t *start;
    const float *x, *w;
    dpt_status status;
    bool is_clblast;
    float y[N * OUT];
} part;

static dpt_status prepare(part *p, dpti_op *op, dpt_op_args *args, dpti_buffer *x, dpti_buffer *w,
                          dpti_buffer *y)
{
    const dpt_op_desc desc = {.kind = DPT_OP_LINEAR_FORWARD, .u.linear = {.in = IN, .out = OUT}};
    DPT_TRY(dpti_prepare(p->device, &desc, N, op));
    p->is_clblast = strcmp(op->info.algorithm, "clblast") == 0;
    DPT_TRY(dpti_alloc(p->device, N * IN * sizeof(float), x));
    DPT_TRY(dpti_alloc(p->device, OUT * IN * sizeof(float), w));
    DPT_TRY(dpti_alloc(p->device, sizeof p->y, y));
    DPT_TRY(dpti_upload(x, 0, p->x, N * IN * sizeof(float)));
    DPT_TRY(dpti_upload(w, 0, p->w, OUT * IN * sizeof(float)));
    const dpti_binding binding = {.in = {{x, 0}, {w, 0}}, .out = {{y, 0}}};
    return dpti_bind(op, N, &binding, args);
}

static dpt_status multiply(part *p, const dpti_op *op, const dpt_op_args *args, dpti_buffer *y)
{
    for (int i = 0; i < CALLS; i++)
        DPT_TRY(dpti_run(op, N, args));
    DPT_TRY(dpti_download(p->y, y, 0, sizeof p->y));
    return dpti_sync(p->device);
}

static void run_part(dpti_device *device, void *argument)
{
    part *p = argument;
    dpti_op op = {0};
    dpti_buffer x = {0}, w = {0}, y = {0};
    dpt_op_args args;
    (void)device;
    p->status = prepare(p, &op, &args, &x, &w, &y);
    if (p->status == DPT_OK) p->status = dpti_sync(p->device);
    pthread_barrier_wait(p->start);
    if (p->status == DPT_OK) p->status = multiply(p, &op, &args, &y);
    dpti_free(&x);
    dpti_free(&w);
    dpti_free(&y);
    dpti_release(&op);
}

/* Small integers: exact in any order. */
static void fill(float *out, size_t n, unsigned step)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(i * step % 13) - 6.0f;
}

static bool is_right(const part *p)
{
    for (size_t row = 0; row < N; row++)
        for (size_t column = 0; column < OUT; column++) {
            float sum = 0.0f;
            for (size_t k = 0; k < IN; k++)
                sum += p->x[row * IN + k] * p->w[column * IN + k];
            if (!(p->y[row * OUT + column] == sum)) return false;
        }
    return true;
}

static int remove_entry(const char *path, const struct stat *entry, int type, struct FTW *ftw)
{
    (void)entry;
    (void)type;
    (void)ftw;
    return remove(path);
}

static bool empty_cache(void)
{
    (void)nftw(cache, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return mkdir(cache, 0700) == 0;
}

/* A round, in a process of its own. */
static void one_round(test *t)
{
    static float x[N * IN], w[OUT * IN];
    static part parts[N_DEVICES];
    uint64_t tickets[N_DEVICES];
    pthread_barrier_t start;
    dpt_context *context = NULL;
    dpt_device_set *set = NULL;
    fill(x, N * IN, 7);
    fill(w, OUT * IN, 5);
    REQUIRE(pthread_barrier_init(&start, NULL, N_DEVICES) == 0);
    REQUIRE_OK(dpt_context_create(&context));
    REQUIRE_OK(dpt_device_set_open(context, devices_list, &set));
    for (size_t i = 0; i < N_DEVICES; i++) {
        parts[i] = (part){.device = set->devices[i], .start = &start, .x = x, .w = w};
        tickets[i] = dpti_driver_post(set->devices[i], run_part, &parts[i]);
    }
    for (size_t i = 0; i < N_DEVICES; i++)
        dpti_driver_wait(set->devices[i], tickets[i]);
    for (size_t i = 0; i < N_DEVICES; i++) {
        if (!CHECK_OK(parts[i].status))
            fprintf(stderr, "  %s\n", set->devices[i]->base.error.message);
        else if (CHECK(parts[i].is_clblast))
            CHECK(is_right(&parts[i]));
    }
    dpt_device_set_close(set);
    dpt_context_destroy(context);
}

/* Its exit status, or -1 if it was killed. */
static int run_itself(void)
{
    char *const arguments[] = {"test-opencl-clblast", "one_round", NULL};
    int status = 0;
    (void)fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stdout)) _exit(1);
        execv("/proc/self/exe", arguments);
        _exit(1);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void many_rounds(test *t)
{
    const char *text = getenv("DPTRAIN_TEST_ROUNDS");
    size_t n_rounds = 5;
    void *library = dlopen("libclblast.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        test_skip(t, "CLBlast is not installed");
        return;
    }
    dlclose(library);
    REQUIRE(!text || dpti_parse_size(text, 1, 1000, &n_rounds));
    REQUIRE(empty_cache());
    REQUIRE(setenv("POCL_CACHE_DIR", cache, 1) == 0);
    for (size_t i = 0; i < n_rounds; i++)
        CHECK(run_itself() == 0);
}

int main(int argc, char **argv)
{
    static const test_case round_case = {"one_round", one_round};
    static const test_case cases[] = {{"many_rounds", many_rounds}};
    if (argc > 1 && strcmp(argv[1], "one_round") == 0)
        return test_main(argc, argv, &round_case, 1, NULL);
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
