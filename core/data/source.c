/* Files and memory, gzipped or not, behind one read function (zlib). */
#include "data/source.h"

#include "base/base.h"
#include "io/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { BUFFER_BYTES = 256 * 1024 };

/* https://www.zlib.net/zlib_tech.html: deflate cannot expand by more than 1032 to 1. */
enum { DEFLATE_MAX_RATIO = 1032 };

struct dpti_source {
    const char *name;
    size_t n_total; /* bytes of the source itself */
    int fd;         /* -1: memory */
    uint8_t *buffer;
    const uint8_t *next; /* what has been fetched and not yet used */
    size_t left;
    bool is_gzip, inflating, stream_ended;
    z_stream stream;
};

/* Fetches more if nothing is left; left == 0 afterwards means the end. */
static dpt_status refill(dpti_source *source, dpt_error *error)
{
    if (source->left > 0 || source->fd < 0) return DPT_OK;
    size_t got = 0;
    DPT_TRY(dpti_file_fill(source->name, source->fd, source->buffer, BUFFER_BYTES, &got, error));
    source->next = source->buffer;
    source->left = got;
    return DPT_OK;
}

static dpt_status start(dpti_source *source, dpt_error *error)
{
    DPT_TRY(refill(source, error));
    source->is_gzip = source->left >= 2 && source->next[0] == 0x1f && source->next[1] == 0x8b;
    if (!source->is_gzip) return DPT_OK;
    /* 15 + 16: the largest window, and a gzip header and trailer. */
    if (inflateInit2(&source->stream, 15 + 16) != Z_OK)
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to decompress %s", source->name);
    source->inflating = true;
    return DPT_OK;
}

dpt_status dpti_source_memory(const char *name, const uint8_t *bytes, size_t n_bytes,
                              dpti_source **out, dpt_error *error)
{
    dpti_source *source = calloc(1, sizeof *source);
    if (!source) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to read %s", name);
    source->name = name;
    source->fd = -1;
    source->next = bytes;
    source->left = source->n_total = n_bytes;
    const dpt_status status = start(source, error);
    if (status != DPT_OK) {
        dpti_source_close(source);
        return status;
    }
    *out = source;
    return DPT_OK;
}

dpt_status dpti_source_open(const char *path, dpti_source **out, dpt_error *error)
{
    dpti_source *source = calloc(1, sizeof *source);
    if (!source) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to read %s", path);
    source->name = path;
    source->fd = -1;
    dpt_status status = dpti_file_open(path, &source->fd, &source->n_total, error);
    if (status == DPT_OK) {
        source->buffer = malloc(BUFFER_BYTES);
        status = source->buffer ? start(source, error)
                                : DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to read %s", path);
    }
    if (status != DPT_OK) {
        dpti_source_close(source);
        return status;
    }
    *out = source;
    return DPT_OK;
}

void dpti_source_close(dpti_source *source)
{
    if (!source) return;
    if (source->inflating) inflateEnd(&source->stream);
    free(source->buffer);
    if (source->fd >= 0) close(source->fd);
    free(source);
}

size_t dpti_source_limit(const dpti_source *source)
{
    size_t limit = source->n_total;
    if (source->is_gzip && !dpti_multiply(source->n_total, DEFLATE_MAX_RATIO, &limit))
        limit = SIZE_MAX;
    return limit;
}

static dpt_status read_plain(dpti_source *source, uint8_t *to, size_t n_bytes, size_t *n_read,
                             dpt_error *error)
{
    size_t done = 0;
    while (done < n_bytes) {
        DPT_TRY(refill(source, error));
        if (source->left == 0) break;
        const size_t part = source->left < n_bytes - done ? source->left : n_bytes - done;
        memcpy(to + done, source->next, part);
        source->next += part;
        source->left -= part;
        done += part;
    }
    *n_read = done;
    return DPT_OK;
}

/* One call of inflate with what is at hand. */
static dpt_status inflate_some(dpti_source *source, uint8_t *to, size_t n_bytes, size_t *n_made,
                               dpt_error *error)
{
    static const size_t most = 1u << 30; /* zlib counts in unsigned int */
    const uInt room = (uInt)(n_bytes < most ? n_bytes : most);
    const uInt input = (uInt)(source->left < most ? source->left : most);
    z_stream *stream = &source->stream;
    stream->next_in = (z_const Bytef *)(uintptr_t)source->next;
    stream->avail_in = input;
    stream->next_out = to;
    stream->avail_out = room;
    const int result = inflate(stream, Z_NO_FLUSH);
    source->next += input - stream->avail_in;
    source->left -= input - stream->avail_in;
    switch (result) {
    case Z_STREAM_END: source->stream_ended = true; break;
    case Z_OK:
    case Z_BUF_ERROR: break;
    case Z_MEM_ERROR:
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to decompress %s", source->name);
    default:
        return DPT_FAIL_NATIVE(error, DPT_E_FORMAT, result,
                               "%s: the gzip data are corrupt (%s); download it again",
                               source->name, stream->msg ? stream->msg : "invalid stream");
    }
    *n_made = room - stream->avail_out;
    return DPT_OK;
}

static dpt_status read_gzip(dpti_source *source, uint8_t *to, size_t n_bytes, size_t *n_read,
                            dpt_error *error)
{
    size_t done = 0;
    while (done < n_bytes && !source->stream_ended) {
        DPT_TRY(refill(source, error));
        const bool at_end = source->left == 0;
        size_t made = 0;
        DPT_TRY(inflate_some(source, to + done, n_bytes - done, &made, error));
        done += made;
        if (at_end && made == 0 && !source->stream_ended)
            return DPT_FAIL(error, DPT_E_FORMAT,
                            "%s: the gzip data end in the middle (truncated); download it again",
                            source->name);
    }
    *n_read = done;
    return DPT_OK;
}

dpt_status dpti_source_read(dpti_source *source, void *to, size_t n_bytes, size_t *n_read,
                            dpt_error *error)
{
    return source->is_gzip ? read_gzip(source, to, n_bytes, n_read, error)
                           : read_plain(source, to, n_bytes, n_read, error);
}

dpt_status dpti_source_end(dpti_source *source, dpt_error *error)
{
    /* Asking for one byte more makes zlib read and check the trailer. */
    uint8_t extra;
    size_t n_read = 0;
    DPT_TRY(dpti_source_read(source, &extra, 1, &n_read, error));
    if (n_read == 0) {
        DPT_TRY(refill(source, error));
        if (source->left == 0) return DPT_OK;
    }
    return DPT_FAIL(error, DPT_E_FORMAT, "%s: there are bytes behind the end%s; download it again",
                    source->name, n_read == 0 ? " of the gzip data" : "");
}
