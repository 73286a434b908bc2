/* The content hash that distinguishes a data set from others of the same size: it covers all
   labels and targets and a few of the images. */
#include "data/data.h"

#include "data/visit.h"

#include <libdeflate.h>

enum { LOOKED_AT = 64 }; /* images */

typedef struct sum {
    const dpt_dataset *data;
    uint32_t crc;
    size_t next; /* the first sample whose label and targets are not added yet */
} sum;

static uint32_t add(uint32_t crc, const void *bytes, size_t n_bytes)
{
    return n_bytes > 0 ? libdeflate_crc32(crc, bytes, n_bytes) : crc;
}

/* Adds as many bytes as the number of classes needs, the least significant one first. */
static uint32_t add_label(uint32_t crc, int32_t label, size_t classes)
{
    const uint32_t value = (uint32_t)label;
    const uint8_t bytes[] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                             (uint8_t)(value >> 24)};
    return add(crc, bytes, classes <= 256 ? 1 : sizeof bytes);
}

/* Adds the labels and targets of the samples before `end`. */
static void add_answers(sum *s, size_t end)
{
    const dpt_dataset *d = s->data;
    for (; s->next < end; s->next++) {
        const size_t record = dpti_dataset_record(d, s->next);
        const size_t each = dpti_dataset_labels(d);
        for (size_t i = 0; d->labels && i < each; i++)
            s->crc = add_label(s->crc, d->labels[record * each + i], d->classes);
        if (d->targets)
            s->crc = add(s->crc, &d->targets[record * d->classes], d->classes * sizeof *d->targets);
    }
}

static void add_image(void *user, size_t sample, const uint8_t *image)
{
    sum *s = user;
    add_answers(s, sample + 1);
    s->crc = add(s->crc, image, dpti_dataset_image_bytes(s->data));
}

static dpt_status find(const dpt_dataset *data, uint32_t *out, dpt_error *error)
{
    sum s = {.data = data};
    const size_t stride = data->count > LOOKED_AT ? data->count / LOOKED_AT : 1;
    DPT_TRY(dpti_dataset_visit(data, &(dpti_visit){stride, add_image, &s}, error));
    add_answers(&s, data->count);
    *out = s.crc;
    return DPT_OK;
}

dpt_status dpti_dataset_find_content(dpt_dataset *data, dpt_error *error)
{
    return find(data, &data->content, error);
}

uint32_t dpti_dataset_content(const dpt_dataset *data)
{
    uint32_t content = data->content;
    /* Images in memory can always be read. */
    if (!data->reader && find(data, &content, NULL) != DPT_OK) return 0;
    return content;
}
