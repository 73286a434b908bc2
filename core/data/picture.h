/* Picture files as images of a data set. */
#ifndef DPTI_PICTURE_H
#define DPTI_PICTURE_H

#include "base/bytes.h"
#include "base/random.h"
#include "dpt_error.h"
#include "dptrain.h"

#include <pthread.h>

/* Largest file of a picture, which is read whole. */
enum { DPTI_PICTURE_MAX_BYTES = 1 << 28 };

/* How a picture is read. */
typedef struct dpti_picture_options {
    dpt_picture_shape shape;
    double least_area;   /* if scaled: the least area of a random window (dpti_scale_draw); 0: the
                            centre is used */
    dpti_random *random; /* random numbers for least_area */
    pthread_mutex_t *large; /* or NULL.  Threads that share this lock decode one picture of many
                               pixels at a time.  So together they need memory for one small picture
                               each, and for one large picture */
} dpti_picture_options;

/* As dpt_picture_read. */
DPT_CHECK_RESULT dpt_status dpti_picture_read(const char *path, const dpti_picture_options *way,
                                              uint8_t *pixels, dpt_error *error);

/* Reads a picture from the bytes of a file; `name` is used in messages. */
DPT_CHECK_RESULT dpt_status dpti_picture_parse(const dpti_file_bytes *file,
                                               const dpt_picture_shape *shape, uint8_t *pixels,
                                               dpt_error *error);

#endif
