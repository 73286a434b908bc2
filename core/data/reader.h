/* Reads images on demand in threads: images are decoded by dptrain or made by a function of the
   program. */
#ifndef DPTI_READER_H
#define DPTI_READER_H

#include "dpt_error.h"
#include "dptrain.h"

enum { DPTI_READER_MAX_THREADS = 16 };

/* What images are read for. */
typedef struct dpti_image_use {
    size_t epoch;      /* of training, from 1; 0: the images unchanged */
    uint64_t seed;     /* with `epoch`: the seed of random changes: */
    double least_area; /* a random window of at least this part of the area (dpti_scale_draw); 0:
                          none */
} dpti_image_use;

/* The record whose image is wanted, and what for. */
typedef struct dpti_wanted_image {
    size_t record;
    const dpti_image_use *use;
} dpti_wanted_image;

/* The source of a reader's images. */
typedef struct dpti_image_source {
    /* Makes the image of a record (image_bytes).  The function must give the same image for the
       same use. Several threads call it at once.  A failure is recorded in *error. */
    dpt_status (*make)(void *user, const dpti_wanted_image *wanted, void *image, dpt_error *error);
    void (*destroy)(void *user); /* may be NULL */
    void *user;
    size_t image_bytes;
    size_t n_threads; /* 0: one per processor of this process, at most 16 */
} dpti_image_source;

/* A request for images.  It must not be moved until it is waited for or dropped. */
typedef struct dpti_request {
    const uint32_t *records; /* (n) records to read; NULL: 0 to n - 1 */
    size_t n;
    dpti_image_use use;
    uint8_t *images; /* (n, image_bytes) */
    /* Private to the reader, under its lock: */
    struct dpti_request *next;
    size_t begun, done; /* number of images started and finished.  Images are started in order, so
                           that no image before a failed one is missing */
    size_t failed;      /* the first image that failed; SIZE_MAX: none */
    dpt_error error;    /* the failure of that image */
} dpti_request;

typedef struct dpti_reader dpti_reader;

/* Creates a reader, which takes over `source`: the source is destroyed with the reader, or after a
   failure.  Errors: DPT_E_NO_MEMORY, also if no thread can be started. */
DPT_CHECK_RESULT dpt_status dpti_reader_create(const dpti_image_source *source, dpti_reader **out,
                                               dpt_error *error);
/* Destroys a reader.  Accepts NULL.  No request may be left. */
void dpti_reader_destroy(dpti_reader *reader);

/* Sets the bytes of an image.  No request may be left. */
void dpti_reader_resize(dpti_reader *reader, size_t image_bytes);

/* Posts a request.  Any thread may call this.  Requests are processed in the order in which they
   are posted, except that a request that is waited for comes first. */
void dpti_reader_post(dpti_reader *reader, dpti_request *request);
/* Waits until all images are read, or one has failed, whose failure is returned.  The request is
   processed before all others. */
DPT_CHECK_RESULT dpt_status dpti_reader_wait(dpti_reader *reader, dpti_request *request,
                                             dpt_error *error);
/* Drops a request that is no longer needed.  Returns when no thread works on it. */
void dpti_reader_drop(dpti_reader *reader, dpti_request *request);

#endif
