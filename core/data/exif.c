/* Reads the orientation of a picture, and turns pixels (exif.h).  Only the tag of the orientation
   in the first directory is read. */
#include "data/exif.h"

#include <string.h>

enum { ORIENTATION = 0x0112, SHORT = 3, ENTRY_BYTES = 12 };

/* A run of bytes, in the byte order of its TIFF header. */
typedef struct span {
    const uint8_t *at;
    size_t n;
    bool little;
} span;

static uint32_t get(const span *s, size_t at, size_t n_bytes)
{
    uint32_t value = 0;
    for (size_t i = 0; i < n_bytes; i++)
        value = value << 8 | s->at[at + (s->little ? n_bytes - 1 - i : i)];
    return value;
}

/* The orientation in data that begin with a TIFF header; 1: there is none. */
static unsigned of_tiff(span s)
{
    if (s.n < 8) return 1;
    s.little = s.at[0] == 'I';
    if (memcmp(s.at, s.little ? "II" : "MM", 2) != 0 || get(&s, 2, 2) != 42) return 1;
    const size_t directory = get(&s, 4, 4);
    if (directory > s.n - 2) return 1;
    const size_t n_entries = get(&s, directory, 2);
    for (size_t i = 0, at = directory + 2; i < n_entries; i++, at += ENTRY_BYTES) {
        if (at > s.n || s.n - at < ENTRY_BYTES) return 1;
        if (get(&s, at, 2) != ORIENTATION) continue;
        const uint32_t value = get(&s, at + 8, 2);
        const bool right = get(&s, at + 2, 2) == SHORT && get(&s, at + 4, 4) == 1;
        return right && value >= 1 && value <= 8 ? value : 1;
    }
    return 1;
}

/* Some writers put the prefix of JPEG's marker in front of the TIFF header elsewhere too. */
static span behind_prefix(span s)
{
    static const uint8_t prefix[] = {'E', 'x', 'i', 'f', 0, 0};
    if (s.n < sizeof prefix || memcmp(s.at, prefix, sizeof prefix) != 0) return s;
    return (span){.at = s.at + sizeof prefix, .n = s.n - sizeof prefix};
}

/* Searches the markers in front of the first scan. */
static unsigned of_jpeg(span s)
{
    enum { APP1 = 0xe1, SCAN = 0xda, END = 0xd9, RESTART = 0xd0, TEM = 0x01 };
    for (size_t at = 2; at + 4 <= s.n;) {
        if (s.at[at] != 0xff) return 1;
        const uint8_t marker = s.at[at + 1];
        if (marker == 0xff) { /* fill */
            at++;
            continue;
        }
        if (marker == SCAN || marker == END) return 1;
        if (marker == TEM || (marker & 0xf8) == RESTART) { /* without a length */
            at += 2;
            continue;
        }
        const size_t length = get(&s, at + 2, 2);
        if (length < 2 || length > s.n - at - 2) return 1;
        const span body = {.at = s.at + at + 4, .n = length - 2};
        const span tiff = behind_prefix(body);
        if (marker == APP1 && tiff.at != body.at) return of_tiff(tiff);
        at += 2 + length;
    }
    return 1;
}

static unsigned of_png(span s)
{
    for (size_t at = 8; at <= s.n && s.n - at >= 12;) {
        const size_t length = get(&s, at, 4);
        if (length > s.n - at - 12) return 1;
        if (memcmp(s.at + at + 4, "eXIf", 4) == 0)
            return of_tiff(behind_prefix((span){.at = s.at + at + 8, .n = length}));
        at += 12 + length;
    }
    return 1;
}

static unsigned of_webp(span s)
{
    s.little = true;
    for (size_t at = 12; at <= s.n && s.n - at >= 8;) {
        const size_t length = get(&s, at + 4, 4);
        if (length > s.n - at - 8) return 1;
        if (memcmp(s.at + at, "EXIF", 4) == 0)
            return of_tiff(behind_prefix((span){.at = s.at + at + 8, .n = length}));
        at += 8 + length + (length & 1);
    }
    return 1;
}

unsigned dpti_exif_orientation(const dpti_file_bytes *file)
{
    const span s = {.at = file->bytes, .n = file->n_bytes};
    switch (dpti_image_format_of(file->bytes, file->n_bytes)) {
    case DPTI_IMAGE_JPEG: return of_jpeg(s);
    case DPTI_IMAGE_PNG: return of_png(s);
    case DPTI_IMAGE_WEBP: return of_webp(s);
    case DPTI_IMAGE_TIFF: return of_tiff(s);
    default: return 1;
    }
}

void dpti_exif_turn(const uint8_t *from, const dpti_image_shape *shape, unsigned orientation,
                    uint8_t *to)
{
    /* Whether the first row is at the bottom, and the first column at the right. */
    const bool up = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    const bool left = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    const size_t h = shape->height, w = shape->width, c = shape->channels;
    const bool swaps = dpti_exif_swaps(orientation);
    for (size_t y = 0; y < (swaps ? w : h); y++)
        for (size_t x = 0; x < (swaps ? h : w); x++, to += c) {
            const size_t row = swaps ? x : y, column = swaps ? y : x;
            const uint8_t *pixel =
                from + ((up ? h - 1 - row : row) * w + (left ? w - 1 - column : column)) * c;
            for (size_t k = 0; k < c; k++)
                to[k] = pixel[k];
        }
}
