/* Pictures in files as images of a data set: one, or many at a time. */
#ifndef DPTI_PICTURE_H
#define DPTI_PICTURE_H

#include "backend.h"
#include "dptrain.h"

/* A picture's file is read whole. */
enum { DPTI_PICTURE_MAX_BYTES = 1 << 28 };

/* Pictures of one shape, each in a file of its own. */
typedef struct dpti_pictures {
    dpt_picture_shape shape;
    size_t count;
    /* An allocated path of the i-th, or NULL without memory; called from several threads. */
    char *(*path)(const void *user, size_t i);
    const void *user;
    size_t n_threads; /* 0: as many as this process has processors, at most 16 */
} dpti_pictures;

/* Reads all of them into pixels (count, height, width, channels), which are the same however many
   threads do it.  Fails as dpt_picture_read does for the first that cannot be read.  Takes memory
   for a picture in a thread, and for no more than one that is large. */
DPT_CHECK_RESULT dpt_status dpti_pictures_read(const dpti_pictures *pictures, uint8_t *pixels,
                                               dpt_error *error);

/* Of bytes, as a file has them; `name` stands in messages. */
DPT_CHECK_RESULT dpt_status dpti_picture_parse(const char *name, const uint8_t *bytes,
                                               size_t n_bytes, const dpt_picture_shape *shape,
                                               uint8_t *pixels, dpt_error *error);

#endif
