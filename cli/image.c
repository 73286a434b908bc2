/* PNG by libpng's simplified interface, JPEG by libjpeg's.  Both are optional when dptrain is built
   (DPTRAIN_HAS_PNG, DPTRAIN_HAS_JPEG). */
#include "image.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dpt_types.h" /* DPT_PRINTF */

DPT_PRINTF(2, 3) static bool fail(cli_image_error *error, const char *format, ...)
{
    va_list args;
    error->unfit = false;
    va_start(args, format);
    vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    return false;
}

cli_image_format cli_image_format_of(const uint8_t *bytes, size_t n_bytes)
{
    static const uint8_t png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    static const uint8_t jpeg[] = {0xff, 0xd8, 0xff};
    if (n_bytes >= sizeof png && memcmp(bytes, png, sizeof png) == 0) return CLI_IMAGE_PNG;
    if (n_bytes >= sizeof jpeg && memcmp(bytes, jpeg, sizeof jpeg) == 0) return CLI_IMAGE_JPEG;
    return CLI_IMAGE_UNKNOWN;
}

#if defined DPTRAIN_HAS_PNG || defined DPTRAIN_HAS_JPEG

static bool check_size(size_t height, size_t width, const cli_image_shape *shape,
                       cli_image_error *error)
{
    if (height == shape->height && width == shape->width) return true;
    fail(
        error,
        "the image is %zux%zu (height x width), but the model takes %zux%zu; scale or cut it first",
        height, width, shape->height, shape->width);
    error->unfit = true;
    return false;
}

