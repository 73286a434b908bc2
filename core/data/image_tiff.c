/* Decodes the first page of a TIFF with libtiff (DPTRAIN_HAS_TIFF). */
#include "data/image_formats.h"

#ifdef DPTRAIN_HAS_TIFF
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>

/* What a part of a page (a tile or a strip) may take for each pixel of the page, and beside that.
 */
enum { MOST_CHANNELS = 8, PART_BYTES_A_PIXEL = 16, PART_BYTES = 1 << 24 };

/* What libtiff reads from, and what it says. */
typedef struct input {
    const dpti_file_bytes *file;
    size_t at;
    char words[256]; /* of its first error; "": there is none */
} input;

static tmsize_t read_bytes(thandle_t handle, void *to, tmsize_t n_bytes)
{
    input *in = handle;
    const size_t left = in->at < in->file->n_bytes ? in->file->n_bytes - in->at : 0;
    const size_t n = n_bytes < 0 ? 0 : (size_t)n_bytes < left ? (size_t)n_bytes : left;
    if (n > 0) memcpy(to, in->file->bytes + in->at, n);
    in->at += n;
    return (tmsize_t)n;
}

static tmsize_t write_nothing(thandle_t handle, void *from, tmsize_t n_bytes)
{
    (void)handle, (void)from, (void)n_bytes;
    return 0;
}

static toff_t seek(thandle_t handle, toff_t offset, int whence)
{
    input *in = handle;
    const toff_t from = whence == SEEK_CUR ? in->at : whence == SEEK_END ? in->file->n_bytes : 0;
    in->at = (size_t)(from + offset);
    return in->at;
}

static int close_nothing(thandle_t handle)
{
    (void)handle;
    return 0;
}

static toff_t size_of(thandle_t handle)
{
    return ((input *)handle)->file->n_bytes;
}

/* Without a mapping libtiff 4.5.0 refuses uncompressed tiles whose size is no multiple of 1024
   bytes.  libtiff does not write to what is mapped. */
static int map_file(thandle_t handle, void **base, toff_t *n_bytes)
{
    const dpti_file_bytes *file = ((input *)handle)->file;
    *base = (void *)(uintptr_t)file->bytes;
    *n_bytes = file->n_bytes;
    return 1;
}

static void unmap_nothing(thandle_t handle, void *base, toff_t n_bytes)
{
    (void)handle, (void)base, (void)n_bytes;
}

/* The first error is the cause of the others. */
static void note(input *in, const char *format, va_list args)
{
    if (in->words[0] == '\0') vsnprintf(in->words, sizeof in->words, format, args);
}

#if TIFFLIB_VERSION >= 20221213 /* 4.5.0: handlers and limits of one file */

static int note_error(TIFF *tiff, void *user, const char *module, const char *format, va_list args)
{
    (void)tiff, (void)module;
    note(user, format, args);
    return 1;
}

/* Without its table of colours libtiff would take a picture for a grey one, and only warn. */
static int hear_warning(TIFF *tiff, void *user, const char *module, const char *format,
                        va_list args)
{
    char words[256];
    input *in = user;
    (void)tiff, (void)module;
    vsnprintf(words, sizeof words, format, args);
    if (strstr(words, "ColorMap") && in->words[0] == '\0') strcpy(in->words, words);
    return 1;
}

static TIFF *open_tiff(input *in)
{
    TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
    if (!options) return NULL;
    TIFFOpenOptionsSetErrorHandlerExtR(options, note_error, in);
    TIFFOpenOptionsSetWarningHandlerExtR(options, hear_warning, in);
    TIFFOpenOptionsSetMaxSingleMemAlloc(options, (tmsize_t)4 * DPTI_IMAGE_MAX_PIXELS);
    TIFF *tiff = TIFFClientOpenExt("image", "r", in, read_bytes, write_nothing, seek, close_nothing,
                                   size_of, map_file, unmap_nothing, options);
    TIFFOpenOptionsFree(options);
    return tiff;
}

#else

/* Older versions have handlers of the process.  Without them libtiff writes to stderr. */
static void silence(void)
{
    (void)TIFFSetErrorHandler(NULL);
    (void)TIFFSetWarningHandler(NULL);
}

static TIFF *open_tiff(input *in)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, silence);
    (void)note;
    return TIFFClientOpen("image", "r", in, read_bytes, write_nothing, seek, close_nothing, size_of,
                          map_file, unmap_nothing);
}

