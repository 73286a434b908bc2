/* Decodes PNG with libpng's simplified interface (DPTRAIN_HAS_PNG). */
#include "data/image_formats.h"

#ifdef DPTRAIN_HAS_PNG
#include <png.h>
#include <stdlib.h>
#include <string.h>

static dpt_status decode_png(png_image *image, const dpti_image_request *r, dpt_error *error)
{
    const dpti_image_shape *shape = r->shape;
    const bool alpha = image->format & PNG_FORMAT_FLAG_ALPHA;
    const size_t channels = image->format & PNG_FORMAT_FLAG_COLOR ? 3 : 1;
    const size_t row_bytes = shape->width * (channels + alpha);
    /* 8 bits per channel, as nearly every file has: no colour map, no 16-bit linear light. */
    image->format &= PNG_FORMAT_FLAG_ALPHA | PNG_FORMAT_FLAG_COLOR;
    image->flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
    uint8_t *decoded = malloc(shape->height * row_bytes);
    if (!decoded) return dpti_image_no_memory(r, error);
    const bool done = png_image_finish_read(image, NULL, decoded, 0, NULL) != 0;
    if (done)
        dpti_image_convert(&(dpti_decoded_pixels){decoded, channels, alpha},
                           shape->height * shape->width, r->pixels, shape->channels);
    free(decoded);
    return done ? DPT_OK : dpti_image_damaged(r, "PNG", image->message, error);
}

/* Whether a chunk says how colours are meant, and not what they are. */
static bool is_colour_meaning(const uint8_t *type)
{
    static const char types[][5] = {"gAMA", "cHRM", "sRGB", "iCCP", "cICP"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (memcmp(type, types[i], 4) == 0) return true;
    return false;
}

/* libpng's simplified interface converts the pixels of a file with gAMA to those of sRGB.  Other
   readers that networks are trained with return the numbers of the file, and so does dptrain.
   *out: a copy of the file without these chunks, of *n_bytes; NULL if the file has none.  Chunks
   have 4 bytes of length, 4 of type, their content and 4 of a checksum; a damaged file is left to
   libpng. */
static dpt_status drop_colour_meaning(const dpti_image_request *r, uint8_t **out, size_t *n_bytes,
                                      dpt_error *error)
{
    enum { SIGNATURE = 8, AROUND = 12 };
    const uint8_t *bytes = r->file->bytes;
    uint8_t *copy = NULL;
    size_t at = SIGNATURE, n_copied = 0;
    *out = NULL;
    while (r->file->n_bytes >= at + AROUND && memcmp(bytes + at + 4, "IDAT", 4) != 0) {
        const size_t content = (size_t)bytes[at] << 24 | (size_t)bytes[at + 1] << 16 |
                               (size_t)bytes[at + 2] << 8 | bytes[at + 3];
        if (content > r->file->n_bytes - at - AROUND) break;
        const bool drop = is_colour_meaning(bytes + at + 4);
        if (drop && !copy) {
            copy = malloc(r->file->n_bytes);
            if (!copy) return dpti_image_no_memory(r, error);
            memcpy(copy, bytes, at);
            n_copied = at;
        }
        if (copy && !drop) {
            memcpy(copy + n_copied, bytes + at, content + AROUND);
            n_copied += content + AROUND;
        }
        at += content + AROUND;
    }
    if (!copy) return DPT_OK;
    memcpy(copy + n_copied, bytes + at, r->file->n_bytes - at);
    *n_bytes = n_copied + r->file->n_bytes - at;
    *out = copy;
    return DPT_OK;
}

dpt_status dpti_read_png(dpti_image_request *r, dpt_error *error)
{
    png_image image = {.version = PNG_IMAGE_VERSION};
    const uint8_t *bytes = r->file->bytes;
    size_t n_bytes = r->file->n_bytes;
    uint8_t *copy = NULL;
    dpt_status status;
    if (r->shape) {
        DPT_TRY(drop_colour_meaning(r, &copy, &n_bytes, error));
        if (copy) bytes = copy;
    }
    if (png_image_begin_read_from_memory(&image, bytes, n_bytes))
        status = dpti_image_check_size(r, image.height, image.width, error);
    else
        status = dpti_image_damaged(r, "PNG", image.message, error);
    if (status == DPT_OK && r->shape) status = decode_png(&image, r, error);
    png_image_free(&image);
    free(copy);
    return status;
}

#else

dpt_status dpti_read_png(dpti_image_request *r, dpt_error *error)
{
    return dpti_image_no_library(r, "PNG", "libpng-dev", error);
}

#endif
