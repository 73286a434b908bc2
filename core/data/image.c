/* Decodes PNG with libpng's simplified interface and JPEG with libjpeg.  A build may lack either
   library (DPTRAIN_HAS_PNG, DPTRAIN_HAS_JPEG). */
#include "data/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the caller wants of an image: its size, or its pixels in a shape. */
typedef struct request {
    const dpti_file_bytes *file;
    const dpti_image_shape *shape; /* NULL: only the size */
    uint8_t *pixels;
    size_t height, width;
} request;

dpti_image_format dpti_image_format_of(const uint8_t *bytes, size_t n_bytes)
{
    static const uint8_t png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    static const uint8_t jpeg[] = {0xff, 0xd8, 0xff};
    if (n_bytes >= sizeof png && memcmp(bytes, png, sizeof png) == 0) return DPTI_IMAGE_PNG;
    if (n_bytes >= sizeof jpeg && memcmp(bytes, jpeg, sizeof jpeg) == 0) return DPTI_IMAGE_JPEG;
    return DPTI_IMAGE_UNKNOWN;
}

#if defined DPTRAIN_HAS_PNG || defined DPTRAIN_HAS_JPEG

/* Stores the size in the image's header, and checks whether it can be the wanted one. */
static dpt_status check_size(request *r, size_t height, size_t width, dpt_error *error)
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

/* The library's message may contain arbitrary text of the file.  Both libraries report a lack of
   memory only as text. */
