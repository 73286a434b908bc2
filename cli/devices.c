/* dptrain devices: a table of this machine's devices and their speed, and why others are absent. */
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum column {
    DEVICE,
    ALIAS,
    NAME,
    UNITS,
    MEMORY,
    FLOPS,
    UP,
    DOWN,
    COPY,
    DETAIL,
    N_COLUMNS,
} column;

static const char *const titles[N_COLUMNS] = {
    [DEVICE] = "DEVICE",  [ALIAS] = "ALIAS",   [NAME] = "NAME",  [UNITS] = "UNITS",
    [MEMORY] = "MEMORY",  [FLOPS] = "GFLOP/s", [UP] = "UP GB/s", [DOWN] = "DOWN GB/s",
    [COPY] = "COPY GB/s", [DETAIL] = "DETAIL",
};

/* Columns that are aligned to the right. */
static const bool right[N_COLUMNS] = {
    [UNITS] = true, [MEMORY] = true, [FLOPS] = true, [UP] = true, [DOWN] = true, [COPY] = true,
};

enum { CELL_BYTES = 640 }; /* enough for a message */

typedef struct row {
    char cell[N_COLUMNS][CELL_BYTES];
    bool host_memory; /* the device's memory is host memory */
} row;

typedef struct table {
    dpt_context *context;
    const dpt_device_set *set; /* the devices to show; NULL: all known devices */
    bool measure;
    bool shows[N_COLUMNS];
    size_t n_rows;
    row *rows;
} table;

/* ---- Cells ----------------------------------------------------------------------------------- */

static void format_memory(size_t bytes, char out[CELL_BYTES])
{
    const double gib = (double)bytes / (1024.0 * 1024.0 * 1024.0);
    if (bytes == 0)
        snprintf(out, CELL_BYTES, "-");
    else if (gib >= 1)
        snprintf(out, CELL_BYTES, "%.1f GiB", gib);
    else
        snprintf(out, CELL_BYTES, "%.1f MiB", gib * 1024);
}

/* Formats a rate in units of 10^9, with at least three digits. */
static void format_rate(double rate, const char *mark, char out[CELL_BYTES])
{
    const double giga = rate / 1e9;
    snprintf(out, CELL_BYTES, "%.*f%s", giga < 10 ? 2 : giga < 100 ? 1 : 0, giga, mark);
}

static void fill(const dpt_device_info *device, row *out)
{
    snprintf(out->cell[DEVICE], CELL_BYTES, "%s", device->id);
    snprintf(out->cell[ALIAS], CELL_BYTES, "%s", device->alias);
    snprintf(out->cell[NAME], CELL_BYTES, "%s", device->name);
    if (device->n_threads)
        snprintf(out->cell[UNITS], CELL_BYTES, "%u", device->n_threads);
    else
        snprintf(out->cell[UNITS], CELL_BYTES, "-");
    format_memory(device->memory_bytes, out->cell[MEMORY]);
    for (column c = FLOPS; c <= COPY; c++)
        snprintf(out->cell[c], CELL_BYTES, "-");
    snprintf(out->cell[DETAIL], CELL_BYTES, "%s", device->detail);
}

static void fill_rates(const dpt_device_rates *rates, row *out)
{
    const char *mark = rates->host_memory ? "*" : "";
    out->host_memory = rates->host_memory;
    format_rate(rates->flops, "", out->cell[FLOPS]);
    format_rate(rates->upload_bytes, mark, out->cell[UP]);
    format_rate(rates->download_bytes, mark, out->cell[DOWN]);
    format_rate(rates->copy_bytes, mark, out->cell[COPY]);
}

/* ---- Measuring ------------------------------------------------------------------------------- */

/* Puts the reason in the place of the detail, without the device's name, which the row has already.
 */
static void fill_reason(const dpt_context *context, const char *what, row *out)
{
    const char *reason = dpt_error_message(context), *id = out->cell[DEVICE];
    char prefix[CELL_BYTES + 16];
    const int length = snprintf(prefix, sizeof prefix, "device %s: ", id);
    if (strncmp(reason, prefix, (size_t)length) == 0) reason += length;
    snprintf(out->cell[DETAIL], CELL_BYTES, "%s: %s", what, reason);
}

static void measure(dpt_context *context, dpt_device *device, row *out)
{
    dpt_device_rates rates = {.size = sizeof rates};
    if (dpt_device_measure(device, &rates) == DPT_OK)
        fill_rates(&rates, out);
    else
        fill_reason(context, "not measured", out);
}

/* Opens the device of a row by its name, measures it, and closes it. */
static void measure_alone(dpt_context *context, row *out)
{
    dpt_device_set *set = NULL;
    if (dpt_device_set_open(context, out->cell[DEVICE], &set) == DPT_OK)
        measure(context, dpt_device_set_get(set, 0), out);
    else
        fill_reason(context, "cannot be opened", out);
    dpt_device_set_close(set);
}

