/* Tests the trace file: JSON with the documented events, for any names and times, and a message if
   it cannot be written. */
#include "harness.h"
#include "io/trace.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const char path[] = "trace.json";

static const char *text_of(const json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));
    return text ? text : "(none)";
}

static double number_of(const json_t *event, const char *key)
{
    const json_t *value = json_object_get(event, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static const json_t *args_of(const json_t *event)
{
    return json_object_get(event, "args");
}

/* The n-th event of this phase and name, or NULL. */
static const json_t *find(const json_t *events, const char *phase, const char *name, size_t n)
{
    size_t i;
    const json_t *event;
    json_array_foreach(events, i, event)
    {
        if (strcmp(text_of(event, "ph"), phase) == 0 && strcmp(text_of(event, "name"), name) == 0 &&
            n-- == 0)
            return event;
    }
    return NULL;
}

static void nothing_is_an_empty_array(test *t)
{
    dpti_trace *trace = NULL;
    dpt_error error = {0};
    REQUIRE_OK(dpti_trace_open(path, 0, &trace, &error));
    CHECK_OK(dpti_trace_flush(trace, &error));
    CHECK_OK(dpti_trace_close(trace, &error));
    CHECK_OK(dpti_trace_close(NULL, &error));
    json_t *events = json_load_file(path, 0, NULL);
    CHECK(json_is_array(events) && json_array_size(events) == 0);
    json_decref(events);
}

static void events_are_as_promised(test *t)
{
    dpti_trace *trace = NULL;
    dpt_error error = {0};
    REQUIRE_OK(dpti_trace_open(path, 100.0, &trace, &error));
    const size_t host = dpti_trace_process(trace, "host", NULL);
    const size_t device = dpti_trace_process(trace, "cpu:\"1\"\\\n\xff", "a CPU");
    const size_t a = dpti_trace_track(trace, host, "epochs");
    const size_t b = dpti_trace_track(trace, device, "compute");
    CHECK(host != device && host > 0 && device > 0 && a != b && a > 0 && b > 0);
    dpti_trace_span(trace, b,
                    &(dpti_trace_event){"compute", 100.5, 0.25, "\"step\":3,\"samples\":64"});
    dpti_trace_mark(
        trace, a,
        &(dpti_trace_event){.name = "rebalance", .when = 101.0, .args = "\"reason\":\"gain\""});
    dpti_trace_count(trace, device, &(dpti_trace_value){"shard", 102.0, 64});
    dpti_trace_count(trace, device, &(dpti_trace_value){"shard", 103.0, 0.0625});
    REQUIRE_OK(dpti_trace_close(trace, &error));
    json_t *events = json_load_file(path, 0, NULL);
    REQUIRE(json_is_array(events));
    const json_t *name = find(events, "M", "process_name", 1);
    CHECK_TEXT(text_of(args_of(name), "name"), "cpu:\"1\"\\\n?");
    CHECK_NEAR(number_of(name, "pid"), (double)device, 0);
    CHECK_TEXT(text_of(args_of(find(events, "M", "process_labels", 0)), "labels"), "a CPU");
    CHECK(find(events, "M", "process_labels", 1) == NULL);
    const json_t *thread = find(events, "M", "thread_name", 1);
    CHECK_TEXT(text_of(args_of(thread), "name"), "compute");
    CHECK_NEAR(number_of(thread, "pid"), (double)device, 0);
    CHECK_NEAR(number_of(thread, "tid"), (double)b, 0);
    const json_t *span = find(events, "X", "compute", 0);
    CHECK_NEAR(number_of(span, "pid"), (double)device, 0);
    CHECK_NEAR(number_of(span, "tid"), (double)b, 0);
    CHECK_NEAR(number_of(span, "ts"), 500000, 0);
    CHECK_NEAR(number_of(span, "dur"), 250000, 0);
    CHECK_NEAR(number_of(args_of(span), "step"), 3, 0);
    CHECK_NEAR(number_of(args_of(span), "samples"), 64, 0);
    const json_t *mark = find(events, "i", "rebalance", 0);
    CHECK_NEAR(number_of(mark, "ts"), 1e6, 0);
    CHECK_TEXT(text_of(mark, "s"), "g");
    CHECK_TEXT(text_of(args_of(mark), "reason"), "gain");
    const json_t *count = find(events, "C", "shard", 0);
    CHECK_NEAR(number_of(count, "pid"), (double)device, 0);
    CHECK_NEAR(number_of(count, "ts"), 2e6, 0);
    CHECK_NEAR(number_of(args_of(count), "value"), 64, 0);
    CHECK_NEAR(number_of(args_of(find(events, "C", "shard", 1)), "value"), 0.0625, 6e-4);
    json_decref(events);
}

/* A device's clock is not the host's: spans that would overlap are moved, and keep their length. */
static void spans_do_not_overlap(test *t)
{
    enum { MANY = 2000 };
    dpti_trace *trace = NULL;
    dpt_error error = {0};
    test_random random = {.state = 7};
    double sum = 0, told = 0, end = 0, clock = 5.0;
    REQUIRE_OK(dpti_trace_open(path, 5.0, &trace, &error));
    const size_t track = dpti_trace_track(trace, dpti_trace_process(trace, "d", NULL), "compute");
    for (int i = 0; i < MANY; i++) {
        const double seconds = 1e-3 * test_random_uniform(&random);
        dpti_trace_span(trace, track, &(dpti_trace_event){"s", clock, seconds, ""});
        sum += seconds;
        clock += seconds + 1e-5 * (test_random_uniform(&random) - 0.5);
    }
    REQUIRE_OK(dpti_trace_close(trace, &error));
    json_t *events = json_load_file(path, 0, NULL);
    bool apart = true;
    for (size_t i = 0; i < MANY; i++) {
        const json_t *span = find(events, "X", "s", i);
        apart = apart && number_of(span, "ts") >= end - 1e-6 * 1e-3;
        end = number_of(span, "ts") + number_of(span, "dur");
        told += number_of(span, "dur");
        if (!span) break;
    }
    CHECK(apart);
    CHECK_NEAR(told, 1e6 * sum, 1e-3 * MANY);
    json_decref(events);
}

/* What stands in the file of a killed process lacks nothing but the end of the array. */
static void is_whole_but_for_its_end(test *t)
{
    dpti_trace *trace = NULL;
    dpt_error error = {0};
    REQUIRE_OK(dpti_trace_open(path, 0, &trace, &error));
    const size_t track = dpti_trace_track(trace, dpti_trace_process(trace, "d", NULL), "compute");
    size_t n_seen = 0;
    for (int i = 0; i < 20000 && t->n_failures == 0; i++) {
        dpti_trace_span(trace, track, &(dpti_trace_event){"s", i, 0.5, "\"step\":1"});
        if (i % 5000 != 4999) continue;
        CHECK_OK(dpti_trace_status(trace, &error));
        char *text = NULL;
        size_t length = 0;
        FILE *from = fopen(path, "r"), *to = open_memstream(&text, &length);
        for (int c; from && to && (c = fgetc(from)) != EOF;)
            fputc(c, to);
        fputs("]", to);
        fclose(to);
        fclose(from);
        json_t *events = json_loads(text, 0, NULL);
        CHECK(json_array_size(events) > n_seen && json_array_size(events) <= (size_t)i + 6);
        n_seen = json_array_size(events);
        json_decref(events);
        free(text);
    }
    CHECK_OK(dpti_trace_close(trace, &error));
    json_t *events = json_load_file(path, 0, NULL);
    CHECK(json_array_size(events) > 20000);
    json_decref(events);
}

static void failures_are_told(test *t)
{
    dpti_trace *trace = NULL;
    dpt_error error = {0};
    CHECK_STATUS(dpti_trace_open("/nowhere/trace", 0, &trace, &error), DPT_E_IO);
    CHECK_CONTAINS(error.message, "/nowhere/trace: No such file");
    if (access("/dev/full", W_OK) != 0) return;
    error = (dpt_error){0};
    REQUIRE_OK(dpti_trace_open("/dev/full", 0, &trace, &error));
    const size_t track = dpti_trace_track(trace, dpti_trace_process(trace, "d", NULL), "t");
    CHECK_OK(dpti_trace_status(trace, &error));
    CHECK_STATUS(dpti_trace_flush(trace, &error), DPT_E_IO);
    CHECK_CONTAINS(error.message, "cannot write the trace /dev/full: No space left");
    CHECK_CONTAINS(error.message, "free some space");
    error = (dpt_error){0};
    dpti_trace_span(trace, track, &(dpti_trace_event){"s", 1, 1, ""});
    CHECK_STATUS(dpti_trace_close(trace, &error), DPT_E_IO);
    CHECK_SIZE((size_t)error.native, ENOSPC);
}

/* A limit of the file's size takes half a buffer: what is left is whole all the same. */
static void half_a_write_is_taken_back(test *t)
{
    dpti_trace *trace = NULL;
    dpt_error error = {0};
    struct rlimit before, limit;
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    REQUIRE_OK(dpti_trace_open(path, 0, &trace, &error));
    const size_t track = dpti_trace_track(trace, dpti_trace_process(trace, "d", NULL), "t");
    limit = before;
    limit.rlim_cur = 100000;
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    for (int i = 0; i < 5000; i++)
        dpti_trace_span(trace, track, &(dpti_trace_event){"s", i, 1, ""});
    CHECK_STATUS(dpti_trace_status(trace, &error), DPT_E_IO);
    CHECK_STATUS(dpti_trace_close(trace, &error), DPT_E_IO);
    CHECK_CONTAINS(error.message, "cannot write the trace trace.json: File too large");
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    (void)signal(SIGXFSZ, handler);
    json_t *events = json_load_file(path, 0, NULL);
    CHECK(json_array_size(events) > 100);
    json_decref(events);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"nothing is an empty array", nothing_is_an_empty_array},
        {"events are as promised", events_are_as_promised},
        {"spans do not overlap", spans_do_not_overlap},
        {"is whole but for its end", is_whole_but_for_its_end},
        {"failures are told", failures_are_told},
        {"half a write is taken back", half_a_write_is_taken_back},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
