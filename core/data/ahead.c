/* Reading ahead: a list of runs of samples.  Each run has the request that reads it.  If a run
   turns out to differ from what is needed, a second request reads the remaining samples. */
#include "data/ahead.h"

#include "base/memory.h"
#include "data/reader.h"

#include <stdlib.h>
#include <string.h>

/* Records and room for their images. */
typedef struct images {
    dpti_request request;
    size_t room;       /* records */
    uint32_t *records; /* (room) */
    bool posted;       /* posted, and neither waited for nor dropped */
} images;

typedef struct kept_run {
    bool used;
    uint64_t key, begun; /* when the run was started, as a count of runs */
    size_t
        at; /* index after the record that was found last, because the next one is likely near it */
    images own, more;
} kept_run;

struct dpti_ahead {
    dpti_reader *reader;
    size_t read_bytes, image_bytes; /* of a record; an image, and labels if they are read */
    dpti_image_use use;
    uint64_t n_begun;
    size_t n_runs;
    kept_run runs[];
};

dpti_ahead *dpti_ahead_create(const dpt_dataset *data, size_t n_runs, const dpti_image_use *use)
{
    dpti_ahead *a = calloc(1, sizeof *a + n_runs * sizeof *a->runs);
    if (!a) return NULL;
    a->reader = data->reader;
    a->read_bytes = dpti_dataset_read_bytes(data);
    a->image_bytes = dpti_dataset_image_bytes(data);
    a->n_runs = n_runs;
    if (use) a->use = *use;
    return a;
}

static void drop(dpti_ahead *a, images *i)
{
    if (i->posted) dpti_reader_drop(a->reader, &i->request);
    i->posted = false;
    i->request.n = 0;
}

static void free_images(dpti_ahead *a, images *i)
{
    drop(a, i);
    free(i->request.images);
    free(i->records);
}

void dpti_ahead_destroy(dpti_ahead *ahead)
{
    for (size_t i = 0; ahead && i < ahead->n_runs; i++) {
        free_images(ahead, &ahead->runs[i].own);
        free_images(ahead, &ahead->runs[i].more);
    }
    free(ahead);
}

static bool make_room(dpti_ahead *a, images *i, size_t n)
{
    if (n <= i->room) return true;
    free(i->request.images);
    free(i->records);
    i->request.images = dpti_alloc_aligned(n * a->read_bytes);
    i->records = calloc(n, sizeof *i->records);
    i->room = i->request.images && i->records ? n : 0;
    return i->room > 0;
}

/* The caller has filled in i->records. */
static void post(dpti_ahead *a, images *i, size_t epoch, size_t n)
{
    i->request.use = a->use;
    i->request.use.epoch = epoch;
    i->request.records = i->records;
    i->request.n = n;
    i->posted = true;
    dpti_reader_post(a->reader, &i->request);
}

static dpt_status wait_for(dpti_ahead *a, images *i, dpt_error *error)
{
    if (!i->posted) return DPT_OK;
    i->posted = false;
    const dpt_status status = dpti_reader_wait(a->reader, &i->request, error);
    if (status != DPT_OK) i->request.n = 0; /* the run is read again */
    return status;
}

static kept_run *find_run(dpti_ahead *a, uint64_t key)
{
    for (size_t i = 0; i < a->n_runs; i++)
        if (a->runs[i].used && a->runs[i].key == key) return &a->runs[i];
    return NULL;
}

bool dpti_ahead_has(const dpti_ahead *ahead, uint64_t key)
{
    for (size_t i = 0; i < ahead->n_runs; i++)
        if (ahead->runs[i].used && ahead->runs[i].key == key) return true;
    return false;
}

static kept_run *oldest(dpti_ahead *a)
{
    kept_run *found = &a->runs[0];
    for (size_t i = 1; i < a->n_runs; i++)
        if (a->runs[i].begun < found->begun) found = &a->runs[i];
    return found;
}