static void announce(const row *r)
{
    if (!cli_can_redraw(STDERR_FILENO)) return;
    if (r)
        fprintf(stderr, "\r\033[Kmeasuring %s ...", r->cell[DEVICE]);
    else
        fprintf(stderr, "\r\033[K");
    fflush(stderr);
}

/* ---- The table ------------------------------------------------------------------------------- */

static size_t count_devices(const table *t)
{
    if (t->set) return dpt_device_set_count(t->set);
    size_t n = 0;
    for (size_t b = 0; b < dpt_backend_count(t->context); b++)
        n += dpt_backend_device_count(t->context, b);
    return n;
}

/* Fills a row with the description of a device.  If the device cannot be described, the row has the
   error, and the result is false. */
static bool describe(const table *t, size_t i, row *out)
{
    dpt_device_info device = {.size = sizeof device, .alias = "", .name = "-", .detail = ""};
    bool known = true;
    if (t->set) {
        dpt_device_describe(dpt_device_set_get(t->set, i), &device);
    } else {
        size_t b = 0;
        for (; i >= dpt_backend_device_count(t->context, b); b++)
            i -= dpt_backend_device_count(t->context, b);
        known = dpt_backend_describe(t->context, b, i, &device) == DPT_OK;
        if (!known) {
            device.id = dpt_backend_name(t->context, b);
            device.detail = dpt_error_message(t->context);
        }
    }
    fill(&device, out);
    return known;
}

/* Measures one device after the other, so that none disturbs another. */
static void fill_rows(table *t)
{
    for (size_t i = 0; i < t->n_rows; i++) {
        row *out = &t->rows[i];
        const bool known = describe(t, i, out);
        if (t->measure && known) {
            announce(out);
            if (t->set)
                measure(t->context, dpt_device_set_get(t->set, i), out);
            else
                measure_alone(t->context, out);
            announce(NULL);
        }
        if (out->cell[ALIAS][0]) t->shows[ALIAS] = true;
    }
}

static void print_row(const table *t, const row *r, const int *width)
{
    for (column c = 0; c < DETAIL; c++)
        if (t->shows[c]) printf("%*s  ", right[c] ? width[c] : -width[c], r->cell[c]);
    printf("%s\n", r->cell[DETAIL]);
}

static void print_rows(const table *t)
{
    row heading = {.host_memory = false};
    int width[N_COLUMNS];
    bool host_memory = false;
    for (column c = 0; c < N_COLUMNS; c++) {
        snprintf(heading.cell[c], CELL_BYTES, "%s", titles[c]);
        width[c] = (int)strlen(titles[c]);
        for (size_t i = 0; i < t->n_rows; i++) {
            const int length = (int)strlen(t->rows[i].cell[c]);
            if (length > width[c]) width[c] = length;
        }
    }
    print_row(t, &heading, width);
    for (size_t i = 0; i < t->n_rows; i++) {
        print_row(t, &t->rows[i], width);
        host_memory = host_memory || t->rows[i].host_memory;
    }
    if (host_memory) printf("* a copy within host memory, which is the memory of this device\n");
}

static dpt_status print_table(table *t)
{
    t->n_rows = count_devices(t);
    t->rows = calloc(t->n_rows + 1, sizeof *t->rows);
    if (!t->rows) return dpt_fail(t->context, DPT_E_NO_MEMORY, "out of memory");
    for (column c = 0; c < N_COLUMNS; c++)
        t->shows[c] = c == ALIAS ? false : c >= FLOPS && c <= COPY ? t->measure : true;
    fill_rows(t);
    print_rows(t);
    free(t->rows);
    return DPT_OK;
}

static void print_absent(const dpt_context *context)
{
    for (size_t b = 0; b < dpt_backend_count(context); b++) {
        const char *reason = dpt_backend_reason(context, b);
        const bool hung = dpt_backend_status(context, b) == DPT_E_DEVICE_LOST;
        if (reason)
            printf("%s: %s%s\n", dpt_backend_name(context, b), hung ? "" : "absent: ", reason);
    }
}

int cli_devices(const cli_options *options)
{
    dpt_context *context = NULL;
    dpt_device_set *set = NULL;
    dpt_status status = cli_open_context(options, &context);
    if (status != DPT_OK) return cli_fail(NULL, status);
    if (options->devices) status = dpt_device_set_open(context, options->devices, &set);
    if (set) cli_tell_left_out(context);
    table t = {.context = context, .set = set, .measure = !options->no_measure};
    if (status == DPT_OK && !set && count_devices(&t) == 0) {
        print_absent(context);
        /* Fails with the library's message for a machine without a device. */
        status = dpt_device_set_open(context, "all", &set);
    } else if (status == DPT_OK) {
        status = print_table(&t);
        if (!set) print_absent(context);
    }
    const int code = status == DPT_OK ? CLI_OK : cli_fail(context, status);
    dpt_device_set_close(set);
    const size_t n_stuck = dpt_context_abandoned(context);
    dpt_context_destroy(context);
    if (n_stuck > 0) cli_leave(n_stuck, code);
    return code;
}
