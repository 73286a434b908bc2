/* Visits images one after the other.  Images that are read on demand are read in runs: while one
   run is visited, the next one is read. */
#include "data/visit.h"

#include "data/ahead.h"
#include "dpt_error.h"

#include <stdlib.h>

enum {
    RUNS = 2,
    RUN_IMAGES = 256,    /* largest number of images of a run */
    RUN_BYTES = 1 << 26, /* largest size of a run */
};

typedef struct tour {
    const dpt_dataset *data;
    size_t stride, n; /* samples 0, stride, ..., (n - 1) * stride */
    dpti_visitor *visit;
    void *user;
    size_t most; /* images of a run */
    uint32_t *records;
    uint8_t *image;
    dpti_ahead *ahead;
} tour;

static void visit_memory(const tour *t)
{
    const size_t image_bytes = dpti_dataset_image_bytes(t->data);
    for (size_t i = 0; i < t->n; i++) {
        const size_t sample = i * t->stride, record = dpti_dataset_record(t->data, sample);
        t->visit(t->user, sample, (const uint8_t *)t->data->images + record * image_bytes);
    }
}

/* Returns the number of images in the run that begins with the image `first`. */
static size_t list_run(const tour *t, size_t first)
{
    const size_t left = t->n - first, n = left < t->most ? left : t->most;
    for (size_t i = 0; i < n; i++)
        t->records[i] = (uint32_t)dpti_dataset_record(t->data, (first + i) * t->stride);
    return n;
}

static void begin_run(const tour *t, size_t first)
{
    if (first < t->n)
        dpti_ahead_begin(
            t->ahead,
            &(dpti_ahead_run){.key = first, .records = t->records, .n = list_run(t, first)});
}

static dpt_status visit_run(const tour *t, size_t first, dpt_error *error)
{
    begin_run(t, first);
    begin_run(t, first + t->most);
    const size_t n = list_run(t, first);
    DPT_TRY(dpti_ahead_wait(t->ahead,
                            &(dpti_ahead_run){.key = first, .records = t->records, .n = n}, error));
    for (size_t i = 0; i < n; i++) {
        dpti_ahead_copy(t->ahead,
                        &(dpti_ahead_run){.key = first, .records = t->records + i, .n = 1},
                        t->image, NULL);
        t->visit(t->user, (first + i) * t->stride, t->image);
    }
    return DPT_OK;
}

static dpt_status visit_read(tour *t, dpt_error *error)
{
    const size_t image_bytes = dpti_dataset_image_bytes(t->data);
    const size_t fit = RUN_BYTES / image_bytes > 0 ? RUN_BYTES / image_bytes : 1;
    t->most = fit < RUN_IMAGES ? fit : RUN_IMAGES;
    t->records = calloc(t->most, sizeof *t->records);
    t->image = malloc(image_bytes);
    t->ahead = dpti_ahead_create(t->data, RUNS, NULL);
    dpt_status status = t->records && t->image && t->ahead ? DPT_OK : DPT_E_NO_MEMORY;
    for (size_t first = 0; status == DPT_OK && first < t->n; first += t->most)
        status = visit_run(t, first, error);
    dpti_ahead_destroy(t->ahead);
    free(t->image);
    free(t->records);
    if (status == DPT_E_NO_MEMORY)
        return DPT_FAIL(error, status, "no memory to read images of %s", t->data->name);
    return status;
}

dpt_status dpti_dataset_visit(const dpt_dataset *data, const dpti_visit *how, dpt_error *error)
{
    tour t = {.data = data,
              .stride = how->stride,
              .n = (data->count - 1) / how->stride + 1,
              .visit = how->visit,
              .user = how->user};
    if (data->reader) return visit_read(&t, error);
    visit_memory(&t);
    return DPT_OK;
}
