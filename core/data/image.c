/* Chooses the reader of an image by its first bytes, and has what the readers share. */
#include "data/image.h"
#include "data/image_formats.h"

#include <stdio.h>
#include <string.h>

static bool begins(const uint8_t *bytes, size_t n_bytes, const char *text, size_t n)
{
    return n_bytes >= n && memcmp(bytes, text, n) == 0;
}

/* PGM and PPM, as text (P2, P3) or as bytes (P5, P6). */
static bool is_pnm(const uint8_t *bytes, size_t n_bytes)
{
    return n_bytes >= 3 && bytes[0] == 'P' && memchr("2356", bytes[1], 4) &&
           memchr(" \t\n\v\f\r#", bytes[2], 7);
}

/* A header of a known size follows the 14 bytes of the file's; two letters alone are too few. */
static bool is_bmp(const uint8_t *bytes, size_t n_bytes)
{
    static const uint8_t sizes[] = {12, 16, 40, 52, 56, 64, 108, 124};
    return n_bytes >= 18 && begins(bytes, n_bytes, "BM", 2) &&
           memchr(sizes, bytes[14], sizeof sizes) && !bytes[15] && !bytes[16] && !bytes[17];
}

dpti_image_format dpti_image_format_of(const uint8_t *bytes, size_t n_bytes)
{
    static const struct {
        const char *text;
        size_t n;
        dpti_image_format format;
    } known[] = {
        {"\x89PNG\r\n\x1a\n", 8, DPTI_IMAGE_PNG},
        {"\xff\xd8\xff", 3, DPTI_IMAGE_JPEG},
        {"GIF87a", 6, DPTI_IMAGE_GIF},
        {"GIF89a", 6, DPTI_IMAGE_GIF},
        {"II*\0", 4, DPTI_IMAGE_TIFF},
        {"MM\0*", 4, DPTI_IMAGE_TIFF},
        {"II+\0", 4, DPTI_IMAGE_TIFF},
        {"MM\0+", 4, DPTI_IMAGE_TIFF},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (begins(bytes, n_bytes, known[i].text, known[i].n)) return known[i].format;
    if (n_bytes >= 12 && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0)
        return DPTI_IMAGE_WEBP;
    if (is_bmp(bytes, n_bytes)) return DPTI_IMAGE_BMP;
    return is_pnm(bytes, n_bytes) ? DPTI_IMAGE_PNM : DPTI_IMAGE_UNKNOWN;
}

/* ---- What the readers share ------------------------------------------------------------------ */

dpt_status dpti_image_check_size(dpti_image_request *r, size_t height, size_t width,
                                 dpt_error *error)
{
    const char *name = r->file->name;
    if (height == 0 || width == 0 || height > DPTI_IMAGE_MAX_PIXELS / width)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: the image is %zux%zu (height x width), and at most %d million pixels "
                        "are read; scale it down first",
                        name, height, width, DPTI_IMAGE_MAX_PIXELS / 1000000);
    if (r->shape && (height != r->shape->height || width != r->shape->width))
        return DPT_FAIL(error, DPT_E_INVALID,
                        "%s: the image is %zux%zu (height x width), but must be %zux%zu; scale or "
                        "cut it first",
                        name, height, width, r->shape->height, r->shape->width);
    r->height = height;
    r->width = width;
    return DPT_OK;
}

/* Libraries report a lack of memory only as text. */
dpt_status dpti_image_damaged(const dpti_image_request *r, const char *format, const char *words,
                              dpt_error *error)
{
    char plain[256];
    if (strcasestr(words, "out of memory") || strcasestr(words, "insufficient memory"))
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to decode %s", r->file->name);
    snprintf(plain, sizeof plain, "%s", words);
    for (char *c = plain; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
    return DPT_FAIL(error, DPT_E_FORMAT, "%s: damaged %s: %s", r->file->name, format, plain);
}

dpt_status dpti_image_no_library(const dpti_image_request *r, const char *format,
                                 const char *package, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_UNSUPPORTED,
                    "%s: this dptrain was built without %.*s and cannot read %s; install its "
                    "development package (%s) and build again",
                    r->file->name, (int)(strlen(package) - strlen("-dev")), package, format,
                    package);
}

dpt_status dpti_image_no_memory(const dpti_image_request *r, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the pixels of %s", r->file->name);
}

static uint8_t luma(unsigned red, unsigned green, unsigned blue)
{
    return (uint8_t)((299 * red + 587 * green + 114 * blue + 500) / 1000);
}

/* Pixels with alpha, over black. */
static void convert_alpha(const dpti_decoded_pixels *decoded, size_t n, uint8_t *to,
                          size_t channels)
{
    const uint8_t *from = decoded->values;
    const size_t n_colours = decoded->channels;
    for (size_t i = 0; i < n; i++, from += n_colours + 1, to += channels) {
        unsigned value[3];
        for (size_t c = 0; c < 3; c++)
            value[c] = (from[n_colours == 3 ? c : 0] * (unsigned)from[n_colours] + 127) / 255;
        if (channels == 1)
            to[0] = luma(value[0], value[1], value[2]);
        else
            for (size_t c = 0; c < 3; c++)
                to[c] = (uint8_t)value[c];
    }
}

/* Most images have no alpha and the wanted channels.  To be fast, this case is a copy. */
void dpti_image_convert(const dpti_decoded_pixels *decoded, size_t n, uint8_t *to, size_t channels)
{
    const uint8_t *from = decoded->values;
    if (decoded->alpha)
        convert_alpha(decoded, n, to, channels);
    else if (decoded->channels == channels)
        memcpy(to, from, n * channels);
    else if (channels == 3)
        for (size_t i = 0; i < n; i++)
            memset(to + 3 * i, from[i], 3);
    else
        for (size_t i = 0; i < n; i++)
            to[i] = luma(from[3 * i], from[3 * i + 1], from[3 * i + 2]);
}

/* ---- Any format ------------------------------------------------------------------------------ */

static dpt_status read_image(dpti_image_request *r, dpt_error *error)
{
    static dpti_image_reader *const readers[] = {
        [DPTI_IMAGE_PNG] = dpti_read_png,   [DPTI_IMAGE_JPEG] = dpti_read_jpeg,
        [DPTI_IMAGE_WEBP] = dpti_read_webp, [DPTI_IMAGE_BMP] = dpti_read_bmp,
        [DPTI_IMAGE_GIF] = dpti_read_gif,   [DPTI_IMAGE_TIFF] = dpti_read_tiff,
        [DPTI_IMAGE_PNM] = dpti_read_pnm,
    };
    const dpti_image_format format = dpti_image_format_of(r->file->bytes, r->file->n_bytes);
    if (format != DPTI_IMAGE_UNKNOWN) return readers[format](r, error);
    return DPT_FAIL(error, DPT_E_FORMAT, "%s: neither PNG, JPEG, WebP, BMP, GIF, TIFF, PPM nor PGM",
                    r->file->name);
}

dpt_status dpti_image_measure(const dpti_file_bytes *file, size_t *height, size_t *width,
                              dpt_error *error)
{
    dpti_image_request r = {.file = file};
    DPT_TRY(read_image(&r, error));
    *height = r.height;
    *width = r.width;
    return DPT_OK;
}

dpt_status dpti_image_decode(const dpti_file_bytes *file, const dpti_image_shape *shape,
                             uint8_t *pixels, dpt_error *error)
{
    dpti_image_request r = {.file = file, .shape = shape, .pixels = pixels};
    return read_image(&r, error);
}
