/* Writes event files.  The numbers of fields are those of TensorFlow's event.proto, summary.proto,
   histogram.proto and tensor.proto, and of plugin_data.proto and api.proto of TensorBoard's plug-in
   for hyper-parameters. */
#include "io/events.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/parse.h"
#include "base/print.h"
#include "io/message.h"
#include "io/output.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FULL = 64 << 10, HOST_BYTES = 64, BINS = 30 };

/* What every name begins with, and the digits of the time behind it. */
static const char prefix[] = "events.out.tfevents.";
enum { TIME_DIGITS = 10 };

struct dpti_events {
    dpti_output output;
    dpt_error error;      /* the first failure */
    dpti_message pending; /* whole records that are not written yet */
    double written_at;
};

/* ---- The file -------------------------------------------------------------------------------- */

static double wall_time(void)
{
    struct timespec now = {.tv_sec = 0};
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail: the clock exists */
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The time in the name of an event file; 0: the name is another one. */
static size_t time_of(const char *name)
{
    char digits[TIME_DIGITS + 1];
    size_t time = 0;
    if (strncmp(name, prefix, strlen(prefix)) != 0) return 0;
    snprintf(digits, sizeof digits, "%s", name + strlen(prefix));
    return dpti_parse_size(digits, 0, SIZE_MAX, &time) ? time : 0;
}

/* The time of a new file: now, or behind that of all files that are there. */
static dpt_status choose_time(const char *folder, size_t *time, dpt_error *error)
{
    DIR *list = opendir(folder);
    if (!list) return dpti_fail_write(error, "TensorBoard's events in ", folder, errno);
    *time = (size_t)wall_time();
    for (const struct dirent *entry; (entry = readdir(list));) {
        const size_t other = time_of(entry->d_name);
        if (other >= *time) *time = other + 1;
    }
    closedir(list);
    return DPT_OK;
}

dpt_status dpti_events_check_new(const char *folder, dpt_error *error)
{
    bool any = false;
    DIR *list = opendir(folder);
    if (!list) return dpti_fail_write(error, "TensorBoard's events in ", folder, errno);
    for (const struct dirent *entry; !any && (entry = readdir(list));)
        any = strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    closedir(list);
    if (!any) return DPT_OK;
    return DPT_FAIL(error, DPT_E_INVALID,
                    "%s has the events of another training, and TensorBoard would mix its curves "
                    "with those of this one: choose another folder, resume that training "
                    "(--resume), or remove %s* there",
                    folder, prefix);
}

/* The path of a new file, which the caller frees. */
static dpt_status choose_path(const char *folder, char **out, dpt_error *error)
{
    char host[HOST_BYTES] = "";
    size_t time = 0;
    DPT_TRY(choose_time(folder, &time, error));
    if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
    for (char *c = host; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '-') *c = '_';
    *out = dpti_format("%s/%s%0*zu.%s.%ld", folder, prefix, (int)TIME_DIGITS, time,
                       host[0] ? host : "localhost", (long)getpid());
    return *out ? DPT_OK : DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for TensorBoard's events");
}

/* Notes the first failure. */
static void write_pending(dpti_events *events)
{
    dpti_message *p = &events->pending;
    if (events->error.status == DPT_OK && p->failed)
        (void)DPT_FAIL(&events->error, DPT_E_NO_MEMORY, "no memory to write TensorBoard's events");
    dpt_error error = {.status = DPT_OK};
    if (events->error.status == DPT_OK && p->n_bytes > 0 &&
        dpti_output_write(&events->output, p->bytes, p->n_bytes, &error) != DPT_OK)
        events->error = error;
    p->n_bytes = 0;
    events->written_at = dpti_seconds();
}

dpt_status dpti_events_status(const dpti_events *events, dpt_error *error)
{
    if (events->error.status != DPT_OK && error) *error = events->error;
    return events->error.status;
}

dpt_status dpti_events_flush(dpti_events *events, dpt_error *error)
{
    write_pending(events);
    return dpti_events_status(events, error);
}

dpt_status dpti_events_close(dpti_events *events, dpt_error *error)
{
    dpt_error at_close = {.status = DPT_OK};
    if (!events) return DPT_OK;
    write_pending(events);
    if (dpti_output_close(&events->output, &at_close) != DPT_OK && events->error.status == DPT_OK)
        events->error = at_close;
    const dpt_status status = dpti_events_status(events, error);
    dpti_message_free(&events->pending);
    free(events);
    return status;
}

/* ---- Records --------------------------------------------------------------------------------- */

static void put_little_endian(uint8_t *to, uint64_t number, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++)
        to[i] = (uint8_t)(number >> 8 * i);
}

