/* Reads images on demand in threads: images are decoded by dptrain or made by a function of the
   program. */
#ifndef DPTI_READER_H
#define DPTI_READER_H

#include "dpt_error.h"
#include "dptrain.h"

enum { DPTI_READER_MAX_THREADS = 16 };

/* What images are made for. */
typedef struct dpti_image_use {
    size_t epoch;      /* of training, from 1; 0: the images as they are */
    uint64_t seed;     /* with `epoch`: of what is random, which is */
    double least_area; /* a window of at least this part (dpti_scale_draw); 0: none */
} dpti_image_use;

/* Who makes them. */
typedef struct dpti_image_source {
    /* Makes the image of a record, image_bytes of it: the same for the same use.  Called by several
       threads at once.  A failure stands in *error. */
    dpt_status (*make)(void *user, size_t record, const dpti_image_use *use, void *image,
                       dpt_error *error);
    void (*destroy)(void *user); /* may be NULL */
    void *user;
    size_t image_bytes;
    size_t n_threads; /* 0: as many as this process has processors, at most 16 */
} dpti_image_source;

/* Images that are asked for together.  It stays where it is until it is waited for or dropped. */
typedef struct dpti_request {
    const uint32_t *records; /* (n) whose; NULL: 0 to n - 1 */
    size_t n;
    dpti_image_use use;
    uint8_t *images; /* (n, image_bytes) */
    /* The reader's, under its lock: */
    struct dpti_request *next;
    size_t begun, done; /* images; handed out in order, so that before one that fails none is left
                           out */
    size_t failed;      /* the first of those that failed; SIZE_MAX: none */
    dpt_error error;    /* of that one */
} dpti_request;

typedef struct dpti_reader dpti_reader;

/* Takes `source` over, which is destroyed with it, or after a failure.  DPT_E_NO_MEMORY also where
   no thread can be started. */
DPT_CHECK_RESULT dpt_status dpti_reader_create(const dpti_image_source *source, dpti_reader **out,
                                               dpt_error *error);
/* NULL is accepted.  No request is left. */
void dpti_reader_destroy(dpti_reader *reader);

/* Any thread.  Requests are worked off in the order in which they are posted, but for those that
   somebody waits for. */
void dpti_reader_post(dpti_reader *reader, dpti_request *request);
/* Until all images are there, or one has failed, which says how.  It comes before all others. */
DPT_CHECK_RESULT dpt_status dpti_reader_wait(dpti_reader *reader, dpti_request *request,
                                             dpt_error *error);
/* Nobody wants it any more: returns when nobody works on it. */
void dpti_reader_drop(dpti_reader *reader, dpti_request *request);

#endif