#endif

static dpt_status fail_tiff(const dpti_image_request *r, const input *in, dpt_error *error)
{
    return dpti_image_damaged(r, "TIFF", in->words[0] ? in->words : "libtiff cannot read it",
                              error);
}

/* Refuses a page whose parts need far more memory than its pixels. */
static dpt_status check_parts(TIFF *tiff, const dpti_image_request *r, dpt_error *error)
{
    uint16_t channels = 1;
    const uint64_t most =
        (uint64_t)r->height * r->width * PART_BYTES_A_PIXEL + (uint64_t)PART_BYTES;
    TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLESPERPIXEL, &channels);
    const uint64_t n_bytes = TIFFIsTiled(tiff) ? TIFFTileSize64(tiff) : TIFFStripSize64(tiff);
    if (channels > MOST_CHANNELS)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: a TIFF with %u channels cannot be read; save it as RGB", r->file->name,
                        channels);
    if (n_bytes == 0 || n_bytes > most)
        return dpti_image_damaged(r, "TIFF", "its tiles or strips are not of its size", error);
    return DPT_OK;
}

/* libtiff gives 8 bits of red, green, blue and alpha for each pixel.  It has multiplied colours by
   alpha already, but not grey values.  Rows and columns stay in the order of the file. */
static void convert(const TIFFRGBAImage *image, uint32_t *raster, const dpti_image_request *r)
{
    const bool alpha = image->samplesperpixel == 2 && image->alpha == EXTRASAMPLE_UNASSALPHA;
    const size_t n = r->height * r->width, step = alpha ? 4 : 3;
    uint8_t *values = (uint8_t *)raster; /* in place */
    for (size_t i = 0; i < n; i++) {
        const uint32_t pixel = raster[i];
        values[step * i] = (uint8_t)TIFFGetR(pixel);
        values[step * i + 1] = (uint8_t)TIFFGetG(pixel);
        values[step * i + 2] = (uint8_t)TIFFGetB(pixel);
        if (alpha) values[step * i + 3] = (uint8_t)TIFFGetA(pixel);
    }
    dpti_image_convert(&(dpti_decoded_pixels){values, 3, alpha}, n, r->pixels, r->shape->channels);
}

static dpt_status decode(TIFF *tiff, const dpti_image_request *r, const input *in, dpt_error *error)
{
    char words[1024] = "";
    TIFFRGBAImage image;
    if (!TIFFRGBAImageOK(tiff, words) || !TIFFRGBAImageBegin(&image, tiff, 1, words))
        return dpti_image_damaged(r, "TIFF", words, error);
    uint32_t *raster = calloc(r->height * r->width, sizeof *raster);
    image.req_orientation = image.orientation;
    const bool done =
        raster && TIFFRGBAImageGet(&image, raster, (uint32_t)r->width, (uint32_t)r->height) != 0;
    const bool no_memory = !raster;
    if (done) convert(&image, raster, r);
    free(raster);
    TIFFRGBAImageEnd(&image);
    if (no_memory) return dpti_image_no_memory(r, error);
    /* libtiff goes on after some errors. */
    return done && in->words[0] == '\0' ? DPT_OK : fail_tiff(r, in, error);
}

static dpt_status read_page(TIFF *tiff, dpti_image_request *r, const input *in, dpt_error *error)
{
    uint32_t height = 0, width = 0;
    if (!TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height) ||
        !TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width))
        return dpti_image_damaged(r, "TIFF", "no height and width", error);
    DPT_TRY(dpti_image_check_size(r, height, width, error));
    DPT_TRY(check_parts(tiff, r, error));
    return r->shape ? decode(tiff, r, in, error) : DPT_OK;
}

dpt_status dpti_read_tiff(dpti_image_request *r, dpt_error *error)
{
    input in = {.file = r->file};
    TIFF *tiff = open_tiff(&in);
    if (!tiff) return fail_tiff(r, &in, error);
    const dpt_status status = read_page(tiff, r, &in, error);
    TIFFClose(tiff);
    return status;
}

#else

dpt_status dpti_read_tiff(dpti_image_request *r, dpt_error *error)
{
    return dpti_image_no_library(r, "TIFF", "libtiff-dev", error);
}

#endif
