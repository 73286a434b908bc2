/* Decodes JPEG with libjpeg (DPTRAIN_HAS_JPEG). */
#include "data/image_formats.h"

#ifdef DPTRAIN_HAS_JPEG
#include <stdio.h>

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
    dpti_image_convert(
        &(dpti_decoded_pixels){row, components == 4 ? 3 : components, components == 4}, n, to,
        shape->channels);
}

static dpt_status start_jpeg(struct jpeg_decompress_struct *info, dpti_image_request *r,
                             dpt_error *error)
{
    jpeg_read_header(info, TRUE);
    DPT_TRY(dpti_image_check_size(r, info->image_height, info->image_width, error));
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
static dpt_status decode_jpeg(struct jpeg_decompress_struct *info, dpti_image_request *r,
                              dpt_error *error)
{
    DPT_TRY(start_jpeg(info, r, error));
    if (!r->shape) return DPT_OK;
    const dpti_image_shape *shape = r->shape;
    const size_t channels = (size_t)info->output_components;
    JSAMPARRAY row = info->mem->alloc_sarray((j_common_ptr)info, JPOOL_IMAGE,
                                             (JDIMENSION)(shape->width * channels), 1);
    while (info->output_scanline < info->output_height) {
        uint8_t *to = r->pixels + info->output_scanline * shape->width * shape->channels;
        const bool wanted = channels == shape->channels; /* a row as it is */
        jpeg_read_scanlines(info, wanted ? &to : row, 1);
        if (!wanted) convert_jpeg(info, row[0], to, shape);
    }
    jpeg_finish_decompress(info);
    return DPT_OK;
}

dpt_status dpti_read_jpeg(dpti_image_request *r, dpt_error *error)
{
    struct jpeg_decompress_struct info = {0};
    jpeg_failure failure;
    info.err = jpeg_std_error(&failure.base);
    failure.base.error_exit = leave_jpeg;
    failure.base.emit_message = note_jpeg;
    if (setjmp(failure.leave)) {
        jpeg_destroy_decompress(&info);
        return dpti_image_damaged(r, "JPEG", failure.words, error);
    }
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, r->file->bytes, r->file->n_bytes);
    const dpt_status status = decode_jpeg(&info, r, error);
    jpeg_destroy_decompress(&info);
    return status;
}

#else

dpt_status dpti_read_jpeg(dpti_image_request *r, dpt_error *error)
{
    return dpti_image_no_library(r, "JPEG", "libjpeg-dev", error);
}

#endif