/* What a library says can hold anything that stands in the file. */
static bool fail_damaged(cli_image_error *error, const char *format, const char *words)
{
    fail(error, "damaged %s: %s", format, words);
    for (char *c = error->message; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
    return false;
}

/* A row of n pixels from 1 or 3 channels, behind which alpha may stand, to the wanted channels. */
static void convert(const uint8_t *from, size_t n, size_t from_channels, bool alpha, uint8_t *to,
                    size_t channels)
{
    const size_t step = from_channels + alpha;
    for (size_t i = 0; i < n; i++, from += step, to += channels) {
        unsigned value[3];
        for (size_t c = 0; c < 3; c++) {
            value[c] = from[from_channels == 3 ? c : 0];
            if (alpha) value[c] = (value[c] * from[from_channels] + 127) / 255;
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

static bool finish_png(png_image *image, const cli_image_shape *shape, uint8_t *pixels,
                       cli_image_error *error)
{
    if (!check_size(image->height, image->width, shape, error)) return false;
    const bool alpha = image->format & PNG_FORMAT_FLAG_ALPHA;
    const size_t channels = image->format & PNG_FORMAT_FLAG_COLOR ? 3 : 1;
    const size_t row_bytes = shape->width * (channels + alpha);
    /* 8 bits, as they stand in nearly every file: no colour map, no 16-bit linear light. */
    image->format &= PNG_FORMAT_FLAG_ALPHA | PNG_FORMAT_FLAG_COLOR;
    image->flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
    uint8_t *decoded = malloc(shape->height * row_bytes);
    if (!decoded) return fail(error, "no memory for its pixels");
    const bool done = png_image_finish_read(image, NULL, decoded, 0, NULL) != 0;
    if (done)
        convert(decoded, shape->height * shape->width, channels, alpha, pixels, shape->channels);
    free(decoded);
    return done ? true : fail_damaged(error, "PNG", image->message);
}

static bool decode_png(const uint8_t *bytes, size_t n_bytes, const cli_image_shape *shape,
                       uint8_t *pixels, cli_image_error *error)
{
    png_image image = {.version = PNG_IMAGE_VERSION};
    bool done;
    if (png_image_begin_read_from_memory(&image, bytes, n_bytes))
        done = finish_png(&image, shape, pixels, error);
    else
        done = fail_damaged(error, "PNG", image.message);
    png_image_free(&image);
    return done;
}

#else

static bool decode_png(const uint8_t *bytes, size_t n_bytes, const cli_image_shape *shape,
                       uint8_t *pixels, cli_image_error *error)
{
    (void)bytes, (void)n_bytes, (void)shape, (void)pixels;
    return fail(error, "this dptrain was built without libpng and cannot read PNG; install its "
                       "development package (libpng-dev) and build again");
}

#endif

/* ---- JPEG ------------------------------------------------------------------------------------ */

#ifdef DPTRAIN_HAS_JPEG
#include <jpeglib.h>
#include <setjmp.h>

typedef struct jpeg_failure {
    struct jpeg_error_mgr base; /* first, so that libjpeg's pointer to it is one to this */
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

/* What libjpeg would go on after, with pixels made up, is damage here. */
static void note_jpeg(j_common_ptr info, int level)
{
    if (level < 0) leave_jpeg(info);
}

static bool start_jpeg(struct jpeg_decompress_struct *info, const cli_image_shape *shape,
                       cli_image_error *error)
{
    jpeg_read_header(info, TRUE);
    if (!check_size(info->image_height, info->image_width, shape, error)) return false;
    if (info->num_components != 1 && info->num_components != 3)
        return fail(error, "a JPEG with %d colour components cannot be read; save it as RGB",
                    info->num_components);
    info->out_color_space = info->num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    info->dct_method = JDCT_ISLOW;
    jpeg_start_decompress(info);
    return true;
}

/* In a function of its own: nothing that it changes is used after a longjmp. */
static bool read_jpeg(struct jpeg_decompress_struct *info, const cli_image_shape *shape,
                      uint8_t *pixels, cli_image_error *error)
{
    if (!start_jpeg(info, shape, error)) return false;
    const size_t channels = (size_t)info->output_components;
    JSAMPARRAY row = info->mem->alloc_sarray((j_common_ptr)info, JPOOL_IMAGE,
                                             (JDIMENSION)(shape->width * channels), 1);
    while (info->output_scanline < info->output_height) {
        uint8_t *to = pixels + info->output_scanline * shape->width * shape->channels;
        jpeg_read_scanlines(info, row, 1);
        convert(row[0], shape->width, channels, false, to, shape->channels);
    }
    jpeg_finish_decompress(info);
    return true;
}

static bool decode_jpeg(const uint8_t *bytes, size_t n_bytes, const cli_image_shape *shape,
                        uint8_t *pixels, cli_image_error *error)
{
    struct jpeg_decompress_struct info = {0};
    jpeg_failure failure;
    info.err = jpeg_std_error(&failure.base);
    failure.base.error_exit = leave_jpeg;
    failure.base.emit_message = note_jpeg;
    if (setjmp(failure.leave)) {
        jpeg_destroy_decompress(&info);
        return fail_damaged(error, "JPEG", failure.words);
    }
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, bytes, n_bytes);
    const bool done = read_jpeg(&info, shape, pixels, error);
    jpeg_destroy_decompress(&info);
    return done;
}

#else

static bool decode_jpeg(const uint8_t *bytes, size_t n_bytes, const cli_image_shape *shape,
                        uint8_t *pixels, cli_image_error *error)
{
    (void)bytes, (void)n_bytes, (void)shape, (void)pixels;
    return fail(error, "this dptrain was built without libjpeg and cannot read JPEG; install its "
                       "development package (libjpeg-dev) and build again");
}

#endif

bool cli_image_decode(const uint8_t *bytes, size_t n_bytes, const cli_image_shape *shape,
                      uint8_t *pixels, cli_image_error *error)
{
    switch (cli_image_format_of(bytes, n_bytes)) {
    case CLI_IMAGE_PNG: return decode_png(bytes, n_bytes, shape, pixels, error);
    case CLI_IMAGE_JPEG: return decode_jpeg(bytes, n_bytes, shape, pixels, error);
    case CLI_IMAGE_UNKNOWN: break;
    }
    return fail(error, "neither PNG nor JPEG");
}
