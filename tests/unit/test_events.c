/* Tests TensorBoard's event files with a reader of their own, which checks lengths, checksums and
   messages: what is written is read back, in whole records also when the disk is full. */
#include "base/crc32c.h"
#include "harness.h"
#include "io/events.h"

#include <dirent.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- A reader -------------------------------------------------------------------------------- */

enum { MAX_EVENTS = 4096 };

typedef struct span {
    const uint8_t *at;
    size_t n;
} span;

typedef struct field {
    unsigned number, type;
    uint64_t value; /* of a varint, and the bits of a fixed number */
    span bytes;
} field;

static uint64_t little(const uint8_t *at, size_t n)
{
    uint64_t value = 0;
    for (size_t i = n; i-- > 0;)
        value = value << 8 | at[i];
    return value;
}

static bool take_varint(span *from, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; from->n > 0 && shift < 64; shift += 7) {
        const uint8_t byte = *from->at++;
        from->n--;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

/* Takes the next field of a message; false at the end, or if the message is damaged. */
static bool take(span *from, field *out)
{
    uint64_t key, length = 0;
    if (from->n == 0 || !take_varint(from, &key)) return false;
    *out = (field){.number = (unsigned)(key >> 3), .type = (unsigned)(key & 7)};
    if (out->type == 0) return take_varint(from, &out->value);
    if (out->type == 2 && !take_varint(from, &length)) return false;
    if (out->type == 1) length = 8;
    if (out->type == 5) length = 4;
    if (length > from->n || (out->type != 1 && out->type != 2 && out->type != 5)) return false;
    out->bytes = (span){from->at, (size_t)length};
    if (out->type != 2) out->value = little(from->at, (size_t)length);
    from->at += length;
    from->n -= (size_t)length;
    return true;
}

/* The i-th field of that number. */
static bool find(span message, unsigned number, size_t i, field *out)
{
    while (take(&message, out))
        if (out->number == number && i-- == 0) return true;
    return false;
}

static span inner(span message, unsigned number)
{
    field f;
    return find(message, number, 0, &f) && f.type == 2 ? f.bytes : (span){NULL, 0};
}

static bool is_text(span message, unsigned number, const char *text)
{
    const span found = inner(message, number);
    return found.at && found.n == strlen(text) && memcmp(found.at, text, found.n) == 0;
}

static double real_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double number(span message, unsigned of)
{
    field f;
    float value;
    if (!find(message, of, 0, &f)) return NAN;
    if (f.type == 0) return (double)f.value;
    if (f.type == 1) return real_of(f.value);
    const uint32_t bits = (uint32_t)f.value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* One bit at a time, unlike the writer. */
static uint32_t plain_crc(const uint8_t *at, size_t n)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static uint32_t masked(const uint8_t *at, size_t n)
{
    const uint32_t crc = plain_crc(at, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

typedef struct event_file {
    char path[600];
    uint8_t *bytes;
    size_t n_bytes, n;
    span events[MAX_EVENTS];
} event_file;

/* Reads all records; false if one is damaged. */
static bool read_records(event_file *file)
{
    span rest = {file->bytes, file->n_bytes};
    file->n = 0;
    while (rest.n > 0 && file->n < MAX_EVENTS) {
        if (rest.n < 16 || little(rest.at + 8, 4) != masked(rest.at, 8)) return false;
        const uint64_t n = little(rest.at, 8);
        if (n > rest.n - 16) return false;
        const span content = {rest.at + 12, (size_t)n};
        if (little(content.at + n, 4) != masked(content.at, content.n)) return false;
        file->events[file->n++] = content;
        rest.at += n + 16;
        rest.n -= (size_t)n + 16;
    }
    return rest.n == 0;
}

/* Reads the event file whose name is the last one in the folder. */
static bool read_last(const char *folder, event_file *file)
{
    char last[256] = "";
    DIR *list = opendir(folder);
    *file = (event_file){.n = 0};
    if (!list) return false;
    for (const struct dirent *e; (e = readdir(list));)
        if (strstr(e->d_name, "tfevents") && strcmp(e->d_name, last) > 0)
            snprintf(last, sizeof last, "%s", e->d_name);
    closedir(list);
    snprintf(file->path, sizeof file->path, "%s/%s", folder, last);
    FILE *in = fopen(file->path, "rb");
    if (!in) return false;
    file->bytes = malloc(8u << 20);
    file->n_bytes = file->bytes ? fread(file->bytes, 1, 8u << 20, in) : 0;
    fclose(in);
    return file->bytes && read_records(file);
}

enum {
    STEP = 2,
    SUMMARY = 5,
    SESSION = 7,
    TAG = 1,
    SIMPLE = 2,
    HISTOGRAM = 5,
    TENSOR = 8,
    META = 9
};

/* The i-th value of an event's summary. */
static span value_of(span event, size_t i)
{
    field f;
    return find(inner(event, SUMMARY), 1, i, &f) ? f.bytes : (span){NULL, 0};
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static void checksums(test *t)
{
    uint8_t bytes[48];
    CHECK_SIZE(dpti_crc32c("123456789", 9), 0xe3069283u);
    CHECK_SIZE(dpti_crc32c("", 0), 0);
    memset(bytes, 0, sizeof bytes); /* RFC 3720, B.4 */
    CHECK_SIZE(dpti_crc32c(bytes, 32), 0x8a9136aau);
    memset(bytes, 0xff, sizeof bytes);
    CHECK_SIZE(dpti_crc32c(bytes, 32), 0x62a8ab43u);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)(37 * i + n);
        CHECK_SIZE(dpti_crc32c(bytes, n), plain_crc(bytes, n));
    }
}

static void scalars(test *t)
{
    dpti_events *events = NULL;
    dpt_error error = {0};
    event_file file;
    const bool comma = test_set_comma_locale();
    REQUIRE_OK(dpti_events_open(".", 5, &events, &error));
    const dpti_scalar both[] = {{"loss/step", 1.5}, {"share/0 cpu", -0.25}};
    dpti_events_scalars(events, 5, both, 2);
    dpti_events_scalars(events, 1234567890123, both, 1);
    dpti_events_scalars(events, 6, both, 0); /* writes nothing */
    CHECK_OK(dpti_events_close(events, &error));
    if (comma) setlocale(LC_ALL, "C");
    REQUIRE(read_last(".", &file));
    REQUIRE(CHECK_SIZE(file.n, 4));
    CHECK(is_text(file.events[0], 3, "brain.Event:2"));
    CHECK(number(file.events[0], 1) > 1.7e9); /* seconds since 1970 */
    CHECK_NEAR(number(file.events[1], STEP), 5, 0);
    CHECK_NEAR(number(inner(file.events[1], SESSION), 1), 1, 0);
    CHECK_NEAR(number(file.events[2], STEP), 5, 0);
    for (size_t i = 0; i < 2; i++) {
        CHECK(is_text(value_of(file.events[2], i), TAG, both[i].tag));
        CHECK_NEAR(number(value_of(file.events[2], i), SIMPLE), both[i].value, 0);
    }
    CHECK(!value_of(file.events[2], 2).at);
    CHECK_NEAR(number(file.events[3], STEP), 1234567890123, 0);
    CHECK(!value_of(file.events[3], 1).at);
    free(file.bytes);
}

/* Files are in the order in which they were made, whatever the clock says. */
static void names(test *t)
{
    static const char *const others[] = {"order/events.out.tfevents.9000000000.host.1",
                                         "order/events.out.tfevents.x", "order/other"};
    event_file first, second;
    dpt_error error = {0};
    REQUIRE(mkdir("order", 0777) == 0);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        fclose(fopen(others[i], "w"));
    remove(others[1]); /* it would be read as the last one */
    for (size_t step = 1; step <= 2; step++) {
        dpti_events *events = NULL;
        REQUIRE_OK(dpti_events_open("order", step, &events, &error));
        CHECK_OK(dpti_events_close(events, &error));
        REQUIRE(read_last("order", step == 1 ? &first : &second));
    }
    CHECK(strcmp(first.path, others[0]) > 0);
    CHECK(strcmp(second.path, first.path) > 0);
    CHECK_NEAR(number(second.events[1], STEP), 2, 0);
    free(first.bytes);
    free(second.bytes);
}

static void texts(test *t)
{
    dpti_events *events = NULL;
    dpt_error error = {0};
    event_file file;
    REQUIRE(mkdir("texts", 0777) == 0);
    REQUIRE_OK(dpti_events_open("texts", 1, &events, &error));
    dpti_events_text(events, 7, &(dpti_event_text){"events", "lost: \xc3\xa9 \xff <b>"});
    CHECK_OK(dpti_events_close(events, &error));
    REQUIRE(read_last("texts", &file));
    REQUIRE(CHECK_SIZE(file.n, 3));
    const span value = value_of(file.events[2], 0);
    CHECK(is_text(value, TAG, "events"));
    CHECK(is_text(inner(inner(value, META), 1), 1, "text"));
    CHECK_NEAR(number(inner(value, TENSOR), 1), 7, 0); /* DT_STRING */
    CHECK(is_text(inner(value, TENSOR), 8, "lost: \xc3\xa9 ? <b>"));
    free(file.bytes);
}

static void check_histogram(test *t, span histogram, const double expected[5])
{
    double counts = 0, last = -INFINITY;
    for (unsigned i = 0; i < 5; i++)
        CHECK_NEAR(number(histogram, i + 1), expected[i], 1e-12);
    const span limits = inner(histogram, 6), buckets = inner(histogram, 7);
    REQUIRE(limits.n == buckets.n && limits.n % 8 == 0 && limits.n > 0);
    for (size_t i = 0; i < limits.n; i += 8) {
        CHECK(real_of(little(limits.at + i, 8)) >= last);
        last = real_of(little(limits.at + i, 8));
        counts += real_of(little(buckets.at + i, 8));
    }
    CHECK_NEAR(last, expected[1], 0);
    CHECK_NEAR(counts, expected[2], 0);
}

static void histograms(test *t)
{
    dpti_events *events = NULL;
    dpt_error error = {0};
    event_file file;
    const float values[] = {1.0f, -2.0f, NAN, 0.5f, 3.0f, -INFINITY, 3.0f}, same[] = {4.0f, 4.0f};
    const float bad[] = {NAN};
    REQUIRE(mkdir("histograms", 0777) == 0);
    REQUIRE_OK(dpti_events_open("histograms", 1, &events, &error));
    dpti_events_histogram(events, 1, &(dpti_event_values){"a", values, 7});
    dpti_events_histogram(events, 1, &(dpti_event_values){"b", same, 2});
    dpti_events_histogram(events, 1, &(dpti_event_values){"c", bad, 1});
    CHECK_OK(dpti_events_close(events, &error));
    REQUIRE(read_last("histograms", &file));
    REQUIRE(CHECK_SIZE(file.n, 4)); /* nothing is left of c */
    check_histogram(t, inner(value_of(file.events[2], 0), HISTOGRAM),
                    (const double[]){-2, 3, 5, 5.5, 23.25});
    check_histogram(t, inner(value_of(file.events[3], 0), HISTOGRAM),
                    (const double[]){4, 4, 2, 8, 32});
    free(file.bytes);
}

/* What the plug-in for hyper-parameters is told by an event. */
static span plugin_data(span event)
{
    const span data = inner(inner(value_of(event, 0), META), 1);
    return is_text(data, 1, "hparams") ? inner(data, 2) : (span){NULL, 0};
}

static void parameters(test *t)
{
    static const dpti_event_parameter list[] = {{"lr", "0.1"}, {"optimizer", "sgd"}, {"x", "-3e2"}};
    static const char *const metrics[] = {"loss/test"};
    dpti_events *events = NULL;
    dpt_error error = {0};
    event_file file;
    field f;
    REQUIRE(mkdir("parameters", 0777) == 0);
    REQUIRE_OK(dpti_events_open("parameters", 1, &events, &error));
    dpti_events_parameters(events, &(dpti_event_parameters){list, 3, metrics, 1});
    dpti_events_finished(events);
    CHECK_OK(dpti_events_close(events, &error));
    REQUIRE(read_last("parameters", &file));
    REQUIRE(CHECK_SIZE(file.n, 5));
    const span experiment = inner(plugin_data(file.events[2]), 2);
    const span start = inner(plugin_data(file.events[3]), 3);
    const span end = inner(plugin_data(file.events[4]), 4);
    CHECK(is_text(value_of(file.events[2], 0), TAG, "_hparams_/experiment"));
    CHECK(is_text(value_of(file.events[3], 0), TAG, "_hparams_/session_start_info"));
    CHECK(is_text(value_of(file.events[4], 0), TAG, "_hparams_/session_end_info"));
    CHECK(is_text(inner(inner(experiment, 5), 1), 2, "loss/test"));
    for (size_t i = 0; i < 3; i++) {
        REQUIRE(find(start, 1, i, &f));
        CHECK(is_text(f.bytes, 1, list[i].name));
        const span value = inner(f.bytes, 2);
        if (i == 1)
            CHECK(is_text(value, 3, "sgd"));
        else
            CHECK_NEAR(number(value, 2), i == 0 ? 0.1 : -300, 1e-12);
    }
    CHECK_NEAR(number(end, 1), 1, 0);
    free(file.bytes);
}

static void absent_folder(test *t)
{
    dpti_events *events = NULL;
    dpt_error error = {0};
    CHECK_STATUS(dpti_events_open("nowhere", 1, &events, &error), DPT_E_IO);
    CHECK_CONTAINS(error.message, "nowhere");
    CHECK(events == NULL);
    CHECK_OK(dpti_events_close(NULL, &error));
}

/* A file that cannot grow has whole records, and every call tells the failure. */
static void no_space(test *t)
{
    dpti_events *events = NULL;
    dpt_error error = {0}, later = {0};
    event_file file;
    struct rlimit before, little_space;
    REQUIRE(mkdir("full", 0777) == 0 && getrlimit(RLIMIT_FSIZE, &before) == 0);
    signal(SIGXFSZ, SIG_IGN);
    little_space = (struct rlimit){2000, before.rlim_max};
    REQUIRE_OK(dpti_events_open("full", 1, &events, &error));
    for (size_t step = 1; step <= 20; step++)
        dpti_events_scalars(events, step, &(dpti_scalar){"loss/step", 1}, 1);
    CHECK_OK(dpti_events_flush(events, &error));
    REQUIRE(setrlimit(RLIMIT_FSIZE, &little_space) == 0);
    for (size_t step = 21; step <= 200; step++)
        dpti_events_scalars(events, step, &(dpti_scalar){"loss/step", 1}, 1);
    CHECK_STATUS(dpti_events_flush(events, &error), DPT_E_IO);
    CHECK_CONTAINS(error.message, "cannot write TensorBoard's events full/events.out.tfevents.");
    CHECK_STATUS(dpti_events_status(events, &later), DPT_E_IO);
    CHECK_STATUS(dpti_events_close(events, &later), DPT_E_IO);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK(read_last("full", &file));
    CHECK_SIZE(file.n, 22);
    free(file.bytes);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"checksums", checksums},
        {"scalars", scalars},
        {"names", names},
        {"texts", texts},
        {"histograms", histograms},
        {"hyper-parameters", parameters},
        {"a folder that does not exist", absent_folder},
        {"no space", no_space},
    };
    char folder[TEST_FOLDER_BYTES];
    if (!test_enter_folder(folder)) return 1;
    const int code = test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
    test_remove_folder(folder);
    return code;
}
