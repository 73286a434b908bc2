/* Reads a picture: decodes its file and, if the caller asks for it, cuts and scales the
   picture. */
#include "data/picture.h"
#include "context/context.h"

#include "base/memory.h"
#include "data/exif.h"
#include "data/scale.h"
#include "io/file.h"

#include <stdlib.h>

enum {
    LARGE_PIXELS = 1 << 25, /* a picture with more pixels is decoded alone; a smaller one needs at
                               most 224 MiB */
};

static dpt_status check_shape(const dpt_picture_shape *shape, dpt_error *error)
{
    if (shape->channels != 1 && shape->channels != 3)
        return DPT_FAIL(error, DPT_E_INVALID, "a picture has 1 or 3 channels, and not %zu",
                        shape->channels);
    if (shape->height == 0 || shape->width == 0 || shape->height > DPTI_SCALE_MAX_EXTENT ||
        shape->width > DPTI_SCALE_MAX_EXTENT)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "a picture of %zux%zu: height and width must be 1 to %d", shape->height,
                        shape->width, DPTI_SCALE_MAX_EXTENT);
    return DPT_OK;
}

/* A picture's file, and its size when it is turned as its orientation says. */
typedef struct picture {
    const dpti_file_bytes *file;
    dpti_image_shape shape;
    unsigned orientation;
} picture;

static dpt_status fail_memory(const picture *p, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the %zux%zu pixels of %s",
                    p->shape.height, p->shape.width, p->file->name);
}

/* Decodes a picture that has the size of p->shape, and turns it. */
static dpt_status decode(const picture *p, uint8_t *pixels, dpt_error *error)
{
    dpti_image_shape own = p->shape;
    if (p->orientation == 1) return dpti_image_decode(p->file, &own, pixels, error);
    const size_t n_bytes = own.height * own.width * own.channels;
    if (dpti_exif_swaps(p->orientation))
        own = (dpti_image_shape){own.width, own.height, own.channels};
    uint8_t *decoded = n_bytes <= dpti_machine_memory() ? malloc(n_bytes) : NULL;
    if (!decoded) return fail_memory(p, error);
    const dpt_status status = dpti_image_decode(p->file, &own, decoded, error);
    if (status == DPT_OK) dpti_exif_turn(decoded, &own, p->orientation, pixels);
    free(decoded);
    return status;
}

/* Decodes the picture in its own size, then scales it. */
static dpt_status scale(const picture *p, const dpti_picture_options *way, uint8_t *pixels,
                        dpt_error *error)
{
    const dpti_image_shape *own = &p->shape;
    const dpti_image_shape wanted = {way->shape.height, way->shape.width, way->shape.channels};
    const size_t n_bytes = own->height * own->width * own->channels;
    const dpti_image_window window =
        way->least_area > 0 ? dpti_scale_draw(own, &wanted, way->least_area, way->random)
                            : dpti_scale_middle(own, &wanted);
    uint8_t *decoded = n_bytes <= dpti_machine_memory() ? malloc(n_bytes) : NULL;
    dpt_status status = decoded ? decode(p, decoded, error) : DPT_E_NO_MEMORY;
    if (status == DPT_OK &&
        !dpti_scale(&(dpti_scale_source){decoded, *own, window}, pixels, &wanted))
        status = DPT_E_NO_MEMORY;
    free(decoded);
    return status == DPT_E_NO_MEMORY ? fail_memory(p, error) : status;
}

static dpt_status fit(const dpti_file_bytes *file, const dpti_picture_options *way, uint8_t *pixels,
                      dpt_error *error)
{
    const dpt_picture_shape *shape = &way->shape;
    const dpti_image_shape wanted = {shape->height, shape->width, shape->channels};
    picture p = {.file = file,
                 .shape = wanted,
                 .orientation = shape->unoriented ? 1 : dpti_exif_orientation(file)};
    if (!shape->scaled) return decode(&p, pixels, error);
    size_t height, width;
    DPT_TRY(dpti_image_measure(file, &height, &width, error));
    const bool swaps = dpti_exif_swaps(p.orientation);
    p.shape.height = swaps ? width : height;
    p.shape.width = swaps ? height : width;
    const dpti_image_shape own = p.shape;
    if (own.height == wanted.height && own.width == wanted.width && !(way->least_area > 0))
        return decode(&p, pixels, error);
    const bool waits = way->large && own.height * own.width > LARGE_PIXELS;
    if (waits) pthread_mutex_lock(way->large);
    const dpt_status status = scale(&p, way, pixels, error);
    if (waits) pthread_mutex_unlock(way->large);
    return status;
}

dpt_status dpti_picture_parse(const dpti_file_bytes *file, const dpt_picture_shape *shape,
                              uint8_t *pixels, dpt_error *error)
{
    DPT_TRY(check_shape(shape, error));
    return fit(file, &(dpti_picture_options){.shape = *shape}, pixels, error);
}

dpt_status dpti_picture_read(const char *path, const dpti_picture_options *way, uint8_t *pixels,
                             dpt_error *error)
{
    dpti_content content = {0};
    DPT_TRY(dpti_file_read_most(path, DPTI_PICTURE_MAX_BYTES, &content, error));
    const dpti_file_bytes file = {path, content.bytes, content.n_bytes};

    const dpt_status status = fit(&file, way, pixels, error);
    free(content.bytes);
    return status;
}

dpt_status dpt_picture_read(dpt_context *context, const char *path, const dpt_picture_shape *shape,
                            uint8_t *pixels)
{
    dpt_error error = {0};
    dpt_status status = check_shape(shape, &error);
    if (status == DPT_OK)
        status = dpti_picture_read(path, &(dpti_picture_options){.shape = *shape}, pixels, &error);
    return status == DPT_OK ? DPT_OK : dpti_context_fail(context, NULL, &error);
}