static uint32_t masked(const void *bytes, size_t n)
{
    const uint32_t crc = dpti_crc32c(bytes, n);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

/* Adds a record, whose content is freed. */
static void add_record(dpti_events *events, dpti_message *content)
{
    enum { LENGTH = 8, CRC = 4 };
    uint8_t head[LENGTH + CRC], tail[CRC];
    if (content->failed) events->pending.failed = true;
    put_little_endian(head, content->n_bytes, LENGTH);
    put_little_endian(head + LENGTH, masked(head, LENGTH), CRC);
    put_little_endian(tail, masked(content->bytes, content->n_bytes), CRC);
    dpti_message_append(&events->pending, head, sizeof head);
    dpti_message_append(&events->pending, content->bytes, content->n_bytes);
    dpti_message_append(&events->pending, tail, sizeof tail);
    dpti_message_free(content);
    if (events->pending.n_bytes >= FULL || dpti_seconds() - events->written_at >= 1)
        write_pending(events);
}

static dpti_message begin_event(void)
{
    enum { WALL_TIME = 1 };
    dpti_message event = {.bytes = NULL};
    dpti_message_double(&event, WALL_TIME, wall_time());
    return event;
}

static void add_version(dpti_events *events)
{
    enum { FILE_VERSION = 3 };
    dpti_message event = begin_event();
    dpti_message_text(&event, FILE_VERSION, "brain.Event:2");
    add_record(events, &event);
}

enum { EVENT_STEP = 2, EVENT_SUMMARY = 5, EVENT_SESSION_LOG = 7 };

static void add_start(dpti_events *events, size_t first_step)
{
    enum { STATUS = 1, START = 1 };
    dpti_message event = begin_event(), start = {.bytes = NULL};
    dpti_message_integer(&event, EVENT_STEP, first_step);
    dpti_message_integer(&start, STATUS, START);
    dpti_message_nest(&event, EVENT_SESSION_LOG, &start);
    add_record(events, &event);
}

dpt_status dpti_events_open(const char *folder, size_t first_step, dpti_events **out,
                            dpt_error *error)
{
    char *path = NULL;
    DPT_TRY(choose_path(folder, &path, error));
    dpti_events *events = calloc(1, sizeof *events);
    dpt_status status =
        events ? DPT_OK : DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for TensorBoard's events");
    if (status == DPT_OK)
        status = dpti_output_open("TensorBoard's events ", path, &events->output, error);
    free(path);
    if (status != DPT_OK) {
        free(events);
        return status;
    }
    events->written_at = dpti_seconds();
    add_version(events);
    add_start(events, first_step);
    status = dpti_events_flush(events, error); /* a full disk should be found before training */
    if (status == DPT_OK)
        *out = events;
    else
        (void)dpti_events_close(events, NULL);
    return status;
}

/* ---- Summaries ------------------------------------------------------------------------------- */

enum { SUMMARY_VALUE = 1 };
enum { VALUE_TAG = 1, VALUE_SIMPLE = 2, VALUE_HISTOGRAM = 5, VALUE_TENSOR = 8, VALUE_METADATA = 9 };

/* Adds an event with a summary, which is freed. */
static void add_summary(dpti_events *events, size_t step, dpti_message *summary)
{
    dpti_message event = begin_event();
    dpti_message_integer(&event, EVENT_STEP, step);
    dpti_message_nest(&event, EVENT_SUMMARY, summary);
    add_record(events, &event);
}

void dpti_events_scalars(dpti_events *events, size_t step, const dpti_scalar *scalars, size_t n)
{
    dpti_message summary = {.bytes = NULL};
    if (n == 0 || events->error.status != DPT_OK) return;
    for (size_t i = 0; i < n; i++) {
        dpti_message value = {.bytes = NULL};
        dpti_message_text(&value, VALUE_TAG, scalars[i].tag);
        dpti_message_float(&value, VALUE_SIMPLE, (float)scalars[i].value);
        dpti_message_nest(&summary, SUMMARY_VALUE, &value);
    }
    add_summary(events, step, &summary);
}

/* Which plug-in of TensorBoard shows a value, and what it is told. */
typedef struct plugin {
    const char *name;
    dpti_bytes content;
} plugin;

static void put_metadata(dpti_message *value, const plugin *shown_by)
{
    enum { PLUGIN_DATA = 1, DATA_CLASS = 4, NAME = 1, CONTENT = 2, TENSOR = 2 };
    dpti_message metadata = {.bytes = NULL}, data = {.bytes = NULL};
    dpti_message_text(&data, NAME, shown_by->name);
    if (shown_by->content.n_bytes > 0) dpti_message_bytes(&data, CONTENT, shown_by->content);
    dpti_message_nest(&metadata, PLUGIN_DATA, &data);
    dpti_message_integer(&metadata, DATA_CLASS, TENSOR);
    dpti_message_nest(value, VALUE_METADATA, &metadata);
}

enum { TENSOR_TYPE = 1, TENSOR_SHAPE = 2, TENSOR_STRINGS = 8, TYPE_FLOAT = 1, TYPE_STRING = 7 };

void dpti_events_text(dpti_events *events, size_t step, const dpti_event_text *text)
{
    dpti_message summary = {.bytes = NULL}, value = {.bytes = NULL}, tensor = {.bytes = NULL};
    dpti_message scalar = {.bytes = NULL};
    if (events->error.status != DPT_OK) return;
    dpti_message_text(&value, VALUE_TAG, text->tag);
    put_metadata(&value, &(plugin){.name = "text"});
    dpti_message_integer(&tensor, TENSOR_TYPE, TYPE_STRING);
    dpti_message_nest(&tensor, TENSOR_SHAPE, &scalar); /* no dimension */
    dpti_message_text(&tensor, TENSOR_STRINGS, text->text);
    dpti_message_nest(&value, VALUE_TENSOR, &tensor);
    dpti_message_nest(&summary, SUMMARY_VALUE, &value);
    add_summary(events, step, &summary);
}

/* ---- Histograms ------------------------------------------------------------------------------ */

typedef struct histogram {
    double low, high, n, sum, squares;
    double limits[BINS], counts[BINS]; /* the upper end of each bin, and its values */
} histogram;

static void find_range(const dpti_event_values *values, histogram *h)
{
    *h = (histogram){.low = INFINITY, .high = -INFINITY};
    for (size_t i = 0; i < values->n; i++) {
        const double value = (double)values->values[i];
        if (!isfinite(value)) continue;
        h->low = fmin(h->low, value);
        h->high = fmax(h->high, value);
        h->n++;
        h->sum += value;
        h->squares += value * value;
    }
}

/* Bins of one width.  The last bin includes its upper end. */
static void count_bins(const dpti_event_values *values, histogram *h)
{
    const double width = (h->high - h->low) / BINS;
    for (size_t b = 0; b < BINS; b++)
        h->limits[b] = b + 1 < BINS ? h->low + (double)(b + 1) * width : h->high;
    for (size_t i = 0; i < values->n; i++) {
        const double value = (double)values->values[i];
        if (!isfinite(value)) continue;
        const double at = width > 0 ? (value - h->low) / width : 0;
        h->counts[at < BINS - 1 ? (size_t)at : BINS - 1]++;
    }
}

void dpti_events_histogram(dpti_events *events, size_t step, const dpti_event_values *values)
{
    enum { MIN = 1, MAX = 2, NUM = 3, SUM = 4, SUM_SQUARES = 5, BUCKET_LIMIT = 6, BUCKET = 7 };
    dpti_message summary = {.bytes = NULL}, value = {.bytes = NULL}, shown = {.bytes = NULL};
    histogram h;
    find_range(values, &h);
    if (!(h.n > 0) || events->error.status != DPT_OK) return;
    count_bins(values, &h);
    dpti_message_double(&shown, MIN, h.low);
    dpti_message_double(&shown, MAX, h.high);
    dpti_message_double(&shown, NUM, h.n);
    dpti_message_double(&shown, SUM, h.sum);
    dpti_message_double(&shown, SUM_SQUARES, h.squares);
    dpti_message_doubles(&shown, BUCKET_LIMIT, h.limits, BINS);
    dpti_message_doubles(&shown, BUCKET, h.counts, BINS);
    dpti_message_text(&value, VALUE_TAG, values->tag);
    dpti_message_nest(&value, VALUE_HISTOGRAM, &shown);
    dpti_message_nest(&summary, SUMMARY_VALUE, &value);
    add_summary(events, step, &summary);
}

/* ---- Hyper-parameters ------------------------------------------------------------------------ */

enum { DATA_EXPERIMENT = 2, DATA_START = 3, DATA_END = 4 };

/* Adds what the plug-in for hyper-parameters reads: a value without numbers, whose metadata has the
   `field` of the plug-in's data.  `content` is freed. */
static void add_plugin_data(dpti_events *events, const char *tag, unsigned field,
                            dpti_message *content)
{
    enum { DIMENSION = 2, SIZE = 1 };
    dpti_message data = {.bytes = NULL}, summary = {.bytes = NULL}, value = {.bytes = NULL};
    dpti_message tensor = {.bytes = NULL}, shape = {.bytes = NULL}, extent = {.bytes = NULL};
    dpti_message_nest(&data, field, content);
    if (data.failed) summary.failed = true;
    dpti_message_text(&value, VALUE_TAG, tag);
    put_metadata(&value, &(plugin){"hparams", {data.bytes, data.n_bytes}});
    dpti_message_free(&data);
    dpti_message_integer(&extent, SIZE, 0);
    dpti_message_nest(&shape, DIMENSION, &extent);
    dpti_message_integer(&tensor, TENSOR_TYPE, TYPE_FLOAT);
    dpti_message_nest(&tensor, TENSOR_SHAPE, &shape);
    dpti_message_nest(&value, VALUE_TENSOR, &tensor);
    dpti_message_nest(&summary, SUMMARY_VALUE, &value);
    add_summary(events, 0, &summary);
}

static bool is_number(const char *text, double *number)
{
    const bool negative = text[0] == '-';
    if (!dpti_parse_real(text + negative, 0, 1e300, number)) return false;
    if (negative) *number = -*number;
    return true;
}

static void add_experiment(dpti_events *events, const dpti_event_parameters *parameters)
{
    enum { PARAMETER_INFOS = 4, METRIC_INFOS = 5, INFO_NAME = 1, INFO_TYPE = 4, METRIC_TAG = 2 };
    enum { STRING = 1, NUMBER = 3 };
    dpti_message experiment = {.bytes = NULL};
    double number;
    for (size_t i = 0; i < parameters->n; i++) {
        dpti_message info = {.bytes = NULL};
        dpti_message_text(&info, INFO_NAME, parameters->list[i].name);
        dpti_message_integer(&info, INFO_TYPE,
                             is_number(parameters->list[i].value, &number) ? NUMBER : STRING);
        dpti_message_nest(&experiment, PARAMETER_INFOS, &info);
    }
    for (size_t i = 0; i < parameters->n_metrics; i++) {
        dpti_message info = {.bytes = NULL}, name = {.bytes = NULL};
        dpti_message_text(&name, METRIC_TAG, parameters->metrics[i]);
        dpti_message_nest(&info, INFO_NAME, &name);
        dpti_message_nest(&experiment, METRIC_INFOS, &info);
    }
    add_plugin_data(events, "_hparams_/experiment", DATA_EXPERIMENT, &experiment);
}

static void add_session(dpti_events *events, const dpti_event_parameters *parameters)
{
    enum { PARAMETERS = 1, START_TIME = 5, KEY = 1, VALUE = 2, NUMBER = 2, STRING = 3 };
    dpti_message start = {.bytes = NULL};
    double number;
    for (size_t i = 0; i < parameters->n; i++) {
        dpti_message entry = {.bytes = NULL}, value = {.bytes = NULL};
        dpti_message_text(&entry, KEY, parameters->list[i].name);
        if (is_number(parameters->list[i].value, &number))
            dpti_message_double(&value, NUMBER, number);
        else
            dpti_message_text(&value, STRING, parameters->list[i].value);
        dpti_message_nest(&entry, VALUE, &value);
        dpti_message_nest(&start, PARAMETERS, &entry);
    }
    dpti_message_double(&start, START_TIME, wall_time());
    add_plugin_data(events, "_hparams_/session_start_info", DATA_START, &start);
}

void dpti_events_parameters(dpti_events *events, const dpti_event_parameters *parameters)
{
    if (events->error.status != DPT_OK) return;
    add_experiment(events, parameters);
    add_session(events, parameters);
}

void dpti_events_finished(dpti_events *events)
{
    enum { STATUS = 1, END_TIME = 2, SUCCESS = 1 };
    dpti_message end = {.bytes = NULL};
    if (events->error.status != DPT_OK) return;
    dpti_message_integer(&end, STATUS, SUCCESS);
    dpti_message_double(&end, END_TIME, wall_time());
    add_plugin_data(events, "_hparams_/session_end_info", DATA_END, &end);
}
