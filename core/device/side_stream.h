/* A second stream of a device.  The device exchanges on it while it computes on the main stream. */
#ifndef DPTI_SIDE_STREAM_H
#define DPTI_SIDE_STREAM_H

#include "device/buffer.h"
#include "device/device.h"

enum { DPTI_SIDE_STREAM_POINTS = 72 };

typedef struct dpti_side_stream {
    dpti_device *device; /* NULL: there is no side stream */
    dpt_stream *stream;
    dpt_event *points[DPTI_SIDE_STREAM_POINTS]; /* each is created when it is marked first */
} dpti_side_stream;

/* [driver] *out is zeroed on failure. */
DPT_CHECK_RESULT dpt_status dpti_side_stream_create(dpti_device *device, dpti_side_stream *out);
/* [driver] Accepts a zeroed struct; zeroes it.  The stream's work is done, or the device is lost.
 */
void dpti_side_stream_destroy(dpti_side_stream *side);
/* [driver] Enqueue as dpti_fill and dpti_download do on the main stream, with the same errors. */
DPT_CHECK_RESULT dpt_status dpti_side_stream_fill(dpti_side_stream *side, const dpti_slice *to,
                                                  uint32_t pattern);
DPT_CHECK_RESULT dpt_status dpti_side_stream_download(dpti_side_stream *side, void *host,
                                                      const dpti_slice *from);
DPT_CHECK_RESULT dpt_status dpti_side_stream_sync(dpti_side_stream *side);
/* [driver] Marks the stream's present end as point k. */
DPT_CHECK_RESULT dpt_status dpti_side_stream_mark(dpti_side_stream *side, size_t k);
/* [driver] *passed says whether the stream has passed point k. */
DPT_CHECK_RESULT dpt_status dpti_side_stream_passed(dpti_side_stream *side, size_t k, bool *passed);

#endif
