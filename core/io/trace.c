/* Writes trace events, one per line.  Times are integer nanoseconds, so that rounding makes no two
   spans of a track overlap. */
#include "io/trace.h"

#include "base/grow.h"
#include "io/output.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The buffer is flushed when FULL bytes are reached.  No event is longer than the rest of the
   buffer. */
enum { FULL = 64 << 10, EVENT_BYTES = 1024, NAME_BYTES = 200 };

typedef struct track {
    size_t process;
    long long end; /* end of the last span, in ns */
} track;

struct dpti_trace {
    dpti_output output;
    double origin;
    dpt_error error; /* the first failure */
    size_t n_processes, n_tracks, tracks_capacity;
    track *tracks;
    size_t length;
    char buffer[FULL + EVENT_BYTES];
};

dpt_status dpti_trace_status(const dpti_trace *trace, dpt_error *error)
{
    if (trace->error.status != DPT_OK) *error = trace->error;
    return trace->error.status;
}

static off_t n_so_far(const dpti_trace *trace)
{
    return trace->output.n_written + (off_t)trace->length;
}

/* ---- The file -------------------------------------------------------------------------------- */

/* Writes the buffer. */
static void empty(dpti_trace *trace)
{
    dpt_error error = {.status = DPT_OK};
    if (dpti_output_write(&trace->output, trace->buffer, trace->length, &error) != DPT_OK &&
        trace->error.status == DPT_OK)
        trace->error = error;
    trace->length = 0;
}

dpt_status dpti_trace_flush(dpti_trace *trace, dpt_error *error)
{
    if (trace->error.status == DPT_OK) empty(trace);
    return dpti_trace_status(trace, error);
}

static void destroy(dpti_trace *trace)
{
    free(trace->tracks);
    free(trace);
}

dpt_status dpti_trace_open(const char *path, double origin, dpti_trace **out, dpt_error *error)
{
    dpti_trace *trace = calloc(1, sizeof *trace);
    if (!trace) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the trace %s", path);
    trace->origin = origin;
    dpt_status status = dpti_output_open("the trace ", path, &trace->output, error);
    if (status == DPT_OK) {
        status = dpti_output_cut(&trace->output, 0, error);
        if (status != DPT_OK) (void)dpti_output_close(&trace->output, NULL);
    }
    if (status == DPT_OK)
        *out = trace;
    else
        destroy(trace);
    return status;
}

dpt_status dpti_trace_close(dpti_trace *trace, dpt_error *error)
{
    if (!trace) return DPT_OK;
    dpt_error at_close = {.status = DPT_OK};
    /* The end is also written after a failure, because there may be room for two characters. */
    const char *end = n_so_far(trace) > 0 ? "\n]\n" : "[]\n";
    memcpy(trace->buffer + trace->length, end, strlen(end));
    trace->length += strlen(end);
    empty(trace);
    if (dpti_output_close(&trace->output, &at_close) != DPT_OK && trace->error.status == DPT_OK)
        trace->error = at_close;
    const dpt_status status = dpti_trace_status(trace, error);
    destroy(trace);
    return status;
}

/* ---- Events ---------------------------------------------------------------------------------- */

/* Appends an event.  The format is the event's text without the braces. */
static DPT_PRINTF(2, 3) void add(dpti_trace *trace, const char *format, ...)
{
    if (trace->error.status != DPT_OK) return;
    const bool first = n_so_far(trace) == 0;
    char *to = trace->buffer + trace->length;
    const size_t n_start = (size_t)snprintf(to, EVENT_BYTES, "%s{", first ? "[\n" : ",\n");
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(to + n_start, EVENT_BYTES - n_start - 1, format, arguments);
    va_end(arguments);
    if (n < 0 || (size_t)n >= EVENT_BYTES - n_start - 1) {
        (void)DPT_FAIL(&trace->error, DPT_E_INTERNAL, "an event of the trace %s is too long",
                       trace->output.path);
        return;
    }
    trace->length += n_start + (size_t)n;
    trace->buffer[trace->length++] = '}';
    if (trace->length >= FULL - EVENT_BYTES) empty(trace);
}

/* Escapes a name for JSON; a name that is too long is cut. */
static const char *escape(const char *name, char out[NAME_BYTES])
{
    size_t n = 0;
    for (const char *c = name; *c && n + 7 < NAME_BYTES; c++) {
        const unsigned char byte = (unsigned char)*c;
        if (byte == '"' || byte == '\\')
            n += (size_t)snprintf(out + n, NAME_BYTES - n, "\\%c", *c);
        else if (byte < 0x20)
            n += (size_t)snprintf(out + n, NAME_BYTES - n, "\\u%04x", byte);
        else
            out[n++] = byte < 0x7f ? *c : '?';
    }
    out[n] = '\0';
    return out;
}

