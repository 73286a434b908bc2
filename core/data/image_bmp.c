/* Decodes BMP, as Windows and OS/2 write it: 1 to 32 bits a pixel, with a palette, with masks of
   colours, and with the run lengths RLE4 and RLE8. */
#include "data/image_formats.h"

#include <stdlib.h>
#include <string.h>

enum {
    FILE_HEADER = 14,
    CORE_HEADER = 12, /* of OS/2: sizes of 16 bits, colours of three bytes */
    NO_RUNS = 0,
    RUNS_OF_8 = 1,
    RUNS_OF_4 = 2,
    MASKS = 3,
    MASKS_AND_ALPHA = 6,
};

/* The header of a file. */
typedef struct bitmap {
    const uint8_t *bytes;
    size_t n_bytes;
    size_t header, pixels; /* places: of the end of the header, and of the pixels */
    size_t height, width, bits;
    bool downwards; /* the first row is the highest one */
    bool core;
    uint32_t coding, n_colours;
    uint32_t masks[4]; /* of red, green, blue and alpha */
    uint8_t palette[256][3];
} bitmap;

static uint32_t get(const bitmap *b, size_t at, size_t n_bytes)
{
    uint32_t value = 0;
    for (size_t i = 0; i < n_bytes && at + i < b->n_bytes; i++)
        value |= (uint32_t)b->bytes[at + i] << (8 * i);
    return value;
}

static const char *read_sizes(bitmap *b)
{
    const uint32_t header = get(b, FILE_HEADER, 4);
    b->core = header == CORE_HEADER;
    b->header = FILE_HEADER + (size_t)header;
    b->pixels = get(b, 10, 4);
    if (b->header > b->n_bytes) return "cut off in its header";
    if (b->core) {
        b->width = get(b, 18, 2);
        b->height = get(b, 20, 2);
        b->bits = get(b, 24, 2);
        return NULL;
    }
    const int32_t height = (int32_t)get(b, 22, 4), width = (int32_t)get(b, 18, 4);
    b->downwards = height < 0;
    b->width = width > 0 ? (size_t)width : 0;
    b->height = height < 0 ? (size_t) - (int64_t)height : (size_t)height;
    b->bits = get(b, 28, 2);
    b->coding = header > 16 ? get(b, 30, 4) : NO_RUNS;
    b->n_colours = header > 16 ? get(b, 46, 4) : 0;
    return NULL;
}

/* Masks follow a header of 40 bytes, and are part of a longer one. */
static void read_masks(bitmap *b)
{
    const bool told = b->coding == MASKS || b->coding == MASKS_AND_ALPHA;
    const size_t header = b->header - FILE_HEADER;
    if (!told && b->bits == 16) memcpy(b->masks, (uint32_t[4]){0x7c00, 0x3e0, 0x1f}, 16);
    if (!told && b->bits == 32) memcpy(b->masks, (uint32_t[4]){0xff0000, 0xff00, 0xff}, 16);
    if (!told) return;
    const bool alpha = header >= 56 || b->coding == MASKS_AND_ALPHA;
    for (size_t i = 0; i < (alpha ? 4u : 3u); i++)
        b->masks[i] = get(b, FILE_HEADER + 40 + 4 * i, 4);
    if (header < 52) b->header += alpha ? 16 : 12;
}

static bool is_run(uint32_t mask)
{
    const uint32_t low = mask & (~mask + 1);
    return mask == 0 || ((mask / low) & (mask / low + 1)) == 0;
}

static const char *check_coding(const bitmap *b)
{
    const size_t bits = b->bits;
    if (b->coding == RUNS_OF_8 && bits == 8) return NULL;
    if (b->coding == RUNS_OF_4 && bits == 4) return NULL;
    const bool masks = b->coding == MASKS || b->coding == MASKS_AND_ALPHA;
    if (masks && (bits == 16 || bits == 32)) {
        for (size_t i = 0; i < 4; i++)
            if (!is_run(b->masks[i])) return "a mask of a colour has holes";
        return NULL;
    }
    if (b->coding == NO_RUNS && (bits == 1 || bits == 2 || bits == 4 || bits == 8 || bits == 16 ||
                                 bits == 24 || bits == 32))
        return NULL;
    return "its bits and its compression are none that are read";
}

