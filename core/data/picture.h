/* Picture files as images of a data set. */
#ifndef DPTI_PICTURE_H
#define DPTI_PICTURE_H

#include "base/base.h"
#include "dpt_error.h"
#include "dptrain.h"

#include <pthread.h>

/* A picture's file is read whole. */
enum { DPTI_PICTURE_MAX_BYTES = 1 << 28 };

/* How pictures are read. */
typedef struct dpti_picture_options {
    dpt_picture_shape shape;
    double least_area;   /* where scaled: of a random window (dpti_scale_draw); 0: of the middle */
    dpti_random *random; /* with least_area */
    pthread_mutex_t *large; /* or NULL.  Several threads with the same one decode one picture of
                               many pixels at a time: together they take memory for a small one
                               each, and for one that is large */
} dpti_picture_options;

/* As dpt_picture_read. */
DPT_CHECK_RESULT dpt_status dpti_picture_read(const char *path, const dpti_picture_options *way,
                                              uint8_t *pixels, dpt_error *error);

/* Of bytes, as a file has them; `name` stands in messages. */
DPT_CHECK_RESULT dpt_status dpti_picture_parse(const char *name, const uint8_t *bytes,
                                               size_t n_bytes, const dpt_picture_shape *shape,
                                               uint8_t *pixels, dpt_error *error);

#endif
