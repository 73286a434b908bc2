/* Decodes PGM and PPM, with values as text (P2, P3) and as bytes (P5, P6). */
#include "data/image_formats.h"

enum { MOST_VALUE = 65535 };

/* What is read, and from where on. */
typedef struct scanner {
    const dpti_file_bytes *file;
    size_t at;
} scanner;

static bool is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Skips white space and comments, which end with their line. */
static void skip(scanner *s)
{
    const dpti_file_bytes *f = s->file;
    bool comment = false;
    for (; s->at < f->n_bytes; s->at++) {
        const uint8_t c = f->bytes[s->at];
        if (comment)
            comment = c != '\n' && c != '\r';
        else if (c == '#')
            comment = true;
        else if (!is_space(c))
            return;
    }
}

/* Reads a whole number of at most `most`; false if there is none. */
static bool read_number(scanner *s, size_t most, size_t *out)
{
    const dpti_file_bytes *f = s->file;
    size_t value = 0;
    skip(s);
    const size_t first = s->at;
    for (; s->at < f->n_bytes && f->bytes[s->at] >= '0' && f->bytes[s->at] <= '9'; s->at++) {
        value = value * 10 + (size_t)(f->bytes[s->at] - '0');
        if (value > most) return false;
    }
    *out = value;
    return s->at > first &&
           (s->at == f->n_bytes || is_space(f->bytes[s->at]) || f->bytes[s->at] == '#');
}

/* Values of an image. */
typedef struct values {
    scanner from;
    bool text;
    size_t most, n_channels;
} values;

/* Reads the next value as 8 bits, rounded to the nearest. */
static bool read_value(values *v, uint8_t *out)
{
    const dpti_file_bytes *f = v->from.file;
    const size_t n_bytes = v->most > 255 ? 2 : 1;
    size_t value = 0;
    if (v->text) {
        if (!read_number(&v->from, v->most, &value)) return false;
    } else {
        if (f->n_bytes - v->from.at < n_bytes) return false;
        for (size_t i = 0; i < n_bytes; i++)
            value = value << 8 | f->bytes[v->from.at++];
        if (value > v->most) value = v->most;
    }
    *out = (uint8_t)((value * 510 + v->most) / (2 * v->most));
    return true;
}

static bool decode(values *v, const dpti_image_request *r)
{
    const size_t channels = r->shape->channels, n = r->height * r->width;
    if (!v->text && v->most == 255) { /* the values of the file are those of the image */
        const dpti_file_bytes *f = v->from.file;
        if (n > (f->n_bytes - v->from.at) / v->n_channels) return false;
        dpti_image_convert(&(dpti_decoded_pixels){f->bytes + v->from.at, v->n_channels, false}, n,
                           r->pixels, channels);
        return true;
    }
    for (size_t i = 0; i < n; i++) {
        uint8_t pixel[3];
        for (size_t c = 0; c < v->n_channels; c++)
            if (!read_value(v, &pixel[c])) return false;
        dpti_image_convert(&(dpti_decoded_pixels){pixel, v->n_channels, false}, 1,
                           r->pixels + i * channels, channels);
    }
    return true;
}

dpt_status dpti_read_pnm(dpti_image_request *r, dpt_error *error)
{
    const uint8_t kind = r->file->bytes[1];
    values v = {.from = {.file = r->file, .at = 2},
                .text = kind < '5',
                .n_channels = kind == '3' || kind == '6' ? 3 : 1};
    const char *format = v.n_channels == 3 ? "PPM" : "PGM";
    size_t width = 0, height = 0;
    if (!read_number(&v.from, UINT32_MAX, &width) || !read_number(&v.from, UINT32_MAX, &height) ||
        !read_number(&v.from, MOST_VALUE, &v.most) || v.most == 0)
        return dpti_image_damaged(r, format, "no width, height and largest value", error);
    DPT_TRY(dpti_image_check_size(r, height, width, error));
    if (!r->shape) return DPT_OK;
    if (v.from.at < r->file->n_bytes) v.from.at++; /* one space, and the values begin */
    return decode(&v, r) ? DPT_OK : dpti_image_damaged(r, format, "cut off", error);
}