static dpt_status fail_damaged(const request *r, const char *format, const char *words,
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

/* Decoded pixels: 1 or 3 channels, with or without alpha. */
typedef struct decoded_pixels {
    const uint8_t *values;
    size_t channels; /* without alpha */
    bool alpha;
} decoded_pixels;

/* Converts n pixels to the wanted channels. */
static void convert(const decoded_pixels *decoded, size_t n, uint8_t *to, size_t channels)
{
    const uint8_t *from = decoded->values;
    const size_t from_channels = decoded->channels, step = from_channels + decoded->alpha;
    for (size_t i = 0; i < n; i++, from += step, to += channels) {
        unsigned value[3];
        for (size_t c = 0; c < 3; c++) {
            value[c] = from[from_channels == 3 ? c : 0];
            if (decoded->alpha) value[c] = (value[c] * from[from_channels] + 127) / 255;
        }
        if (channels == 1)
            to[0] = (uint8_t)((299 * value[0] + 587 * value[1] + 114 * value[2] + 500) / 1000);
        else
            for (size_t c = 0; c < 3; c++)
                to[c] = (uint8_t)value[c];
    }
}

#endif

/* ---- PNG ------------------------------------------------------------------------------------- */

#ifdef DPTRAIN_HAS_PNG
#include <png.h>

static dpt_status decode_png(png_image *image, const request *r, dpt_error *error)
{
    const dpti_image_shape *shape = r->shape;
    const bool alpha = image->format & PNG_FORMAT_FLAG_ALPHA;
    const size_t channels = image->format & PNG_FORMAT_FLAG_COLOR ? 3 : 1;
    const size_t row_bytes = shape->width * (channels + alpha);
    /* 8 bits per channel, as nearly every file has: no colour map, no 16-bit linear light. */
    image->format &= PNG_FORMAT_FLAG_ALPHA | PNG_FORMAT_FLAG_COLOR;
    image->flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
    uint8_t *decoded = malloc(shape->height * row_bytes);
    if (!decoded)
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the pixels of %s", r->file->name);
    const bool done = png_image_finish_read(image, NULL, decoded, 0, NULL) != 0;
    if (done)
        convert(&(decoded_pixels){decoded, channels, alpha}, shape->height * shape->width,
                r->pixels, shape->channels);
    free(decoded);
    return done ? DPT_OK : fail_damaged(r, "PNG", image->message, error);
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
static dpt_status drop_colour_meaning(const dpti_file_bytes *file, uint8_t **out, size_t *n_bytes,
                                      dpt_error *error)
{
    enum { SIGNATURE = 8, AROUND = 12 };
    const uint8_t *bytes = file->bytes;
    uint8_t *copy = NULL;
    size_t at = SIGNATURE, n_copied = 0;
    *out = NULL;
    while (file->n_bytes >= at + AROUND && memcmp(bytes + at + 4, "IDAT", 4) != 0) {
        const size_t content = (size_t)bytes[at] << 24 | (size_t)bytes[at + 1] << 16 |
                               (size_t)bytes[at + 2] << 8 | bytes[at + 3];
        if (content > file->n_bytes - at - AROUND) break;
        const bool drop = is_colour_meaning(bytes + at + 4);
        if (drop && !copy) {
            copy = malloc(file->n_bytes);
            if (!copy)
                return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to decode %s", file->name);
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
    memcpy(copy + n_copied, bytes + at, file->n_bytes - at);
    *n_bytes = n_copied + file->n_bytes - at;
    *out = copy;
    return DPT_OK;
}

static dpt_status read_png(request *r, dpt_error *error)
{
    png_image image = {.version = PNG_IMAGE_VERSION};
    const uint8_t *bytes = r->file->bytes;
    size_t n_bytes = r->file->n_bytes;
    uint8_t *copy = NULL;
    dpt_status status;
    if (r->shape) {
        DPT_TRY(drop_colour_meaning(r->file, &copy, &n_bytes, error));
        if (copy) bytes = copy;
    }
    if (png_image_begin_read_from_memory(&image, bytes, n_bytes))
        status = check_size(r, image.height, image.width, error);
    else
        status = fail_damaged(r, "PNG", image.message, error);
    if (status == DPT_OK && r->shape) status = decode_png(&image, r, error);
    png_image_free(&image);
    free(copy);
    return status;
}

#else

static dpt_status read_png(request *r, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_UNSUPPORTED,
                    "%s: this dptrain was built without libpng and cannot read PNG; install its "
                    "development package (libpng-dev) and build again",
                    r->file->name);
}

#endif

/* ---- JPEG ------------------------------------------------------------------------------------ */

#ifdef DPTRAIN_HAS_JPEG
#include <jpeglib.h>

#include <jerror.h>
#include <setjmp.h>

typedef struct jpeg_failure {
    struct jpeg_error_mgr
        base; /* first, so that libjpeg's pointer to it also points to this struct */
    jmp_buf leave;
    char words[JMSG_LENGTH_MAX];
} jpeg_failure;

/* libjpeg's error_exit must not return. */
static void leave_jpeg(j_common_ptr info)
{
    jpeg_failure *failure = (jpeg_failure *)info->err;
    failure->base.format_message(info, failure->words);
    longjmp(failure->leave, 1);
}

/* Returns whether a warning leaves all pixels correct: superfluous bytes between the parts or at
   the end, and an Adobe marker without new information. */
static bool is_harmless(int code)
{
    return code == JWRN_EXTRANEOUS_DATA || code == JWRN_TOO_MUCH_DATA || code == JWRN_ADOBE_XFORM;
}

/* libjpeg would continue with invented pixels after other warnings; here they are damage. */
static void note_jpeg(j_common_ptr info, int level)
{
    if (level < 0 && !is_harmless(info->err->msg_code)) leave_jpeg(info);
}

static J_COLOR_SPACE space_of(int components)
{
    return components == 1 ? JCS_GRAYSCALE : components == 4 ? JCS_CMYK : JCS_RGB;
}

/* Converts a row of an image.  With four components the last one is black, in Adobe's convention
   the amount of light that is left.  It darkens the others as an alpha over black does. */
static void convert_jpeg(const struct jpeg_decompress_struct *info, uint8_t *row, uint8_t *to,
                         const dpti_image_shape *shape)
{
    const size_t n = shape->width;
    const size_t components = (size_t)info->output_components;
    for (size_t i = 0; components == 4 && !info->saw_Adobe_marker && i < n * components; i++)
        row[i] = (uint8_t)(255 - row[i]);
    convert(&(decoded_pixels){row, components == 4 ? 3 : components, components == 4}, n, to,
            shape->channels);
}

static dpt_status start_jpeg(struct jpeg_decompress_struct *info, request *r, dpt_error *error)
{
    jpeg_read_header(info, TRUE);
    DPT_TRY(check_size(r, info->image_height, info->image_width, error));
    if (!r->shape) return DPT_OK;
    if (info->num_components == 2 || info->num_components > 4)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: a JPEG with %d colour components cannot be read; save it as RGB",
                        r->file->name, info->num_components);
    info->out_color_space = space_of(info->num_components);
    info->dct_method = JDCT_ISLOW;
    jpeg_start_decompress(info);
    return DPT_OK;
}

/* A function of its own, because no variable that it changes may be used after a longjmp. */
static dpt_status decode_jpeg(struct jpeg_decompress_struct *info, request *r, dpt_error *error)
{
    DPT_TRY(start_jpeg(info, r, error));
    if (!r->shape) return DPT_OK;
    const dpti_image_shape *shape = r->shape;
    const size_t channels = (size_t)info->output_components;
    JSAMPARRAY row = info->mem->alloc_sarray((j_common_ptr)info, JPOOL_IMAGE,
                                             (JDIMENSION)(shape->width * channels), 1);
    while (info->output_scanline < info->output_height) {
        uint8_t *to = r->pixels + info->output_scanline * shape->width * shape->channels;
        jpeg_read_scanlines(info, row, 1);
        convert_jpeg(info, row[0], to, shape);
    }
    jpeg_finish_decompress(info);
    return DPT_OK;
}

static dpt_status read_jpeg(request *r, dpt_error *error)
{
    struct jpeg_decompress_struct info = {0};
    jpeg_failure failure;
    info.err = jpeg_std_error(&failure.base);
    failure.base.error_exit = leave_jpeg;
    failure.base.emit_message = note_jpeg;
    if (setjmp(failure.leave)) {
        jpeg_destroy_decompress(&info);
        return fail_damaged(r, "JPEG", failure.words, error);
    }
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, r->file->bytes, r->file->n_bytes);
    const dpt_status status = decode_jpeg(&info, r, error);
    jpeg_destroy_decompress(&info);
    return status;
}

#else

static dpt_status read_jpeg(request *r, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_UNSUPPORTED,
                    "%s: this dptrain was built without libjpeg and cannot read JPEG; install its "
                    "development package (libjpeg-dev) and build again",
                    r->file->name);
}

#endif

/* ---- Either ---------------------------------------------------------------------------------- */

static dpt_status read_image(request *r, dpt_error *error)
{
    switch (dpti_image_format_of(r->file->bytes, r->file->n_bytes)) {
    case DPTI_IMAGE_PNG: return read_png(r, error);
    case DPTI_IMAGE_JPEG: return read_jpeg(r, error);
    case DPTI_IMAGE_UNKNOWN: break;
    }
    return DPT_FAIL(error, DPT_E_FORMAT, "%s: neither PNG nor JPEG", r->file->name);
}

dpt_status dpti_image_measure(const dpti_file_bytes *file, size_t *height, size_t *width,
                              dpt_error *error)
{
    request r = {.file = file};
    DPT_TRY(read_image(&r, error));
    *height = r.height;
    *width = r.width;
    return DPT_OK;
}

dpt_status dpti_image_decode(const dpti_file_bytes *file, const dpti_image_shape *shape,
                             uint8_t *pixels, dpt_error *error)
{
    request r = {.file = file, .shape = shape, .pixels = pixels};
    return read_image(&r, error);
}
