/* Decodes WebP with libwebp; of an animation, the first frame, for which libwebpdemux is needed
   (DPTRAIN_HAS_WEBP: both). */
#include "data/image_formats.h"

#ifdef DPTRAIN_HAS_WEBP
#include <stdlib.h>
#include <string.h>
#include <webp/decode.h>
#include <webp/demux.h>

/* A still image in memory, at its place on a canvas. */
typedef struct still {
    const uint8_t *bytes;
    size_t n_bytes;
    size_t x, y, height, width;
    bool alpha;
} still;

static const char *words_of(VP8StatusCode code)
{
    switch (code) {
    case VP8_STATUS_OUT_OF_MEMORY: return "out of memory";
    case VP8_STATUS_BITSTREAM_ERROR: return "a bitstream error";
    case VP8_STATUS_UNSUPPORTED_FEATURE: return "a feature that libwebp does not know";
    case VP8_STATUS_NOT_ENOUGH_DATA: return "cut off";
    default: return "no image that libwebp reads";
    }
}

/* Decodes a still image into its place on the canvas. */
static dpt_status decode(const dpti_image_request *r, const still *s, dpt_error *error)
{
    WebPDecoderConfig config;
    const size_t n_values = s->alpha ? 4 : 3, row_bytes = s->width * n_values;
    if (!WebPInitDecoderConfig(&config))
        return dpti_image_damaged(r, "WebP", "another version of libwebp", error);
    uint8_t *decoded = malloc(s->height * row_bytes);
    if (!decoded) return dpti_image_no_memory(r, error);
    config.output.colorspace = s->alpha ? MODE_RGBA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = decoded;
    config.output.u.RGBA.stride = (int)row_bytes;
    config.output.u.RGBA.size = s->height * row_bytes;
    const VP8StatusCode code = WebPDecode(s->bytes, s->n_bytes, &config);
    const size_t channels = r->shape->channels;
    for (size_t y = 0; code == VP8_STATUS_OK && y < s->height; y++)
        dpti_image_convert(&(dpti_decoded_pixels){decoded + y * row_bytes, 3, s->alpha}, s->width,
                           r->pixels + ((s->y + y) * r->shape->width + s->x) * channels, channels);
    WebPFreeDecBuffer(&config.output);
    free(decoded);
    return code == VP8_STATUS_OK ? DPT_OK : dpti_image_damaged(r, "WebP", words_of(code), error);
}

/* The part of the canvas that the frame leaves free is transparent, and so black. */
static dpt_status decode_frame(const dpti_image_request *r, const WebPIterator *frame,
                               dpt_error *error)
{
    const dpti_image_shape *shape = r->shape;
    WebPBitstreamFeatures about;
    const still s = {.bytes = frame->fragment.bytes,
                     .n_bytes = frame->fragment.size,
                     .x = (size_t)frame->x_offset,
                     .y = (size_t)frame->y_offset,
                     .height = (size_t)frame->height,
                     .width = (size_t)frame->width,
                     .alpha = frame->has_alpha};
    const VP8StatusCode code = WebPGetFeatures(s.bytes, s.n_bytes, &about);
    if (code != VP8_STATUS_OK) return dpti_image_damaged(r, "WebP", words_of(code), error);
    if (frame->x_offset < 0 || frame->y_offset < 0 || s.x > shape->width || s.y > shape->height ||
        s.width > shape->width - s.x || s.height > shape->height - s.y || about.has_animation ||
        about.width != frame->width || about.height != frame->height)
        return dpti_image_damaged(r, "WebP", "a frame that is not within the image", error);
    memset(r->pixels, 0, shape->height * shape->width * shape->channels);
    return decode(r, &s, error);
}

static dpt_status decode_first(const dpti_image_request *r, dpt_error *error)
{
    const WebPData data = {r->file->bytes, r->file->n_bytes};
    WebPDemuxer *demuxer = WebPDemux(&data);
    WebPIterator frame = {0};
    const bool found = demuxer && WebPDemuxGetFrame(demuxer, 1, &frame);
    const dpt_status status = found ? decode_frame(r, &frame, error)
                                    : dpti_image_damaged(r, "WebP", "no whole frame", error);
    WebPDemuxReleaseIterator(&frame);
    WebPDemuxDelete(demuxer);
    return status;
}

dpt_status dpti_read_webp(dpti_image_request *r, dpt_error *error)
{
    WebPBitstreamFeatures about;
    const VP8StatusCode code = WebPGetFeatures(r->file->bytes, r->file->n_bytes, &about);
    if (code != VP8_STATUS_OK) return dpti_image_damaged(r, "WebP", words_of(code), error);
    DPT_TRY(dpti_image_check_size(r, about.height > 0 ? (size_t)about.height : 0,
                                  about.width > 0 ? (size_t)about.width : 0, error));
    if (!r->shape) return DPT_OK;
    if (about.has_animation) return decode_first(r, error);
    return decode(r,
                  &(still){.bytes = r->file->bytes,
                           .n_bytes = r->file->n_bytes,
                           .height = r->height,
                           .width = r->width,
                           .alpha = about.has_alpha},
                  error);
}

#else

dpt_status dpti_read_webp(dpti_image_request *r, dpt_error *error)
{
    return dpti_image_no_library(r, "WebP", "libwebp-dev", error);
}

#endif
