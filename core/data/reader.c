/* The queue of read requests, and the threads that work on the first request that still has an
   image to start. */
#include "data/reader.h"

#include "base/processors.h"
#include "base/thread.h"

#include <pthread.h>
#include <stdlib.h>

struct dpti_reader {
    dpti_image_source source;
    pthread_mutex_t lock;
    pthread_cond_t asked; /* signalled when there is an image to start, or the reader closes */
    pthread_cond_t ended; /* signalled when an image is finished */
    dpti_request *first;  /* the list of requests with images that are not started */
    bool closing;
    size_t n_threads;
    pthread_t threads[DPTI_READER_MAX_THREADS];
};

static void free_source(const dpti_image_source *source)
{
    if (source->destroy) source->destroy(source->user);
}

void dpti_reader_destroy(dpti_reader *reader)
{
    dpti_reader *r = reader;
    if (!r) return;
    pthread_mutex_lock(&r->lock);
    r->closing = true;
    pthread_cond_broadcast(&r->asked);
    pthread_mutex_unlock(&r->lock);
    for (size_t i = 0; i < r->n_threads; i++)
        pthread_join(r->threads[i], NULL);
    pthread_cond_destroy(&r->ended);
    pthread_cond_destroy(&r->asked);
    pthread_mutex_destroy(&r->lock);
    free_source(&r->source);
    free(r);
}

/* ---- Working [under the lock] ------------------------------------------------------------------
 */

static bool has_ended(const dpti_request *request)
{
    return request->done == request->begun &&
           (request->begun == request->n || request->failed != SIZE_MAX);
}

/* Returns whether the request was in the list. */
static bool take_out(dpti_reader *r, const dpti_request *request)
{
    dpti_request **at = &r->first;
    while (*at && *at != request)
        at = &(*at)->next;
    if (!*at) return false;
    *at = request->next;
    return true;
}

/* Makes the next image of the first request.  Releases the lock meanwhile. */
static void make_next(dpti_reader *r)
{
    dpti_request *request = r->first;
    const size_t i = request->begun++;
    dpt_error error = {.status = DPT_OK};
    if (request->begun == request->n) (void)take_out(r, request);
    pthread_mutex_unlock(&r->lock);
    const dpti_wanted_image wanted = {.record = request->records ? request->records[i] : i,
                                      .use = &request->use};
    const dpt_status status = r->source.make(r->source.user, &wanted,
                                             request->images + i * r->source.image_bytes, &error);
    pthread_mutex_lock(&r->lock);
    if (status != DPT_OK) {
        (void)take_out(r, request); /* no further image of it is started */
        if (i < request->failed) {
            request->failed = i;
            request->error = error;
            request->error.status = status;
        }
    }
    request->done++;
    if (request->done == request->begun) pthread_cond_broadcast(&r->ended);
}

static void *work(void *argument)
{
    dpti_reader *r = argument;
    pthread_mutex_lock(&r->lock);
    while (!r->closing)
        if (r->first)
            make_next(r);
        else
            pthread_cond_wait(&r->asked, &r->lock);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static size_t count_threads(const dpti_reader *r)
{
    const size_t n = r->source.n_threads ? r->source.n_threads : dpti_processors();
    return n > DPTI_READER_MAX_THREADS ? DPTI_READER_MAX_THREADS : n;
}

/* Starts as many threads as possible; one is enough. */
static void start(dpti_reader *r)
{
    const size_t n = count_threads(r);
    while (r->n_threads < n && dpti_thread_start(&r->threads[r->n_threads], work, r, "images") == 0)
        r->n_threads++;
}

dpt_status dpti_reader_create(const dpti_image_source *source, dpti_reader **out, dpt_error *error)
{
    dpti_reader *r = calloc(1, sizeof *r);
    if (!r) {
        free_source(source);
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to read images");
    }
    r->source = *source;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->asked, NULL);
    pthread_cond_init(&r->ended, NULL);
    start(r);
    if (r->n_threads == 0) {
        dpti_reader_destroy(r);
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no thread could be started to read images");
    }
    *out = r;
    return DPT_OK;
}

/* ---- Requests -------------------------------------------------------------------------------- */

void dpti_reader_resize(dpti_reader *reader, size_t image_bytes)
{
    pthread_mutex_lock(&reader->lock);
    reader->source.image_bytes = image_bytes;
    pthread_mutex_unlock(&reader->lock);
}

void dpti_reader_post(dpti_reader *reader, dpti_request *request)
{
    dpti_reader *r = reader;
    request->next = NULL;
    request->begun = request->done = 0;
    request->failed = SIZE_MAX;
    if (request->n == 0) return;
    pthread_mutex_lock(&r->lock);
    dpti_request **last = &r->first;
    while (*last)
        last = &(*last)->next;
    *last = request;
    pthread_cond_broadcast(&r->asked);
    pthread_mutex_unlock(&r->lock);
}

dpt_status dpti_reader_wait(dpti_reader *reader, dpti_request *request, dpt_error *error)
{
    dpti_reader *r = reader;
    pthread_mutex_lock(&r->lock);
    if (take_out(r, request)) {
        request->next = r->first;
        r->first = request;
    }
    while (!has_ended(request))
        pthread_cond_wait(&r->ended, &r->lock);
    pthread_mutex_unlock(&r->lock);
    if (request->failed == SIZE_MAX) return DPT_OK;
    if (error) *error = request->error;
    return request->error.status;
}

void dpti_reader_drop(dpti_reader *reader, dpti_request *request)
{
    dpti_reader *r = reader;
    pthread_mutex_lock(&r->lock);
    (void)take_out(r, request);
    while (request->done < request->begun)
        pthread_cond_wait(&r->ended, &r->lock);
    pthread_mutex_unlock(&r->lock);
}
