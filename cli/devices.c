/* dptrain devices: a table of what this machine has, and what is absent and why. */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_COLUMNS = 5, CELL_BYTES = 192 };

typedef struct row {
    char cell[N_COLUMNS][CELL_BYTES];
} row;

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

static void fill(const dpt_device_description *device, row *out)
{
    snprintf(out->cell[0], CELL_BYTES, "%s", device->id);
    snprintf(out->cell[1], CELL_BYTES, "%s", device->name);
    if (device->n_threads)
        snprintf(out->cell[2], CELL_BYTES, "%u", device->n_threads);
    else
        snprintf(out->cell[2], CELL_BYTES, "-");
    format_memory(device->memory_bytes, out->cell[3]);
    snprintf(out->cell[4], CELL_BYTES, "%s", device->detail);
}

/* What the table shows: the devices of an open set, or all that the registry knows. */
typedef struct listing {
    dpt_context *context;
    const dpt_device_set *set; /* NULL: the registry */
} listing;

static size_t listing_count(const listing *from)
{
    if (from->set) return dpt_devices_count(from->set);
    size_t n = 0;
    for (size_t b = 0; b < dpt_backend_count(from->context); b++)
        n += dpt_backend_device_count(from->context, b);
    return n;
}

/* A device that cannot say what it is stands in the table with what it says instead. */
static void listing_get(const listing *from, size_t i, row *out)
{
    dpt_device_description device = {.name = "-", .detail = ""};
    if (from->set) {
        dpt_device_describe(dpt_devices_get(from->set, i), &device);
    } else {
        size_t b = 0;
        for (; i >= dpt_backend_device_count(from->context, b); b++)
            i -= dpt_backend_device_count(from->context, b);
        if (dpt_backend_describe(from->context, b, i, &device) != DPT_OK) {
            device.id = dpt_backend_name(from->context, b);
            device.detail = dpt_error_message(from->context);
        }
    }
    fill(&device, out);
}

static void print_rows(const row *rows, size_t n_rows)
{
    size_t width[N_COLUMNS] = {0};
    for (size_t r = 0; r < n_rows; r++) {
        for (size_t c = 0; c < N_COLUMNS; c++) {
            const size_t length = strlen(rows[r].cell[c]);
            if (length > width[c]) width[c] = length;
        }
    }
    for (size_t r = 0; r < n_rows; r++) {
        for (size_t c = 0; c + 1 < N_COLUMNS; c++)
            printf("%-*s  ", (int)width[c], rows[r].cell[c]);
        printf("%s\n", rows[r].cell[N_COLUMNS - 1]);
    }
}

static dpt_status print_table(const listing *from)
{
    const size_t n = listing_count(from);
    row *rows = calloc(n + 1, sizeof *rows);
    if (!rows) return dpt_fail(from->context, DPT_E_NO_MEMORY, "out of memory");
    rows[0] = (row){{"DEVICE", "NAME", "THREADS", "MEMORY", "DETAIL"}};
    for (size_t i = 0; i < n; i++)
        listing_get(from, i, &rows[i + 1]);
    print_rows(rows, n + 1);
    free(rows);
    return DPT_OK;
}

static void print_absent(const dpt_context *context)
{
    for (size_t b = 0; b < dpt_backend_count(context); b++) {
        const char *reason = dpt_backend_reason(context, b);
        if (reason) printf("%s: absent: %s\n", dpt_backend_name(context, b), reason);
    }
}

int cli_devices(const cli_options *options)
{
    dpt_context *context = NULL;
    dpt_device_set *set = NULL;
    dpt_status status = dpt_context_create(&context);
    if (status != DPT_OK) return cli_fail(NULL, status);
    if (options->devices) status = dpt_devices_open(context, options->devices, &set);
    const listing from = {.context = context, .set = set};
    if (status == DPT_OK && !set && listing_count(&from) == 0) {
        print_absent(context);
        /* The library's own words for a machine without a device. */
        status = dpt_devices_open(context, "all", &set);
    } else if (status == DPT_OK) {
        status = print_table(&from);
        if (!set) print_absent(context);
    }
    const int code = status == DPT_OK ? CLI_OK : cli_fail(context, status);
    dpt_devices_close(set);
    dpt_context_destroy(context);
    return code;
}