/* Colours that the file does not have are black. */
static void read_palette(bitmap *b)
{
    const size_t most = b->bits <= 8 ? (size_t)1 << b->bits : 0, step = b->core ? 3 : 4;
    const size_t n = b->n_colours > 0 && b->n_colours < most ? b->n_colours : most;
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < 3; c++) {
            const size_t at = b->header + i * step + 2 - c;
            if (at < b->pixels || b->pixels < b->header) b->palette[i][c] = (uint8_t)get(b, at, 1);
        }
}

/* ---- Pixels ---------------------------------------------------------------------------------- */

static uint8_t *row_of(const bitmap *b, const dpti_image_request *r, size_t row)
{
    const size_t y = b->downwards ? row : b->height - 1 - row;
    return r->pixels + y * b->width * r->shape->channels;
}

/* Writes a row of indices of colours. */
static void put_indices(const bitmap *b, const dpti_image_request *r, const uint8_t *indices,
                        uint8_t *to)
{
    for (size_t x = 0; x < b->width; x++)
        dpti_image_convert(&(dpti_decoded_pixels){b->palette[indices[x]], 3, false}, 1,
                           to + x * r->shape->channels, r->shape->channels);
}

static uint8_t channel_of(uint32_t value, uint32_t mask)
{
    if (mask == 0) return 0;
    const uint32_t low = mask & (~mask + 1);
    return (uint8_t)((uint64_t)((value & mask) / low) * 255 / (mask / low));
}

/* The same as put_colours, where a colour is the bytes blue, green, red, and is wanted as such. */
static void put_bytes(const bitmap *b, const uint8_t *from, uint8_t *to)
{
    for (size_t x = 0; x < b->width; x++, from += 3, to += 3) {
        to[0] = from[2];
        to[1] = from[1];
        to[2] = from[0];
    }
}

/* Writes a row of colours. */
static void put_colours(const bitmap *b, const dpti_image_request *r, const uint8_t *from,
                        uint8_t *to)
{
    const size_t n = b->bits / 8;
    const bool alpha = b->masks[3] != 0;
    for (size_t x = 0; x < b->width; x++, from += n) {
        uint8_t values[4];
        uint32_t value = 0;
        for (size_t i = 0; i < n; i++)
            value |= (uint32_t)from[i] << (8 * i);
        for (size_t c = 0; c < 4; c++)
            values[c] = n == 3 && c < 3 ? from[2 - c] : channel_of(value, b->masks[c]);
        dpti_image_convert(&(dpti_decoded_pixels){values, 3, alpha}, 1, to + x * r->shape->channels,
                           r->shape->channels);
    }
}

/* Rows without runs are filled to multiples of four bytes. */
static const char *read_rows(const bitmap *b, const dpti_image_request *r, uint8_t *indices)
{
    const size_t row_bytes = (b->width * b->bits + 31) / 32 * 4;
    if (b->pixels > b->n_bytes || row_bytes > (b->n_bytes - b->pixels) / b->height) {
        /* The last row may lack what fills it. */
        const size_t least = row_bytes * (b->height - 1) + (b->width * b->bits + 7) / 8;
        if (b->pixels > b->n_bytes || least > b->n_bytes - b->pixels) return "cut off";
    }
    for (size_t row = 0; row < b->height; row++) {
        const uint8_t *from = b->bytes + b->pixels + row * row_bytes;
        if (b->bits == 24 && r->shape->channels == 3) {
            put_bytes(b, from, row_of(b, r, row));
            continue;
        }
        if (b->bits > 8) {
            put_colours(b, r, from, row_of(b, r, row));
            continue;
        }
        for (size_t x = 0; x < b->width; x++) {
            const size_t bit = x * b->bits;
            indices[x] = (uint8_t)(from[bit / 8] >> (8 - b->bits - bit % 8)) &
                         (uint8_t)((1u << b->bits) - 1);
        }
        put_indices(b, r, indices, row_of(b, r, row));
    }
    return NULL;
}

