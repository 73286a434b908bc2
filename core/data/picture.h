/* Pictures in files as images of a data set. */
#ifndef DPTI_PICTURE_H
#define DPTI_PICTURE_H

#include "backend.h"
#include "dptrain.h"

#include <pthread.h>

/* A picture's file is read whole. */
enum { DPTI_PICTURE_MAX_BYTES = 1 << 28 };

/* dpt_picture_read, of which several threads with the same `large` decode one picture of many
   pixels at a time: together they take memory for a small one each, and for one that is large. */
DPT_CHECK_RESULT dpt_status dpti_picture_read(const char *path, const dpt_picture_shape *shape,
                                              pthread_mutex_t *large, uint8_t *pixels,
                                              dpt_error *error);

/* Of bytes, as a file has them; `name` stands in messages. */
DPT_CHECK_RESULT dpt_status dpti_picture_parse(const char *name, const uint8_t *bytes,
                                               size_t n_bytes, const dpt_picture_shape *shape,
                                               uint8_t *pixels, dpt_error *error);

#endif
