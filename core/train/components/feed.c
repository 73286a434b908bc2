/* Host feeds: gathering records in host memory, and sending them to the device (feed.h). */
#include "train/components/feed.h"
#include "device/buffer.h"
#include "device/stream.h"
#include "graph/loss.h"

#include "dpt_error.h"

#include <stdlib.h>
#include <string.h>

static const uint8_t *answers_of(const dpti_feed *feed, const dpt_dataset *data)
{
    return feed->targets ? (const uint8_t *)data->targets : (const uint8_t *)data->labels;
}

static bool has_answers(const dpti_feed *feed, const dpt_dataset *data)
{
    return feed->targets ? data->targets != NULL : dpti_dataset_has_labels(data);
}

static size_t answer_bytes_of(bool targets, const dpt_dataset *data)
{
    return targets ? data->classes * sizeof *data->targets : dpti_dataset_label_bytes(data);
}

static uint8_t *host_answers(const dpti_feed *feed, size_t slot)
{
    return feed->slots[slot] + feed->n_parts * feed->host_capacity * feed->image_bytes;
}

/* Where the numbers of the partners' rows begin, at an address that operators take. */
static size_t partner_rows_of(const dpti_feed *feed)
{
    return feed->n_parts > 1 ? (feed->capacity + 63) / 64 * 64 : 0;
}

static dpt_status upload_rows(dpti_feed *feed)
{
    const size_t n = partner_rows_of(feed) + feed->capacity;
    uint32_t *rows = calloc(n, sizeof *rows);
    if (!rows)
        return DPT_FAIL(&feed->device->base.error, DPT_E_NO_MEMORY, "no memory to number rows");
    for (size_t i = 0; i < feed->capacity; i++)
        rows[i] = (uint32_t)i;
    for (size_t i = 0; feed->n_parts > 1 && i < feed->capacity; i++)
        rows[partner_rows_of(feed) + i] = (uint32_t)(feed->capacity + i);
    dpt_status status = dpti_upload(&feed->rows, 0, rows, n * sizeof *rows);
    if (status == DPT_OK) status = dpti_sync(feed->device);
    free(rows);
    return status;
}

dpt_status dpti_feed_create(dpti_device *device, const dpti_feed_options *options, dpti_feed *out)
{
    dpti_feed *f = out;
    const dpt_dataset *data = options->data;
    const bool targets = dpti_loss_has_targets(options->loss);
    *f = (dpti_feed){.device = device,
                     .capacity = options->capacity,
                     .host_capacity = options->host_capacity,
                     .image_bytes = dpti_dataset_image_bytes(data),
                     .answer_bytes = answer_bytes_of(targets, data),
                     .targets = targets,
                     .n_parts = options->with_partners ? 2 : 1};
    const size_t record_bytes = f->n_parts * (f->image_bytes + f->answer_bytes);
    DPT_TRY(dpti_alloc(device, f->n_parts * f->capacity * f->image_bytes, &f->images));
    DPT_TRY(dpti_alloc(device, f->n_parts * f->capacity * f->answer_bytes, &f->answers));
    DPT_TRY(dpti_alloc(device, (partner_rows_of(f) + f->capacity) * sizeof(uint32_t), &f->rows));
    for (size_t i = 0; i < options->n_slots; i++) {
        void *host = NULL;
        DPT_TRY(dpti_host_alloc(device, f->host_capacity * record_bytes, &host));
        f->slots[i] = host;
    }
    return upload_rows(f);
}

void dpti_feed_destroy(dpti_feed *feed)
{
    for (size_t i = 0; i < DPTI_FEED_SLOTS; i++) {
        uint8_t *slot = feed->slots[i];
        feed->slots[i] = NULL;
        dpti_host_free(feed->device, slot);
    }
    dpti_free(&feed->rows);
    dpti_free(&feed->answers);
    dpti_free(&feed->images);
    *feed = (dpti_feed){.device = NULL};
}

size_t dpti_feed_bytes(const dpti_feed *feed)
{
    return feed->images.n_bytes + feed->answers.n_bytes + feed->rows.n_bytes;
}

bool dpti_feed_serves(const dpti_feed *feed, const dpt_dataset *data, size_t capacity)
{
    return feed->device && capacity <= feed->capacity &&
           dpti_dataset_image_bytes(data) <= feed->image_bytes &&
           answer_bytes_of(feed->targets, data) <= feed->answer_bytes;
}

dpti_data_places dpti_feed_places(const dpti_feed *feed)
{
    return (dpti_data_places){.images = &feed->images,
                              .answers = &feed->answers,
                              .rows = &feed->rows,
                              .partner_rows = partner_rows_of(feed) * sizeof(uint32_t)};
}

void dpti_feed_gather(const dpti_feed *feed, const dpti_records_at *from, size_t slot,
                      dpti_records records)
{
    const uint32_t *indices = records.indices;
    const size_t n = records.n;
    const dpt_dataset *data = from->data;
    const uint8_t *images = data->images, *answers = answers_of(feed, data);
    const size_t image_bytes = dpti_dataset_image_bytes(data);
    const size_t answer_bytes = answer_bytes_of(feed->targets, data);
    const size_t before = records.partners ? feed->host_capacity : 0;
    uint8_t *to = feed->slots[slot] + before * image_bytes;
    uint8_t *to_answers = host_answers(feed, slot) + before * answer_bytes;
    if (from->ahead)
        dpti_ahead_copy(from->ahead,
                        &(dpti_ahead_run){.key = from->key, .records = indices, .n = n}, to,
                        feed->targets ? NULL : to_answers);
    for (size_t i = 0; images && i < n; i++)
        memcpy(to + i * image_bytes, images + indices[i] * image_bytes, image_bytes);
    for (size_t i = 0; answers && i < n; i++)
        memcpy(to_answers + i * answer_bytes, answers + indices[i] * answer_bytes, answer_bytes);
}

dpt_status dpti_feed_upload(const dpti_feed *feed, const dpt_dataset *data, dpti_feed_range range)
{
    const size_t slot = range.slot, n = range.n;
    const size_t first = range.first + (range.partners ? feed->host_capacity : 0);
    const size_t row = range.partners ? feed->capacity : 0;
    if (!feed->device || n == 0) return DPT_OK;
    const size_t image_bytes = dpti_dataset_image_bytes(data);
    const size_t answer_bytes = answer_bytes_of(feed->targets, data);
    DPT_TRY(dpti_upload(&feed->images, row * image_bytes, feed->slots[slot] + first * image_bytes,
                        n * image_bytes));
    if (!has_answers(feed, data)) return DPT_OK;
    return dpti_upload(&feed->answers, row * answer_bytes,
                       host_answers(feed, slot) + first * answer_bytes, n * answer_bytes);
}