/* Where the runs of a bitmap are written: all indices of the image, in the order of the file. */
typedef struct runs {
    const bitmap *b;
    uint8_t *indices;
    size_t at, x, row;
} runs;

/* Writes n pixels of one or two indices, or, with `from`, of these bytes.  Those behind the end of
   a row are dropped. */
static void put_run(runs *s, size_t n, const uint8_t *from, uint8_t value)
{
    const bool four = s->b->bits == 4;
    for (size_t i = 0; i < n; i++, s->x++) {
        const uint8_t pair = from ? from[four ? i / 2 : i] : value;
        const uint8_t index = four ? (i % 2 ? pair & 15 : pair >> 4) : pair;
        if (s->x < s->b->width && s->row < s->b->height)
            s->indices[s->row * s->b->width + s->x] = index;
    }
}

/* Reads what follows a zero; *ends: the bitmap ends.  Returns false if the file is cut off. */
static bool read_escape(runs *s, uint8_t code, bool *ends)
{
    const bitmap *b = s->b;
    if (code == 0) {
        s->x = 0;
        s->row++;
    } else if (code == 1) {
        *ends = true;
    } else if (code == 2) {
        if (b->n_bytes - s->at < 2) return false;
        s->x += b->bytes[s->at];
        s->row += b->bytes[s->at + 1];
        s->at += 2;
    } else {
        const size_t n_bytes = b->bits == 4 ? (code + 1u) / 2 : code;
        if (b->n_bytes - s->at < n_bytes) return false;
        put_run(s, code, b->bytes + s->at, 0);
        s->at += n_bytes + n_bytes % 2;
    }
    return true;
}

/* Pixels that no run has are those of the first colour. */
static const char *read_runs(const bitmap *b, const dpti_image_request *r)
{
    runs s = {.b = b, .at = b->pixels, .indices = calloc(b->height, b->width)};
    bool ends = false, whole = s.indices != NULL;
    while (whole && !ends && s.row < b->height) {
        whole = s.at < b->n_bytes && b->n_bytes - s.at >= 2;
        if (!whole) break;
        const uint8_t count = b->bytes[s.at], value = b->bytes[s.at + 1];
        s.at += 2;
        if (count > 0)
            put_run(&s, count, NULL, value);
        else
            whole = read_escape(&s, value, &ends);
    }
    for (size_t row = 0; whole && row < b->height; row++)
        put_indices(b, r, s.indices + row * b->width, row_of(b, r, row));
    const bool memory = s.indices != NULL;
    free(s.indices);
    return whole ? NULL : memory ? "cut off" : "out of memory";
}

static dpt_status decode(const bitmap *b, const dpti_image_request *r, dpt_error *error)
{
    uint8_t *indices = malloc(b->width);
    if (!indices) return dpti_image_no_memory(r, error);
    const char *why = b->coding == RUNS_OF_8 || b->coding == RUNS_OF_4 ? read_runs(b, r)
                                                                       : read_rows(b, r, indices);
    free(indices);
    return why ? dpti_image_damaged(r, "BMP", why, error) : DPT_OK;
}

dpt_status dpti_read_bmp(dpti_image_request *r, dpt_error *error)
{
    bitmap b = {.bytes = r->file->bytes, .n_bytes = r->file->n_bytes};
    const char *why = read_sizes(&b);
    if (why) return dpti_image_damaged(r, "BMP", why, error);
    DPT_TRY(dpti_image_check_size(r, b.height, b.width, error));
    read_masks(&b);
    why = check_coding(&b);
    if (why) return dpti_image_damaged(r, "BMP", why, error);
    read_palette(&b);
    return r->shape ? decode(&b, r, error) : DPT_OK;
}
