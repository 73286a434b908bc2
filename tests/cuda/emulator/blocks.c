/* Blocks of a kernel, one after the other.  Their threads are fibers: one runs until it ends, and
   then does the next thread's work, or until it comes to a barrier, where it stays while another
   takes up the threads that have not begun.  So a kernel without barriers is a loop.

   One kernel runs at a time in the process: what shared memory and indices are is static. */
#include "emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#ifdef EMU_ASAN
#include <sanitizer/common_interface_defs.h>
/* Not watched: what ends in a jump would forget all that is known of its stack. */
#define UNWATCHED __attribute__((noinline, no_sanitize("address")))
#else
#define UNWATCHED __attribute__((noinline))
#endif

enum { MOST_THREADS = 1024, PAGE_BYTES = 4096, STACK_BYTES = 256 << 10 };

typedef struct fiber {
    void *at[5]; /* of the compiler's own jumps, which save a frame and no more */
    ucontext_t context;
    char *stack; /* NULL: not yet used, or the host's own */
#ifdef EMU_ASAN
    void *fake;
    const void *bottom;
    size_t n_bytes;
#endif
} fiber;

emulated_index emulated_thread, emulated_block, emulated_threads, emulated_blocks;

/* What is under way. */
static struct {
    pthread_mutex_t lock;
    const emulated_kernel *kernel;
    void *const *arguments;
    unsigned n, n_begun, n_ended; /* threads of the block */
    unsigned n_waiting, next;     /* at the barrier; who goes on from the last one */
    unsigned n_passing;
    fiber *waiting[MOST_THREADS], *passing[MOST_THREADS];
    fiber fibers[MOST_THREADS], host, *now;
    unsigned n_fibers, n_idle; /* made; and of these, the ones that have no thread */
    fiber *idle[MOST_THREADS];
} run = {.lock = PTHREAD_MUTEX_INITIALIZER};

__attribute__((noreturn)) static void give_up(const char *what)
{
    fprintf(stderr, "emulated CUDA: %s\n", what);
    abort();
}

/* ---- Switching ------------------------------------------------------------------------------- */

/* The one that runs now has got there. */
static void arrive(void)
{
#ifdef EMU_ASAN
    __sanitizer_finish_switch_fiber(run.now->fake, NULL, NULL);
#endif
}

static void loop(void);

static void begin_fiber(void)
{
    arrive();
    loop();
}

/* Its stack has a page below that nobody may touch.  Where it begins differs, so that caches can
   hold the first frames of many. */
static void make(fiber *f)
{
    const size_t lower = (size_t)(f - run.fibers) * 704 % 8192 / 64 * 64;
    char *memory = mmap(NULL, PAGE_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, PAGE_BYTES, PROT_NONE) != 0 ||
        getcontext(&f->context) != 0)
        give_up("no memory for a thread's stack");
    f->stack = memory + PAGE_BYTES;
    f->context.uc_stack = (stack_t){.ss_sp = f->stack, .ss_size = STACK_BYTES - lower};
    f->context.uc_link = NULL;
    makecontext(&f->context, begin_fiber, 0);
#ifdef EMU_ASAN
    f->bottom = f->stack;
    f->n_bytes = STACK_BYTES;
#endif
}

/* Where it stopped; or its beginning. */
UNWATCHED static void jump(fiber *to)
{
    if (to->stack || to == &run.host) __builtin_longjmp(to->at, 1);
    make(to);
    setcontext(&to->context);
    give_up("no jump to a stack");
}

UNWATCHED static void switch_to(fiber *to)
{
    fiber *const self = run.now;
#ifdef EMU_ASAN
    __sanitizer_start_switch_fiber(&self->fake, to->bottom, to->n_bytes);
#endif
    if (__builtin_setjmp(self->at) == 0) {
        run.now = to;
        jump(to);
    }
    arrive();
}

/* Who runs when the one that runs cannot: first who passes the last barrier, then one for threads
   that have not begun, then the host. */
static fiber *choose(void)
{
    if (run.next < run.n_passing) return run.passing[run.next++];
    if (run.n_begun == run.n) return &run.host;
    if (run.n_idle > 0) return run.idle[--run.n_idle];
    return &run.fibers[run.n_fibers++];
}

/* ---- Threads --------------------------------------------------------------------------------- */

static emulated_index index_of(unsigned i)
{
    if (emulated_threads.x == run.n) return (emulated_index){.x = i};
    return (emulated_index){.x = i % emulated_threads.x,
                            .y = i / emulated_threads.x % emulated_threads.y,
                            .z = i / emulated_threads.x / emulated_threads.y};
}

static void loop(void)
{
    for (;;) {
        while (run.n_begun < run.n) {
            const unsigned i = run.n_begun++;
            emulated_thread = index_of(emu.reverse ? run.n - 1 - i : i);
            run.kernel->call(run.arguments);
            run.n_ended++;
        }
        run.idle[run.n_idle++] = run.now;
        switch_to(choose());
    }
}

void emulated_barrier(void)
{
    const emulated_index self = emulated_thread;
    run.waiting[run.n_waiting++] = run.now;
    switch_to(choose());
    emulated_thread = self;
}

static void run_block(void)
{
    const emulated_kernel *k = run.kernel;
    if (k->shared_end > k->shared_begin)
        memset(k->shared_begin, 0xff, (size_t)(k->shared_end - k->shared_begin));
    run.n_begun = run.n_ended = run.n_passing = run.next = 0;
    switch_to(choose());
    while (run.n_waiting > 0) {
        if (run.n_waiting < run.n) give_up("a barrier that not all threads of a block reach");
        memcpy(run.passing, run.waiting, run.n_waiting * sizeof *run.waiting);
        run.n_passing = run.n_waiting;
        run.n_waiting = run.next = 0;
        switch_to(choose());
    }
}

void emu_kernel_run(const emulated_kernel *kernel, dim3 grid, dim3 block, void *const *arguments)
{
    pthread_mutex_lock(&run.lock);
    run.kernel = kernel;
    run.arguments = arguments;
    run.n = block.x * block.y * block.z;
    run.now = &run.host;
#ifdef EMU_ASAN
    pthread_attr_t all;
    void *bottom;
    pthread_getattr_np(pthread_self(), &all);
    pthread_attr_getstack(&all, &bottom, &run.host.n_bytes);
    pthread_attr_destroy(&all);
    run.host.bottom = bottom;
#endif
    emulated_threads = (emulated_index){block.x, block.y, block.z};
    emulated_blocks = (emulated_index){grid.x, grid.y, grid.z};
    for (unsigned z = 0; z < grid.z; z++) {
        for (unsigned y = 0; y < grid.y; y++) {
            for (unsigned x = 0; x < grid.x; x++) {
                emulated_block = (emulated_index){x, y, z};
                run_block();
            }
        }
    }
    pthread_mutex_unlock(&run.lock);
}
