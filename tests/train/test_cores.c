/* Tests the use of cores by the threads of CPU devices, as the system reports it: each thread is
   bound to a core of its own if there are enough cores, no thread is bound if there are not, and
   waiting threads sleep.

   The threads of a device carry the device's name. */
#include "dptrain.h"
#include "harness.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_TASKS = 64 };

typedef struct task {
    cpu_set_t cores;
    char state; /* 'S' sleeps, 'R' runs or would like to */
} task;

static bool read_task(const char *id, task *out)
{
    char path[300], line[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/stat", id);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    const bool some = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    const char *name = strchr(line, '('), *end = strrchr(line, ')');
    if (!some || !name || !end || strncmp(name + 1, "cpu", 3) != 0) return false;
    out->state = end[2];
    return sched_getaffinity((pid_t)atoi(id), sizeof out->cores, &out->cores) == 0;
}

static size_t read_tasks(task out[MAX_TASKS])
{
    size_t n = 0;
    DIR *folder = opendir("/proc/self/task");
    if (!folder) return 0;
    for (struct dirent *entry = readdir(folder); entry && n < MAX_TASKS; entry = readdir(folder))
        n += read_task(entry->d_name, &out[n]);
    closedir(folder);
    return n;
}

static size_t n_cores(void)
{
    cpu_set_t cores;
    return sched_getaffinity(0, sizeof cores, &cores) == 0 ? (size_t)CPU_COUNT(&cores) : 0;
}

typedef struct setting {
    dpt_context *context;
    dpt_device_set *devices;
} setting;

/* Large enough for the whole team to work. */
static dpt_status work_on(dpt_device *device)
{
    const size_t size = 1 << 20;
    dpt_array *array = NULL;
    DPT_TRY(dpt_array_create(device, &size, 1, &array));
    dpt_status status = dpt_array_affine(array, 2.0f, 1.0f, array);
    if (status == DPT_OK) status = dpt_array_wait(array);
    dpt_array_destroy(array);
    return status;
}

/* Opens, and gives every thread something to do: then it has found its place. */
static bool opened(test *t, setting *s, const char *list)
{
    *s = (setting){.context = NULL};
    if (!CHECK_OK(dpt_context_create(&s->context)) ||
        !CHECK_OK(dpt_device_set_open(s->context, list, &s->devices)))
        return false;
    for (size_t i = 0; i < dpt_device_set_count(s->devices); i++)
        CHECK_OK(work_on(dpt_device_set_get(s->devices, i)));
    return true;
}

static void close_all(setting *s)
{
    dpt_device_set_close(s->devices);
    dpt_context_destroy(s->context);
}

static void check_bound(test *t, const char *list, size_t n_threads)
{
    setting s;
    task tasks[MAX_TASKS];
    cpu_set_t seen;
    CPU_ZERO(&seen);
    if (opened(t, &s, list)) {
        const size_t n = read_tasks(tasks);
        CHECK_SIZE(n, n_threads);
        for (size_t i = 0; i < n; i++) {
            CHECK(CPU_COUNT(&tasks[i].cores) == 1);
            CPU_OR(&seen, &seen, &tasks[i].cores);
        }
        if (!CHECK((size_t)CPU_COUNT(&seen) == n_threads)) FAIL("%s: two threads on a core", list);
    }
    close_all(&s);
}

static void each_has_a_core(test *t)
{
    const size_t n = n_cores();
    if (n > MAX_TASKS) SKIP("%zu cores", n);
    check_bound(t, "cpu", n);
    check_bound(t, "cpu:threads=1", 1);
    if (n < 2) return;
    check_bound(t, "cpu,cpu", n);
    check_bound(t, "cpu:threads=1,cpu:threads=1", 2);
    check_bound(t, "cpu,cpu:threads=1", n);
}

static void check_free(test *t, const char *list)
{
    setting s;
    task tasks[MAX_TASKS];
    if (opened(t, &s, list)) {
        const size_t n = read_tasks(tasks);
        CHECK(n > 0);
        for (size_t i = 0; i < n; i++)
            if (!CHECK((size_t)CPU_COUNT(&tasks[i].cores) == n_cores()))
                FAIL("%s: a thread is bound", list);
    }
    close_all(&s);
}

static void too_many_are_not_bound(test *t)
{
    const size_t n = n_cores();
    char list[96];
    if (n + 1 > MAX_TASKS) SKIP("%zu cores", n);
    snprintf(list, sizeof list, "cpu:threads=%zu", n + 1);
    check_free(t, list);
    snprintf(list, sizeof list, "cpu:threads=%zu,cpu", n);
    check_free(t, list);
    snprintf(list, sizeof list, "cpu,cpu:threads=1,cpu:threads=%zu", n);
    check_free(t, list);
}

static bool all_sleep(void)
{
    task tasks[MAX_TASKS];
    const size_t n = read_tasks(tasks);
    for (size_t i = 0; i < n; i++)
        if (tasks[i].state != 'S') return false;
    return n > 0;
}

static void check_rest(test *t, const char *list)
{
    setting s;
    if (opened(t, &s, list)) {
        bool rest = false;
        for (int i = 0; i < 500 && !rest; i++) {
            (void)usleep(10000);
            rest = all_sleep();
        }
        if (!CHECK(rest)) FAIL("%s: a thread that waits does not sleep", list);
    }
    close_all(&s);
}

static void who_waits_sleeps(test *t)
{
    check_rest(t, "cpu");
    check_rest(t, "cpu,cpu");
    check_rest(t, "cpu:threads=5");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"each thread has a core of its own", each_has_a_core},
        {"more threads than cores are not bound", too_many_are_not_bound},
        {"who waits sleeps", who_waits_sleeps},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
