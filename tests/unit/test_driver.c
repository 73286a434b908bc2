/* Tests driver threads: order, tickets, a full queue, and ends.  Also to be run under
   ThreadSanitizer. */
#include "device/driver.h"
#include "harness.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

static bool start(test *t, dpti_device *device)
{
    memset(device, 0, sizeof *device);
    snprintf(device->id, sizeof device->id, "card:0:memory=2G");
    dpt_error error = {.status = DPT_OK};
    return CHECK_OK(dpti_driver_start(device, &error));
}

/* What the driver alone writes, and the tests read after they waited: no locks. */
typedef struct journal {
    size_t n, capacity;
    size_t *numbers;
} journal;

typedef struct note {
    journal *journal;
    size_t number;
} note;

static void write_note(dpti_device *device, void *argument)
{
    (void)device;
    const note *n = argument;
    if (n->journal->n < n->journal->capacity) n->journal->numbers[n->journal->n] = n->number;
    n->journal->n++;
}

static void runs_in_order(test *t)
{
    enum { N = 5000 };
    static size_t numbers[N];
    static note notes[N];
    journal j = {.capacity = N, .numbers = numbers};
    dpti_device device;
    if (!start(t, &device)) return;
    for (size_t i = 0; i < N; i++) {
        notes[i] = (note){.journal = &j, .number = i};
        if (!CHECK(dpti_driver_post(&device, write_note, &notes[i]) == i + 1)) break;
    }
    dpti_driver_wait(&device, N);
    CHECK_SIZE(j.n, N);
    size_t n_wrong = 0;
    for (size_t i = 0; i < N; i++)
        n_wrong += numbers[i] != i;
    CHECK_SIZE(n_wrong, 0);
    dpti_driver_stop(&device);
    CHECK(device.driver == NULL);
    dpti_driver_stop(&device);
}

/* A gate that holds the driver up. */
typedef struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool open, reached;
} gate;

static void gate_init(gate *g)
{
    pthread_mutex_init(&g->mutex, NULL);
    pthread_cond_init(&g->changed, NULL);
    g->open = g->reached = false;
}

static void wait_at_gate(dpti_device *device, void *argument)
{
    (void)device;
    gate *g = argument;
    pthread_mutex_lock(&g->mutex);
    g->reached = true;
    pthread_cond_broadcast(&g->changed);
    while (!g->open)
        pthread_cond_wait(&g->changed, &g->mutex);
    pthread_mutex_unlock(&g->mutex);
}

static void wait_until_reached(gate *g)
{
    pthread_mutex_lock(&g->mutex);
    while (!g->reached)
        pthread_cond_wait(&g->changed, &g->mutex);
    pthread_mutex_unlock(&g->mutex);
}

static void open_gate(gate *g)
{
    pthread_mutex_lock(&g->mutex);
    g->open = true;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->mutex);
}

static void waits_for_one_ticket(test *t)
{
    size_t numbers[2];
    journal j = {.capacity = 2, .numbers = numbers};
    note first = {.journal = &j, .number = 1}, second = {.journal = &j, .number = 2};
    gate g;
    gate_init(&g);
    dpti_device device;
    if (!start(t, &device)) return;
    const uint64_t ticket = dpti_driver_post(&device, write_note, &first);
    dpti_driver_post(&device, wait_at_gate, &g);
    dpti_driver_post(&device, write_note, &second);
    /* Returns although the driver is held up behind the ticket. */
    dpti_driver_wait(&device, ticket);
    wait_until_reached(&g);
    CHECK_SIZE(j.n, 1);
    open_gate(&g);
    dpti_driver_wait(&device, ticket + 2);
    CHECK_SIZE(j.n, 2);
    dpti_driver_wait(&device, ticket); /* long past */
    dpti_driver_stop(&device);
}

typedef struct flood {
    dpti_device *device;
    journal *journal;
    atomic_size_t n_posted;
} flood;

enum { FLOOD = DPTI_DRIVER_JOBS + 10 };

static void *post_flood(void *argument)
{
    flood *f = argument;
    static note notes[FLOOD];
    for (size_t i = 0; i < FLOOD; i++) {
        notes[i] = (note){.journal = f->journal, .number = i};
        dpti_driver_post(f->device, write_note, &notes[i]);
        atomic_store(&f->n_posted, i + 1);
    }
    return NULL;
}

static void blocks_when_full(test *t)
{
    size_t numbers[FLOOD];
    journal j = {.capacity = FLOOD, .numbers = numbers};
    gate g;
    gate_init(&g);
    dpti_device device;
    if (!start(t, &device)) return;
    dpti_driver_post(&device, wait_at_gate, &g);
    wait_until_reached(&g);
    flood f = {.device = &device, .journal = &j};
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, post_flood, &f) == 0);
    while (atomic_load(&f.n_posted) < DPTI_DRIVER_JOBS)
        usleep(1000);
    usleep(50000); /* time for a 65th, if the queue let it in */
    CHECK_SIZE(atomic_load(&f.n_posted), DPTI_DRIVER_JOBS);
    open_gate(&g);
    pthread_join(thread, NULL);
    dpti_driver_wait(&device, 1 + FLOOD);
    CHECK_SIZE(j.n, FLOOD);
    CHECK_SIZE(numbers[FLOOD - 1], FLOOD - 1);
    dpti_driver_stop(&device);
}

typedef struct poster {
    dpti_device *device;
    size_t *counter; /* written by the driver alone */
} poster;

static void count(dpti_device *device, void *argument)
{
    (void)device;
    ++*(size_t *)argument;
}

enum { POSTERS = 4, JOBS_EACH = 500 };

static void *post_and_wait(void *argument)
{
    const poster *p = argument;
    for (size_t i = 0; i < JOBS_EACH; i++) {
        if (i % 7 == 0)
            dpti_driver_call(p->device, count, p->counter);
        else
            dpti_driver_post(p->device, count, p->counter);
    }
    return NULL;
}

static void takes_work_from_many(test *t)
{
    size_t counter = 0;
    dpti_device device;
    if (!start(t, &device)) return;
    poster p = {.device = &device, .counter = &counter};
    pthread_t threads[POSTERS];
    for (size_t i = 0; i < POSTERS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, post_and_wait, &p) == 0);
    for (size_t i = 0; i < POSTERS; i++)
        pthread_join(threads[i], NULL);
    dpti_driver_wait(&device, POSTERS * JOBS_EACH);
    CHECK_SIZE(counter, POSTERS * JOBS_EACH);
    dpti_driver_stop(&device);
}

static void finishes_before_it_stops(test *t)
{
    size_t counter = 0;
    dpti_device device;
    if (!start(t, &device)) return;
    for (size_t i = 0; i < 60; i++)
        dpti_driver_post(&device, count, &counter);
    dpti_driver_stop(&device);
    CHECK_SIZE(counter, 60);
}

static void read_name(dpti_device *device, void *argument)
{
    (void)device;
    pthread_getname_np(pthread_self(), argument, 16);
}

static void bears_the_name_of_its_device(test *t)
{
    char name[16] = "";
    dpti_device device;
    if (!start(t, &device)) return;
    dpti_driver_call(&device, read_name, name);
    CHECK_TEXT(name, "card:0:memory=2");
    dpti_driver_stop(&device);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"runs_in_order", runs_in_order},
        {"waits_for_one_ticket", waits_for_one_ticket},
        {"blocks_when_full", blocks_when_full},
        {"takes_work_from_many", takes_work_from_many},
        {"finishes_before_it_stops", finishes_before_it_stops},
        {"bears_the_name_of_its_device", bears_the_name_of_its_device},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