void dpti_ahead_begin(dpti_ahead *ahead, const dpti_ahead_run *run)
{
    dpti_ahead *a = ahead;
    if (run->n == 0 || find_run(a, run->key)) return;
    kept_run *r = oldest(a);
    r->used = false;
    drop(a, &r->own);
    drop(a, &r->more);
    if (!make_room(a, &r->own, run->n)) return;
    memcpy(r->own.records, run->records, run->n * sizeof *run->records);
    r->used = true;
    r->key = run->key;
    r->begun = ++a->n_begun;
    r->at = 0;
    post(a, &r->own, run->epoch, run->n);
}

/* Returns the index of a record in `from`, searching from *at on and around; n if it is not
   there. */
static size_t find_record(const images *from, uint32_t record, size_t *at)
{
    const size_t n = from->request.n;
    for (size_t i = 0; i < n; i++) {
        const size_t k = *at + i < n ? *at + i : *at + i - n;
        if (from->records[k] != record) continue;
        *at = k + 1 < n ? k + 1 : 0;
        return k;
    }
    return n;
}

/* Reads the records that the run does not contain. */
static dpt_status read_more(dpti_ahead *a, kept_run *r, const dpti_ahead_run *wanted,
                            dpt_error *error)
{
    size_t n_more = 0;
    drop(a, &r->more);
    r->at = r->at < r->own.request.n ? r->at : 0;
    for (size_t i = 0; i < wanted->n; i++) {
        const uint32_t record = wanted->records[i];
        if (find_record(&r->own, record, &r->at) < r->own.request.n) continue;
        if (n_more == 0 && !make_room(a, &r->more, wanted->n)) return DPT_E_NO_MEMORY;
        r->more.records[n_more++] = record;
    }
    if (n_more == 0) return DPT_OK;
    post(a, &r->more, r->own.request.use.epoch, n_more);
    return wait_for(a, &r->more, error);
}

/* If reading the run failed, the run is empty, and all wanted records are read again as missing
   ones.  So a failure that does not repeat does not end the training. */
static dpt_status wait_for_run(dpti_ahead *a, const dpti_ahead_run *wanted, dpt_error *error)
{
    dpt_error first = {.status = DPT_OK};
    dpti_ahead_begin(a, wanted);
    kept_run *r = find_run(a, wanted->key);
    if (!r) return DPT_E_NO_MEMORY;
    (void)wait_for(a, &r->own, &first);
    return read_more(a, r, wanted, error);
}

dpt_status dpti_ahead_wait(dpti_ahead *ahead, const dpti_ahead_run *run, dpt_error *error)
{
    dpt_error why = {.status = DPT_OK};
    if (run->n == 0) return DPT_OK;
    const dpt_status status = wait_for_run(ahead, run, &why);
    if (status == DPT_OK) return DPT_OK;
    if (!why.message[0]) snprintf(why.message, sizeof why.message, "no memory for images");
    return DPT_FAIL(error, status == DPT_E_FORMAT ? DPT_E_FORMAT : DPT_E_IO, "%s", why.message);
}

void dpti_ahead_copy(dpti_ahead *ahead, const dpti_ahead_run *run, uint8_t *to, uint8_t *labels)
{
    dpti_ahead *a = ahead;
    const size_t label_bytes = a->read_bytes - a->image_bytes;
    kept_run *r = find_run(a, run->key);
    size_t at = 0;
    for (size_t i = 0; r && i < run->n; i++) {
        const struct images *from = &r->own;
        size_t k = find_record(from, run->records[i], &r->at);
        if (k == from->request.n) {
            from = &r->more;
            k = find_record(from, run->records[i], &at);
        }
        const uint8_t *record = from->request.images + k * a->read_bytes;
        memcpy(to + i * a->image_bytes, record, a->image_bytes);
        if (labels && label_bytes > 0)
            memcpy(labels + i * label_bytes, record + a->image_bytes, label_bytes);
    }
}
