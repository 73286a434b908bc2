/* What the host sees of an array in a device's memory: the memory itself, where it is the host's,
   else a copy that is brought up to date in either direction. */
#ifndef DPTI_VIEW_H
#define DPTI_VIEW_H

#include "device/buffer.h"

typedef struct dpti_view {
    const dpti_buffer *buffer; /* NULL: it is not open */
    float *host;
    bool staged; /* host memory is a copy, which holds anything at first */
} dpti_view;

/* [driver] Of `count` float32 from the buffer's start on, which stays. */
DPT_CHECK_RESULT dpt_status dpti_view_open(const dpti_buffer *buffer, size_t count, dpti_view *out);
void dpti_view_close(dpti_view *view); /* [driver] accepts a zeroed one; zeroes it */
/* [driver] Elements [begin, end), from the device or to it; waits.  Nothing where they are seen in
   place. */
DPT_CHECK_RESULT dpt_status dpti_view_download(const dpti_view *view, size_t begin, size_t end);
DPT_CHECK_RESULT dpt_status dpti_view_upload(const dpti_view *view, size_t begin, size_t end);

#endif