/* A metadata event: its name, and the name and value of its argument. */
typedef struct metadata {
    const char *name, *key, *value;
} metadata;

/* Adds metadata of a process. */
static void tell_process(dpti_trace *trace, size_t process, const metadata *told)
{
    char text[NAME_BYTES];
    add(trace, "\"ph\":\"M\",\"name\":\"%s\",\"pid\":%zu,\"args\":{\"%s\":\"%s\"}", told->name,
        process, told->key, escape(told->value, text));
}

/* Numbers begin at 1, because viewers take 0 for the kernel. */
size_t dpti_trace_process(dpti_trace *trace, const char *name, const char *what)
{
    const size_t process = ++trace->n_processes;
    tell_process(trace, process, &(metadata){"process_name", "name", name});
    if (what) tell_process(trace, process, &(metadata){"process_labels", "labels", what});
    add(trace,
        "\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%zu,\"args\":{\"sort_index\":%zu}",
        process, process);
    return process;
}

/* The numbers of tracks are unique in the whole file, which some viewers require. */
size_t dpti_trace_track(dpti_trace *trace, size_t process, const char *name)
{
    char text[NAME_BYTES];
    track *tracks =
        dpti_grow(trace->tracks, trace->n_tracks, &trace->tracks_capacity, sizeof *tracks);
    if (!tracks) {
        if (trace->error.status == DPT_OK)
            (void)DPT_FAIL(&trace->error, DPT_E_NO_MEMORY, "no memory for the trace %s",
                           trace->output.path);
        return 0;
    }
    trace->tracks = tracks;
    trace->tracks[trace->n_tracks] = (track){.process = process};
    const size_t thread = ++trace->n_tracks;
    add(trace,
        "\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%zu,\"tid\":%zu,\"args\":{\"name\":\"%s\"}",
        process, thread, escape(name, text));
    add(trace,
        "\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":%zu,\"tid\":%zu,"
        "\"args\":{\"sort_index\":%zu}",
        process, thread, thread);
    return thread;
}

/* Prints a number from its thousandths, and times in nanoseconds as microseconds, the unit of the
   format. printf's %f is not used, because its decimal point depends on the program's locale. */
#define NUMBER_FORMAT       "%lld.%03lld"
#define NUMBER(thousandths) (thousandths) / 1000, (thousandths) % 1000

static long long whole(double number)
{
    return number > 0.0 && number < 1e18 ? llround(number) : 0;
}

static long long nanoseconds(double seconds)
{
    return whole(1e9 * seconds);
}

void dpti_trace_span(dpti_trace *trace, size_t thread, const dpti_trace_event *span)
{
    char text[NAME_BYTES];
    if (trace->error.status != DPT_OK) return;
    track *on = &trace->tracks[thread - 1];
    long long begin = nanoseconds(span->when - trace->origin);
    if (begin < on->end) begin = on->end;
    const long long duration = nanoseconds(span->seconds);
    on->end = begin + duration;
    add(trace,
        "\"ph\":\"X\",\"name\":\"%s\",\"pid\":%zu,\"tid\":%zu,\"ts\":" NUMBER_FORMAT
        ",\"dur\":" NUMBER_FORMAT ",\"args\":{%s}",
        escape(span->name, text), on->process, thread, NUMBER(begin), NUMBER(duration), span->args);
}

void dpti_trace_mark(dpti_trace *trace, size_t thread, const dpti_trace_event *mark)
{
    char text[NAME_BYTES];
    if (trace->error.status != DPT_OK) return;
    const long long at = nanoseconds(mark->when - trace->origin);
    add(trace,
        "\"ph\":\"i\",\"s\":\"g\",\"name\":\"%s\",\"pid\":%zu,\"tid\":%zu,\"ts\":" NUMBER_FORMAT
        ",\"args\":{%s}",
        escape(mark->name, text), trace->tracks[thread - 1].process, thread, NUMBER(at),
        mark->args);
}

void dpti_trace_count(dpti_trace *trace, size_t process, const dpti_trace_value *counter)
{
    char text[NAME_BYTES];
    const long long at = nanoseconds(counter->when - trace->origin);
    const long long thousandths = whole(1e3 * counter->value);
    add(trace,
        "\"ph\":\"C\",\"name\":\"%s\",\"pid\":%zu,\"ts\":" NUMBER_FORMAT
        ",\"args\":{\"value\":" NUMBER_FORMAT "}",
        escape(counter->name, text), process, NUMBER(at), NUMBER(thousandths));
}
